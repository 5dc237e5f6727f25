//! containerlab: a Linux container for each node, a veth pair for each cable.
//!
//! The n-th cable of a node is its interface `eth<n>`, from 1: containerlab keeps `eth0` for management. The images are
//! placeholders: a host's has the usual tools, a switch's runs FRR. Rates and delays have no place in the format.

use std::fmt::Write;

use crate::formats::topology::{ExportError, one_line};
use crate::ids::LinkId;
use crate::topology::Fabric;

pub(super) fn write(fabric: &Fabric) -> Result<String, ExportError> {
    for node in fabric.nodes() {
        let first = node.name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !first || !node.name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c)) {
            return Err(ExportError {
                format: "containerlab",
                reason: format!("`{}` cannot be the name of a container", node.name),
                help: "rename the node: a letter or digit, then letters, digits, `_`, `.` and `-`",
            });
        }
    }
    let mut text = format!("# {}\nname: {}\ntopology:\n  nodes:\n", one_line(fabric.title()), lab_name(fabric.title()));
    for node in fabric.nodes() {
        let (image, group) =
            if node.tier == 0 { (HOST_IMAGE, "host".to_owned()) } else { (SWITCH_IMAGE, format!("tier{}", node.tier)) };
        writeln!(text, "    \"{}\":\n      kind: linux\n      image: {image}\n      group: {group}", node.name)
            .expect("writing to a string");
    }
    let mut interface = vec![0u32; fabric.links().len()];
    for i in 0..fabric.nodes().len() {
        for (n, &link) in (1..).zip(fabric.out(crate::NodeId::from(i))) {
            interface[link.index()] = n;
        }
    }
    text.push_str("  links:\n");
    for cable in fabric.cables() {
        let [a, b] =
            cable.links().map(|l: LinkId| format!("{}:eth{}", fabric.node(fabric.link(l).from).name, interface[l.index()]));
        writeln!(text, "    - endpoints: [\"{a}\", \"{b}\"]").expect("writing to a string");
    }
    Ok(text)
}

/// The first words of the title, joined by hyphens: it becomes part of the containers' names.
fn lab_name(title: &str) -> String {
    let mut name = String::new();
    for word in title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()) {
        if name.len() + word.len() > 24 {
            break;
        }
        if !name.is_empty() {
            name.push('-');
        }
        name.push_str(&word.to_lowercase());
    }
    if name.is_empty() { "fabric".to_owned() } else { name }
}

const HOST_IMAGE: &str = "ghcr.io/srl-labs/network-multitool:latest";
const SWITCH_IMAGE: &str = "quay.io/frrouting/frr:10.4.1";
