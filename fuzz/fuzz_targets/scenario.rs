//! Any text is an error with a message and a remedy's place, or a study whose runs are checked: fabric built, flows drawn, events and
//! search read. Numbers that would only make fabrics large are left out.
#![no_main]

use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use toml::{Table, Value};

use weft_experiment::scenario::source::{Overrides, Source};
use weft_experiment::study::Study;

fuzz_target!(|text: &str| {
    // No file of this machine is to be read.
    if text.contains("\"/") || text.contains("'/") || text.contains("..") || text.contains('\\') {
        return;
    }
    let folder = PathBuf::from("no-such-folder");
    let overrides = Overrides::default();
    match Source::from_text("any.toml", text.to_owned(), folder.clone(), &overrides).and_then(|s| s.variants()) {
        Ok(variants) if variants.len() > 16 || !variants.iter().all(|v| is_small(&v.table)) => return,
        _ => {}
    }
    match Study::from_text("any.toml", text.to_owned(), folder, &overrides) {
        Ok(study) => assert!(!study.runs.is_empty()),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let _ = format!("{:?}", miette::Report::new(error));
        }
    }
});

/// Whether fabric, flows and search need but little memory.
fn is_small(table: &Table) -> bool {
    ["fabric", "traffic", "search"].iter().filter_map(|section| table.get(*section)).all(numbers_are_small)
}

fn numbers_are_small(value: &Value) -> bool {
    match value {
        Value::Integer(n) => *n <= 16,
        Value::Float(x) => *x <= 16.0,
        Value::Array(list) => list.iter().all(numbers_are_small),
        Value::Table(table) => table.values().all(numbers_are_small),
        // `"0-999999"` is a list of racks.
        Value::String(text) => text.len() < 64,
        _ => true,
    }
}
