//! The topology file of the HPCC simulator (`simulation/mix` in its repository) and of others built on ns-3.
//!
//! ```text
//! 20 4 20                             nodes, switches, links
//! 16 17 18 19                         which nodes are switches; the others are hosts
//! 0 16 25Gbps 1000ns 0.000000         a link: node, node, rate, delay, error rate
//! ```
//! Its reader takes words wherever lines end, and reads no more links than the count says: so does this one. A host is called `h`
//! and a switch `s` with the node's number; hosts are numbered in the order of their nodes.

use std::fmt::Write;

use rustc_hash::FxHashSet;

use crate::formats::FormatError;
use crate::formats::topology::assemble::{Raw, RawCable, RawNode, assemble, check_counts};
use crate::formats::topology::{ExportError, Imported, shorten};
use crate::ids::LinkId;
use crate::topology::Fabric;
use crate::units::BitsPerSec;

pub(super) fn read(text: &str) -> Result<Imported, FormatError> {
    let mut words = Words::new(text);
    let [nodes, switches, links] = header(&mut words)?;
    // By node: its line if it is a switch.
    let mut switch_line: Vec<Option<usize>> = vec![None; nodes];
    for i in 0..switches {
        let (line, id) = words.number("a switch", i, switches)?;
        let slot = switch_line.get_mut(id).ok_or_else(|| unknown(line, id, nodes))?;
        if slot.replace(line).is_some() {
            let message = format!("node {id} is listed as a switch twice");
            return Err(FormatError::new(line, message, "list each switch once, as many as the first line says"));
        }
    }
    // By node: its index in the fabric, where hosts come first.
    let mut index = vec![0; nodes];
    let mut raw = Raw { title: format!("ns-3 topology, {} hosts, {switches} switches", nodes - switches), ..Raw::default() };
    for (id, line) in switch_line.iter().enumerate() {
        let (list, name, line) = match line {
            None => (&mut raw.hosts, format!("h{id}"), 1),
            Some(line) => (&mut raw.switches, format!("s{id}"), *line),
        };
        index[id] = list.len();
        list.push(RawNode { line, name, tier: None, pod: None });
    }
    let hosts = raw.hosts.len();
    (0..nodes).filter(|&id| switch_line[id].is_some()).for_each(|id| index[id] += hosts);
    let mut lossy = 0;
    for i in 0..links {
        let (cable, error_rate) = link(&mut words, i, links, &index)?;
        lossy += usize::from(error_rate > 0.0);
        raw.cables.push(cable);
    }
    raw.notes.extend((lossy > 0).then(|| format!("{lossy} links have an error rate: Weft leaves it out")));
    raw.notes.extend(
        words.next().map(|(line, _)| format!("line {line} and what follows is left out: the first line says {links} links")),
    );
    raw.last_line = words.last_line;
    assemble(raw)
}

fn header(words: &mut Words<'_>) -> Result<[usize; 3], FormatError> {
    let mut counts = [0; 3];
    let mut line = 1;
    for (i, (count, what)) in
        counts.iter_mut().zip(["the number of nodes", "the number of switches", "the number of links"]).enumerate()
    {
        (line, *count) = words.number(what, i, 3)?;
    }
    let [nodes, switches, links] = counts;
    if switches > nodes {
        let message = format!("{switches} of {nodes} nodes are switches");
        return Err(FormatError::new(
            line,
            message,
            "the first line says the numbers of nodes, switches and links, in this order",
        ));
    }
    check_counts(line, (nodes - switches) as u64, switches as u64, links as u64)?;
    Ok(counts)
}

fn link(words: &mut Words<'_>, i: usize, links: usize, index: &[usize]) -> Result<(RawCable, f64), FormatError> {
    let mut ends = [0; 2];
    let mut line = 0;
    for end in &mut ends {
        let (at, id) = words.number("a link", i, links)?;
        line = at;
        *end = *index.get(id).ok_or_else(|| unknown(at, id, index.len()))?;
    }
    let (at, rate) = words.take("a link", i, links)?;
    let rate: BitsPerSec =
        rate.replace("b/s", "bps").parse().map_err(|e| FormatError::new(at, format!("{e}"), "give the rate its unit"))?;
    let (at, delay) = words.take("a link", i, links)?;
    let delay = delay.parse().map_err(|e| FormatError::new(at, format!("{e}"), "give the delay its unit"))?;
    let (at, error) = words.take("a link", i, links)?;
    let error_rate = error.parse().ok().filter(|e| (0.0..=1.0).contains(e)).ok_or_else(|| {
        let message = format!("`{}` is not an error rate", shorten(error));
        FormatError::new(at, message, "the fifth word of a link is a number from 0 to 1, usually 0.000000")
    })?;
    Ok((RawCable { line, ends, rate, delay, parallel: false }, error_rate))
}

fn unknown(line: usize, id: usize, nodes: usize) -> FormatError {
    FormatError::new(
        line,
        format!("there is no node {id}"),
        format!("nodes are numbered from 0, and the first line says {nodes} of them"),
    )
}

/// The words of the text with their lines.
struct Words<'a> {
    words: Box<dyn Iterator<Item = (usize, &'a str)> + 'a>,
    last_line: usize,
}

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Self {
        let words = text.lines().enumerate().flat_map(|(i, line)| line.split_whitespace().map(move |w| (i + 1, w)));
        Self { words: Box::new(words), last_line: 1 }
    }

    fn next(&mut self) -> Option<(usize, &'a str)> {
        let word = self.words.next()?;
        self.last_line = word.0;
        Some(word)
    }

    /// The next word, part of the `i`-th of `of` things.
    fn take(&mut self, what: &str, i: usize, of: usize) -> Result<(usize, &'a str), FormatError> {
        let line = self.last_line;
        self.next().ok_or_else(|| {
            let message = format!("the file ends where {what} should be, number {} of {of}", i + 1);
            FormatError::new(line, message, "it is truncated, or its first line counts too many")
        })
    }

    fn number(&mut self, what: &str, i: usize, of: usize) -> Result<(usize, usize), FormatError> {
        let (line, word) = self.take(what, i, of)?;
        let number = word.parse::<u32>().map_err(|_| {
            let message = format!("`{}` is not a number, where {what} should be, number {} of {of}", shorten(word), i + 1);
            FormatError::new(line, message, "see that the counts of the first line and the lists agree")
        })?;
        Ok((line, number as usize))
    }
}

pub(super) fn write(fabric: &Fabric) -> Result<String, ExportError> {
    let (nodes, hosts) = (fabric.nodes().len(), fabric.host_count());
    let mut text = format!("{nodes} {} {}\n", nodes - hosts, fabric.links().len() / 2);
    let switches: Vec<String> = (hosts..nodes).map(|i| i.to_string()).collect();
    text.push_str(&switches.join(" "));
    text.push('\n');
    let mut seen: FxHashSet<[u32; 2]> = FxHashSet::default();
    for (i, link) in fabric.links().iter().enumerate().step_by(2) {
        let ends = [link.from.0, link.to.0];
        if !seen.insert([ends[0].min(ends[1]), ends[0].max(ends[1])]) {
            let reason = format!("there is more than one cable `{}`", fabric.link_name(LinkId::from(i)));
            return Err(ExportError {
                format: "an HPCC topology",
                reason,
                help: "join them into one of their capacity, or use another format",
            });
        }
        writeln!(text, "{} {} {} {} 0.000000", ends[0], ends[1], link.capacity, link.delay).expect("writing to a string");
    }
    Ok(text)
}
