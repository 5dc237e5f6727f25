//! `weft topo`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use toml::{Table, Value};
use weft_fabric::Fabric;
use weft_fabric::formats::topology::{self, Export};
use weft_fabric::topology::Metrics;

use crate::cli::{Weft, print_json, print_text, table};
use crate::error::{Error, Result};
use crate::scenario::fabric::FabricSpec;
use crate::scenario::keys::one_of;
use crate::scenario::read_fabric;
use crate::scenario::source::{Overrides, Source, parse_value};

/// Arguments of `weft topo`.
#[derive(Debug, Args)]
#[command(
    after_help = "Behind the keys:\n  --export FORMAT  dot, graphml, containerlab, htsim, hpcc or native, instead of the counts\n  --out FILE       Where the export goes"
)]
pub struct TopoArgs {
    /// fat-tree, clos, tree, clique, switch, file; or a scenario file
    kind: String,
    /// Keys of the [fabric] table: k=8 link=10Gbps, or --k 8 --link 10Gbps
    #[arg(value_name = "KEY=VALUE", trailing_var_arg = true, allow_hyphen_values = true)]
    keys: Vec<String>,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
}

/// What stands behind KIND, once keys and options are told apart.
#[derive(Debug, Default)]
struct Asked {
    keys: Vec<(String, Value)>,
    export: Option<String>,
    out: Option<PathBuf>,
    json: bool,
    help: bool,
}

impl TopoArgs {
    /// How often `-v` stands behind the first key, where clap no longer looks.
    pub fn verbosity(&self) -> u8 {
        self.keys.iter().map(|word| verbosity(word)).fold(0, u8::saturating_add)
    }
}

/// What `-v`, `-vv` or `--verbose` asks for.
fn verbosity(word: &str) -> u8 {
    match word.strip_prefix('-') {
        Some("-verbose") => 1,
        Some(short) if !short.is_empty() && short.bytes().all(|b| b == b'v') => u8::try_from(short.len()).unwrap_or(u8::MAX),
        _ => 0,
    }
}

/// Runs it.
pub fn run(args: &TopoArgs) -> Result<ExitCode> {
    let asked = split(&args.keys)?;
    if asked.help {
        return help();
    }
    let json = asked.json || args.json;
    check_export(&asked, json)?;
    let (source, spec) = read(&args.kind, &asked.keys)?;
    let fabric = spec.build().map_err(|e| source.at(e))?;
    if let Some(name) = &asked.export {
        return export(&fabric, name, asked.out.as_deref(), json);
    }
    let metrics = Metrics::of(&fabric);
    if json {
        print_json(&metrics)?;
    } else {
        print_text(&table::of_fabric(&metrics))?;
    }
    Ok(ExitCode::SUCCESS)
}

const EXPORTS: &[(&str, Export)] = &[
    ("dot", Export::Dot),
    ("graphml", Export::GraphMl),
    ("containerlab", Export::Containerlab),
    ("htsim", Export::Htsim),
    ("hpcc", Export::Hpcc),
    ("native", Export::Native),
];

fn help() -> Result<ExitCode> {
    let mut weft = Weft::command();
    weft.build();
    let topo = weft.find_subcommand_mut("topo").expect("this command");
    print_text(&topo.render_help().to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// Options that have no meaning together.
fn check_export(asked: &Asked, json: bool) -> Result<()> {
    if asked.out.is_some() && asked.export.is_none() {
        let help = "add `--export dot` (or graphml, containerlab, htsim, hpcc, native), or leave out `--out`";
        return Err(Error::usage("`--out` says where an export goes, and there is none", help));
    }
    if asked.export.is_some() && asked.out.is_none() && json {
        let help = "add `--out FILE`: then the JSON names the file; or leave out `--json`";
        return Err(Error::usage("an export and a JSON document cannot both go to standard output", help));
    }
    Ok(())
}

fn export(fabric: &Fabric, name: &str, out: Option<&Path>, json: bool) -> Result<ExitCode> {
    let Some(&(_, format)) = EXPORTS.iter().find(|(n, _)| *n == name) else {
        let names: Vec<&str> = EXPORTS.iter().map(|(n, _)| *n).collect();
        return Err(Error::usage(format!("there is no export `{name}`"), one_of(&names, name)));
    };
    let text = topology::write(fabric, format).map_err(|e| Error::usage(e.to_string(), e.help))?;
    match out {
        None => print_text(&text)?,
        Some(path) => std::fs::write(path, text).map_err(|e| Error::io("write", path, e))?,
    }
    if let (Some(path), true) = (out, json) {
        print_json(&serde_json::json!({ "export": name, "out": path }))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(kind: &str, keys: &[(String, Value)]) -> Result<(Source, FabricSpec)> {
    let set: Vec<(String, Value)> = keys.iter().map(|(k, v)| (format!("fabric.{k}"), v.clone())).collect();
    let overrides = Overrides { set, ..Overrides::default() };
    if kind.ends_with(".toml") && !Path::new(kind).is_file() {
        return Err(Error::usage(
            format!("there is no file {kind}"),
            "name a scenario file, or a kind of fabric such as `fat-tree`",
        ));
    }
    let source = if Path::new(kind).is_file() {
        Source::read(Path::new(kind), &overrides)?
    } else {
        let fabric = Table::from_iter([("kind".to_owned(), Value::String(kind.to_owned()))]);
        Source::from_table(Table::from_iter([("fabric".to_owned(), Value::Table(fabric))]), PathBuf::new(), &overrides)?
    };
    let spec = read_fabric(&source)?;
    Ok((source, spec))
}

/// `key=value`, `--key value`, `--key=value`, and the options that are not keys.
fn split(words: &[String]) -> Result<Asked> {
    let mut asked = Asked::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if verbosity(word) > 0 {
            continue;
        }
        if ["--help", "-h"].contains(&word.as_str()) {
            asked.help = true;
            return Ok(asked);
        }
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
