//! Reports in a real browser without a window: every section is drawn, every control works, and no script fails.
//!
//! Needs chromium (`apt-get install chromium`). Without it the tests say so and pass, except where `CI=true`.

#[path = "support/synthetic.rs"]
mod synthetic;

use std::path::Path;
use std::process::{Command, Stdio};

use synthetic::sets;
use weft_experiment::report::{FaultSummary, RunReport, render};

#[test]
fn a_sweep_is_drawn_in_full() {
    let Some(page) = dumped("Sweep <b>&</b> \"quotes\"</script>", &sets::sweep()) else { return };
    for section in ["summary", "paper", "bounds", "throughput", "fct", "links", "words"] {
        assert!(page.contains(&format!("id=\"{section}\"")), "section {section}");
    }
    assert!(page.contains("<h1>Sweep &lt;b&gt;&amp;&lt;/b&gt; \"quotes\"&lt;/script&gt;</h1>"), "the title is text");
    assert_eq!(count(&page, "class=\"curve"), 2 * 5, "a line a run and the best possible, in two charts");
    assert_eq!(count(&page, "class=\"wire\""), 2 * 48, "a line a link");
    assert_eq!(count(&page, "class=\"measured\""), 4, "a bar a run");
    assert_eq!(count(&page, "class=\"pill ok\""), 2);
    assert_eq!(count(&page, "class=\"pill miss\""), 1 + 1, "in the head and in the table");
    assert_eq!(count(&page, "class=\"pill known\""), 1 + 1);
}

#[test]
fn every_control_works() {
    for runs in [sets::sweep(), sets::large()] {
        let Some(page) = used("Used", &runs) else { return };
        assert!(page.contains("aria-sort=\"descending\"") || page.contains("aria-sort=\"ascending\""));
    }
}

#[test]
fn a_large_fabric_is_drawn_by_switch() {
    let runs = sets::large();
    let html = render("Large", &runs);
    assert!(html.len() < 3_000_000, "{} bytes", html.len());
    let Some(page) = dumped("Large", &runs) else { return };
    assert_eq!(count(&page, "class=\"tiles\""), 3 * 2, "a panel a layer and direction");
    assert_eq!(count(&page, "data-i="), 3 * 2 * 512, "a tile a switch");
    assert_eq!(count(&page, "class=\"wire\""), 0);
}

#[test]
fn fabrics_may_differ_and_cables_may_lie_inside_a_tier() {
    let Some(page) = dumped("Many", &sets::many()) else { return };
    assert_eq!(count(&page, "class=\"fabrics\""), 3);
    let Some(page) = dumped("Clique", &sets::clique()) else { return };
    assert!(page.contains("edge – edge"));
    assert_eq!(count(&page, "class=\"wire\""), 2 * (24 + 15));
}

#[test]
fn what_happened_in_a_lab_has_a_table() {
    let mut runs = sets::sweep();
    let fault = |event: &str, silent_s, gap_s| FaultSummary { at_s: 1.5, event: event.to_owned(), flows: 12, silent_s, gap_s };
    runs[1].body.faults = vec![fault("fail link <edge0>-core0", Some(0.34), Some(0.26)), fault("kill agent h0", None, None)];
    let Some(page) = dumped("Faults", &runs) else { return };
    let table = page.split("id=\"faults\"").nth(1).expect("a table of events").split("</table>").next().expect("its end");
    for text in ["fail link &lt;edge0&gt;-core0", "kill agent h0", "340&nbsp;ms", "260&nbsp;ms", "Of datagrams"] {
        assert!(table.contains(text), "{text}: {table}");
    }
    let Some(page) = dumped("None", &sets::sweep()) else { return };
    assert!(!page.contains("id=\"faults\""));
}

#[test]
fn packets_have_a_section_of_their_own() {
    let runs = sets::packets();
    let Some(page) = dumped("Packets", &runs) else { return };
    assert!(page.contains("id=\"packets\""));
    assert!(page.contains("Drops by place: 803"), "all of them, those without a place too");
    assert_eq!(count(&page, "data-run=\"Queues-"), 2, "a line a queue");
    assert_eq!(count(&page, "data-run=\"Congestion windows-"), 1);
    let Some(page) = used("Packets, the other run", &runs) else { return };
    assert!(page.contains("No packet was dropped."));
    let Some(page) = dumped("Flows", &sets::sweep()) else { return };
    assert!(!page.contains("id=\"packets\""));
}

