//! Weft's own form of a fabric: a line for each part, in the order of their ids.
//!
//! ```text
//! weft-fabric 1
//! title two racks                        # at most once
//! host h0 pod 0                          # pod may be left out
//! switch tor0 tier 1 pod 0               # tier and pod may be left out, of all switches: then both are inferred
//! cable h0 tor0 1Gbps 1us                # from, to, rate in each direction, delay
//! cable tor0 agg0 10Gbps 1us
//! cable tor0 agg0 10Gbps 1us parallel    # a further cable between the same two
//! ```
//! Empty lines, and lines that begin with `#`, say nothing.

use std::fmt::Write;

use rustc_hash::FxHashMap;

use crate::formats::FormatError;
use crate::formats::topology::assemble::{Raw, RawCable, RawNode, assemble, check_counts, check_names};
use crate::formats::topology::{ExportError, Imported, one_line, shorten};
use crate::topology::Fabric;

/// The first word of the file.
pub(super) const MAGIC: &str = "weft-fabric";

pub(super) fn read(text: &str) -> Result<Imported, FormatError> {
    let mut lines =
        text.lines().enumerate().map(|(i, l)| (i + 1, l.trim())).filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
    match lines.next().map(|(n, l)| (n, l.split_whitespace().collect::<Vec<_>>())) {
        Some((_, words)) if words == [MAGIC, "1"] => {}
        other => {
            let line = other.map_or(1, |o| o.0);
            return Err(FormatError::new(
                line,
                "this is no weft-fabric file of version 1",
                "begin it with the line `weft-fabric 1`",
            ));
        }
    }
    let mut parts = Parts::default();
    for (line, text) in lines {
        parts.line(line, text)?;
    }
    parts.finish(text.lines().count().max(1))
}

/// What the lines so far have said. Cables may come before the nodes that they name.
#[derive(Default)]
struct Parts<'a> {
    title: Option<&'a str>,
    hosts: Vec<RawNode>,
    switches: Vec<RawNode>,
    cables: Vec<(RawCable, [&'a str; 2])>,
}

impl<'a> Parts<'a> {
    fn line(&mut self, line: usize, text: &'a str) -> Result<(), FormatError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["title", ..] if self.title.is_none() => {
                self.title = Some(text["title".len()..].trim());
                Ok(())
            }
            ["title", ..] => Err(FormatError::new(line, "this is a second title", "remove one of them")),
            ["host", name, ref rest @ ..] => {
                let node = attributes(line, name, rest)?;
                if node.tier.is_some() {
                    return Err(FormatError::new(line, "a host has no tier of its own: it is 0", "remove `tier`"));
                }
                self.hosts.push(node);
                check_counts(line, self.hosts.len() as u64, 0, 0)
            }
            ["switch", name, ref rest @ ..] => {
                let node = attributes(line, name, rest)?;
                if node.tier == Some(0) {
                    return Err(FormatError::new(line, "tier 0 is that of hosts", "number the tiers of switches from 1"));
                }
                self.switches.push(node);
                check_counts(line, 0, self.switches.len() as u64, 0)
            }
            ["cable", a, b, rate, delay, ref rest @ ..] if matches!(rest, [] | ["parallel"]) => {
                let rate =
                    rate.parse().map_err(|e| FormatError::new(line, format!("{e}"), "the third word of a cable is its rate"))?;
                let delay = delay
                    .parse()
                    .map_err(|e| FormatError::new(line, format!("{e}"), "the fourth word of a cable is its delay"))?;
                self.cables.push((RawCable { line, ends: [0, 0], rate, delay, parallel: !rest.is_empty() }, [a, b]));
                check_counts(line, 0, 0, self.cables.len() as u64)
            }
            _ => Err(FormatError::new(
                line,
                format!("`{}` says nothing that a fabric has", shorten(text)),
                "write `host NAME [pod N]`, `switch NAME [tier N] [pod N]` or `cable A B RATE DELAY [parallel]`",
            )),
        }
    }

    fn finish(self, last_line: usize) -> Result<Imported, FormatError> {
        check_names(&self.hosts, &self.switches)?;
        let index: FxHashMap<&str, usize> =
            self.hosts.iter().chain(&self.switches).enumerate().map(|(i, n)| (n.name.as_str(), i)).collect();
        let mut cables = Vec::with_capacity(self.cables.len());
        for (mut cable, names) in self.cables {
            for (end, name) in cable.ends.iter_mut().zip(names) {
                *end = *index.get(name).ok_or_else(|| {
                    let message = format!("there is no node called `{}`", shorten(name));
                    FormatError::new(cable.line, message, "declare it with a line `host` or `switch`, or correct the name")
                })?;
            }
            cables.push(cable);
        }
        let tiers_given = self.switches.iter().any(|s| s.tier.is_some());
        check_given(&self.hosts, &self.switches, tiers_given)?;
        assemble(Raw {
            title: self.title.unwrap_or("fabric from a file").to_owned(),
            hosts: self.hosts,
            switches: self.switches,
            cables,
            last_line,
            tiers_given,
            notes: Vec::new(),
        })
    }
}

