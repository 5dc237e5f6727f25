//! From the nodes and cables of a file to a fabric: checks that name lines, and the tiers and pods that files leave unsaid.
//!
//! A switch's tier is its distance from the nearest host; a pod is what hangs together below the highest tier.

use rustc_hash::FxHashMap;

use crate::formats::FormatError;
use crate::formats::topology::{Imported, shorten};
use crate::time::Duration;
use crate::topology::shapes::limits::{MAX_CABLES, MAX_HOSTS, MAX_SWITCHES};
use crate::topology::{End, Fabric, FabricBuilder};
use crate::units::BitsPerSec;

/// A node as a file gives it.
#[derive(Debug)]
pub(super) struct RawNode {
    pub line: usize,
    pub name: String,
    /// Of a switch, if the file says it.
    pub tier: Option<u8>,
    /// If the file says it.
    pub pod: Option<u32>,
}

/// A cable as a file gives it.
#[derive(Debug)]
pub(super) struct RawCable {
    pub line: usize,
    /// Indices of nodes: hosts from 0, switches after them.
    pub ends: [usize; 2],
    pub rate: BitsPerSec,
    pub delay: Duration,
    /// The file says that this is not the first cable between its ends.
    pub parallel: bool,
}

/// All that a file says.
#[derive(Debug, Default)]
pub(super) struct Raw {
    pub title: String,
    pub hosts: Vec<RawNode>,
    pub switches: Vec<RawNode>,
    pub cables: Vec<RawCable>,
    /// The last line, for what is missing.
    pub last_line: usize,
    /// Tiers and pods are those of the nodes; else they are inferred.
    pub tiers_given: bool,
    pub notes: Vec<String>,
}

/// Checks the size that a file announces or has reached.
pub(super) fn check_counts(line: usize, hosts: u64, switches: u64, cables: u64) -> Result<(), FormatError> {
    for (count, limit, what) in
        [(hosts, MAX_HOSTS, "hosts"), (switches, MAX_SWITCHES, "switches"), (cables, MAX_CABLES, "cables")]
    {
        if count > limit {
            let message = format!("{count} {what}: a fabric has at most {limit}");
            return Err(FormatError::new(line, message, "check the number, or describe a part of the network"));
        }
    }
    Ok(())
}

/// Checks a file's graph and builds it.
pub(super) fn assemble(mut raw: Raw) -> Result<Imported, FormatError> {
    check_names(&raw.hosts, &raw.switches)?;
    if raw.hosts.is_empty() {
        return Err(FormatError::new(
            raw.last_line,
            "the file has no hosts",
            "a fabric needs a host at least: is the file truncated?",
        ));
    }
    check_cables(&raw)?;
    let adjacency = adjacency(&raw);
    check_connected(&raw, &adjacency)?;
    if !raw.tiers_given {
        infer_tiers(&mut raw, &adjacency)?;
        infer_pods(&mut raw, &adjacency);
    }
    let (last_line, mut notes) = (raw.last_line, std::mem::take(&mut raw.notes));
    let fabric =
        build(raw).map_err(|e| FormatError::new(last_line, e.to_string(), "check the nodes and cables that it names"))?;
    notes.extend(order_note(&fabric));
    Ok(Imported { fabric, notes })
}

/// Checks that no two nodes share a name.
pub(super) fn check_names(hosts: &[RawNode], switches: &[RawNode]) -> Result<(), FormatError> {
    let mut lines: FxHashMap<&str, usize> = FxHashMap::default();
    for node in hosts.iter().chain(switches) {
        if let Some(first) = lines.insert(&node.name, node.line) {
            let message = format!("`{}` is declared on line {first} already", shorten(&node.name));
            return Err(FormatError::new(node.line, message, "give each node a name of its own"));
        }
    }
    Ok(())
}

fn check_cables(raw: &Raw) -> Result<(), FormatError> {
    let name = |i: usize| shorten(&node(raw, i).name).into_owned();
    let mut lines: FxHashMap<[usize; 2], usize> = FxHashMap::default();
    for cable in &raw.cables {
        let [a, b] = cable.ends;
        let error = |message: String, help: &str| Err(FormatError::new(cable.line, message, help));
        if a == b {
            return error(format!("`{}` is linked to itself", name(a)), "remove the line, or name the other end");
        }
        if a.max(b) < raw.hosts.len() {
            return error(format!("host `{}` is linked to host `{}`", name(a), name(b)), "link hosts to switches");
        }
        if cable.rate.0 == 0 {
            return error(format!("the cable `{}-{}` has no capacity", name(a), name(b)), "give it a rate above 0, or remove it");
        }
        let first = lines.insert([a.min(b), a.max(b)], cable.line);
        match (first, cable.parallel) {
            (Some(first), false) => {
                let message = format!("`{}` and `{}` are linked on line {first} already", name(a), name(b));
                return error(message, "remove one of the lines (in a weft-fabric file, a second cable ends in `parallel`)");
            }
            (None, true) => {
                let message = format!("`parallel`, but this is the first cable between `{}` and `{}`", name(a), name(b));
                return error(message, "remove the word, or add the line of the first cable");
            }
            _ => {}
        }
    }
    Ok(())
}

fn node(raw: &Raw, i: usize) -> &RawNode {
    raw.hosts.get(i).unwrap_or_else(|| &raw.switches[i - raw.hosts.len()])
}

fn adjacency(raw: &Raw) -> Vec<Vec<u32>> {
    let mut adjacency = vec![Vec::new(); raw.hosts.len() + raw.switches.len()];
    for cable in &raw.cables {
        let [a, b] = cable.ends;
        adjacency[a].push(b as u32);
        adjacency[b].push(a as u32);
    }
    adjacency
}

