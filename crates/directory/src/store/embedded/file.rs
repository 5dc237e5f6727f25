//! The file of an embedded store: making, checking and opening it, and what its tables hold.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use redb::{Builder, Database, DatabaseError, ReadableDatabase, StorageError, TableDefinition};
use weft_control::directory::{Generation, Record};
use weft_control::wire::directory::{emit_record, parse_record};

use crate::store::{FORMAT, Identity, StoreError};

/// The file's name in its folder.
pub const NAME: &str = "directory.redb";

/// Key bytes to generation and record bytes.
pub const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");
/// Numbers: [`REVISION`], [`PURGED`], [`FORMAT_KEY`], [`PROBE`].
pub const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Name to version (four bytes) and bytes of a document. Stores that were made before there were any do not have the table.
pub const NAMED: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("named");
/// Entries of tenants' records, in the bytes of [`packed`](super::packed). Stores without them do not have the table.
pub const ENTRIES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("tenant_entries");
/// The same of stores of format 1: name to generation (eight bytes) and text.
pub const OLD_ENTRIES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("tenants");
const STRINGS: TableDefinition<'_, &str, &str> = TableDefinition::new("texts");

/// The revision of the last commit.
pub const REVISION: &str = "revision";
/// Tombstones up to this generation may have been purged.
pub const PURGED: &str = "purged";
/// The revision of the last change of tenants' records, which they count by themselves; absent: there was none.
pub const ENTRIES_REVISION: &str = "tenants_revision";
/// Written to see whether writing works.
pub const PROBE: &str = "probe";
/// Which form the tables have: [`FORMAT`], or [`PACKED_FORMAT`].
pub const FORMAT_KEY: &str = "format";

/// The format of a store with entries of tenants' records: programs that know format 1 alone would find none.
pub const PACKED_FORMAT: u64 = 2;

/// What every redb file begins with.
const MAGIC: &[u8; 9] = b"redb\x1A\x0A\xA9\x0D\x0A";

/// Memory for redb's pages. The directory itself is in memory already; this only has to make commits quick.
const CACHE: usize = 16 << 20;

/// A store begins at this revision: 0 is "before everything".
const FIRST: u64 = 1;

/// What a store knows about itself.
#[derive(Clone, Debug)]
pub struct Meta {
    pub identity: Identity,
    pub revision: Generation,
    pub purged: Generation,
}

/// Takes the folder for this process, for as long as the file lives. Makes the folder if there is none.
pub fn lock(folder: &Path) -> Result<Flock<File>, StoreError> {
    let at = |path: &Path, error: &std::io::Error| StoreError::Io { path: path.to_owned(), error: error.to_string() };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| at(folder, &error))?;
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&path).map_err(|error| at(&path, &error))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
        Errno::EWOULDBLOCK => StoreError::InUse(folder.to_owned()),
        errno => at(&path, &errno.into()),
    })
}

/// Makes an empty store, under another name first, so that a file of the right name is always whole. Says whether it did.
pub fn make_if_absent(path: &Path, cluster: &str) -> Result<bool, StoreError> {
    if path.exists() {
        return Ok(false);
    }
    let io = |error: std::io::Error| StoreError::Io { path: path.to_owned(), error: error.to_string() };
    let draft = path.with_extension("redb.new");
    match std::fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(error)),
        _ => {}
    }
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&draft).map_err(io)?;
    let database = builder().create_file(file).map_err(|error| open_failure(path, &error))?;
    check(&database, cluster)?;
    drop(database);
    std::fs::rename(&draft, path).map_err(io)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)?;
    Ok(true)
}

/// Opens a file that is there.
pub fn open(path: &Path) -> Result<Database, StoreError> {
    let mut start = [0; MAGIC.len()];
    let mut file = File::open(path).map_err(|error| StoreError::Io { path: path.to_owned(), error: error.to_string() })?;
    if file.read_exact(&mut start).is_err() || start != *MAGIC {
        return Err(StoreError::Damaged { path: path.to_owned(), why: "it does not begin as a redb file does".into() });
    }
    drop(file);
    // Some damage makes redb panic rather than say so.
    let opened = std::panic::catch_unwind(AssertUnwindSafe(|| builder().open(path)));
    match opened {
        Ok(database) => database.map_err(|error| open_failure(path, &error)),
        Err(_) => Err(StoreError::Damaged { path: path.to_owned(), why: "its pages contradict each other".into() }),
    }
}

/// How this program opens any redb file.
pub fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE);
    builder
}

