//! Inventories in YAML: the same plan as in TOML, and errors as good.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;

use support::site::{Site, assert_code, assert_refused, text};

const YAML: &str = include_str!("../../../examples/inventory.yaml");
const TOML: &str = include_str!("../../../examples/inventory.toml");

#[test]
fn the_same_in_yaml_gives_the_same_plan() {
    let contents = |file: &'static str, inventory: &str| -> BTreeMap<PathBuf, String> {
        let site = Site::of(file);
        assert_code(&site.plan(inventory, &[]), 0);
        assert_code(&site.check_folder(inventory), 0);
        let is_key = |path: &std::path::Path, text: &str| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.ends_with(".key")
                || name.ends_with(".pem")
                || name == "secret"
                || name == "manifest.json"
                || text.contains("attach_key")
        };
        let all = site.snapshot().into_iter().map(|(path, it)| {
            let text = String::from_utf8(it.0).unwrap();
            let text = if is_key(&path, &text) { String::new() } else { text };
            (path.strip_prefix(site.out()).unwrap().to_owned(), text)
        });
        all.collect()
    };
    let toml = contents("inventory.toml", TOML);
    assert!(toml.len() > 40);
    assert_eq!(contents("inventory.yaml", YAML), toml);
    assert_eq!(contents("inventory.yml", YAML), toml);
}

#[test]
fn bad_yaml_is_refused_with_its_line_and_changes_nothing() {
    let cases = [
        ("cluster: example", "cluster: ../x", 2, "no name of the cluster", "letters"),
        ("cluster: example", "cluster: example\nnonsense: 3", 3, "unknown field `nonsense`", "docs/deploying.md"),
        ("cluster: example", "cluster: example\nversion: 1", 4, "`version` is there twice", "docs/deploying.md"),
        ("cluster: example", "cluster: 17", 2, "invalid type: integer `17`, expected a string", "docs/deploying.md"),
        ("locator: tor", "locator: rack", 6, "unknown variant `rack`", "docs/deploying.md"),
        ("  locator: tor\n", "", 5, "missing field `locator`", "add it"),
        ("    principal: 41\n", "", 21, "switch tor1 has no principal", "or agent: false"),
        ("tor: tor1", "tor: tor9", 38, "there is no switch `tor9`", "add `switch` of that name with role: \"tor\""),
        ("    rack: r1\n", "", 42, "host web1 has no rack", "or write locator: \"host\" in `network`"),
        ("[20.0.0.3]", "[20.0.0.1]", 68, "the address 20.0.0.1 of db1 is that of web1 (line 50)", "its own"),
        ("la: 10.1.3.2", "la: 10.1.3", 63, "IPv4 address", "docs/deploying.md"),
        ("  - name: r1", "  - name: r1\n   tor: x", 38, "", ""),
    ];
    let site = Site::of("inventory.yaml");
    assert_refused(&site, YAML, &cases);
    // The policy's version, as well.
    let output = site.plan(&YAML.replace("allow: [web]", "allow: []"), &[]);
    let printed = text(&output);
    assert!(output.status.code() == Some(2) && printed.contains("yaml:3: ") && printed.contains("write version: 2"), "{printed}");
}
