//! `export`, `snapshot`, `import`: all entries as JSON lines.
//!
//! ```text
//!   {"weft_directory": 1, "revision": 1043, "entries": 2}
//!   {"key": "10.0.0.7", "generation": 1040, "locator": "10.0.1.1", ...}
//!   {"key": "group:3", "generation": 7, "addresses": ["10.9.0.1"]}
//! ```

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::{Generation, Key, Value};
use weft_control::wire::directory::{Entry, MAX_OPS, Op, emit_key, emit_value};

use super::connect::{ConnectArgs, Dir};
use super::error::{Error, Result};
use super::lines::{self, Lines};
use super::list::{Filter, FilterArgs, PAGE};
use crate::atomic_file::{self, WriteError};
use crate::client::{Client, OnePart, Settings, Updated, split};
use crate::daemon::command_line::{print_json, print_text};
use crate::entry::{EntryLine, Heading, ValueLine, entry};
use crate::store::{AnyStore, Store, StoreAddress};

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// File to write [default: standard output]
    file: Option<PathBuf>,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct SnapshotArgs {
    /// File to write [default: standard output]
    file: Option<PathBuf>,
    #[command(flatten)]
    dir: Dir,
    /// Store to read [default: embedded:DIR/store]
    #[arg(long, value_name = "embedded:DIR|etcd:URL,...", help_heading = "Store")]
    store: Option<StoreAddress>,
    #[command(flatten)]
    etcd: super::etcd::EtcdArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// File to read [default: standard input]
    file: Option<PathBuf>,
    /// Also delete entries that the file does not have
    #[arg(long)]
    exact: bool,
    /// Print what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Writes what a server has.
pub fn export(args: &ExportArgs) -> Result<bool> {
    let filter = Filter::new(&args.filter, &args.connect)?;
    let (revision, mut entries) = read_parts(&split(&args.connect.settings()?)?)?;
    entries.retain(|_, entry| filter.matches(entry));
    write_all(args.file.as_deref(), revision, &entries, args.connect.json)
}

/// Writes what a store has.
pub fn snapshot(args: &SnapshotArgs) -> Result<bool> {
    let address = args.store.clone().unwrap_or_else(|| StoreAddress::Embedded(args.dir.file("store")));
    if let StoreAddress::Embedded(folder) = &address
        && !folder.exists()
    {
        return Err(Error::NoStore(folder.clone()));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Error::Runtime)?;
    let options = args.etcd.options(&address)?;
    let read = async {
        let store = AnyStore::open(&address, &args.etcd.cluster, &options).await?;
        let mut load = store.load().await?;
        let mut all = BTreeMap::new();
        while let Some(chunk) = load.chunks.recv().await {
            for stored in chunk? {
                if let Some(value) = stored.record.and_then(|record| record.value) {
                    all.insert(stored.key, entry(stored.key, stored.generation, Some(value)));
                }
            }
        }
        Ok((load.revision, all))
    };
    let (revision, entries) = runtime.block_on(read).map_err(Error::Store)?;
    write_all(args.file.as_deref(), revision, &entries, args.json)
}

/// Puts the entries of a file.
pub fn import(args: &ImportArgs) -> Result<bool> {
    let lines = lines::read(args.file.as_deref())?;
    let result = put_all(&args.connect.settings()?, lines, args.exact, args.dry_run)?;
    if args.connect.json {
        print_json(&result)?;
    } else {
        print_text(&(result.text(args.dry_run) + "\n"))?;
    }
    Ok(true)
}

/// Brings the directory to what the lines say; with `exact`, to nothing else.
pub(super) fn put_all(settings: &Settings, lines: Lines, exact: bool, dry_run: bool) -> Result<ImportJson> {
    let parts = split(settings)?;
    let (known, there) = read_parts(&parts)?;
    let mut result = ImportJson { lines: lines.len(), ..ImportJson::default() };
    let is_gone = |entry: &&Entry| exact && lines.get(&entry.key).is_none();
    let gone: Vec<Key> = there.values().filter(is_gone).map(|entry| entry.key).collect();
    result.deleted = gone.len();
    let mut changes = Vec::new();
    for line in lines {
        if there.get(&line.key).and_then(|entry| entry.value.as_ref()) == Some(&line.value) {
            result.unchanged += 1;
        } else {
            result.written += 1;
            changes.push(Change { line: Some(line.number), key: line.key, value: Some(line.value) });
        }
    }
    changes.extend(gone.into_iter().map(|key| Change { line: None, key, value: None }));
    if !dry_run {
        result.generation = apply(settings, known, &batches(changes, &parts))?.0;
    }
    Ok(result)
}

/// What the directory has otherwise than the lines of a file: each key, and the difference. Tenants' keys that the file does not have are none.
pub(super) fn differences(settings: &Settings, file: &Path) -> Result<Vec<(String, String)>> {
    let lines = lines::read(Some(file))?;
    let (_, there) = read_parts(&split(settings)?)?;
    let text = |value: &Value| serde_json::to_string(&ValueLine::from(value)).expect("values are JSON");
    let mut found = Vec::new();
    for line in lines.iter() {
        match there.get(&line.key).and_then(|entry| entry.value.as_ref()) {
            Some(value) if *value == line.value => {}
            Some(value) => found.push((line.key.to_string(), format!("is {}, not {}", text(value), text(&line.value)))),
            None => found.push((line.key.to_string(), "missing".to_owned())),
        }
    }
    let is_tenants = |key: &Key| !matches!(key, Key::App4(_) | Key::App6(_) | Key::Group(_));
    let more = there.values().filter(|entry| lines.get(&entry.key).is_none() && !is_tenants(&entry.key));
    found.extend(more.map(|entry| (entry.key.to_string(), "not in the inventory".to_owned())));
    Ok(found)
}

impl ImportJson {
    /// The same for people.
    pub(super) fn text(&self, dry_run: bool) -> String {
        let would = if dry_run { "would be " } else { "" };
        format!(
            "{} entries: {} {would}written, {} there already, {} {would}deleted",
            self.lines, self.written, self.unchanged, self.deleted
        )
    }
}

/// What an import did.
#[derive(Default, Serialize)]
pub(super) struct ImportJson {
    lines: usize,
    written: usize,
    unchanged: usize,
    deleted: usize,
    generation: u64,
}

/// All entries of all parts, each as it is at one revision; the greatest of these.
fn read_parts(parts: &[OnePart]) -> Result<(Generation, BTreeMap<Key, Entry>)> {
    let (mut revision, mut all) = (Generation(0), BTreeMap::new());
    for part in parts {
        let (of_part, mut entries) = read_all(&mut Client::new(part.settings.clone())?)?;
        entries.retain(|key, _| part.has(key));
        revision = revision.max(of_part);
        all.append(&mut entries);
    }
    Ok((revision, all))
}

/// All entries, as they are at one revision.
///
/// The pages of a listing are of the revisions at which each was asked for: what changed since then is watched afterwards.
pub(super) fn read_all(client: &mut Client) -> Result<(Generation, BTreeMap<Key, Entry>)> {
    'again: loop {
        let mut all = BTreeMap::new();
        let (mut first, mut last) = (None, Generation(0));
        let (mut after, mut more) = (None, true);
        while more {
            let page = client.page(after, PAGE)?;
            first = first.or(Some(page.revision));
            last = last.max(page.revision);
            after = page.entries.last().map(|entry| entry.key);
            more = page.more && after.is_some();
            all.extend(page.entries.into_iter().map(|entry| (entry.key, entry)));
        }
        let first = first.expect("there is a page");
        if first == last {
            return Ok((last, all));
        }
        let mut watching = client.watch(first)?;
        let mut known = first;
        while known < last {
            let change = watching.next(Some(Instant::now() + WATCH_TIMEOUT))?;
            let Some(change) = change.filter(|change| change.from <= known) else { continue 'again };
            known = change.revision.max(known);
            for changed in change.entries {
                if all.get(&changed.key).is_some_and(|entry| entry.generation > changed.generation) {
                    continue;
                }
                if changed.value.is_some() {
                    all.insert(changed.key, changed);
                } else {
                    all.remove(&changed.key);
                }
            }
        }
        return Ok((known, all));
    }
}

/// How long a server may take to report what changed during a listing.
const WATCH_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// Writes a file for its owner alone; it appears whole or not at all.
pub(super) fn write_file(file: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    atomic_file::write_private(file, write).map_err(|error| match error {
        WriteError::NotRegular(kind) => Error::NotRegular { path: file.to_owned(), kind },
        WriteError::Io(error) => Error::io("write", file, error),
    })
}

/// Writes a heading and the entries. A file appears whole or not at all.
fn write_all(file: Option<&Path>, revision: Generation, entries: &BTreeMap<Key, Entry>, json: bool) -> Result<bool> {
    let heading = Heading { weft_directory: 1, revision: revision.0, entries: entries.len() as u64 };
    let heading = serde_json::to_string(&heading).expect("a heading is JSON");
    let write = |out: &mut dyn Write| -> io::Result<()> {
        writeln!(out, "{heading}")?;
        entries.values().try_for_each(|entry| out.write_all(EntryLine::from(entry).text().as_bytes()))?;
        out.flush()
    };
    let Some(file) = file.filter(|file| *file != Path::new("-")) else {
        return match write(&mut BufWriter::new(io::stdout().lock())) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Error::io("write to", Path::new("standard output"), e)),
            _ => Ok(true),
        };
    };
    write_file(file, write)?;
    if json {
        print_text(&(heading + "\n"))?;
    } else {
        print_text(&format!("{} entries of revision {} in {}\n", entries.len(), revision.0, file.display()))?;
    }
    Ok(true)
}

