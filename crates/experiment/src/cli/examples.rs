//! `weft examples`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use toml::Value;

use crate::bundle;
use crate::cli::table::wrapped;
use crate::cli::{print_json, print_text};
use crate::error::{Error, Result};
use crate::scenario::dotted::get;
use crate::scenario::source::{is_for_planner, parse};

/// Arguments of `weft examples`.
#[derive(Debug, Args)]
pub struct ExamplesArgs {
    /// List only the scenarios in this folder, such as @hedera
    #[arg(default_value = "@")]
    folder: PathBuf,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
}

/// Examples at the end of `weft examples --help`.
pub const EXAMPLES: &str = "\
Examples:
  weft examples          list all bundled scenarios
  weft examples @hedera  list those of one folder
  weft examples --json   print names, titles and worlds, for a program";

/// One bundled scenario.
#[derive(Debug, Serialize)]
struct Example {
    /// `@hedera/figure9`.
    name: String,
    title: String,
    /// flow, packet, lab or planner; what the sweep of worlds lists, if there is one.
    worlds: Vec<String>,
    /// Whether `weft check` compares it with published figures.
    expects: bool,
}

/// Runs it.
pub fn run(args: &ExamplesArgs) -> Result<ExitCode> {
    let paths = listed(&args.folder)?;
    let examples = paths.into_iter().map(example).collect::<Result<Vec<_>>>()?;
    if args.json {
        print_json(&serde_json::json!({ "examples": examples }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = examples.iter().map(|e| e.name.len()).max().unwrap_or(0);
    let world = examples.iter().map(|e| e.worlds.join("+").len()).max().unwrap_or(0);
    let line = |e: &Example| {
        let text = format!("{:<width$}  {:<world$}  {}", e.name, e.worlds.join("+"), e.title);
        wrapped(&text, width + world + 4) + "\n"
    };
    print_text(&examples.iter().map(line).collect::<String>())?;
    print_text(&format!("\n{}\n", wrapped(HELP, 0)))?;
    Ok(ExitCode::SUCCESS)
}

const HELP: &str = "Run one with `weft run NAME`, compare it with the paper with `weft check NAME`, edit a copy with `weft new FILE --template NAME`.";

/// The scenarios of a folder; of a bundled scenario, this one.
fn listed(folder: &Path) -> Result<Vec<PathBuf>> {
    let below = |folder: &Path| bundle::scenarios_below(folder).map_err(|e| Error::io("read", folder, e));
    let name = folder.to_string_lossy();
    if !name.starts_with('@') || bundle::is_dir(folder) {
        return below(folder);
    }
    let all = below(Path::new("@"))?;
    if all.iter().any(|path| path == folder) {
        return Ok(vec![folder.to_owned()]);
    }
    let folders: BTreeSet<&str> = all.iter().filter_map(|path| path.to_str()?.rsplit_once('/').map(|(above, _)| above)).collect();
    let folders: Vec<&str> = folders.into_iter().collect();
    Err(Error::no_such("folder of bundled scenarios", name, &folders))
}

fn example(path: PathBuf) -> Result<Example> {
    let name = path.display().to_string();
    let text = bundle::read_to_string(&path).map_err(|e| Error::io("read", &path, e))?;
    let table = parse(&name, &text)?;
    let swept = get(&table, "sweep").and_then(|sweep| sweep.get("world.kind")).and_then(Value::as_array);
    let worlds: Vec<String> = match swept {
        _ if is_for_planner(&table) => vec!["planner".to_owned()],
        Some(kinds) => kinds.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        None => vec![get(&table, "world.kind").and_then(Value::as_str).unwrap_or("flow").to_owned()],
    };
    Ok(Example {
        title: table.get("title").and_then(Value::as_str).unwrap_or_default().to_owned(),
        worlds,
        expects: table.contains_key("expect"),
        name,
    })
}