#[test]
fn a_report_without_data_says_so() {
    let Some(page) = dumped("Nothing", &[]) else { return };
    assert!(page.contains("There are no runs in this report."));
    let mut bare = sets::clique().remove(0);
    bare.body.metrics.clear();
    bare.body.curves = no_curves();
    bare.body.links = weft_experiment::report::links::LinkUse::default();
    bare.body.bounds = weft_experiment::report::Bounds { measured_bps: 0.0, nic_bps: None, switch_bps: None, optimum_bps: None };
    bare.ideal = None;
    let Some(page) = dumped("Bare", &[bare]) else { return };
    for text in ["No bound is known", "No throughput was sampled", "No flow finished", "No link was recorded"] {
        assert!(page.contains(text), "{text}");
    }
}

fn no_curves() -> weft_experiment::report::Curves {
    weft_experiment::report::Curves { throughput: Default::default(), fct_s: Default::default(), flows: 0 }
}

/// The page's elements after its scripts ran, without the scripts and styles.
fn dumped(title: &str, runs: &[RunReport]) -> Option<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    Some(load(&browser()?, folder.path(), &render(title, runs)))
}

/// The same once every control was used.
fn used(title: &str, runs: &[RunReport]) -> Option<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let html = render(title, runs).replacen("</body>", &format!("<script>{USE_EVERYTHING}</script></body>"), 1);
    let page = load(&browser()?, folder.path(), &html);
    assert!(page.contains("data-used=\"true\""), "every control was used");
    Some(page)
}

fn load(browser: &str, folder: &Path, html: &str) -> String {
    let file = folder.join("report.html");
    std::fs::write(&file, html).expect("a temporary file");
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .args([
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1280,2400",
            "--virtual-time-budget=5000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .stderr(Stdio::null())
        .output()
        .expect("the browser starts");
    let page = String::from_utf8(output.stdout).expect("HTML is UTF-8");
    let root = page.split_once("<head>").map_or("", |(root, _)| root);
    assert!(!root.contains("data-error"), "a script failed: {root}");
    assert!(root.contains("data-ready=\"true\""), "the page was built: {root}");
    let body = page.split_once("<body>").map_or("", |(_, body)| body);
    let shown = body.split_once("<script type=\"application/json\"").map_or(body, |(shown, _)| shown);
    format!("{root}{shown}")
}

/// Name of the browser; `None`, with a message, if there is none.
fn browser() -> Option<String> {
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        let version = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    });
    if found.is_none() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs chromium: apt-get install chromium");
        eprintln!("skipped: no chromium here (apt-get install chromium)");
    }
    found.map(str::to_owned)
}

fn count(page: &str, needle: &str) -> usize {
    page.matches(needle).count()
}

/// Presses every button and choice, moves every slider, and points at and walks through every figure.
const USE_EVERYTHING: &str = r#"
for (const details of document.querySelectorAll("details")) details.open = true;
const each = (selector, act) => document.querySelectorAll(selector).forEach(act);
each("input[type=range]", (slider) => { slider.value = "3"; slider.dispatchEvent(new Event("input")); });
for (let i = 0; i < 40; i += 1) {
  const radio = document.querySelectorAll("input[type=radio]")[i];
  if (radio) radio.click();
}
each("select", (list) => { list.selectedIndex = list.options.length - 1; list.dispatchEvent(new Event("change")); });
const labels = [...document.querySelectorAll("button")].map((b, i) => i);
for (const i of labels) document.querySelectorAll("button")[i]?.click();
for (const i of labels) document.querySelectorAll("button")[i]?.click();
each("figure svg, .track", (figure) => {
  const box = figure.getBoundingClientRect();
  for (const share of [0, 0.3, 0.5, 1]) {
    const at = { clientX: box.left + box.width * share, clientY: box.top + box.height * share, bubbles: true };
    figure.dispatchEvent(new PointerEvent("pointermove", at));
    (figure.querySelector("rect") ?? figure).dispatchEvent(new PointerEvent("pointermove", at));
  }
  for (const key of ["ArrowRight", "ArrowLeft", "ArrowDown", "Escape"]) figure.dispatchEvent(new KeyboardEvent("keydown", { key }));
  figure.dispatchEvent(new PointerEvent("pointerleave"));
});
dispatchEvent(new Event("beforeprint"));
document.documentElement.dataset.used = "true";
"#;
