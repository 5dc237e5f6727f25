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

/// Serves the directory, asks it, and measures it.
#[derive(Debug, Parser)]
#[command(name = "weft directory", bin_name = "weft directory", version, about, long_about = None, disable_help_subcommand = true)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a folder with keys, certificates and a policy: all that one machine needs
    Init(init::InitArgs),
    /// Print the key of a principal
    Key(init::KeyArgs),
    /// Serve until stopped
    Serve(Box<serve::ServeArgs>),
    /// Make or change a mapping
    Put(put::PutArgs),
    /// Look up keys
    Get(ask::GetArgs),
    /// Delete keys, all or none
    Del(ask::DelArgs),
    /// List what the directory holds
    List(list::ListArgs),
    /// Print what changes
    Watch(list::WatchArgs),
    /// Print a named document of the store, or write it to a file
    Fetch(documents::FetchArgs),
    /// Publish a file as a named document of the store, or as its next version
    Publish(documents::PublishArgs),
    /// Deny principals at all servers, whatever keys and certificates they have; without any, print those that are denied
    Deny(deny::DenyArgs),
    /// Replace the cluster's secret; keys of both are good until `--finish`
    Rotate(rotate::RotateArgs),
    /// How the servers are
    Status(status::StatusArgs),
    /// Write all entries as JSON lines, asking a server
    Export(transfer::ExportArgs),
    /// Write all entries as JSON lines, reading the store
    Snapshot(transfer::SnapshotArgs),
    /// Put the entries of JSON lines
    Import(transfer::ImportArgs),
    /// Write mappings, documents and the policy into one file
    Backup(backup::BackupArgs),
    /// Bring the directory to what a backup has
    Restore(backup::RestoreArgs),
    /// Measure rates, latencies, and what faults cost
    Bench(bench::BenchArgs),
    /// Configurations, keys and units of all machines from an inventory: `weft deploy`
    Deploy(deploy::DeployArgs),
    /// The tenants' file, and where their VMs are: `weft tenant`
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