/// A change that an import makes; `line` names it.
struct Change {
    line: Option<usize>,
    key: Key,
    value: Option<Value>,
}

/// Makes the changes, several updates at once; the greatest generation.
fn apply(settings: &Settings, known: Generation, batches: &[Vec<Change>]) -> Result<Generation> {
    let (next, greatest, done) = (AtomicUsize::new(0), AtomicU64::new(known.0), AtomicU64::new(0));
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..WRITERS.min(batches.len()) {
            scope.spawn(|| {
                let work = || -> Result<()> {
                    let mut client = Client::new(settings.clone())?;
                    while failed.lock().expect("no panic").is_none() {
                        let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                        let generation = write(&mut client, batch)?;
                        greatest.fetch_max(generation.0, Ordering::Relaxed);
                        done.fetch_add(batch.len() as u64, Ordering::Relaxed);
                    }
                    Ok(())
                };
                if let Err(error) = work() {
                    failed.lock().expect("no panic").get_or_insert(error);
                }
            });
        }
    });
    match failed.into_inner().expect("no panic") {
        Some(error) => {
            let done = done.load(Ordering::Relaxed);
            Err(Error::Partial { error: Box::new(error), done })
        }
        None => Ok(Generation(greatest.load(Ordering::Relaxed))),
    }
}

