//! The command line of `weft-directory`, which `weft directory ...` runs. `docs/cli.md` has every argument.
//!
//! Exit code 0: done; 1: the directory's answer is no; 2: an error, with its remedy.

mod ask;
mod backup;
mod bench;
mod certificates;
mod connect;
mod deny;
mod deploy;
mod documents;
mod error;
mod etcd;
mod init;
mod lines;
mod list;
mod put;
mod rotate;
mod serve;
mod status;
mod table;
mod tenant;
mod transfer;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use connect::{Auth, ConnectArgs, Dir};
pub use error::{Error, Result};

use crate::daemon::command_line;

/// Examples at the end of `weft directory --help`.
const EXAMPLES: &str = "\
Examples:
  weft directory init                   create keys, certificates, a policy
  weft directory serve                  run a server with them
  weft directory put 10.0.0.7 10.0.1.1  map an address to a locator
  weft directory get 10.0.0.7           look it up
`weft directory COMMAND --help` lists the options of a command.";

/// Run a directory server, or query and administer running ones.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
#[command(name = "weft directory", bin_name = "weft directory", version, about, long_about = None, disable_help_subcommand = true)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a folder with keys, certificates and a policy, for a directory on one machine
    Init(init::InitArgs),
    /// Print the key of a principal
    Key(init::KeyArgs),
    /// Run a directory server until it is stopped
    Serve(Box<serve::ServeArgs>),
    /// Create or change a mapping
    Put(put::PutArgs),
    /// Look up keys
    Get(ask::GetArgs),
    /// Delete keys, all or none
    Del(ask::DelArgs),
    /// List the entries of the directory
    List(list::ListArgs),
    /// Print changes of entries as they happen
    Watch(list::WatchArgs),
    /// Print a named document of the store, or write it to a file
    Fetch(documents::FetchArgs),
    /// Publish a file as a named document of the store, or as a new version of one
    Publish(documents::PublishArgs),
    /// Deny principals at all servers, whatever keys and certificates they have; without arguments, print the denied ones
    Deny(deny::DenyArgs),
    /// Replace the cluster's secret; keys of the old one stay valid until `--finish`
    Rotate(rotate::RotateArgs),
    /// Print the state of the servers
    Status(status::StatusArgs),
    /// Write all entries as JSON lines, read from a server
    Export(transfer::ExportArgs),
    /// Write all entries as JSON lines, read from the store
    Snapshot(transfer::SnapshotArgs),
    /// Import entries from JSON lines
    Import(transfer::ImportArgs),
    /// Write mappings, documents and the policy to one file
    Backup(backup::BackupArgs),
    /// Restore mappings and documents from a backup
    Restore(backup::RestoreArgs),
    /// Measure rates, latencies and the effect of faults
    Bench(bench::BenchArgs),
    /// Write or check the files of all machines of an inventory (`weft deploy`)
    Deploy(deploy::DeployArgs),
    /// Manage tenants and the locations of their VMs (`weft tenant`)
    Tenant(Box<tenant::TenantArgs>),
    /// Write the manual pages into a folder, for packages
    #[command(hide = true)]
    Manual {
        /// The folder, which must exist
        folder: PathBuf,
    },
}

/// Runs the program with these arguments, the first of which is its name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let program = match command_line::parse::<Program>(arguments) {
        Ok(program) => program,
        Err(code) => return code,
    };
    command_line::exit_code(match program.command {
        Command::Init(args) => init::run(&args),
        Command::Key(args) => init::key(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Put(args) => put::put(&args),
        Command::Get(args) => ask::get(&args),
        Command::Del(args) => ask::del(&args),
        Command::List(args) => list::list(&args),
        Command::Watch(args) => list::watch(&args),
        Command::Fetch(args) => documents::fetch(&args),
        Command::Publish(args) => documents::publish(&args),
        Command::Deny(args) => deny::run(&args),
        Command::Rotate(args) => rotate::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Export(args) => transfer::export(&args),
        Command::Snapshot(args) => transfer::snapshot(&args),
        Command::Import(args) => transfer::import(&args),
        Command::Backup(args) => backup::backup(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Deploy(args) => deploy::run(&args),
        Command::Tenant(args) => tenant::run(&args),
        Command::Manual { folder } => command_line::write_manual::<Program>("weft-directory", &folder)
            .map(|()| true)
            .map_err(|error| Error::io("write to", &folder, error)),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn no_argument_is_in_the_way_of_another() {
        super::Program::command().debug_assert();
    }
}
