//! GraphML: nodes with `kind`, `tier` and `pod`, edges with `capacity_bps` and `delay_s`.

use std::fmt::Write;

use crate::topology::Fabric;

pub(super) fn write(fabric: &Fabric) -> String {
    let mut text = HEAD.to_owned();
    writeln!(text, "  <graph id=\"fabric\" edgedefault=\"undirected\">\n    <desc>{}</desc>", escaped(fabric.title()))
        .expect("writing to a string");
    for node in fabric.nodes() {
        let kind = if node.tier == 0 { "host" } else { "switch" };
        let pod = node.pod.map_or(String::new(), |p| format!("<data key=\"pod\">{p}</data>"));
        writeln!(
            text,
            "    <node id=\"{}\"><data key=\"kind\">{kind}</data><data key=\"tier\">{}</data>{pod}</node>",
            escaped(&node.name),
            node.tier
        )
        .expect("writing to a string");
    }
    for (i, link) in fabric.links().iter().step_by(2).enumerate() {
        let [a, b] = [link.from, link.to].map(|n| escaped(&fabric.node(n).name));
        writeln!(
            text,
            "    <edge id=\"cable{i}\" source=\"{a}\" target=\"{b}\"><data key=\"capacity_bps\">{}</data><data key=\"delay_s\">{}</data></edge>",
            link.capacity.0,
            link.delay.as_secs_f64()
        )
        .expect("writing to a string");
    }
    text.push_str("  </graph>\n</graphml>\n");
    text
}

fn escaped(text: &str) -> String {
    // XML 1.0 has no form for control characters.
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    printable.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const HEAD: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="kind" for="node" attr.name="kind" attr.type="string"/>
  <key id="tier" for="node" attr.name="tier" attr.type="int"/>
  <key id="pod" for="node" attr.name="pod" attr.type="int"/>
  <key id="capacity_bps" for="edge" attr.name="capacity_bps" attr.type="long"/>
  <key id="delay_s" for="edge" attr.name="delay_s" attr.type="double"/>
"#;
