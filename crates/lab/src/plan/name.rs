//! Names of labs and of their namespaces: `weft-LAB-NODE`, so that leftovers are recognised.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weft_fabric::Fabric;

/// The prefix of the namespaces of all labs.
pub const NAMESPACE_PREFIX: &str = "weft-";

/// The name of a lab: letters, digits and underscores, at most 16. It has no hyphen, so that no lab's prefix of namespaces is a prefix of another's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LabName(String);

/// A string that is not the name of a lab.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot be a lab's name: use letters, digits and underscores, 1 to 16 of them")]
pub struct NameError(pub String);

impl LabName {
    /// The prefix of its namespaces.
    pub fn namespace_prefix(&self) -> String {
        format!("{NAMESPACE_PREFIX}{}-", self.0)
    }

    /// The lab of a namespace, by its name.
    pub fn of_namespace(namespace: &str) -> Option<Self> {
        let (lab, _) = namespace.strip_prefix(NAMESPACE_PREFIX)?.split_once('-')?;
        lab.parse().ok()
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for LabName {
    fn default() -> Self {
        Self("lab".to_owned())
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for LabName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if (1..=16).contains(&text.len()) && text.chars().all(legal) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError(text.to_owned()))
        }
    }
}

impl TryFrom<String> for LabName {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<LabName> for String {
    fn from(name: LabName) -> Self {
        name.0
    }
}

/// The namespace of each node. Names from files may contain any characters; those that are not allowed in paths are replaced.
pub(super) fn namespaces(fabric: &Fabric, lab: &LabName) -> Vec<String> {
    let prefix = lab.namespace_prefix();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let mut taken: BTreeSet<&str> =
        fabric.nodes().iter().map(|n| &*n.name).filter(|n| n.len() <= LENGTH_MAX && n.chars().all(plain)).collect();
    let mut names = Vec::with_capacity(fabric.nodes().len());
    let mut respelt = BTreeSet::new();
    for (i, node) in fabric.nodes().iter().enumerate() {
        if taken.contains(&*node.name) {
            names.push(format!("{prefix}{}", node.name));
            continue;
        }
        let mut name: String = node.name.chars().take(LENGTH_MAX).map(|c| if plain(c) { c } else { '_' }).collect();
        name += &format!("-{i}");
        while taken.contains(name.as_str()) || !respelt.insert(name.clone()) {
            name.push('_');
        }
        names.push(format!("{prefix}{name}"));
    }
    taken.clear();
    names
}

/// Paths of sockets, which contain these names, have at most 108 bytes.
const LENGTH_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::topology::FabricBuilder;
    use weft_fabric::{BitsPerSec, Duration};

    #[test]
    fn names_are_plain_and_parse_back() {
        assert!("vl2_a".parse::<LabName>().is_ok());
        for text in ["", "a-b", "a/b", "..", "seventeen_letters"] {
            assert!(text.parse::<LabName>().is_err(), "{text}");
        }
        assert_eq!(LabName::of_namespace("weft-vl2_a-pod0-edge1"), "vl2_a".parse().ok());
        assert_eq!(LabName::of_namespace("other-vl2-h0"), None);
        assert_eq!(LabName::of_namespace("weft-lab"), None);
    }

    #[test]
    fn any_node_has_a_namespace_of_its_own() {
        let mut b = FabricBuilder::new("odd names");
        let [s, t] = ["../x", ".._x"].map(|n| b.switch(n, 1, None));
        b.cable(s, t, BitsPerSec(1_000_000), Duration::ZERO);
        for name in ["__x", "_x-1", "ü", "a b", "___x-3"] {
            let h = b.host(name, None);
            b.cable(h, s, BitsPerSec(1_000_000), Duration::ZERO);
        }
        let names = namespaces(&b.build().expect("a fabric"), &LabName::default());
        let unique: BTreeSet<&String> = names.iter().collect();
        assert_eq!(unique.len(), 7, "{names:?}");
        assert!(names.iter().all(|n| n.starts_with("weft-lab-") && !n.contains(['/', '.', ' '])), "{names:?}");
    }
}
