//! `import`, `export`: between a tenants' file and the records of the directory's store.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use weft_control::netlord::tenants::records::{Name, records_of};

use super::{file, records};
use crate::cli::connect::ConnectArgs;
use crate::cli::documents;
use crate::cli::error::{Error, Result};
use crate::daemon::command_line::{print_json, print_text};

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// File of the tenants
    file: PathBuf,
    /// Also remove records that the file does not have
    #[arg(long)]
    exact: bool,
    /// Print what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// File to write [default: standard output]
    file: Option<PathBuf>,
    /// Version of that file [default: the revision of the store]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    version: Option<u32>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
struct ExportJson {
    file: Option<String>,
    version: u32,
    tenants: usize,
    vifs: usize,
}

/// Puts a file's tenants into the store, record by record.
pub fn import(args: &ImportArgs) -> Result<bool> {
    let all = file::read(&args.file)?;
    let wanted = records_of(&all);
    drop(all);
    let brought = records::bring(&args.connect.settings()?, &wanted, args.exact, args.dry_run)?;
    if args.connect.json {
        print_json(&brought)?;
    } else {
        print_text(&(brought.text(args.dry_run) + "\n"))?;
    }
    Ok(true)
}

/// Writes the store's records as a file.
pub fn export(args: &ExportArgs) -> Result<bool> {
    let (revision, held) = records::read_all(&mut args.connect.client()?)?;
    if !held.contains_key(&Name::Site) {
        return Err(Error::NoRecords);
    }
    let version = args.version.unwrap_or_else(|| u32::try_from(revision.max(1)).unwrap_or(u32::MAX));
    let all = records::build(version, &held)?;
    drop(held);
    let text = all.to_text();
    let Some(file) = &args.file else {
        print_text(&text)?;
        return Ok(true);
    };
    documents::put(file, text.as_bytes())?;
    let (tenants, vifs) = (all.tenants.len(), all.vifs().count());
    if args.connect.json {
        print_json(&ExportJson { file: Some(file.display().to_string()), version, tenants, vifs })?;
    } else {
        print_text(&format!("{tenants} tenants with {vifs} interfaces, version {version}, in {}\n", file.display()))?;
    }
    Ok(true)
}
