//! A disk that loses power: what was synced stays; of what was written since, any 512-byte sectors may have reached it.

use std::io;
use std::sync::{Arc, Mutex};

use rand::RngExt;
use weft_fabric::rng::Pcg64;

/// Bytes that reach a disk together.
const SECTOR: usize = 512;

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// What is safe.
    synced: Vec<u8>,
    /// What reading gives.
    seen: Vec<u8>,
    /// What happened since the last sync.
    since: Vec<Change>,
    /// Operations until it fails, and how.
    fails_in: Option<(usize, io::ErrorKind)>,
}

#[derive(Debug)]
enum Change {
    Length(usize),
    Write(usize, Vec<u8>),
}

impl Disk {
    /// After so many more writes and syncs it fails; `StorageFull` until [`Disk::heal`], all else for ever.
    pub fn fail_in(&self, operations: usize, how: io::ErrorKind) {
        self.0.lock().unwrap().fails_in = Some((operations, how));
    }

    /// It does not fail any more.
    pub fn heal(&self) {
        self.0.lock().unwrap().fails_in = None;
    }

    /// What is found after the power was lost.
    pub fn after_power_loss(&self, rng: &mut Pcg64) -> Self {
        let state = self.0.lock().unwrap();
        let mut image = state.synced.clone();
        for change in &state.since {
            match change {
                Change::Length(length) if rng.random::<bool>() => image.resize(*length, 0),
                Change::Length(_) => {}
                Change::Write(at, bytes) => {
                    for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                        if rng.random::<bool>() {
                            let start = at + number * SECTOR;
                            image.resize(image.len().max(start + sector.len()), 0);
                            image[start..start + sector.len()].copy_from_slice(sector);
                        }
                    }
                }
            }
        }
        Self(Arc::new(Mutex::new(State { synced: image.clone(), seen: image, ..State::default() })))
    }

    fn change(&self, change: Change) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.step()?;
        match &change {
            Change::Length(length) => state.seen.resize(*length, 0),
            Change::Write(at, bytes) => state.seen[*at..at + bytes.len()].copy_from_slice(bytes),
        }
        state.since.push(change);
        Ok(())
    }
}

impl State {
    fn step(&mut self) -> io::Result<()> {
        match &mut self.fails_in {
            Some((0, how)) => Err((*how).into()),
            Some((left, _)) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl redb::StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock().unwrap();
        let bytes = state.seen.get(offset as usize..offset as usize + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::Length(len as usize))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.step()?;
        state.synced = state.seen.clone();
        state.since.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Change::Write(offset as usize, data.to_vec()))
    }
}
