//! The page: template, styles, scripts and the runs' data in one file of HTML.
//!
//! Data stands in a `<script type="application/json">` element, escaped so that no text of a user can end it. What many runs share
//! (fabrics, ideals) is stored once, and a large sweep is thinned until the file is small enough to mail.

use serde::Serialize;

use super::links::LinkUse;
use super::sketch::Sketch;
use super::{Curves, RunBody, RunReport};

/// The whole HTML file. It needs no server and no network.
pub fn render(title: &str, runs: &[RunReport]) -> String {
    let data = serde_json::to_string(&Page::new(title, runs)).expect("plain numbers and strings serialise");
    let scripts = SCRIPTS.concat();
    let mut html = String::with_capacity(TEMPLATE.len() + STYLE.len() + scripts.len() + data.len() + 64);
    let mut rest = TEMPLATE;
    // One pass over the template: what is put in is never searched again.
    while let Some((before, after)) = rest.split_once("{{") {
        let (slot, after) = after.split_once("}}").expect("the template closes every slot");
        html.push_str(before);
        match slot {
            "title" => html.push_str(&escape_text(title)),
            "style" => html.push_str(STYLE),
            "data" => html.push_str(&escape_script(&data)),
            "script" => html.push_str(&scripts),
            other => unreachable!("the template has a slot `{other}`"),
        }
        rest = after;
    }
    html.push_str(rest);
    html
}

/// All that the scripts read.
#[derive(Serialize)]
struct Page<'a> {
    title: &'a str,
    fabrics: Vec<Sketch>,
    ideals: Vec<Curves>,
    runs: Vec<PageRun>,
}

#[derive(Serialize)]
struct PageRun {
    fabric: usize,
    ideal: Option<usize>,
    #[serde(flatten)]
    body: RunBody,
}

impl<'a> Page<'a> {
    fn new(title: &'a str, runs: &'a [RunReport]) -> Self {
        let mut fabrics: Vec<&Sketch> = Vec::new();
        let mut ideals: Vec<&Curves> = Vec::new();
        let mut page_runs = Vec::with_capacity(runs.len());
        for (run, body) in std::iter::zip(runs, within_budget(runs)) {
            let fabric = index_of(&mut fabrics, &run.fabric);
            let ideal = run.ideal.as_ref().map(|ideal| index_of(&mut ideals, ideal));
            page_runs.push(PageRun { fabric, ideal, body });
        }
        let factor = ideals.len().div_ceil(MAX_FINE_IDEALS);
        let ideals = ideals.into_iter().map(|c| c.coarsened(factor)).collect();
        Self { title, fabrics: drawn_within_budget(&fabrics), ideals, runs: page_runs }
    }
}

/// The fabrics; where a sweep has very many, the later ones are drawn by switch instead of link by link.
fn drawn_within_budget(fabrics: &[&Sketch]) -> Vec<Sketch> {
    let mut cables = 0;
    let drawn = fabrics.iter().map(|&fabric| {
        cables += fabric.wiring.as_ref().map_or(0, |w| w.from.len());
        let wiring = fabric.wiring.clone().filter(|_| cables <= CABLES_BUDGET);
        Sketch { wiring, ..fabric.clone() }
    });
    drawn.collect()
}

/// Where an equal item is in the list; it is added if it is not there.
fn index_of<'a, T: PartialEq>(list: &mut Vec<&'a T>, item: &'a T) -> usize {
    list.iter().position(|known| *known == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}

/// How much of a run the page keeps, from least to most.
const DETAILS: [Detail; 5] = [Detail::Coarse, Detail::Curves, Detail::Layers, Detail::Links, Detail::Frames];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    /// Metrics and coarse curves.
    Coarse,
    /// The curves in full.
    Curves,
    /// The load of the links by layer and switch.
    Layers,
    /// The load of each link.
    Links,
    /// The load of each link over time.
    Frames,
}

/// Every run in as much detail as the file may hold: all runs get one step before any gets the next, earlier runs first.
fn within_budget(runs: &[RunReport]) -> Vec<RunBody> {
    let size = |body: &RunBody| serde_json::to_string(body).map_or(0, |text| text.len());
    let mut bodies: Vec<RunBody> = runs.iter().map(|r| r.body.in_detail(DETAILS[0])).collect();
    let mut sizes: Vec<usize> = bodies.iter().map(size).collect();
    let mut total: usize = sizes.iter().sum();
    for detail in &DETAILS[1..] {
        for (i, run) in runs.iter().enumerate() {
            let better = run.body.in_detail(*detail);
            let larger = size(&better);
            if total - sizes[i] + larger > RUNS_BUDGET {
                return bodies;
            }
            total = total - sizes[i] + larger;
            sizes[i] = larger;
            bodies[i] = better;
        }
    }
    bodies
}

