//! `weft topo`.

mod subways;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use toml::{Table, Value};
use weft_fabric::Fabric;
use weft_fabric::formats::topology::{self, Export};
use weft_fabric::topology::Metrics;

use crate::cli::{Weft, print_json, print_text, table};
use crate::error::{Error, Result};
use crate::scenario::dotted::parse_value;
use crate::scenario::fabric::FabricSpec;
use crate::scenario::read_fabric;
use crate::scenario::source::{Overrides, Source};
use crate::subways::FLOOR_KEYS;

/// Examples and further options at the end of `weft topo --help`.
const EXAMPLES: &str = "\
After the keys:
  --export FORMAT   dot, graphml, containerlab, htsim, hpcc or native
  --out FILE        write the export to a file
  --cabling         print cable lengths and costs (subways only); takes
                    --prices FILE, and the dimensions of the hall:
                    --arrangement aisle|row, --tors-per-rack N, --rack-height,
                    --rack-width, --rack-depth, --cold-aisle, --hot-aisle,
                    --slack METRES
  --upgrade-to KEY=VALUE...
                    print the steps to a fabric with these keys (subways only)

Examples:
  weft topo fat-tree k=8                          hosts, switches, cables
  weft topo clos agg_ports=16 int_ports=8 --export dot --out clos.dot
  weft topo subways type=1 ports=2 --cabling      lengths and costs
  weft topo mine.toml --json                      the fabric of a scenario";

/// Arguments of `weft topo`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TopoArgs {
    /// fat-tree, clos, tree, clique, switch, subways, file; or a scenario file
    kind: String,
    /// Keys of the [fabric] table: k=8 link=10Gbps, or --k 8 --link 10Gbps
    #[arg(value_name = "KEY=VALUE", trailing_var_arg = true, allow_hyphen_values = true)]
    keys: Vec<String>,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
}

/// The arguments after KIND, as keys and options.
#[derive(Debug, Default)]
struct Asked {
    keys: Vec<(String, Value)>,
    export: Option<String>,
    out: Option<PathBuf>,
    json: bool,
    cabling: bool,
    prices: Option<PathBuf>,
    floor: Table,
    /// Keys of the fabric to upgrade to: what differs from `keys`.
    upgrade: Option<Vec<(String, Value)>>,
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
    asked.check()?;
    check_export(&asked, json)?;
    let (source, spec) = read(&args.kind, &asked.keys)?;
    if asked.cabling {
        let survey = crate::subways::cabling(&spec, &asked.floor, asked.prices.as_deref()).map_err(|e| placed(&source, e))?;
        return print(json, &survey, subways::of_cabling);
    }
    if let Some(changes) = &asked.upgrade {
        let (_, target) = read(&args.kind, &changed(&asked.keys, changes))?;
        let plan = crate::subways::upgrade(&spec, &target).map_err(|e| placed(&source, e))?;
        return print(json, &plan, subways::of_upgrade);
    }
    let fabric = spec.build().map_err(|e| source.at(e))?;
    if let Some(name) = &asked.export {
        return export(&fabric, name, asked.out.as_deref(), json);
    }
    print(json, &Metrics::of(&fabric), table::of_fabric)
}

fn print<T: serde::Serialize>(json: bool, what: &T, table: impl Fn(&T) -> String) -> Result<ExitCode> {
    if json {
        print_json(what)?
    } else {
        print_text(&table(what))?
    }
    Ok(ExitCode::SUCCESS)
}

/// An error with the line of the scenario that it is about.
fn placed(source: &Source, error: Error) -> Error {
    match error {
        Error::Key(key) if key.key.starts_with("fabric") => source.at(key),
        other => other,
    }
}

/// The keys of the fabric to upgrade to: a change also drops the key that means the same.
fn changed(keys: &[(String, Value)], changes: &[(String, Value)]) -> Vec<(String, Value)> {
    let gone = |key: &str| {
        changes.iter().any(|(c, _)| {
            c == key || INSTEAD.iter().any(|(a, b)| (c == a && b.contains(&key)) || (b.contains(&c.as_str()) && key == *a))
        })
    };
    keys.iter().filter(|(key, _)| !gone(key)).chain(changes).cloned().collect()
}

