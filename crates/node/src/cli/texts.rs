//! `fetch`, `publish`: named texts of the store, such as the tenants' file.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use weft_control::netlord::spain::{self, SpainTables};
use weft_control::netlord::tenants::{self, Tenants};
use weft_control::wire::directory::{MAX_TEXT, MAX_TEXT_NAME, PublishOutcome, is_text_name};

use super::connect::ConnectArgs;
use super::error::{Error, Result};
use super::{print_json, print_text};
use crate::client::{Client, Fetched};

#[derive(Debug, Args)]
pub struct FetchArgs {
    /// Which text
    #[arg(value_parser = name)]
    name: String,
    /// Where to [default: standard output]
    file: Option<PathBuf>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct PublishArgs {
    /// Which text; it is made if there is none
    #[arg(value_parser = name)]
    name: String,
    /// What it is to be
    file: PathBuf,
    /// The version that it will have, greater than the store's [default: the next]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    version: Option<u32>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
struct TextJson<'a> {
    name: &'a str,
    version: u32,
    bytes: usize,
    server: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// Writes a text to a file or to standard output; false if there is none.
pub fn fetch(args: &FetchArgs) -> Result<bool> {
    let name = args.name.as_str();
    let Some(found) = read(&mut args.connect.client()?, name)? else {
        if args.connect.json {
            print_json(&serde_json::json!({ "name": name, "version": null }))?;
        } else {
            eprintln!("there is no text `{name}`: `weft directory publish {name} FILE` makes it");
        }
        return Ok(false);
    };
    if let Some(file) = &args.file {
        put(file, &found.bytes)?;
    }
    if args.connect.json {
        let file = args.file.as_ref().map(|file| file.display().to_string());
        print_json(&TextJson { name, version: found.version, bytes: found.bytes.len(), server: &found.server, file })?;
    } else if let Some(file) = &args.file {
        print_text(&format!("`{name}` is version {} in {}\n", found.version, file.display()))?;
    } else {
        print_text(&String::from_utf8_lossy(&found.bytes))?;
    }
    Ok(true)
}

/// Puts a file in the place of a text.
pub fn publish(args: &PublishArgs) -> Result<bool> {
    let name = args.name.as_str();
    let bytes = std::fs::read(&args.file).map_err(|e| Error::io("read", &args.file, &e))?;
    let own = own_version(name, &args.file, &bytes)?;
    if let (Some(own), Some(given)) = (own, args.version.filter(|it| Some(*it) != own)) {
        return Err(Error::new(
            format!("{} says that it is version {own}", args.file.display()),
            format!("leave `--version {given}` out, or change the file"),
        ));
    }
    let mut client = args.connect.client()?;
    let held = client.text(name, 0)?.0;
    let next = version_of(&held).checked_add(1).ok_or_else(|| Error::new("there is no greater version", "use another name"))?;
    let version = own.or(args.version).unwrap_or(next);
    let server = replace(&mut client, name, &held, version, &bytes)?;
    if args.connect.json {
        let file = Some(args.file.display().to_string());
        print_json(&TextJson { name, version, bytes: bytes.len(), server: &server, file })?;
    } else {
        print_text(&format!("`{name}` is version {version}, {} bytes; {server} has it\n", bytes.len()))?;
    }
    Ok(true)
}

/// The version that a text of a known form says it has. What agents would refuse is refused here.
fn own_version(name: &str, file: &Path, bytes: &[u8]) -> Result<Option<u32>> {
    let wrong = |why: String| Error::new(format!("{}: {why}", file.display()), "nothing was published");
    let text = || std::str::from_utf8(bytes).map_err(|_| wrong("it is not text".to_owned()));
    Ok(match name {
        tenants::TEXT => Some(Tenants::parse(text()?).map_err(|e| wrong(e.to_string()))?.version),
        spain::TEXT => Some(SpainTables::parse(text()?).map_err(|e| wrong(e.to_string()))?.version),
        _ => None,
    })
}

/// A text as some server has it.
pub(super) struct Found {
    pub version: u32,
    pub bytes: Vec<u8>,
    pub server: String,
}

/// A text; `None`: there is none of this name.
pub(super) fn read(client: &mut Client, name: &str) -> Result<Option<Found>> {
    let (fetched, server) = client.text(name, 0)?;
    Ok(match fetched {
        Fetched::Text { version, bytes } => Some(Found { version, bytes, server }),
        Fetched::None | Fetched::Known => None,
    })
}

/// Puts a text in the place of the one that is held; says which server has it. The same text again is no change.
pub(super) fn replace(client: &mut Client, name: &str, held: &Fetched, version: u32, bytes: &[u8]) -> Result<String> {
    if bytes.len() as u64 > MAX_TEXT {
        return Err(Error::new(format!("{} bytes are too many for a text", bytes.len()), format!("{MAX_TEXT} at the most")));
    }
    let expect = version_of(held);
    if matches!(held, Fetched::Text { version: there, bytes: all } if *there == version && all == bytes) {
        return Ok("the store".to_owned());
    }
    if version <= expect {
        return Err(Error::new(
            format!("the store has version {expect} of `{name}`, and {version} is not greater"),
            format!("see what is there: weft directory fetch {name}"),
        ));
    }
    let (answer, server) = client.publish(name, expect, version, bytes)?;
    let again = "nothing was changed; see what is there and try again";
    match answer.outcome {
        PublishOutcome::Committed => Ok(server),
        // A copy that was sent to another server may have been first.
        PublishOutcome::Conflict if answer.version == version && is_held(client, name, bytes)? => Ok(server),
        PublishOutcome::Conflict => {
            Err(Error::new(format!("somebody has made `{name}` version {} meanwhile", answer.version), again))
        }
        PublishOutcome::Refused => Err(Error::new(
            format!("{server} does not let this principal publish `{name}`"),
            "an administrator may, and a provisioner of all services: see the policy",
        )),
        PublishOutcome::Unknown => Err(Error::new(
            format!("{server}'s store did not answer: `{name}` may be version {version} now, or not"),
            "the same again does no harm",
        )),
        PublishOutcome::Malformed | PublishOutcome::More => {
            Err(Error::new(format!("{server} does not understand what it was sent"), "is it as new as this program?"))
        }
    }
}

fn is_held(client: &mut Client, name: &str, bytes: &[u8]) -> Result<bool> {
    Ok(read(client, name)?.is_some_and(|found| found.bytes == bytes))
}

/// 0 if there is none.
pub(super) const fn version_of(held: &Fetched) -> u32 {
    match held {
        Fetched::Text { version, .. } => *version,
        Fetched::None | Fetched::Known => 0,
    }
}

/// Writes a file whole or not at all.
pub(super) fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    crate::whole::write(path, bytes).map_err(|e| Error::io("write", path, &e))
}

fn name(text: &str) -> std::result::Result<String, String> {
    if is_text_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("a text's name is 1 to {MAX_TEXT_NAME} of a to z, 0 to 9 and -"))
    }
}
