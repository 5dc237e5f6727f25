//! What the command lines of the daemons have in common: reading arguments, printing results, ending with an exit code.

use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use miette::Diagnostic;
use weft_fabric::units::UnitError;

/// Standard output cannot be written to.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {0}")]
pub struct OutputError(#[from] pub io::Error);

/// Form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogForm {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Parses the command line.
///
/// # Errors
/// The exit code to end with; the error, or the help that was asked for, is printed.
pub fn parse<P: Parser>(arguments: impl IntoIterator<Item = OsString>) -> Result<P, ExitCode> {
    let program = P::try_parse_from(arguments).map_err(|error| {
        let _ = error.print();
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })?;
    let wrap = io::stderr().is_terminal();
    let _ = miette::set_hook(Box::new(move |_| Box::new(miette::MietteHandlerOpts::new().wrap_lines(wrap).build())));
    Ok(program)
}

/// The exit code of a command that answered yes (0) or no (1), or failed (2); an error is printed on stderr.
pub fn exit_code<E: Diagnostic + Send + Sync + 'static>(result: Result<bool, E>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let _ = writeln!(io::stderr(), "{:?}", miette::Report::new(error));
            ExitCode::from(2)
        }
    }
}

/// Prints a JSON document to stdout. A closed pipe is not an error.
///
/// # Errors
/// [`OutputError`].
pub fn print_json(value: &impl serde::Serialize) -> Result<(), OutputError> {
    print_text(&(serde_json::to_string_pretty(value).expect("results are JSON") + "\n"))
}

/// Prints text to stdout. A closed pipe is not an error.
///
/// # Errors
/// [`OutputError`].
pub fn print_text(text: &str) -> Result<(), OutputError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(OutputError(error)),
        _ => Ok(()),
    }
}

/// Writes the manual pages of a program into a folder.
///
/// # Errors
/// The folder cannot be written to.
pub fn write_manual<P: clap::CommandFactory>(program: &'static str, folder: &Path) -> io::Result<()> {
    clap_mangen::generate_to(P::command().name(program), folder)
}

/// A duration as the command line writes it: `5s`, `200ms`.
///
/// # Errors
/// What is wrong with it.
pub fn time(text: &str) -> Result<Duration, String> {
    let time: weft_control::time::Duration = text.parse().map_err(|error: UnitError| error.to_string())?;
    Ok(time.to_std())
}

/// The remedy for a file that cannot be read or written.
pub const fn file_remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "check the path",
        ErrorKind::PermissionDenied => "check the file's owner and mode",
        ErrorKind::ReadOnlyFilesystem => "choose a path on a writable file system",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space there, or choose another path",
        ErrorKind::IsADirectory => "it is a folder: name a file",
        ErrorKind::NotADirectory => "a part of the path is a file: check it",
        ErrorKind::InvalidData => "it is not UTF-8 text: name another file, or write it again",
        _ => "check what the path leads to, or name another one",
    }
}