/// Tiers are said of all switches or of none, and pods only with them.
fn check_given(hosts: &[RawNode], switches: &[RawNode], tiers_given: bool) -> Result<(), FormatError> {
    if tiers_given {
        if let Some(switch) = switches.iter().find(|s| s.tier.is_none()) {
            let message = format!("`{}` has no tier, and other switches have one", shorten(&switch.name));
            return Err(FormatError::new(switch.line, message, "give all switches a `tier`, or none: then they are inferred"));
        }
    } else if let Some(node) = hosts.iter().chain(switches).find(|n| n.pod.is_some()) {
        let message = format!("`{}` has a pod, and the switches have no tiers", shorten(&node.name));
        return Err(FormatError::new(
            node.line,
            message,
            "give all switches a `tier`, or leave pods out: then both are inferred",
        ));
    }
    Ok(())
}

fn attributes(line: usize, name: &str, words: &[&str]) -> Result<RawNode, FormatError> {
    let mut node = RawNode { line, name: name.to_owned(), tier: None, pod: None };
    for pair in words.chunks(2) {
        let number = pair.get(1).and_then(|n| n.parse::<u32>().ok());
        match (pair[0], number) {
            ("tier", Some(tier)) if node.tier.is_none() && tier <= 255 => node.tier = Some(tier as u8),
            ("pod", Some(pod)) if node.pod.is_none() => node.pod = Some(pod),
            _ => {
                let message = format!("`{}` is nothing that a node has", shorten(&pair.join(" ")));
                return Err(FormatError::new(
                    line,
                    message,
                    "after the name, write `tier` and a number up to 255, or `pod` and a number",
                ));
            }
        }
    }
    Ok(node)
}

pub(super) fn write(fabric: &Fabric) -> Result<String, ExportError> {
    let mut text = format!("{MAGIC} 1\ntitle {}\n", one_line(fabric.title()));
    for node in fabric.nodes() {
        if node.name.is_empty() || node.name.contains(char::is_whitespace) {
            let reason = format!("the name `{}` is empty or has a space in it", node.name);
            return Err(ExportError { format: "a weft-fabric file", reason, help: "rename the node" });
        }
        match node.tier {
            0 => write!(text, "host {}", node.name),
            tier => write!(text, "switch {} tier {tier}", node.name),
        }
        .and_then(|()| node.pod.map_or(Ok(()), |pod| write!(text, " pod {pod}")))
        .and_then(|()| writeln!(text))
        .expect("writing to a string");
    }
    let mut seen: rustc_hash::FxHashSet<[u32; 2]> = rustc_hash::FxHashSet::default();
    for link in fabric.links().iter().step_by(2) {
        let [a, b] = [link.from, link.to].map(|n| &fabric.node(n).name);
        let first = seen.insert([link.from.0.min(link.to.0), link.from.0.max(link.to.0)]);
        let parallel = if first { "" } else { " parallel" };
        writeln!(text, "cable {a} {b} {} {}{parallel}", link.capacity, link.delay).expect("writing to a string");
    }
    Ok(text)
}
