//! The command line of `weft-directory`, which `weft directory ...` runs. `docs/cli.md` has every argument.
//!
//! Exit code 0: done; 1: the directory's answer is no; 2: an error, with its remedy.

mod ask;
mod bench;
mod certificates;
mod connect;
mod entry;
mod error;
mod etcd;
mod init;
mod list;
mod serve;
mod status;
mod table;
mod tenant;
mod texts;
mod transfer;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub(crate) use connect::time;
pub use connect::{Auth, ConnectArgs, Dir};
pub use error::{Error, Result};

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
    /// Serve until told to stop
    Serve(Box<serve::ServeArgs>),
    /// Make or replace a mapping
    Put(ask::PutArgs),
    /// Look up keys
    Get(ask::GetArgs),
    /// Delete keys, all or none
    Del(ask::DelArgs),
    /// List what the directory holds
    List(list::ListArgs),
    /// Print what changes
    Watch(list::WatchArgs),
    /// Print a named text of the store, or write it to a file
    Fetch(texts::FetchArgs),
    /// Put a file into the store as a named text, or in the place of one
    Publish(texts::PublishArgs),
    /// How the servers are
    Status(status::StatusArgs),
    /// Write all entries as JSON lines, asking a server
    Export(transfer::ExportArgs),
    /// Write all entries as JSON lines, reading the store
    Snapshot(transfer::SnapshotArgs),
    /// Put the entries of JSON lines
    Import(transfer::ImportArgs),
    /// Measure rates, latencies, and what faults cost
    Bench(bench::BenchArgs),
    /// The tenants' file, and where their VMs are: `weft tenant`
    Tenant(Box<tenant::TenantArgs>),
}

/// Runs the program with these arguments, the first of which is its name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let program = match begin::<Program>(arguments) {
        Ok(program) => program,
        Err(code) => return code,
    };
    conclude(match program.command {
        Command::Init(args) => init::run(&args),
        Command::Key(args) => init::key(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Put(args) => ask::put(&args),
        Command::Get(args) => ask::get(&args),
        Command::Del(args) => ask::del(&args),
        Command::List(args) => list::list(&args),
        Command::Watch(args) => list::watch(&args),
        Command::Fetch(args) => texts::fetch(&args),
        Command::Publish(args) => texts::publish(&args),
        Command::Status(args) => status::run(&args),
        Command::Export(args) => transfer::export(&args),
        Command::Snapshot(args) => transfer::snapshot(&args),
        Command::Import(args) => transfer::import(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Tenant(args) => tenant::run(&args),
    })
}

/// Reads the command line; an error is for the caller to end with.
pub(crate) fn begin<P: Parser>(arguments: impl IntoIterator<Item = OsString>) -> std::result::Result<P, ExitCode> {
    let program = P::try_parse_from(arguments).map_err(|error| {
        let _ = error.print();
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })?;
    let wrap = std::io::stderr().is_terminal();
    let _ = miette::set_hook(Box::new(move |_| Box::new(miette::MietteHandlerOpts::new().wrap_lines(wrap).build())));
    Ok(program)
}

/// The exit code of a command that said yes or no, or failed, which is told on stderr.
pub(crate) fn conclude(result: Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{:?}", miette::Report::new(error));
            ExitCode::from(2)
        }
    }
}

/// Prints a JSON document to stdout. A closed pipe is not an error.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print_text(&(serde_json::to_string_pretty(value).expect("results are JSON") + "\n"))
}

pub(crate) fn print_text(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::io("write to", Path::new("standard output"), &e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn no_argument_is_in_the_way_of_another() {
        super::Program::command().debug_assert();
    }
}
