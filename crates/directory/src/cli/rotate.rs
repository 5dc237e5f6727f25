//! `rotate`: another secret in place of the cluster's, both being good in between.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use clap::Args;
use weft_control::directory::auth::Secret;

use super::connect::Dir;
use super::error::{Error, Result};
use crate::daemon::command_line::{print_json, print_text};

/// The secret before, in the same folder.
pub(super) const OLD: &str = "secret.old";

#[derive(Debug, Args)]
pub struct RotateArgs {
    /// Delete the old secret: its keys become invalid. First give every host a key of the new one
    #[arg(long)]
    finish: bool,
    #[command(flatten)]
    dir: Dir,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Begins a rotation, or ends it.
pub fn run(args: &RotateArgs) -> Result<bool> {
    let (new, old) = (args.dir.file("secret"), args.dir.file(OLD));
    if args.finish {
        std::fs::remove_file(&old).map_err(|e| Error::io("delete the old secret", &old, e))?;
    } else {
        let before = args.dir.secret(None)?;
        // The old one is in its place before the new one takes the place that it had.
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&old);
        let mut made = made.map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => Error::Rotating(old.clone()),
            _ => Error::io("write", &old, e),
        })?;
        let written = made.write_all(format!("{}\n", before.to_hex()).as_bytes()).and_then(|()| made.sync_all());
        written.map_err(|e| Error::io("write", &old, e))?;
        let secret = Secret::new(crate::client::random());
        crate::atomic_file::write(&new, format!("{}\n", secret.to_hex()).as_bytes()).map_err(|e| Error::io("write", &new, e))?;
    }
    if args.json {
        print_json(&serde_json::json!({ "secret": new.display().to_string(), "keys": if args.finish { 1 } else { 2 } }))?;
    } else if args.finish {
        print_text("The old secret is gone here: delete it on the other servers too. A server follows within two seconds.\n")?;
    } else {
        print_text(&format!(
            "{} is new, {} the one before: keys of both are good, at this server within two seconds. Now:\n  1. copy both to the other servers, the old one first\n  2. give every host its new key (weft directory key)\n  3. weft directory rotate --finish, and delete the old one on the other servers\n",
            new.display(),
            old.display()
        ))?;
    }
    Ok(true)
}
