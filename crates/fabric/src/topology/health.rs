//! Which parts work: the changing state beside the immutable [`Fabric`].

use crate::ids::{CableId, LinkId, NodeId};
use crate::topology::Fabric;

/// A part that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Both directions of a cable.
    Cable(CableId),
    /// A switch or a host, and with it all of its links.
    Node(NodeId),
}

/// Which links carry traffic. A link is up when its cable and both of its ends are.
#[derive(Clone, Debug)]
pub struct Health {
    /// For each directed link, how many causes keep it down (cable, either end).
    causes: Vec<u8>,
    cable_failed: Vec<bool>,
    node_failed: Vec<bool>,
}

/// An event names a part that the fabric does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum PartError {
    #[error("`{0}` does not say what fails: write `link A-B`, `switch A` or `host A`")]
    Form(String),
    #[error("there is no node called `{name}`{hint}")]
    NoNode { name: String, hint: String },
    #[error("there is no link between `{0}` and `{1}`")]
    NoLink(String, String),
    #[error("`{0}` is not a {1}")]
    WrongKind(String, &'static str),
}

impl Health {
    /// Everything works.
    pub fn new(fabric: &Fabric) -> Self {
        Self {
            causes: vec![0; fabric.links().len()],
            cable_failed: vec![false; fabric.links().len() / 2],
            node_failed: vec![false; fabric.nodes().len()],
        }
    }

    /// Whether the link carries traffic.
    #[inline]
    pub fn is_up(&self, link: LinkId) -> bool {
        self.causes[link.index()] == 0
    }

    /// Whether the node itself works.
    pub fn node_is_up(&self, node: NodeId) -> bool {
        !self.node_failed[node.index()]
    }

    /// Whether every link of a path carries traffic.
    pub fn path_is_up(&self, path: &[LinkId]) -> bool {
        path.iter().all(|&l| self.is_up(l))
    }

    /// Marks a part as failed. Returns the directed links that went down by it (none if it was down already).
    pub fn fail(&mut self, fabric: &Fabric, part: Part) -> Vec<LinkId> {
        self.set(fabric, part, true)
    }

    /// Marks a part as working. Returns the directed links that came up by it.
    pub fn restore(&mut self, fabric: &Fabric, part: Part) -> Vec<LinkId> {
        self.set(fabric, part, false)
    }

    fn set(&mut self, fabric: &Fabric, part: Part, failed: bool) -> Vec<LinkId> {
        let flag = match part {
            Part::Cable(cable) => &mut self.cable_failed[cable.index()],
            Part::Node(node) => &mut self.node_failed[node.index()],
        };
        if std::mem::replace(flag, failed) == failed {
            return Vec::new();
        }
        let touched: Vec<LinkId> = match part {
            Part::Cable(cable) => cable.links().to_vec(),
            Part::Node(node) => fabric.out(node).iter().flat_map(|&l| [l, l.reverse()]).collect(),
        };
        touched
            .into_iter()
            .filter(|link| {
                let causes = &mut self.causes[link.index()];
                let was_up = *causes == 0;
                *causes = if failed { *causes + 1 } else { *causes - 1 };
                was_up != (*causes == 0)
            })
            .collect()
    }
}

impl Part {
    /// Reads `link A-B`, `switch A` or `host A`. Node names may contain `-`: every split is tried.
    ///
    /// # Errors
    /// [`PartError`], naming what the fabric does not have.
    pub fn parse(fabric: &Fabric, text: &str) -> Result<Self, PartError> {
        let (kind, name) = text.trim().split_once(' ').ok_or_else(|| PartError::Form(text.to_owned()))?;
        let name = name.trim();
        match kind {
            "link" => parse_link(fabric, name).map(Part::Cable),
            "switch" | "host" => {
                let node = find(fabric, name)?;
                let is_host = fabric.as_host(node).is_some();
                match (kind, is_host) {
                    ("host", true) | ("switch", false) => Ok(Part::Node(node)),
                    ("host", false) => Err(PartError::WrongKind(name.to_owned(), "host")),
                    _ => Err(PartError::WrongKind(name.to_owned(), "switch")),
                }
            }
            _ => Err(PartError::Form(text.to_owned())),
        }
    }
}

fn find(fabric: &Fabric, name: &str) -> Result<NodeId, PartError> {
    fabric.node_by_name(name).ok_or_else(|| {
        let near = fabric.nodes().iter().map(|n| &*n.name).min_by_key(|n| edit_distance(n, name));
        PartError::NoNode { name: name.to_owned(), hint: near.map_or(String::new(), |n| format!(": did you mean `{n}`?")) }
    })
}

fn parse_link(fabric: &Fabric, name: &str) -> Result<CableId, PartError> {
    let splits = name.match_indices('-').map(|(i, _)| (&name[..i], &name[i + 1..]));
    let mut known = None;
    for (a, b) in splits.clone() {
        if let (Some(from), Some(to)) = (fabric.node_by_name(a), fabric.node_by_name(b)) {
            match fabric.cable_between(from, to) {
                Some(cable) => return Ok(cable),
                None => known = Some(PartError::NoLink(a.to_owned(), b.to_owned())),
            }
        }
    }
    match known {
        Some(error) => Err(error),
        None => {
            let (a, b) = splits
                .clone()
                .find(|(a, b)| fabric.node_by_name(a).is_some() || fabric.node_by_name(b).is_some())
                .or_else(|| splits.clone().next())
                .ok_or_else(|| PartError::Form(format!("link {name}")))?;
            find(fabric, a).and(find(fabric, b)).map(|_| unreachable!("one of the ends is unknown"))
        }
    }
}

/// Levenshtein distance, for "did you mean".
pub fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &cb) in b.iter().enumerate() {
            let best = (diagonal + usize::from(ca != cb)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[b.len()]
}
