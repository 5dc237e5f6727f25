//! `publish`, `fetch`: the tenants' file in the directory's store (NetLord, section 3.3: the configuration repository).

use clap::Args;
use serde::Serialize;
use weft_control::netlord::tenants::TEXT;

use super::file::{self, FileArg};
use crate::cli::connect::ConnectArgs;
use crate::cli::error::{Error, Result};
use crate::cli::{print_json, print_text, texts};
use crate::client::Fetched;

#[derive(Debug, Args)]
pub struct PublishArgs {
    #[command(flatten)]
    file: FileArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct FetchArgs {
    #[command(flatten)]
    file: FileArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
struct SameJson {
    file: String,
    version: u32,
    /// Whether anything had to be done.
    changed: bool,
}

impl SameJson {
    fn print(&self, json: bool) -> Result<bool> {
        if json {
            print_json(self)?;
        } else {
            let word = if self.changed { "are now" } else { "were already" };
            print_text(&format!("{} and the store {word} both version {}\n", self.file, self.version))?;
        }
        Ok(true)
    }
}

/// Puts the file into the store, if it is newer than what is there.
pub fn publish(args: &PublishArgs) -> Result<bool> {
    let path = args.file.path(&args.connect.dir);
    let version = file::read(&path)?.version;
    let bytes = std::fs::read(&path).map_err(|e| Error::io("read", &path, &e))?;
    let mut client = args.connect.client()?;
    let held = client.text(TEXT, 0)?.0;
    let changed = !matches!(&held, Fetched::Text { version: there, bytes: all } if (*there, all) == (version, &bytes));
    if changed {
        let theirs = texts::version_of(&held);
        if version <= theirs {
            let which = if version == theirs { "another" } else { "a newer one," };
            return Err(Error::new(
                format!("{} is version {version}, and the store has {which} version {theirs}", path.display()),
                "compare them: `weft tenant fetch --file OTHER` writes the store's; a version only grows",
            ));
        }
        texts::replace(&mut client, TEXT, &held, version, &bytes)?;
    }
    SameJson { file: path.display().to_string(), version, changed }.print(args.connect.json)
}

/// Writes the store's file, if it is newer than the one that is there.
pub fn fetch(args: &FetchArgs) -> Result<bool> {
    let path = args.file.path(&args.connect.dir);
    let found = texts::read(&mut args.connect.client()?, TEXT)?;
    let found = found.ok_or_else(|| Error::new("the store has no tenants' file", "`weft tenant publish` puts one there"))?;
    let text =
        String::from_utf8(found.bytes).map_err(|_| Error::new("the store's tenants' file is not text", "publish another"))?;
    file::parse(std::path::Path::new("(the store's)"), &text)?;
    let own = if path.exists() { Some(file::read(&path)?.version) } else { None };
    if let Some(own) = own.filter(|&own| own > found.version) {
        return Err(Error::new(
            format!("{} is version {own}, newer than the store's {}", path.display(), found.version),
            "`weft tenant publish` puts it into the store",
        ));
    }
    let changed = std::fs::read(&path).ok().is_none_or(|own| own != text.as_bytes());
    if changed {
        texts::put(&path, text.as_bytes())?;
    }
    SameJson { file: path.display().to_string(), version: found.version, changed }.print(args.connect.json)
}
