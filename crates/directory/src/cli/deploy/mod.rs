//! `weft deploy`: an inventory turned into the files of every machine, and machines compared with it. `docs/deploying.md`.
//!
//! ```text
//!   INVENTORY --read, validate--> Inventory --plan, with Keys--> Files --folder--> DIR
//!                                                                      '--check--> differences from DIR, or from this machine
//! ```

mod agents;
mod ansible;
mod check;
mod error;
mod files;
mod folder;
mod inventory;
mod keys;
mod limits;
mod netlord;
mod parts;
mod servers;
mod validate;
mod yaml;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use nix::fcntl::{Flock, FlockArg};
use serde_json::json;
use weft_control::directory::policy::Policy;

pub use error::DeployError;
use files::Files;
use folder::Manifest;
use inventory::{Inventory, PAGE};
use keys::{Keys, SECRET};

use self::error::Result;
use crate::daemon::command_line::{print_json, print_text};
use crate::daemon::config::Place;

/// Examples at the end of `weft deploy --help`.
const EXAMPLES: &str = "\
Examples:
  weft deploy plan inventory.toml --out plan    write the files
  weft deploy check inventory.toml --dir plan   compare the folder
  weft deploy check inventory.toml --host tor1  compare this machine
  weft deploy check inventory.toml --dir plan --mappings";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DeployArgs {
    #[command(subcommand)]
    command: DeployCommand,
}

#[derive(Debug, Subcommand)]
enum DeployCommand {
    /// Write the configurations, keys, policy and units of all machines, and an Ansible role
    Plan(PlanArgs),
    /// Compare a planned folder, or this machine, with the inventory: one line per difference, and exit code 1
    Check(CheckArgs),
}

#[derive(Debug, Args)]
struct PlanArgs {
    /// Inventory file: YAML if its name ends in .yaml or .yml, else TOML
    inventory: PathBuf,
    /// Folder to create or update; existing keys are kept
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace files that were changed by hand
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("against").required(true).multiple(true).args(["dir", "host"]))]
struct CheckArgs {
    /// Inventory file: YAML if its name ends in .yaml or .yml, else TOML
    inventory: PathBuf,
    /// Compare this planned folder; with `--host`, compare its keys with those of the machine
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Compare this machine, by its name in the inventory: files, units, the agent's status
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Root of the machine's file system; other than `/`, only files are compared
    #[arg(long, value_name = "PATH", default_value = "/", requires = "host")]
    root: PathBuf,
    /// With `--dir`: also compare the mappings in the directory servers
    #[arg(long, requires = "dir")]
    mappings: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &DeployArgs) -> super::Result<bool> {
    match &args.command {
        DeployCommand::Plan(args) => plan(args),
        DeployCommand::Check(args) => check(args),
    }
}

/// The text of an inventory, for errors with their lines.
fn read(path: &Path) -> Result<(Inventory, String)> {
    let text = std::fs::read_to_string(path).map_err(DeployError::file("read", path))?;
    let inventory = Inventory::read(&Place { path, text: &text, page: PAGE })?;
    Ok((inventory, text))
}

fn plan(args: &PlanArgs) -> super::Result<bool> {
    let (inventory, text) = read(&args.inventory)?;
    let place = Place { path: &args.inventory, text: &text, page: PAGE };
    let dir = &args.out;
    let before = Manifest::read(dir)?;
    let _lock = before.as_ref().map(|_| lock(dir)).transpose()?;
    let mut keys = keys_of(&inventory, dir, before.as_ref())?;
    let files = all_files(&inventory, &mut keys)?;
    versions(&inventory, &place, &files, before.as_ref())?;
    let manifest = Manifest::new(inventory.cluster(), *inventory.version.get_ref(), keys.into_issued(), &files);
    let changes = match &before {
        Some(before) => folder::update(dir, &files, before, &manifest, args.force)?,
        None => folder::create(dir, &files, &manifest)?,
    };
    let machines = machines(&files);
    if args.json {
        print_json(
            &json!({ "out": dir, "cluster": inventory.cluster(), "machines": machines, "written": changes.written, "removed": changes.removed, "unchanged": changes.unchanged }),
        )?;
    } else {
        let line = |what: &str, path: &String| format!("{what} {path}\n");
        let list = before.iter().flat_map(|_| {
            changes.written.iter().map(|it| line("wrote  ", it)).chain(changes.removed.iter().map(|it| line("removed", it)))
        });
        let (written, removed, unchanged) = (changes.written.len(), changes.removed.len(), changes.unchanged);
        let summary = format!(
            "{}: {} machines; {written} files written, {removed} removed, {unchanged} unchanged\n",
            dir.display(),
            machines.len()
        );
        print_text(&(list.collect::<String>() + &summary))?;
    }
    Ok(true)
}

