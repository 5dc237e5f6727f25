//! The programs that a test starts.

use std::path::PathBuf;

/// A program of Weft, by its name, beside the agent that cargo built for the test.
pub fn program(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_weft-agent")).with_file_name(name);
    assert!(path.is_file(), "{} is not built: `cargo build -p {name}` builds it", path.display());
    path
}
