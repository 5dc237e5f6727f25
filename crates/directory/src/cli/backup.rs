//! `backup`, `restore`: mappings, documents and the policy in one file of JSON lines.
//!
//! ```text
//!   {"weft_backup": 1, "authority": "-----BEGIN ...", "revision": 1043, "entries": 2, "documents": 1}
//!   {"policy": "version = 3\n..."}                                   if the folder has one
//!   {"document": "tenants", "version": 7, "bytes": "..."}            hexadecimal digits
//!   {"record": "v/acme/web1", "body": "space = 1\nmac = ..."}         tenants' records
//!   {"key": "10.0.0.7", "generation": 1040, "locator": "10.0.1.1", ...}
//!   {"end": true}                                                    without it the file is not complete
//! ```
//! The authority's certificate names the cluster. Secrets are not in it: they never change, and are kept apart.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use weft_control::netlord::tenants::records::Name;
use weft_control::netlord::{spain, tenants};
use weft_control::wire::directory::is_document_name;

use super::connect::ConnectArgs;
use super::documents;
use super::error::{Error, Result};
use super::lines::{EntryReader, Lines, unreadable};
use super::tenant::records;
use super::transfer::{ImportJson, put_all, read_all, write_file};
use crate::daemon::command_line::{print_json, print_text};
use crate::entry::EntryLine;

#[derive(Debug, Args)]
pub struct BackupArgs {
    /// File to write, readable by its owner only
    file: PathBuf,
    /// Document to include besides the tenants' file and SPAIN's tables; repeatable
    #[arg(long, value_name = "NAME", value_parser = documents::name)]
    document: Vec<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// File written by `backup`
    file: PathBuf,
    /// Also delete mappings that the backup does not have
    #[arg(long)]
    exact: bool,
    /// Also replace DIR/policy.toml with the policy of the backup, under a new version
    #[arg(long)]
    policy: bool,
    /// Accept a backup of another cluster
    #[arg(long)]
    other_cluster: bool,
    /// Print what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Heading {
    /// The version of the form.
    weft_backup: u32,
    /// The certificate of the cluster's authority, if the folder had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authority: Option<String>,
    revision: u64,
    entries: u64,
    documents: u64,
    /// Tenants' records.
    #[serde(default, skip_serializing_if = "is_zero")]
    records: u64,
}

