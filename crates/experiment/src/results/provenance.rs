//! Where results come from: `scenario.toml`, the resolved scenario, and `run.json`. `weft run scenario.toml` gives the same results again.
//!
//! Files that the scenario reads are copied to `inputs/`, so that a results folder can be moved, and has the same bytes wherever it is
//! made. In a sweep each run's folder has both files for itself, and the top folder those of the whole sweep.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value as Json};
use toml::{Table, Value};
use weft_fabric::traffic::SizeSpec;

use super::folder::{Folder, INPUTS};
use crate::bundle;
use crate::error::{Error, Result};
use crate::scenario::source::{COMPARABLE, OVERRIDDEN, RESOLVED, Source};
use crate::study::Study;
use crate::summary::Summary;

/// What `run.json` holds.
#[derive(Debug, Serialize)]
struct Provenance<'a> {
    version: &'static str,
    command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<&'static str>,
    overrides: Map<String, Json>,
    /// `None` if the runs of a sweep have several.
    seed: Option<u64>,
    /// `None` if the runs of a sweep have several.
    world: Option<&'a str>,
    trusted: bool,
    comparable: bool,
}

/// Writes `scenario.toml` of a study and of each run, with copies of the files that they read.
///
/// # Errors
/// A file that cannot be read or written.
pub fn write_scenarios(folder: &Folder, study: &Study) -> Result<()> {
    let mut inputs = Inputs { folder, from: &study.source.folder, names: BTreeMap::new() };
    write_scenario(folder, "scenario.toml", &study.source, study.source.resolved(), &mut inputs, INPUTS)?;
    if study.runs.len() > 1 {
        for (i, run) in study.runs.iter().enumerate() {
            let name = format!("{}/scenario.toml", folder.name_of_run(i));
            write_scenario(folder, &name, &study.source, run.variant.table.clone(), &mut inputs, &format!("../{INPUTS}"))?;
        }
    }
    Ok(())
}

fn write_scenario(
    folder: &Folder,
    name: &str,
    source: &Source,
    mut table: Table,
    inputs: &mut Inputs<'_>,
    to: &str,
) -> Result<()> {
    let overridden = source.incomparable_settings();
    if !overridden.is_empty() {
        table.insert(COMPARABLE.to_owned(), Value::Boolean(false));
        table.insert(OVERRIDDEN.to_owned(), overridden.into());
    }
    let mut value = Value::Table(table);
    inputs.take(&mut Vec::new(), &mut value, to)?;
    let text = toml::to_string(&value)?;
    folder.write(name, &format!("# {RESOLVED}\n{text}"))
}

/// Writes `run.json` of a study and of each run.
///
/// # Errors
/// A file that cannot be written.
pub fn write_provenance(folder: &Folder, study: &Study, summary: &Summary) -> Result<()> {
    let of = |runs: std::ops::Range<usize>| {
        let one = |values: Vec<u64>| values.windows(2).all(|w| w[0] == w[1]).then(|| values[0]);
        let worlds: Vec<&str> = study.runs[runs.clone()].iter().map(|run| run.scenario.world.kind.name()).collect();
        let source = &study.source;
        let provenance = Provenance {
            version: env!("CARGO_PKG_VERSION"),
            command: command(source),
            form: source.form(),
            overrides: source.overrides().iter().map(|(key, value)| (key.clone(), json(value))).collect(),
            seed: one(summary.runs[runs.clone()].iter().map(|run| run.seed).collect()),
            world: worlds.windows(2).all(|w| w[0] == w[1]).then(|| worlds[0]),
            trusted: summary.runs[runs].iter().all(|run| run.lab.as_ref().is_none_or(|lab| lab.trusted)),
            comparable: source.is_comparable(),
        };
        serde_json::to_string_pretty(&provenance).expect("it is JSON") + "\n"
    };
    let count = study.runs.len();
    if count > 1 {
        for i in 0..count {
            folder.write(&format!("{}/run.json", folder.name_of_run(i)), &of(i..i + 1))?;
        }
    }
    folder.write("run.json", &of(0..count))
}

/// The command that gives these results, whatever the threads and the folder.
fn command(source: &Source) -> String {
    let mut words = vec!["weft".to_owned(), "run".to_owned(), quoted(source.name())];
    words.extend(source.form().map(|form| format!("--{form}")));
    for (key, value) in source.overrides() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        words.extend(["--set".to_owned(), quoted(&format!("{key}={text}"))]);
    }
    words.join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:@%+".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

fn json(value: &Value) -> Json {
    serde_json::to_value(value).unwrap_or(Json::Null)
}

/// Copies of the files that a scenario reads.
struct Inputs<'a> {
    folder: &'a Folder,
    /// Relative paths start here.
    from: &'a Path,
    /// Names of the copies.
    names: BTreeMap<PathBuf, String>,
}

impl Inputs<'_> {
    /// Replaces the paths of a value, whose keys lead to it, by those of copies in the folder `to`.
    fn take(&mut self, keys: &mut Vec<String>, value: &mut Value, to: &str) -> Result<()> {
        match value {
            Value::Table(table) => {
                for (key, value) in table.iter_mut() {
                    let parts = key.split('.').map(|part| part.split('[').next().unwrap_or_default().to_owned());
                    let length = keys.len();
                    keys.extend(parts);
                    self.take(keys, value, to)?;
                    keys.truncate(length);
                }
            }
            Value::Array(values) => values.iter_mut().try_for_each(|value| self.take(keys, value, to))?,
            Value::String(text) if is_path(keys, text) => {
                if let Some(name) = self.copy(text)? {
                    *text = format!("{to}/{name}");
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Copies a file, once. Returns the name of the copy; `None` if there is no such file, as where another world would read it.
    fn copy(&mut self, path: &str) -> Result<Option<String>> {
        let path = bundle::resolve(self.from, path);
        if let Some(name) = self.names.get(&path) {
            return Ok(Some(name.clone()));
        }
        if !bundle::is_file(&path) {
            return Ok(None);
        }
        let own = path.file_name().unwrap_or_default().to_string_lossy().trim_start_matches('@').to_owned();
        let is_taken = self.names.values().any(|name| *name == own);
        let name = if is_taken { format!("{}-{own}", self.names.len()) } else { own };
        let copies = self.folder.path().join(INPUTS);
        std::fs::create_dir_all(&copies).map_err(|e| Error::io("write", &copies, e))?;
        let content = bundle::read(&path).map_err(|e| Error::io("read", &path, e))?;
        let copy = copies.join(&name);
        std::fs::write(&copy, content).map_err(|e| Error::io("write", &copy, e))?;
        self.names.insert(path, name.clone());
        Ok(Some(name))
    }
}

/// Whether a key holds the path of a file. Keys of a sweep's tables may have the axis before them.
fn is_path(keys: &[String], text: &str) -> bool {
    let [.., section, key] = keys else { return false };
    match (section.as_str(), key.as_str()) {
        ("fabric", "path") | ("traffic", "file" | "matrices") | ("overlay", "tenants") => true,
        ("traffic", "size" | "concurrency") => SizeSpec::is_file_name(text),
        _ => false,
    }
}