fn check_connected(raw: &Raw, adjacency: &[Vec<u32>]) -> Result<(), FormatError> {
    if let Some(i) = adjacency.iter().position(Vec::is_empty) {
        let lonely = node(raw, i);
        let message = format!("`{}` has no cable", shorten(&lonely.name));
        return Err(FormatError::new(lonely.line, message, "link it, or remove it: is the file truncated?"));
    }
    // From the first switch, and through switches alone: hosts never forward. Networks side by side are connected if every host is on one and the same of them.
    let hosts = raw.hosts.len();
    let reach = |from: usize| distances(adjacency, &[from], |i| i >= hosts);
    let first = reach(hosts);
    let Some(i) = first.iter().position(|&d| d == usize::MAX) else { return Ok(()) };
    let mut seen = first;
    let mut networks = vec![seen.clone()];
    while let Some(next) = (hosts..seen.len()).find(|&i| seen[i] == usize::MAX) {
        let network = reach(next);
        seen.iter_mut().zip(&network).for_each(|(seen, &distance)| *seen = (*seen).min(distance));
        networks.push(network);
    }
    let has_all = |network: &Vec<usize>| network[..hosts].iter().all(|&d| d != usize::MAX);
    let has_some = |network: &Vec<usize>| network[..hosts].iter().any(|&d| d != usize::MAX);
    if networks.iter().any(has_all) && networks.iter().all(has_some) {
        return Ok(());
    }
    let [from, to] = [node(raw, hosts), node(raw, i)];
    let message = format!("the fabric is disconnected: `{}` cannot reach `{}`", shorten(&from.name), shorten(&to.name));
    Err(FormatError::new(to.line, message, "add the cables between the parts: is the file truncated?"))
}

/// Breadth-first distances from several nodes, through nodes that forward.
fn distances(adjacency: &[Vec<u32>], from: &[usize], forwards: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut distance = vec![usize::MAX; adjacency.len()];
    from.iter().for_each(|&i| distance[i] = 0);
    let mut queue = from.to_vec();
    let mut head = 0;
    while let Some(&i) = queue.get(head) {
        head += 1;
        for &j in &adjacency[i] {
            let j = j as usize;
            if distance[j] == usize::MAX {
                distance[j] = distance[i] + 1;
                if forwards(j) {
                    queue.push(j);
                }
            }
        }
    }
    distance
}

fn infer_tiers(raw: &mut Raw, adjacency: &[Vec<u32>]) -> Result<(), FormatError> {
    let hosts: Vec<usize> = (0..raw.hosts.len()).collect();
    let distance = distances(adjacency, &hosts, |_| true);
    for (switch, &d) in raw.switches.iter_mut().zip(&distance[hosts.len()..]) {
        switch.tier = Some(u8::try_from(d).map_err(|_| {
            let message = format!("`{}` is {d} links from the nearest host", shorten(&switch.name));
            FormatError::new(switch.line, message, "a fabric has at most 255 tiers: attach hosts nearer to it, or remove it")
        })?);
    }
    Ok(())
}

/// Numbers pods by their first host. Without a tier below the roots, the hosts are in pod 0.
fn infer_pods(raw: &mut Raw, adjacency: &[Vec<u32>]) {
    let hosts = raw.hosts.len();
    let top = raw.switches.iter().filter_map(|s| s.tier).max().unwrap_or(0);
    if top <= 1 {
        raw.hosts.iter_mut().for_each(|h| h.pod = Some(0));
        return;
    }
    let below: Vec<bool> = (0..adjacency.len()).map(|i| i < hosts || raw.switches[i - hosts].tier != Some(top)).collect();
    let mut pod_of: Vec<Option<u32>> = vec![None; adjacency.len()];
    let mut pods = 0;
    for host in 0..hosts {
        if pod_of[host].is_some() {
            continue;
        }
        pod_of[host] = Some(pods);
        let mut stack = vec![host];
        while let Some(i) = stack.pop() {
            for j in adjacency[i].iter().map(|&j| j as usize).filter(|&j| below[j]) {
                if pod_of[j].is_none() {
                    pod_of[j] = Some(pods);
                    stack.push(j);
                }
            }
        }
        pods += 1;
    }
    for (node, pod) in raw.hosts.iter_mut().chain(&mut raw.switches).zip(pod_of) {
        node.pod = pod;
    }
}

fn build(raw: Raw) -> Result<Fabric, crate::topology::FabricError> {
    let mut fabric = FabricBuilder::new(raw.title);
    let mut ends: Vec<End> = Vec::with_capacity(raw.hosts.len() + raw.switches.len());
    ends.extend(raw.hosts.into_iter().map(|h| End::from(fabric.host(h.name, h.pod))));
    ends.extend(raw.switches.into_iter().map(|s| End::from(fabric.switch(s.name, s.tier.unwrap_or(1), s.pod))));
    for cable in raw.cables {
        fabric.cable(ends[cable.ends[0]], ends[cable.ends[1]], cable.rate, cable.delay);
    }
    fabric.build()
}

/// Patterns such as stride mean something only where neighbours in number are neighbours in place.
fn order_note(fabric: &Fabric) -> Option<String> {
    let racks: Vec<_> = fabric.hosts().map(|h| (fabric.pod_of(h), fabric.rack_of(h))).collect();
    (!racks.is_sorted()).then(|| {
        "hosts keep the order of the file, in which racks or pods are not contiguous: `stride` counts in that order".to_owned()
    })
}