impl RunBody {
    fn in_detail(&self, detail: Detail) -> Self {
        let curves = self.curves.coarsened(if detail == Detail::Coarse { COARSE } else { 1 });
        let mut links = if detail >= Detail::Layers { self.links.clone() } else { LinkUse::default() };
        if detail < Detail::Frames {
            links.frames = None;
        }
        if detail < Detail::Links {
            links.bytes.clear();
        }
        let coarse = detail == Detail::Coarse;
        let packets = self.packets.as_ref().map(|p| if coarse { p.without_lines() } else { p.clone() });
        Self { curves, links, packets, ..self.clone() }
    }
}

impl Curves {
    fn coarsened(&self, factor: usize) -> Self {
        Self { throughput: self.throughput.coarsened(factor), fct_s: self.fct_s.coarsened(factor), flows: self.flows }
    }
}

/// For an element's text and for attributes.
fn escape_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// For JSON inside a script element: `</script`, `<!--` and `<script` end or change it, and two separators end a line for old
/// scripts. All of them stand in strings alone, where an escape means the same.
fn escape_script(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Bytes of JSON that the runs may take; the whole file stays below 3 MB.
const RUNS_BUDGET: usize = 2_000_000;
/// Cables that are drawn one by one, over all fabrics: about 30 bytes of JSON each.
const CABLES_BUDGET: usize = 15_000;
/// Points joined into one where the budget is short.
const COARSE: usize = 12;
/// More ideals than that are thinned.
const MAX_FINE_IDEALS: usize = 16;

const TEMPLATE: &str = include_str!("../../../../web/report.html");
const METRICS: &str = include_str!("../../../../web/metrics.json");
const STYLE: &str = include_str!("../../../../web/report.css");
/// In this order they make one script: each uses what stands before it.
const SCRIPTS: [&str; 17] = [
    "const METRICS = ",
    METRICS,
    ";\n",
    include_str!("../../../../web/js/format.js"),
    include_str!("../../../../web/js/dom.js"),
    include_str!("../../../../web/js/model.js"),
    include_str!("../../../../web/js/chart.js"),
    include_str!("../../../../web/js/trust.js"),
    include_str!("../../../../web/js/overview.js"),
    include_str!("../../../../web/js/tables.js"),
    include_str!("../../../../web/js/bounds.js"),
    include_str!("../../../../web/js/events.js"),
    include_str!("../../../../web/js/curves.js"),
    include_str!("../../../../web/js/drawing.js"),
    include_str!("../../../../web/js/links.js"),
    include_str!("../../../../web/js/packets.js"),
    include_str!("../../../../web/js/main.js"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_the_data() {
        let json = serde_json::to_string("</script><!--\u{2028}\u{2029}&").expect("a text");
        let escaped = escape_script(&json);
        assert_eq!(escaped, r#""\u003c/script\u003e\u003c!--\u2028\u2029\u0026""#);
        assert_eq!(serde_json::from_str::<String>(&escaped).expect("still JSON"), "</script><!--\u{2028}\u{2029}&");
    }

    #[test]
    fn no_text_becomes_markup() {
        assert_eq!(escape_text(r#"<b title="a&b">'x'"#), "&lt;b title=&quot;a&amp;b&quot;&gt;&#39;x&#39;");
    }

    #[test]
    fn the_scripts_do_not_end_their_own_element() {
        assert!(!SCRIPTS.concat().contains("</script"));
        assert!(!STYLE.contains("</style"));
    }

    #[test]
    fn slots_in_the_data_stay_text() {
        let html = render("{{data}} {{style}}", &[]);
        assert!(html.contains("<title>{{data}} {{style}}"));
        assert_eq!(html.matches("<style>").count(), 1);
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        let html = render("t", &[]);
        for needle in ["<link ", " src=", "@import", "url(http", "fetch(", "XMLHttpRequest"] {
            assert!(!html.contains(needle), "{needle}");
        }
    }
}
