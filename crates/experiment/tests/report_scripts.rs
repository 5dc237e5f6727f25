//! The computing parts of the report's scripts, under node: `node --test web/tests/`.
//!
//! Without node the test says so and passes, except where `CI=true`.

use std::process::Command;

#[test]
fn the_scripts_compute_what_they_should() {
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/tests/scripts.test.mjs");
    match Command::new("node").args(["--test", tests]).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
        Err(_) if std::env::var("CI").as_deref() != Ok("true") => eprintln!("skipped: no node here"),
        Err(error) => panic!("CI needs node: {error}"),
    }
}
