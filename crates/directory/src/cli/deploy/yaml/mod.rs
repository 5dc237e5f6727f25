//! Inventories in YAML 1.2: the same structure as in TOML, and errors with lines as well.
//!
//! ```text
//!   text --saphyr: events with places--> Node: scalars, lists, maps --serde, `Spanned` too--> Inventory
//! ```
//! Refused as in TOML: a key that is there twice, several documents. Tags are not read.

mod node;
mod read;

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::daemon::config::{KeyError, Place};
use node::Node;

/// Whether a file has YAML, by its name.
pub(super) fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "yaml" || it == "yml")
}

/// Reads a value.
///
/// # Errors
/// [`KeyError`], with the line that is wrong.
pub(super) fn parse<T: DeserializeOwned>(place: &Place<'_>) -> Result<T, KeyError> {
    let problem = match Node::parse(place.text) {
        Ok(node) => match T::deserialize(node) {
            Ok(value) => return Ok(value),
            Err(problem) => problem,
        },
        Err(problem) => problem,
    };
    Err(place.refused(&problem.message, problem.span.unwrap_or(0..0)))
}

/// A message for TOML, as one for YAML.
pub(super) fn in_its_notation(text: &str) -> String {
    let tables = ["network", "directory", "agent", "netlord"];
    let text = text.replace("[[", "`").replace("]]", "`").replace(" = ", ": ");
    tables.iter().fold(text, |text, table| text.replace(&format!("[{table}]"), &format!("`{table}`")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use toml::Spanned;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Machine {
        name: Spanned<String>,
        #[serde(default)]
        on: bool,
        #[serde(default)]
        count: Option<Spanned<u32>>,
        #[serde(default)]
        list: Vec<Spanned<String>>,
        #[serde(default)]
        more: BTreeMap<String, Machine>,
    }

    fn read(text: &str) -> Result<Machine, KeyError> {
        parse(&Place { path: Path::new("a.yaml"), text, page: "docs/deploying.md" })
    }

    #[test]
    fn values_have_their_lines() {
        let text = "# è\nname: 'a\n  b'\non: true\ncount: 7\nlist:\n- \"1\"\n- 10.0.0.0/8\n- 02:00:00:00:00:01\nmore: { x: { name: &n é }, y: {name: *n, count: null} }\n";
        let machine = read(text).unwrap();
        let place = Place { path: Path::new("a.yaml"), text, page: "" };
        let line = |it: &Spanned<String>| place.line(it.span());
        assert_eq!((machine.name.get_ref().as_str(), line(&machine.name), machine.on), ("a b", 2, true));
        let list: Vec<(&str, usize)> = machine.list.iter().map(|it| (it.get_ref().as_str(), line(it))).collect();
        assert_eq!(list, [("1", 7), ("10.0.0.0/8", 8), ("02:00:00:00:00:01", 9)]);
        let count = machine.count.unwrap();
        assert_eq!((*count.get_ref(), place.line(count.span())), (7, 5));
        assert_eq!((machine.more["y"].name.get_ref().as_str(), line(&machine.more["y"].name)), ("é", 10));
        assert!(machine.more["y"].count.is_none() && machine.more["x"].count.is_none());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line, what) in [
            ("", 1, "missing field `name`"),
            ("name: a\nmore:\n  x:\n    on: true\n", 4, "missing field `name`"),
            ("name: a\nnmae: b\n", 2, "unknown field `nmae`"),
            ("name: a\non: 1\nname: b\n", 3, "`name` is there twice"),
            ("name: a\non: yes\n", 2, "invalid type: string \"yes\", expected a boolean"),
            ("name: 10\n", 1, "invalid type: integer `10`, expected a string"),
            ("name: a\ncount: -1\n", 2, "expected a whole number from 0 to 4,294,967,295"),
            ("name: a\nlist: b\n", 2, "expected a sequence"),
            ("name: a\nlist:\n- b\n-  [c]\n", 4, "expected a string"),
            ("name: a\n  list: b\n", 2, "mapping"),
            ("name: 'a\n", 1, ""),
            ("name: a\n---\nname: b\n", 2, "one document"),
            ("name: !x a\n", 1, "tags are not read"),
            ("name: *b\n", 1, "unknown anchor"),
            ("name: a\n? [b]\n: c\n", 2, "a key is a word"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.message.contains(what), "{text}: {error}");
            assert_eq!(error.line, line, "{text}: {error}");
        }
        let deep = "[".repeat(100);
        assert!(read(&format!("name: a\nlist: {deep}")).unwrap_err().to_string().contains("nested"));
        let many = (1..30).fold("a0: &a0 [x, x]\n".to_owned(), |text, n| {
            let before = format!("*a{}", n - 1);
            text + &format!("a{n}: &a{n} [{before}, {before}]\n")
        });
        assert!(read(&many).unwrap_err().to_string().contains("more than"));
    }

    #[test]
    fn remedies_are_in_its_notation() {
        let text = "add [[netlord.host]], or write locator = \"host\" in [network]";
        assert_eq!(in_its_notation(text), "add `netlord.host`, or write locator: \"host\" in `network`");
    }
}
