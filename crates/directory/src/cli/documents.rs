//! `fetch`, `publish`: named documents of the store, such as the tenants' file.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use weft_control::netlord::spain::{self, SpainTables};
use weft_control::netlord::tenants::{self, Tenants};
use weft_control::wire::directory::{MAX_DOCUMENT, MAX_DOCUMENT_NAME, PublishOutcome, is_document_name};

use super::connect::ConnectArgs;
use super::error::{Error, Result};
use crate::client::{Client, Fetched};
use crate::daemon::command_line::{print_json, print_text};

/// Examples at the end of `weft directory fetch --help`.
const FETCH: &str = "\
Examples:
  weft directory fetch tenants               print it
  weft directory fetch tenants tenants.toml  write it to a file";

/// Examples at the end of `weft directory publish --help`.
const PUBLISH: &str = "\
Examples:
  weft directory publish tenants tenants.toml
  weft directory publish spain spain.weft";

#[derive(Debug, Args)]
#[command(after_help = FETCH)]
pub struct FetchArgs {
    /// Name of the document: `tenants`, `spain`, ...
    #[arg(value_parser = name)]
    name: String,
    /// File to write [default: standard output]
    file: Option<PathBuf>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Args)]
#[command(after_help = PUBLISH)]
pub struct PublishArgs {
    /// Name of the document; it is created if it does not exist
    #[arg(value_parser = name)]
    name: String,
    /// File to publish
    file: PathBuf,
    /// Version to publish, greater than that in the store [default: the next]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    version: Option<u32>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
struct DocumentJson<'a> {
    name: &'a str,
    version: u32,
    bytes: usize,
    server: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// Writes a document to a file or to standard output; false if there is none.
pub fn fetch(args: &FetchArgs) -> Result<bool> {
    let name = args.name.as_str();
    let Some(found) = read(&mut args.connect.client()?, name)? else {
        if args.connect.json {
            print_json(&serde_json::json!({ "name": name, "version": null }))?;
        } else {
            eprintln!("there is no document `{name}`: `weft directory publish {name} FILE` makes it");
        }
        return Ok(false);
    };
    if let Some(file) = &args.file {
        put(file, &found.bytes)?;
    }
    if args.connect.json {
        let file = args.file.as_ref().map(|file| file.display().to_string());
        print_json(&DocumentJson { name, version: found.version, bytes: found.bytes.len(), server: &found.server, file })?;
    } else if let Some(file) = &args.file {
        print_text(&format!("`{name}` is version {} in {}\n", found.version, file.display()))?;
    } else {
        print_text(&String::from_utf8_lossy(&found.bytes))?;
    }
    Ok(true)
}

/// Publishes a file as a version of a document.
pub fn publish(args: &PublishArgs) -> Result<bool> {
    let name = args.name.as_str();
    let bytes = std::fs::read(&args.file).map_err(|e| Error::io("read", &args.file, e))?;
    let own = own_version(name, &args.file, &bytes)?;
    if let (Some(own), Some(given)) = (own, args.version.filter(|it| Some(*it) != own)) {
        return Err(Error::DeclaredVersion { path: args.file.clone(), own, given });
    }
    let mut client = args.connect.client()?;
    let held = client.document(name, 0)?.0;
    let next = version_of(&held).checked_add(1).ok_or(Error::LastVersion)?;
    let version = own.or(args.version).unwrap_or(next);
    let server = replace(&mut client, name, &held, version, &bytes)?;
    if args.connect.json {
        let file = Some(args.file.display().to_string());
        print_json(&DocumentJson { name, version, bytes: bytes.len(), server: &server, file })?;
    } else {
        print_text(&format!("`{name}` is version {version}, {} bytes; {server} has it\n", bytes.len()))?;
    }
    Ok(true)
}

/// The version that a document of a known form declares. What agents would refuse is refused here.
fn own_version(name: &str, file: &Path, bytes: &[u8]) -> Result<Option<u32>> {
    let wrong = |reason| Error::Content { place: file.display().to_string(), reason, help: "nothing was published" };
    let text = || std::str::from_utf8(bytes).map_err(|_| wrong("it is not text".to_owned()));
    Ok(match name {
        tenants::DOCUMENT => Some(Tenants::parse(text()?).map_err(|e| wrong(e.to_string()))?.version),
        spain::DOCUMENT => Some(SpainTables::parse(text()?).map_err(|e| wrong(e.to_string()))?.version),
        _ => None,
    })
}

/// A document as some server has it.
pub(super) struct Found {
    pub version: u32,
    pub bytes: Vec<u8>,
    pub server: String,
}

/// A document; `None`: there is none of this name.
pub(super) fn read(client: &mut Client, name: &str) -> Result<Option<Found>> {
    let (fetched, server) = client.document(name, 0)?;
    Ok(match fetched {
        Fetched::Document { version, bytes } => Some(Found { version, bytes, server }),
        Fetched::None | Fetched::Known => None,
    })
}

/// Replaces the document that is held; returns the server that has the new version. Publishing the same version with the same bytes changes nothing.
pub(super) fn replace(client: &mut Client, name: &str, held: &Fetched, version: u32, bytes: &[u8]) -> Result<String> {
    if bytes.len() as u64 > MAX_DOCUMENT {
        return Err(Error::DocumentSize(bytes.len()));
    }
    let expect = version_of(held);
    if matches!(held, Fetched::Document { version: there, bytes: all } if *there == version && all == bytes) {
        return Ok("the store".to_owned());
    }
    if version <= expect {
        return Err(Error::NotNewer { name: name.to_owned(), held: expect, version });
    }
    let (answer, server) = client.publish(name, expect, version, bytes)?;
    match answer.outcome {
        PublishOutcome::Committed => Ok(server),
        // A copy that was sent to another server may have been first.
        PublishOutcome::Conflict if answer.version == version && is_held(client, name, bytes)? => Ok(server),
        PublishOutcome::Conflict => Err(Error::PublishConflict { name: name.to_owned(), version: answer.version }),
        PublishOutcome::Refused => Err(Error::PublishRefused { server, name: name.to_owned() }),
        PublishOutcome::Unknown => Err(Error::PublishUnknown { server, name: name.to_owned(), version }),
        PublishOutcome::Malformed | PublishOutcome::More => Err(Error::PublishMalformed(server)),
    }
}

fn is_held(client: &mut Client, name: &str, bytes: &[u8]) -> Result<bool> {
    Ok(read(client, name)?.is_some_and(|found| found.bytes == bytes))
}

/// 0 if there is none.
pub(super) const fn version_of(held: &Fetched) -> u32 {
    match held {
        Fetched::Document { version, .. } => *version,
        Fetched::None | Fetched::Known => 0,
    }
}

/// Writes a file whole or not at all.
pub(super) fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    crate::atomic_file::write(path, bytes).map_err(|e| Error::io("write", path, e))
}

pub(super) fn name(name: &str) -> std::result::Result<String, String> {
    if is_document_name(name) {
        Ok(name.to_owned())
    } else {
        Err(format!("a document's name is 1 to {MAX_DOCUMENT_NAME} of a to z, 0 to 9 and -"))
    }
}