/// Reads what an open store knows about itself and compares it with what is wanted. An empty one is set up.
pub fn check(database: &Database, cluster: &str) -> Result<Meta, StoreError> {
    let snapshot = database.begin_read().map_err(failure)?;
    if snapshot.list_tables().map_err(failure)?.next().is_none() {
        drop(snapshot);
        return set_up(database, cluster);
    }
    let strings = snapshot.open_table(STRINGS).map_err(failure)?;
    let text = |name: &str| -> Result<String, StoreError> {
        let text = strings.get(name).map_err(failure)?.ok_or_else(|| damaged(format!("it has no {name}")))?;
        Ok(text.value().to_owned())
    };
    match number(&snapshot, FORMAT_KEY)? {
        ..=PACKED_FORMAT => {}
        found => return Err(StoreError::Format { found, known: PACKED_FORMAT }),
    }
    let found = text("cluster")?;
    if found != cluster {
        return Err(StoreError::OtherCluster { found, wanted: cluster.to_owned() });
    }
    let (revision, purged) = revisions(&snapshot)?;
    Ok(Meta { identity: Identity { cluster: found, id: text("id")? }, revision, purged })
}

/// The revision and the purged generation of a snapshot.
pub fn revisions(snapshot: &redb::ReadTransaction) -> Result<(Generation, Generation), StoreError> {
    Ok((Generation(number(snapshot, REVISION)?), Generation(number(snapshot, PURGED)?)))
}

/// The bytes of table `records`.
pub fn join(generation: Generation, record: &Record, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&generation.0.to_be_bytes());
    emit_record(record, out);
}

/// The generation and record in the bytes of table `records`.
pub fn split(bytes: &[u8]) -> Result<(Generation, Record), StoreError> {
    let (generation, record) = bytes.split_first_chunk::<8>().ok_or_else(|| damaged("a record is too short".into()))?;
    let record = parse_record(record).map_err(|error| damaged(format!("a record: {error}")))?;
    Ok((Generation(u64::from_be_bytes(*generation)), record))
}

/// The version and the bytes in table `named`.
pub fn split_document(bytes: &[u8]) -> Result<(u32, &[u8]), StoreError> {
    let (version, bytes) = bytes.split_first_chunk::<4>().ok_or_else(|| damaged("a document is too short".into()))?;
    Ok((u32::from_be_bytes(*version), bytes))
}

/// What is there makes no sense.
pub fn damaged(why: String) -> StoreError {
    StoreError::Damaged { path: NAME.into(), why }
}

/// An error of redb while the store is open.
pub fn failure(error: impl Into<redb::Error>) -> StoreError {
    match error.into() {
        redb::Error::Corrupted(why) => damaged(why),
        redb::Error::TableDoesNotExist(name) => damaged(format!("it has no table {name}")),
        redb::Error::TableTypeMismatch { table, .. } => damaged(format!("table {table} is of another type")),
        error => StoreError::Unreachable(error.to_string()),
    }
}

/// An error of redb when it opens a file.
pub fn open_failure(path: &Path, error: &DatabaseError) -> StoreError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::InUse(path.parent().map_or_else(PathBuf::new, Path::to_owned)),
        DatabaseError::UpgradeRequired(version) => {
            StoreError::Damaged { path, why: format!("it has redb's file format {version}") }
        }
        DatabaseError::Storage(StorageError::Corrupted(why)) => StoreError::Damaged { path, why: why.clone() },
        DatabaseError::Storage(StorageError::Io(error))
            if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) =>
        {
            StoreError::Damaged { path, why: error.to_string() }
        }
        error => StoreError::Io { path, error: error.to_string() },
    }
}

fn number(snapshot: &redb::ReadTransaction, name: &str) -> Result<u64, StoreError> {
    let table = snapshot.open_table(META).map_err(failure)?;
    let number = table.get(name).map_err(failure)?.ok_or_else(|| damaged(format!("it has no {name}")))?;
    Ok(number.value())
}

fn set_up(database: &Database, cluster: &str) -> Result<Meta, StoreError> {
    let id = crate::store::random_id();
    let transaction = database.begin_write().map_err(failure)?;
    {
        let mut strings = transaction.open_table(STRINGS).map_err(failure)?;
        strings.insert("cluster", cluster).map_err(failure)?;
        strings.insert("id", id.as_str()).map_err(failure)?;
        let mut meta = transaction.open_table(META).map_err(failure)?;
        for (name, number) in [(FORMAT_KEY, FORMAT), (REVISION, FIRST), (PURGED, 0)] {
            meta.insert(name, number).map_err(failure)?;
        }
        transaction.open_table(RECORDS).map_err(failure)?;
    }
    transaction.commit().map_err(failure)?;
    Ok(Meta { identity: Identity { cluster: cluster.to_owned(), id }, revision: Generation(FIRST), purged: Generation(0) })
}