/// Keys, and those in whose place they stand.
const INSTEAD: &[(&str, &[&str])] = &[
    ("speeds", &["link", "host_link", "fabric_link"]),
    ("server_ports", &["servers_per_rack"]),
    ("aggregations", &["tor_oversubscription"]),
    ("agg_uplinks", &["agg_oversubscription"]),
];

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
        return Err(Error::usage("`--out` names the file of an export, and there is none", help));
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
        return Err(Error::no_such("export", name, &names));
    };
    let text = topology::write(fabric, format).map_err(|e| Error::usage(e.to_string(), e.help))?;
    match out {
        None => print_text(&text)?,
        Some(path) => crate::atomic_file::write(path, &text).map_err(|e| Error::io("write", path, e))?,
    }
    if let (Some(path), true) = (out, json) {
        print_json(&serde_json::json!({ "export": name, "out": path }))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(kind: &str, keys: &[(String, Value)]) -> Result<(Source, FabricSpec)> {
    let set: Vec<(String, Value)> = keys.iter().map(|(k, v)| (format!("fabric.{k}"), v.clone())).collect();
    let overrides = Overrides { set, ..Overrides::default() };
    // A name with a dot, a slash or an `@` is that of a file: no kind has one.
    let source = if kind.contains(['.', '/', '@']) || Path::new(kind).is_file() {
        Source::read(Path::new(kind), &overrides)?
    } else {
        let kind = ("fabric.kind".to_owned(), Value::String(kind.to_owned()));
        let set = [kind].into_iter().chain(overrides.set).collect();
        Source::from_table(Table::new(), PathBuf::new(), &Overrides { set, ..overrides })?
    };
    let spec = read_fabric(&source)?;
    Ok((source, spec))
}

impl Asked {
    /// What cannot be asked for together.
    fn check(&self) -> Result<()> {
        let outputs =
            [("--export", self.export.is_some()), ("--cabling", self.cabling), ("--upgrade-to", self.upgrade.is_some())];
        let asked: Vec<&str> = outputs.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
        if asked.len() > 1 {
            return Err(Error::usage(format!("{} are asked for at once", asked.join(" and ")), "ask for one of them at a time"));
        }
        let of_cabling = self.floor.keys().map(String::as_str).chain(self.prices.is_some().then_some("prices")).next();
        if let (Some(key), false) = (of_cabling, self.cabling) {
            return Err(Error::usage(format!("`{key}` belongs to the cabling"), "add --cabling"));
        }
        if self.upgrade.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::usage("--upgrade-to has no keys", "write what changes behind it, such as `--upgrade-to ports=2`"));
        }
        Ok(())
    }

    /// Puts a key where it belongs.
    fn take(&mut self, key: String, value: String) {
        match key.as_str() {
            "export" => self.export = Some(value),
            "out" => self.out = Some(value.into()),
            "prices" => self.prices = Some(value.into()),
            floor if FLOOR_KEYS.contains(&floor) => {
                self.floor.insert(key, parse_value(&value));
            }
            _ => self.upgrade.as_mut().unwrap_or(&mut self.keys).push((key, parse_value(&value))),
        }
    }
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
        match (key.as_str(), &value) {
            ("json", None) => asked.json = true,
            ("cabling", None) => asked.cabling = true,
            ("upgrade_to", None) => asked.upgrade = Some(Vec::new()),
            _ => {
                if value.is_none() && word.starts_with("--") {
                    value = words.next().cloned();
                }
                let Some(value) = value else {
                    return Err(Error::usage(
                        format!("`{word}` is not a key of a fabric"),
                        "write KEY=VALUE, such as `k=8`, or `--k 8`",
                    ));
                };
                asked.take(key, value);
            }
        }
    }
    Ok(asked)
}
