//! Reports in a real browser without a window: every section is drawn, every control works, and no script fails.
//!
//! Needs chromium (`apt-get install chromium`). Without it the tests say so and pass, except where `CI=true`.

#[path = "support/synthetic.rs"]
mod synthetic;

use std::path::Path;
use std::process::{Command, Stdio};

use synthetic::sets;
use weft_experiment::report::{EventMark, FaultSummary, RunReport, render};
use weft_experiment::scenario::expect::Kind;
use weft_experiment::trust::Distrust;

#[test]
fn a_sweep_is_drawn_in_full() {
    let Some(page) = dumped("Sweep <b>&</b> \"quotes\"</script>", &sets::sweep()) else { return };
    for section in ["summary", "paper", "bounds", "throughput", "fct", "links", "words"] {
        assert!(page.contains(&format!("id=\"{section}\"")), "section {section}");
    }
    for absent in ["untrusted", "not-comparable", "events"] {
        assert!(!page.contains(&format!("id=\"{absent}\"")), "section {absent}");
    }
    for words in
        ["Achieved vs. optimum", "Comparison with the paper", "Published results reproduced", "% of ideal switch", "Glossary"]
    {
        assert!(page.contains(words), "{words}");
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
fn own_guards_are_no_published_results() {
    let mut runs = sets::sweep();
    runs.iter_mut().flat_map(|run| &mut run.body.expect).for_each(|expectation| expectation.kind = Kind::Own);
    let Some(page) = dumped("Own guards", &runs) else { return };
    assert!(page.contains("Own guards met"));
    for words in ["Published results reproduced", "Comparison with the paper"] {
        assert!(!page.contains(words), "{words}");
    }
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
fn events_are_marked_in_the_chart_and_listed() {
    let mut runs = sets::sweep();
    let event = |at_s, event: &str| EventMark { at_s, event: event.to_owned() };
    for run in &mut runs {
        run.body.events = vec![event(5.0, "fail link <edge0>-core0"), event(12.0, "restore link <edge0>-core0")];
    }
    runs[1].body.events.push(event(15.0, "fail switch core3"));
    let Some(page) = dumped("Events", &runs) else { return };
    assert_eq!(count(&page, "class=\"mark-line\""), 3, "a mark per instant");
    assert_eq!(count(&page, "class=\"mark-text\""), 3);
    let list = page.split("id=\"events\"").nth(1).expect("a list of events").split("</table>").next().expect("its end");
    assert_eq!(count(list, "<tr>"), 1 + 3, "each event once");
    for text in ["fail link &lt;edge0&gt;-core0", "5.00&nbsp;s", "fail switch core3", "all runs"] {
        assert!(list.contains(text), "{text}: {list}");
    }
}

#[test]
fn a_run_that_was_cut_off_does_not_fall_to_zero() {
    let mut runs = sets::sweep();
    runs[0].body.curves.flows += 1;
    let Some(page) = dumped("Cut off", &runs) else { return };
    let chart = page.split("id=\"throughput\"").nth(1).expect("a chart").split("</figure>").next().expect("its end");
    let line = |run: &str| {
        let path = chart.split(&format!("data-run=\"{run}\"")).nth(1).expect("a line");
        path.split(" d=\"").nth(1).expect("a path").split('"').next().expect("its end").to_owned()
    };
    let last_step = |path: &str| path.rfind('V') > path.rfind('H');
    assert!(!last_step(&line("0")), "{}", line("0"));
    assert!(last_step(&line("1")), "{}", line("1"));
}

#[test]
fn a_run_that_does_not_count_says_so_and_is_never_the_best() {
    let mut runs = sets::sweep();
    runs[2].body.trusted = false;
    runs[2].body.distrust = vec![Distrust::Cpu];
    runs[3].body.trusted = false;
    runs[3].body.distrust = vec![Distrust::Queue, Distrust::Wait];
    runs[1].body.comparable = false;
    runs[1].body.overrides = vec!["traffic.stride=2".to_owned(), "world.kind=packet".to_owned()];
    // By far the best, if it counted.
    runs[2].body.metrics.iter_mut().filter(|(name, _)| name == "goodput_bps").for_each(|(_, v)| *v *= 10.0);
    let Some(page) = dumped("Untrusted", &runs) else { return };
    let head = page.split("</header>").next().expect("a head");
    assert!(head.contains("Highest goodput") && !head.contains("annealing"), "{head}");
    assert!(head.contains("UNTRUSTED or not comparable"), "{head}");
    assert!(page.contains("UNTRUSTED: 1&nbsp;run of 4 saturated the CPU"));
    assert!(page.contains("UNTRUSTED: in 1&nbsp;run of 4 a program waited for a processor"));
    assert!(page.contains("UNTRUSTED: TCP in 1&nbsp;run of 4 differs from that of the network described"));
    assert!(page.contains("1&nbsp;run of 4 cannot be compared with the published results"));
    let banner = page.split("id=\"not-comparable\"").nth(1).expect("a banner").split("</aside>").next().expect("its end");
    assert!(banner.contains("<code>traffic.stride=2</code>, <code>world.kind=packet</code>"), "{banner}");
    let table = page.split("id=\"paper\"").nth(1).expect("a comparison").split("</table>").next().expect("its end");
    assert_eq!(count(table, "UNTRUSTED</span>"), 2, "both verdicts of annealing");
    assert_eq!(count(table, "Not comparable</span>"), 1);
    assert_eq!(count(table, "class=\"pill ok\""), 0);
}

/// The browser reports an observer that could not be served in one frame as an error of the page, which it is not; others are.
#[test]
fn a_notice_of_the_browser_is_no_error_of_the_page() {
    let Some(browser) = browser() else { return };
    let notice = r#"
dispatchEvent(new ErrorEvent("error", { message: "ResizeObserver loop completed with undelivered notifications." }));
const root = document.documentElement;
root.dataset.notice = root.dataset.error === undefined && document.querySelector(".failed") === null;
dispatchEvent(new ErrorEvent("error", { message: "Uncaught ReferenceError: x is not defined" }));
root.dataset.card = document.querySelector(".failed") !== null;
delete root.dataset.error;
"#;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let html = render("Notices", &sets::clique()).replacen("</body>", &format!("<script>{notice}</script></body>"), 1);
    let page = load(&browser, folder.path(), &html);
    assert!(page.contains("data-notice=\"true\"") && page.contains("data-card=\"true\""));
}

#[test]
fn what_happened_in_a_lab_has_a_table() {
    let mut runs = sets::sweep();
    let fault = |event: &str, silent_s, gap_s| FaultSummary { at_s: 1.5, event: event.to_owned(), flows: 12, silent_s, gap_s };
    runs[1].body.faults = vec![fault("fail link <edge0>-core0", Some(0.34), Some(0.26)), fault("kill agent h0", None, None)];
    let Some(page) = dumped("Faults", &runs) else { return };
    let table = page.split("id=\"events\"").nth(1).expect("a table of events").split("</table>").next().expect("its end");
    for text in ["fail link &lt;edge0&gt;-core0", "kill agent h0", "340&nbsp;ms", "260&nbsp;ms", "Datagram outage"] {
        assert!(table.contains(text), "{text}: {table}");
    }
    let Some(page) = dumped("None", &sets::sweep()) else { return };
    assert!(!page.contains("id=\"events\""));
}

#[test]
fn packets_have_a_section_of_their_own() {
    let runs = sets::packets();
    let Some(page) = dumped("Packets", &runs) else { return };
    assert!(page.contains("id=\"packets\""));
    assert!(page.contains("Dropped packets: 803"), "all of them, those without a place too");
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
    assert!(page.contains("This report contains no runs."));
    let mut bare = sets::clique().remove(0);
    bare.body.metrics.clear();
    bare.body.curves = no_curves();
    bare.body.links = weft_experiment::report::links::LinkUse::default();
    bare.body.bounds = weft_experiment::report::Bounds { measured_bps: 0.0, nic_bps: None, switch_bps: None, optimum_bps: None };
    bare.ideal = None;
    let Some(page) = dumped("Bare", &[bare]) else { return };
    for section in ["bounds", "throughput", "fct", "links", "packets"] {
        assert!(!page.contains(&format!("id=\"{section}\"")), "an empty section: {section}");
    }
    assert!(page.contains("id=\"summary\""));
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
