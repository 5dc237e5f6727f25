//! `weft new`.

use std::borrow::Cow;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::bundle;
use crate::cli::{print_json, print_text};
use crate::error::{Error, Result};

/// Arguments of `weft new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// File to write; `-` is standard output
    #[arg(default_value = "scenario.toml")]
    file: PathBuf,
    /// Template to start from (listed by `--list`), or a bundled scenario (listed by `weft examples`)
    #[arg(long, default_value = "basic", value_name = "NAME")]
    template: String,
    /// List the templates and write nothing
    #[arg(long)]
    list: bool,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
}

/// Examples at the end of `weft new --help`.
pub const EXAMPLES: &str = "\
Examples:
  weft new                               write scenario.toml, with every key
  weft new mine.toml --template failure  start from another template
  weft new f9.toml --template @hedera/figure9
  weft new --list                        list the templates";

/// Name, what it shows, text.
pub const TEMPLATES: &[(&str, &str, &str)] = &[
    ("basic", "one fabric, one traffic pattern, with every key explained", include_str!("../../templates/basic.toml")),
    ("sweep", "routing and schedulers compared on one workload", include_str!("../../templates/sweep.toml")),
    ("shuffle", "VL2's all-to-all shuffle on its testbed", include_str!("../../templates/shuffle.toml")),
    ("failure", "links and a switch that fail and return", include_str!("../../templates/failure.toml")),
];

/// Runs it.
pub fn run(args: &NewArgs) -> Result<ExitCode> {
    if args.list {
        if args.json {
            print_json(
                &json!({ "templates": TEMPLATES.iter().map(|(name, about, _)| json!({"name": name, "about": about})).collect::<Vec<_>>() }),
            )?;
        } else {
            print_text(&TEMPLATES.iter().map(|(name, about, _)| format!("{name:<8}  {about}\n")).collect::<String>())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let text = text_of(&args.template)?;
    if args.file == Path::new("-") {
        print_text(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut file = std::fs::File::create_new(&args.file).map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Error::usage(format!("{} already exists", args.file.display()), "name another file: `weft new FILE`")
        }
        _ => Error::io("write", &args.file, e),
    })?;
    file.write_all(text.as_bytes()).map_err(|e| {
        let _ = std::fs::remove_file(&args.file);
        Error::io("write", &args.file, e)
    })?;
    if args.json {
        print_json(&json!({ "file": args.file, "template": args.template }))?;
    } else {
        // What scenarios read (`@data/tenants.toml`) is none.
        let is_scenario = text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("fabric"));
        let next = if is_scenario { format!("; run it with `weft run {}`", args.file.display()) } else { String::new() };
        print_text(&format!("{}: written{next}\n", args.file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text_of(template: &str) -> Result<Cow<'static, str>> {
    let path = Path::new(template);
    if template.starts_with('@') {
        return bundle::detached_text(path).map(Cow::Owned).map_err(|e| Error::io("read", path, e));
    }
    let found = TEMPLATES.iter().find(|(name, ..)| *name == template);
    found.map(|(.., text)| Cow::Borrowed(*text)).ok_or_else(|| {
        let names: Vec<&str> = TEMPLATES.iter().map(|(name, ..)| *name).collect();
        Error::no_such("template", template, &names)
    })
}
