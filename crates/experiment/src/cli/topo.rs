//! `weft topo`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use toml::{Table, Value};
use weft_fabric::formats::topology::Format;
use weft_fabric::topology::metrics::describe;

use crate::cli::{print_json, print_text};
use crate::error::{Error, Result};
use crate::scenario::Study;
use crate::scenario::source::{Overrides, parse_value};

/// Arguments of `weft topo`.
#[derive(Debug, Args)]
pub struct TopoArgs {
    /// fat-tree, clos, tree, clique, switch, file; or a scenario file
    kind: String,
    /// Keys of the [fabric] table: k=8 link=10Gbps, or --k 8 --link 10Gbps
    #[arg(value_name = "KEY=VALUE", trailing_var_arg = true, allow_hyphen_values = true)]
    keys: Vec<String>,
}

/// What stands behind KIND, once keys and options are told apart.
#[derive(Debug, Default)]
struct Asked {
    keys: Vec<(String, Value)>,
    export: Option<String>,
    out: Option<PathBuf>,
    json: bool,
}

/// Runs it.
pub fn run(args: &TopoArgs) -> Result<ExitCode> {
    let asked = split(&args.keys)?;
    let study = study(&args.kind, &asked.keys)?;
    let fabric = study.runs[0].scenario.fabric.build().map_err(|e| study.source.at(e))?;
    if let Some(name) = &asked.export {
        let format: Format = name.parse().map_err(|e: weft_fabric::formats::topology::UnknownFormat| {
            Error::usage(e.to_string(), "write `--export dot`, `graphml`, `containerlab`, `htsim` or `json`")
        })?;
        let text = format.write(&fabric).map_err(|e| Error::usage(e.to_string(), "choose another format"))?;
        match &asked.out {
            None => print_text(&text),
            Some(path) => std::fs::write(path, text).map_err(|e| Error::io("write", path, e))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let description = describe(&fabric);
    if asked.json {
        print_json(&description);
    } else {
        print_text(&description.to_string());
    }
    Ok(ExitCode::SUCCESS)
}

fn study(kind: &str, keys: &[(String, Value)]) -> Result<Study> {
    let set: Vec<(String, Value)> = keys.iter().map(|(k, v)| (format!("fabric.{k}"), v.clone())).collect();
    let overrides = Overrides { set, ..Overrides::default() };
    if Path::new(kind).is_file() {
        return Study::read_fabric(Path::new(kind), &overrides);
    }
    let mut fabric = Table::new();
    fabric.insert("kind".to_owned(), Value::String(kind.to_owned()));
    let mut table = Table::new();
    table.insert("fabric".to_owned(), Value::Table(fabric));
    Study::fabric_of_table(table, PathBuf::new(), &overrides)
}

/// `key=value`, `--key value`, `--key=value`, and the options that are not keys.
fn split(words: &[String]) -> Result<Asked> {
    let mut asked = Asked::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, mut value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let key = name.trim_start_matches('-').replace('-', "_");
        if key == "json" && value.is_none() {
            asked.json = true;
            continue;
        }
        if value.is_none() && word.starts_with("--") {
            value = words.next().cloned();
        }
        let Some(value) = value else {
            return Err(Error::usage(format!("`{word}` is not a key of a fabric"), "write KEY=VALUE, such as `k=8`, or `--k 8`"));
        };
        match key.as_str() {
            "export" => asked.export = Some(value),
            "out" => asked.out = Some(value.into()),
            _ => asked.keys.push((key, parse_value(&value))),
        }
    }
    Ok(asked)
}
