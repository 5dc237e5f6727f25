//! Graphviz: an undirected graph, hosts at the bottom, a rank for each tier.

use std::fmt::Write;

use crate::topology::Fabric;

pub(super) fn write(fabric: &Fabric) -> String {
    let mut text = format!("graph {} {{\n  rankdir=BT;\n  node [shape=box];\n", quoted(fabric.title()));
    for tier in 0..=fabric.top_tier() {
        text.push_str("  { rank=same;");
        for node in fabric.nodes().iter().filter(|n| n.tier == tier) {
            write!(text, " {}{};", quoted(&node.name), if tier == 0 { " [shape=circle]" } else { "" })
                .expect("writing to a string");
        }
        text.push_str(" }\n");
    }
    for link in fabric.links().iter().step_by(2) {
        let [a, b] = [link.from, link.to].map(|n| quoted(&fabric.node(n).name));
        writeln!(text, "  {a} -- {b} [label=\"{}\"];", link.capacity).expect("writing to a string");
    }
    text.push_str("}\n");
    text
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}
