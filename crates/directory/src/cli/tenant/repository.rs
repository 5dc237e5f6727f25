//! `publish`, `fetch`: the tenants' file in the directory's store (NetLord, section 3.3: the configuration repository).

use clap::Args;
use serde::Serialize;
use weft_control::netlord::tenants::DOCUMENT;
use weft_control::wire::directory::RecordsState;

use super::file::{self, FileArg};
use crate::cli::connect::ConnectArgs;
use crate::cli::documents;
use crate::cli::error::{Error, Result};
use crate::client::{Client, Fetched};
use crate::daemon::command_line::{print_json, print_text};

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
    let bytes = std::fs::read(&path).map_err(|e| Error::io("read", &path, e))?;
    let mut client = args.connect.client()?;
    refuse_records(&mut client)?;
    let held = client.document(DOCUMENT, 0)?.0;
    let changed = !matches!(&held, Fetched::Document { version: there, bytes: all } if (*there, all) == (version, &bytes));
    if changed {
        let theirs = documents::version_of(&held);
        if version <= theirs {
            let which = if version == theirs { "another" } else { "a newer one," };
            return Err(Error::StoreNewer { path, version, which, held: theirs });
        }
        documents::replace(&mut client, DOCUMENT, &held, version, &bytes)?;
    }
    SameJson { file: path.display().to_string(), version, changed }.print(args.connect.json)
}

/// Where there are records, agents do not look at the document any more.
fn refuse_records(client: &mut Client) -> Result<()> {
    let (page, _) = client.browse("site", "", 1)?;
    if page.state == RecordsState::Found && !page.listed.is_empty() { Err(Error::RecordsInUse) } else { Ok(()) }
}

/// Writes the store's file, if it is newer than the one that is there.
pub fn fetch(args: &FetchArgs) -> Result<bool> {
    let path = args.file.path(&args.connect.dir);
    let mut client = args.connect.client()?;
    refuse_records(&mut client)?;
    let found = documents::read(&mut client, DOCUMENT)?;
    let found = found.ok_or(Error::NoneStored)?;
    let text = String::from_utf8(found.bytes).map_err(|_| Error::StoredNotText)?;
    file::parse(std::path::Path::new("(the store's)"), &text)?;
    let own = if path.exists() { Some(file::read(&path)?.version) } else { None };
    if let Some(own) = own.filter(|&own| own > found.version) {
        return Err(Error::FileNewer { path, own, stored: found.version });
    }
    let changed = std::fs::read(&path).ok().is_none_or(|own| own != text.as_bytes());
    if changed {
        documents::put(&path, text.as_bytes())?;
    }
    SameJson { file: path.display().to_string(), version: found.version, changed }.print(args.connect.json)
}
