//! What commands print to stdout.

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use crate::error::{Error, Result};

/// Prints a JSON document to stdout. A closed pipe is not an error.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print_text(&(serde_json::to_string_pretty(value).expect("results are JSON") + "\n"))
}

/// Prints text to stdout. A closed pipe is not an error.
pub(crate) fn print_text(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Error::io("write to", Path::new("standard output"), e)),
        _ => Ok(()),
    }
}