fn write(client: &mut Client, batch: &[Change]) -> Result<Generation> {
    let ops = batch.iter().map(|change| Op { key: change.key, expect: None, value: change.value.clone() }).collect();
    let Updated { result, server, .. } = client.update(ops, None)?;
    let about = |at: u8| match batch.get(usize::from(at)) {
        Some(Change { line: Some(line), key, .. }) => format!("line {line} ({key})"),
        Some(Change { key, .. }) => format!("the deletion of {key}"),
        None => String::new(),
    };
    match result {
        UpdateResult::Committed(generation) => Ok(generation),
        UpdateResult::Refused(at) => Err(Error::ImportRefused(about(at))),
        UpdateResult::Malformed(at) => Err(Error::ImportMalformed { what: about(at), server }),
        UpdateResult::Unknown => Err(Error::ImportUnknown(about(0))),
        UpdateResult::Conflict { .. } | UpdateResult::NotApplied => Err(Error::ImportUnable(server)),
    }
}

/// As many changes an update as a datagram holds, all of one part.
fn batches(mut changes: Vec<Change>, parts: &[OnePart]) -> Vec<Vec<Change>> {
    let place = |key: &Key| parts.iter().position(|part| part.has(key));
    if parts.len() > 1 {
        changes.sort_by_cached_key(|change| place(&change.key));
    }
    let mut batches: Vec<Vec<Change>> = Vec::new();
    let (mut bytes, mut scratch) = (usize::MAX, Vec::new());
    for change in changes {
        scratch.clear();
        emit_key(&change.key, &mut scratch);
        change.value.iter().for_each(|value| emit_value(value, &mut scratch));
        let size = scratch.len() + 9; // what it is, and `expect`
        let is_of_part = |batch: &Vec<Change>| parts.len() == 1 || place(&batch[0].key) == place(&change.key);
        match batches.last_mut().filter(|batch| batch.len() < MAX_OPS && bytes + size <= ROOM && is_of_part(batch)) {
            Some(batch) => {
                batch.push(change);
                bytes += size;
            }
            None => {
                batches.push(vec![change]);
                bytes = size;
            }
        }
    }
    batches
}

/// Bytes of operations in a datagram: 1,400 without header, tag, number, known and count.
const ROOM: usize = 1400 - 24 - 16 - 17;
/// Updates under way at once.
const WRITERS: usize = 64;