/// The only field of a heading that every version has.
#[derive(Deserialize)]
struct Form {
    weft_backup: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyLine {
    policy: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentLine {
    document: String,
    version: u32,
    bytes: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordLine {
    record: String,
    body: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndLine {
    end: bool,
}

/// A backup, read and checked.
struct Backup {
    heading: Heading,
    policy: Option<String>,
    documents: Vec<(String, u32, Vec<u8>)>,
    records: BTreeMap<Name, String>,
    lines: Lines,
}

#[derive(Serialize)]
struct BackupJson {
    file: String,
    revision: u64,
    entries: usize,
    documents: Vec<String>,
    records: usize,
    policy: bool,
}

#[derive(Serialize)]
struct RestoreJson {
    mappings: ImportJson,
    /// Absent if the backup has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<records::Brought>,
    documents: Vec<DocumentJson>,
    /// `none`, `written`, `unchanged` or `kept`.
    policy: &'static str,
}

#[derive(Serialize)]
struct DocumentJson {
    name: String,
    version: u32,
    written: bool,
}

/// Writes all that a cluster needs besides its secrets.
pub fn backup(args: &BackupArgs) -> Result<bool> {
    let mut client = args.connect.client_of_one_part()?;
    let mut names = vec![tenants::DOCUMENT.to_owned(), spain::DOCUMENT.to_owned()];
    names.extend(args.document.iter().filter(|name| ![tenants::DOCUMENT, spain::DOCUMENT].contains(&name.as_str())).cloned());
    let mut found = Vec::new();
    for name in names {
        match documents::read(&mut client, &name)? {
            Some(document) => {
                found.push(DocumentLine { document: name, version: document.version, bytes: to_hex(&document.bytes) })
            }
            None if args.document.contains(&name) => return Err(Error::NoDocument(name)),
            None => {}
        }
    }
    let policy = optional(&args.connect.dir.file("policy.toml"))?;
    let authority = optional(&args.connect.dir.file("ca.pem"))?;
    let (_, held) = records::read_all(&mut client)?;
    let (revision, entries) = read_all(&mut client)?;
    let (count, documents, records) = (entries.len() as u64, found.len() as u64, held.len());
    let heading =
        Heading { weft_backup: FORM, authority, revision: revision.0, entries: count, documents, records: records as u64 };
    write_file(&args.file, |out| {
        write_line(out, &heading)?;
        policy.iter().try_for_each(|policy| write_line(out, &PolicyLine { policy: policy.clone() }))?;
        found.iter().try_for_each(|document| write_line(out, document))?;
        held.into_iter().try_for_each(|(name, (_, body))| write_line(out, &RecordLine { record: name.to_string(), body }))?;
        entries.values().try_for_each(|entry| out.write_all(EntryLine::from(entry).text().as_bytes()))?;
        write_line(out, &EndLine { end: true })
    })?;
    let documents: Vec<String> = found.into_iter().map(|it| it.document).collect();
    if args.connect.json {
        let (file, entries, policy) = (args.file.display().to_string(), entries.len(), policy.is_some());
        print_json(&BackupJson { file, revision: revision.0, entries, documents, records, policy })?;
    } else {
        let also = if documents.is_empty() { "no document".to_owned() } else { documents.join(", ") };
        let policy = if policy.is_some() { "the policy" } else { "no policy" };
        let (file, revision) = (args.file.display(), revision.0);
        print_text(&format!(
            "{count} mappings of revision {revision}, {records} records of tenants, {also} and {policy} in {file}\n"
        ))?;
    }
    Ok(true)
}

/// Brings a directory to what a backup has.
pub fn restore(args: &RestoreArgs) -> Result<bool> {
    let backup = read(&args.file)?;
    let dir = &args.connect.dir;
    let own = optional(&dir.file("ca.pem"))?;
    if !args.other_cluster
        && let (Some(own), Some(theirs)) = (&own, &backup.heading.authority)
        && own.trim() != theirs.trim()
    {
        return Err(Error::OtherCluster(args.file.clone()));
    }
    let policy_file = dir.file("policy.toml");
    let policy = new_policy(backup.policy.as_deref(), optional(&policy_file)?.as_deref(), args.policy, &policy_file)?;
    let settings = args.connect.settings()?;
    let mut client = args.connect.client_of_one_part()?;
    // Before anything is written: a document that cannot be restored.
    let mut documents = Vec::new();
    for (name, version, bytes) in &backup.documents {
        let held = client.document(name, 0)?.0;
        let written = documents::read(&mut client, name)?.is_none_or(|it| it.bytes != *bytes);
        if written && *version <= documents::version_of(&held) {
            return Err(Error::NotNewer { name: name.clone(), held: documents::version_of(&held), version: *version });
        }
        documents.push((name, *version, bytes, held, written));
    }
    let mappings = put_all(&settings, backup.lines, args.exact, args.dry_run)?;
    let records = if backup.records.is_empty() {
        None
    } else {
        Some(records::bring(&settings, &backup.records, args.exact, args.dry_run)?)
    };
    for (name, version, bytes, held, _) in documents.iter().filter(|it| it.4 && !args.dry_run) {
        documents::replace(&mut client, name, held, *version, bytes)?;
    }
    let (policy, text) = policy;
    if let Some(text) = text.filter(|_| !args.dry_run) {
        documents::put(&policy_file, text.as_bytes())?;
    }
    let documents =
        documents.into_iter().map(|(name, version, _, _, written)| DocumentJson { name: name.clone(), version, written });
    report(&RestoreJson { mappings, records, documents: documents.collect(), policy }, args)
}

fn report(result: &RestoreJson, args: &RestoreArgs) -> Result<bool> {
    if args.connect.json {
        print_json(result)?;
        return Ok(true);
    }
    let would = if args.dry_run { "would be " } else { "" };
    let mut text = result.mappings.text(args.dry_run) + "\n";
    if let Some(records) = &result.records {
        text += &format!("tenants: {}\n", records.text(args.dry_run));
    }
    for DocumentJson { name, version, written } in &result.documents {
        let what = if *written { format!("{would}written") } else { "there already".to_owned() };
        text += &format!("`{name}` version {version}: {what}\n");
    }
    text += match result.policy {
        "none" => "the backup has no policy\n",
        "kept" => "policy.toml differs from the backup's and is kept: `--policy` replaces it\n",
        "unchanged" => "policy.toml: there already\n",
        _ => "policy.toml: restored; copy it to the other servers, and send SIGHUP to all\n",
    };
    print_text(&text)?;
    Ok(true)
}

/// What becomes of the policy, and its new text. A version that servers have seen is raised, else they would refuse it.
fn new_policy(theirs: Option<&str>, own: Option<&str>, replace: bool, file: &Path) -> Result<(&'static str, Option<String>)> {
    let Some(theirs) = theirs else { return Ok(("none", None)) };
    let Some(own) = own else { return Ok(("written", Some(theirs.to_owned()))) };
    if own == theirs {
        return Ok(("unchanged", None));
    }
    if !replace {
        return Ok(("kept", None));
    }
    let wrong = |reason: &str| Error::Content {
        place: file.display().to_string(),
        reason: reason.to_owned(),
        help: "nothing was written",
    };
    let version =
        |text: &str| version_line(text).and_then(|line| line.split('=').nth(1)?.split('#').next()?.trim().parse::<u32>().ok());
    let own = version(own).ok_or_else(|| wrong("it has no line `version = N`"))?;
    let line = version_line(theirs).ok_or_else(|| wrong("the backup's policy has no line `version = N`"))?;
    let next = own.max(version(theirs).unwrap_or(0)).checked_add(1).ok_or(Error::LastVersion)?;
    Ok(("written", Some(theirs.replacen(line, &format!("version = {next}"), 1))))
}

fn version_line(policy: &str) -> Option<&str> {
    policy.lines().find(|line| line.trim_start().strip_prefix("version").is_some_and(|rest| rest.trim_start().starts_with('=')))
}

/// Reads all of a backup before anything is changed.
fn read(file: &Path) -> Result<Backup> {
    let name = file.display().to_string();
    let mut lines = BufReader::new(File::open(file).map_err(|e| Error::io("read", file, e))?).lines().enumerate();
    let wrong = |number: usize, reason: String| Error::Content {
        place: format!("{name}:{number}"),
        reason,
        help: "`weft directory backup FILE` writes such a file; `import` reads what `export` wrote",
    };
    let first = lines.next().ok_or_else(|| wrong(1, "the file is empty".to_owned()))?.1.map_err(|e| unreadable(&name, 1, &e))?;
    let form: Form = serde_json::from_str(&first).map_err(|_| wrong(1, "it is no backup".to_owned()))?;
    if form.weft_backup != FORM {
        return Err(wrong(1, format!("form {} of a backup; this program reads form {FORM}", form.weft_backup)));
    }
    let heading: Heading = serde_json::from_str(&first).map_err(|e| wrong(1, e.to_string()))?;
    let (mut policy, mut documents, mut entries, mut is_complete) = (None, Vec::new(), EntryReader::new(&name), false);
    let mut records = BTreeMap::new();
    for (at, line) in lines {
        let number = at + 1;
        let line = line.map_err(|e| unreadable(&name, number, &e))?;
        if is_complete {
            return Err(wrong(number, "something follows the end".to_owned()));
        }
        // Entries are by far the most, and begin with their key.
        if line.starts_with("{\"policy\"") {
            policy = Some(serde_json::from_str::<PolicyLine>(&line).map_err(|e| wrong(number, e.to_string()))?.policy);
        } else if line.starts_with("{\"document\"") {
            let line: DocumentLine = serde_json::from_str(&line).map_err(|e| wrong(number, e.to_string()))?;
            let bytes = from_hex(&line.bytes).filter(|_| is_document_name(&line.document) && line.version > 0);
            let bytes = bytes.ok_or_else(|| wrong(number, format!("`{}` is no document", line.document)))?;
            documents.push((line.document, line.version, bytes));
        } else if line.starts_with("{\"record\"") {
            let line: RecordLine = serde_json::from_str(&line).map_err(|e| wrong(number, e.to_string()))?;
            let record = line.record.parse::<Name>().map_err(|e| wrong(number, e.to_string()))?;
            records.insert(record, line.body);
        } else if line.starts_with("{\"end\"") {
            is_complete = serde_json::from_str::<EndLine>(&line).is_ok_and(|it| it.end);
        } else if !entries.take(number, line) {
            break;
        }
    }
    let lines = entries.finish()?;
    // What contradicts itself is not begun with.
    tenants::records::tenants_of(1, records.iter().map(|(name, body): (&Name, &String)| (name, body.as_str()))).map_err(|e| {
        let reason = format!("the records of tenants: {e}");
        Error::Content { place: name.clone(), reason, help: "nothing was written" }
    })?;
    let counts = (lines.len() as u64, documents.len() as u64, records.len() as u64);
    if !is_complete || counts != (heading.entries, heading.documents, heading.records) {
        return Err(Error::Incomplete { name, entries: lines.len(), declared: heading.entries });
    }
    Ok(Backup { heading, policy, documents, records, lines })
}

fn write_line(out: &mut dyn Write, line: &impl Serialize) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string(line).expect("a line is JSON"))
}

/// A file's text; `None` if there is none.
fn optional(file: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", file, error)),
    }
}

fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?)).collect()
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde wants it
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The form of a backup that this program writes and reads.
const FORM: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_back() {
        for bytes in [&b""[..], b"\x00\xff tenants"] {
            assert_eq!(from_hex(&to_hex(bytes)).as_deref(), Some(bytes));
        }
        assert_eq!((from_hex("0"), from_hex("0g"), from_hex("\u{e9}")), (None, None, None));
    }

    #[test]
    fn a_policy_gets_a_greater_version() {
        let (old, own) = ("# a\nversion = 3 # three\n[[service]]\n", "version=7\n");
        let file = Path::new("policy.toml");
        let (what, text) = new_policy(Some(old), Some(own), true, file).unwrap();
        assert_eq!((what, text.as_deref()), ("written", Some("# a\nversion = 8\n[[service]]\n")));
        assert_eq!(new_policy(Some(old), Some(own), false, file).unwrap(), ("kept", None));
        assert_eq!(new_policy(Some(old), Some(old), true, file).unwrap(), ("unchanged", None));
        assert_eq!(new_policy(Some(old), None, false, file).unwrap(), ("written", Some(old.to_owned())));
        assert!(new_policy(Some(old), Some("nothing"), true, file).is_err());
    }
}