fn check(args: &CheckArgs) -> super::Result<bool> {
    let (inventory, _) = read(&args.inventory)?;
    let manifest =
        args.dir.as_ref().map(|dir| Manifest::read(dir)?.ok_or_else(|| DeployError::NotPlanned(dir.clone()))).transpose()?;
    let mut keys = match &args.dir {
        Some(dir) => keys_of(&inventory, dir, manifest.as_ref())?,
        None => Keys::new()?,
    };
    let files = all_files(&inventory, &mut keys)?;
    let mut found = match (&args.host, &args.dir, &manifest) {
        (Some(name), _, _) => {
            check::known(name, &machines(&files))?;
            let mut found = check::installed(&args.root, name, &files, manifest.is_some());
            if args.root == Path::new("/") {
                found.extend(check::units(name, &files));
                found.extend(check::agent(&inventory, name, &args.root.join(check::SOCKET)));
            }
            found
        }
        (None, Some(dir), Some(manifest)) => check::folder(dir, manifest, &files),
        _ => Vec::new(), // The command line demands one of the two.
    };
    if let Some(dir) = args.dir.as_ref().filter(|_| args.mappings) {
        found.extend(check::mappings(dir)?);
    }
    if args.json {
        print_json(&json!({ "cluster": inventory.cluster(), "host": args.host, "differences": found }))?;
    } else if found.is_empty() {
        print_text("no difference\n")?;
    } else {
        print_text(&found.iter().map(|it| format!("{}: {}\n", it.what, it.difference)).collect::<String>())?;
    }
    Ok(found.is_empty())
}

/// The keys of the folder, or new ones if there is none.
fn keys_of(inventory: &Inventory, dir: &Path, before: Option<&Manifest>) -> Result<Keys> {
    let Some(before) = before else { return Keys::new() };
    if before.cluster != inventory.cluster() {
        let (has, wanted) = (before.cluster.clone(), inventory.cluster().to_owned());
        return Err(DeployError::OtherCluster { dir: dir.to_owned(), has, wanted });
    }
    if !inventory.has_directory() && before.digest_of(SECRET).is_some() {
        return Err(DeployError::KeysOfNoServer(dir.to_owned()));
    }
    Keys::of_folder(dir, before.clone())
}

/// Servers refuse a changed policy whose version is not greater, and agents tenants of an older one, so this does too.
fn versions(inventory: &Inventory, place: &Place<'_>, files: &Files, before: Option<&Manifest>) -> Result<()> {
    let path = format!("{}policy.toml", files::ADMINISTRATION);
    if let Some(policy) = files.get(&path) {
        let inventory_path = || place.path.to_owned();
        Policy::parse(&policy.content).map_err(|cause| DeployError::Policy { inventory: inventory_path(), cause })?;
    }
    let Some(before) = before else { return Ok(()) };
    let (old, new) = (before.policy_version, *inventory.version.get_ref());
    let is_changed = |path: &String, is_new: bool| match (files.get(path), before.digest_of(path)) {
        (Some(file), Some(digest)) => *digest != folder::digest(&file.content),
        (Some(_), None) => is_new,
        (None, _) => false,
    };
    let is_tenants = |path: &&String| path.ends_with(files::TENANTS) || **path == netlord::tenants_file();
    let what = match files.keys().filter(is_tenants).any(|it| is_changed(it, false)) {
        _ if is_changed(&path, true) => "services, principals or parts have changed",
        true => "tenants have changed",
        false => return Ok(()),
    };
    if new <= old {
        let message = format!("{what}, and version {new} is not greater than {old}");
        return Err(validate::refused(place, inventory.version.span(), &message, &format!("write version = {}", old + 1)));
    }
    Ok(())
}

/// One plan at a time.
fn lock(dir: &Path) -> Result<Flock<std::fs::File>> {
    let file = std::fs::File::open(dir).map_err(DeployError::file("open", dir))?;
    let busy = |error: nix::errno::Errno| DeployError::file("lock", dir)(error.into());
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| busy(error))
}

/// The machines that have files.
fn machines(files: &Files) -> Vec<String> {
    let mut names: Vec<String> =
        files.keys().filter_map(|it| Some(it.strip_prefix("hosts/")?.split_once('/')?.0.to_owned())).collect();
    names.dedup();
    names
}

/// All files of an inventory.
fn all_files(inventory: &Inventory, keys: &mut Keys) -> Result<Files> {
    let mut files = servers::administration(inventory, keys)?;
    for server in &inventory.directory.server {
        servers::server(inventory, server, keys, &mut files)?;
    }
    for switch in inventory.agents_of_switches() {
        agents::switch(inventory, switch, keys, &mut files);
    }
    for host in &inventory.host {
        agents::host(inventory, host, keys, &mut files)?;
    }
    if let Some(netlord) = inventory.netlord() {
        netlord::add(inventory, netlord, keys, &mut files)?;
    }
    ansible::add(inventory, &mut files);
    Ok(files)
}
