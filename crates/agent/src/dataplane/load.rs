//! Loads the programs, and keeps their maps in a folder of bpffs so that they outlive the process.
//!
//! ```text
//!   <pin_dir>/settings, peers, ...    the maps: adopted if their shapes are those of this build, else filled from what is there ([`carry`])
//!   <pin_dir>/vl2_out, vl2_in, ...    the programs, loaded by every process over its maps
//! ```
//! A filter of traffic control is replaced in one step: between two builds of a program no packet goes past both. Until then the programs of the other build go on
//! with their own maps, which live as long as they. Pins are replaced when all maps are filled, each in one step; if anything fails before, everything is as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::ops::Bound;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::{fmt, fs, io};

use libbpf_rs::{
    MapCore as _, MapHandle, MapType, Object, ObjectBuilder, OpenObject, PrintLevel, TC_EGRESS, TcAttachPoint, TcHook,
    TcHookBuilder,
};

use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

use super::bytes::Plain;
use super::carry::{self, Shape};
use super::maps::{Table, TableName, sums};
use super::{PlaneError, Result};
use crate::interface::name_of;

/// Loaded programs and their maps.
#[derive(Debug)]
pub(crate) struct Loaded {
    object: Object,
    maps: BTreeMap<String, MapHandle>,
    pin_dir: PathBuf,
    /// The hooks on which programs were put.
    hooks: BTreeSet<Hook>,
    /// Where the next look at hooks goes on.
    looked: Option<Hook>,
    /// The counters of another build, which its programs may still use.
    replaced: Option<Replaced>,
    /// Whether maps were there already, of this or another build.
    pub adopted: bool,
}

/// Counters of another build: maps of its own and of the one before it, and what numbers they have.
#[derive(Debug)]
struct Replaced {
    counters: MapHandle,
    earlier: Option<MapHandle>,
    shapes: (Shape, Shape),
}

/// A pinned map of a name that this build has.
#[derive(Debug)]
struct Pinned {
    map: MapHandle,
    /// Of it, and of this build's.
    shapes: (Shape, Shape),
    /// Whether it is used as it is.
    is_adopted: bool,
}

/// Program, interface, point.
type Hook = (&'static str, i32, u32);

/// Sizes of maps that settings decide: name and entries (of a ring buffer: bytes).
pub(crate) type Sizes<'a> = &'a [(&'a str, u32)];

impl Loaded {
    /// Loads an object over the maps pinned in a folder, or over new ones that are pinned there. What another build has pinned with other shapes is carried over.
    ///
    /// # Errors
    /// [`PlaneError`] if the folder is not on bpffs, or the kernel refuses.
    pub fn load(object: &[u8], sizes: Sizes<'_>, pin_dir: &Path) -> Result<Self> {
        log_by_tracing();
        prepare(pin_dir)?;
        let mut open = open(object).map_err(PlaneError::bpf("read", "the programs"))?;
        resize(&mut open, sizes)?;
        let mut pinned = adopt(&mut open, pin_dir)?;
        let adopted = !pinned.is_empty();
        let object = open.load().map_err(PlaneError::bpf("load", "the programs"))?;
        let mut maps = BTreeMap::new();
        for map in object.maps().filter(|map| is_table(map.name())) {
            let name = map.name().to_string_lossy().into_owned();
            maps.insert(name.clone(), MapHandle::try_from(&map).map_err(PlaneError::bpf("open map", name))?);
        }
        for (name, there) in pinned.iter().filter(|(_, there)| !there.is_adopted) {
            let carried = carry::entries(name, (&there.map, &there.shapes.0), (&maps[name], &there.shapes.1))?;
            tracing::info!(map = name, carried.entries, carried.left_out, "a table of another build or size is replaced");
        }
        let is_kept = |name: &str| pinned.get(name).is_some_and(|there| there.is_adopted);
        let new: Vec<String> = maps.keys().filter(|name| !is_kept(name)).cloned().collect();
        let replaced = pinned.remove(COUNTERS).filter(|there| !there.is_adopted).map(|there| Replaced {
            counters: there.map,
            earlier: pinned.remove(CARRIED.0).map(|it| it.map),
            shapes: there.shapes,
        });
        let mut loaded =
            Self { object, maps, pin_dir: pin_dir.to_owned(), hooks: BTreeSet::new(), looked: None, replaced, adopted };
        loaded.carry_counters()?;
        loaded.pin_maps(&new)?;
        loaded.pin_programs()?;
        if adopted {
            loaded.unpin_others()?;
        }
        Ok(loaded)
    }

    /// Writes what another build has counted where [`Loaded::counters`] finds it.
    fn carry_counters(&mut self) -> Result<()> {
        let Some(Replaced { counters, earlier, shapes: (from, to) }) = &self.replaced else { return Ok(()) };
        let values = carry::counters(counters, earlier.as_ref(), (from, to))?;
        values.iter().enumerate().try_for_each(|(number, value)| self.table(&CARRIED).set(&(number as u32), value))
    }

    /// The first `count` counters, by number, each summed over the CPUs, with what other builds had counted before.
    ///
    /// # Errors
    /// [`PlaneError::Bpf`].
    pub fn counters(&self, count: usize) -> Result<Vec<u64>> {
        let mut values = sums(self.map(COUNTERS), count)?;
        for (number, value) in values.iter_mut().enumerate() {
            *value += self.table(&CARRIED).get(&(number as u32))?.unwrap_or(0);
        }
        Ok(values)
    }

    /// Puts back what somebody has removed: programs on their hooks (with the queueing discipline that has them), and pins, without which the next process would
    /// not find the maps. Looks at [`HOOKS_AT_ONCE`] hooks, the next ones each time. What was put back, for the log.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn reconcile(&mut self) -> Result<Vec<Restored>> {
        let mut restored = Vec::new();
        let after = self.looked.map_or(Bound::Unbounded, Bound::Excluded);
        let next: Vec<Hook> = self.hooks.range((after, Bound::Unbounded)).take(HOOKS_AT_ONCE).copied().collect();
        self.looked = next.last().copied().filter(|_| next.len() == HOOKS_AT_ONCE);
        // By now this build's programs are on all hooks: what another build has counted stays so.
        self.carry_counters()?;
        self.replaced = None;
        for (program, ifindex, point) in next {
            let Some(device) = name_of(ifindex as u32) else {
                // It is attached again when there is such an interface again.
                self.hooks.remove(&(program, ifindex, point));
                continue;
            };
            if !self.is_attached(program, ifindex, point)? {
                self.attach(program, ifindex, point)?;
                let hook = if point == TC_EGRESS { "egress" } else { "ingress" };
                restored.push(Restored::Program { program, hook, device });
            }
        }
        self.repin(&mut restored)?;
        Ok(restored)
    }

    /// Whether the hook has the program of this process.
    fn is_attached(&self, program: &'static str, ifindex: i32, point: TcAttachPoint) -> Result<bool> {
        let program = self.program(program);
        let own = libbpf_rs::Program::id_from_fd(program.as_fd()).map_err(PlaneError::bpf("read", "a program"))?;
        // An error is that there is no such filter, or no queueing discipline that could have one.
        Ok(hook(&program, ifindex, point).query().is_ok_and(|there| there == own))
    }

    fn repin(&self, restored: &mut Vec<Restored>) -> Result<()> {
        let is_missing = |path: &Path| !path.exists();
        for (name, map) in &self.maps {
            let path = self.pin_dir.join(name);
            if is_missing(&path) {
                prepare(&self.pin_dir)?;
                let mut map = MapHandle::try_from(map).map_err(PlaneError::bpf("open map", name))?;
                map.pin(&path).map_err(PlaneError::bpf("pin map", name))?;
                restored.push(Restored::Pin(path));
            }
        }
        let names = self.object.progs().map(|program| program.name().to_string_lossy().into_owned());
        let missing: Vec<PathBuf> = names.map(|name| self.pin_dir.join(name)).filter(|path| is_missing(path)).collect();
        if !missing.is_empty() {
            self.pin_programs()?;
            restored.extend(missing.into_iter().map(Restored::Pin));
        }
        Ok(())
    }

    /// Pins maps, each in the place of the one that may be there, in one step.
    fn pin_maps(&self, names: &[String]) -> Result<()> {
        for name in names {
            let (path, next) = (self.pin_dir.join(name), self.pin_dir.join(format!("next-{name}")));
            remove(&next)?;
            let mut map = MapHandle::try_from(self.map(name)).map_err(PlaneError::bpf("open map", name))?;
            map.pin(&next).map_err(PlaneError::bpf("pin map", name))?;
            fs::rename(&next, &path).map_err(PlaneError::system("pin map", name))?;
        }
        Ok(())
    }

    /// Removes what another build has pinned and this one does not have.
    fn unpin_others(&self) -> Result<()> {
        let is_own =
            |name: &OsStr| self.maps.keys().any(|it| name == it.as_str()) || self.object.progs().any(|it| it.name() == name);
        let fail = || PlaneError::system("read", self.pin_dir.display().to_string());
        for entry in fs::read_dir(&self.pin_dir).map_err(fail())? {
            let entry = entry.map_err(fail())?;
            if !is_own(&entry.file_name()) && entry.file_type().map_err(fail())?.is_file() {
                tracing::info!(pin = %entry.path().display(), "a pin of another build is removed");
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    fn pin_programs(&self) -> Result<()> {
        for mut program in self.object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let path = self.pin_dir.join(&name);
            remove(&path)?;
            program.pin(&path).map_err(PlaneError::bpf("pin program", name))?;
        }
        Ok(())
    }

    /// One of the maps, as a table.
    pub fn table<K: Plain, V: Plain>(&self, name: &TableName<K, V>) -> Table<'_, K, V> {
        Table::new(self.map(name.0), name.0)
    }

    /// One of the maps.
    pub fn map(&self, name: &str) -> &MapHandle {
        self.maps.get(name).unwrap_or_else(|| panic!("the programs have a map `{name}`"))
    }

    /// One of the programs.
    pub fn program(&self, name: &str) -> libbpf_rs::ProgramMut<'_> {
        self.object.progs_mut().find(|p| p.name() == name).unwrap_or_else(|| panic!("there is a program `{name}`"))
    }

    /// Puts a program on a hook of an interface, in the place of the one that may be there.
    ///
    /// # Errors
    /// [`PlaneError::Bpf`] if the kernel refuses.
    pub fn attach(&mut self, program: &'static str, ifindex: i32, point: TcAttachPoint) -> Result<()> {
        let fail = || PlaneError::bpf("attach to an interface program", program);
        let mut hook = hook(&self.program(program), ifindex, point);
        // After a restart the queueing discipline that has the hooks is there already.
        if hook.attach().is_err() {
            hook.create().map_err(fail())?;
            hook.attach().map_err(fail())?;
        }
        self.hooks.insert((program, ifindex, point));
        Ok(())
    }

    /// Undoes a start that has failed, unless an earlier process' tables are in use: then flows go on as before.
    ///
    /// # Errors
    /// That of the start.
    pub fn rollback_on_error<T, E>(&mut self, start: std::result::Result<T, E>) -> std::result::Result<T, E> {
        if start.is_err() && !self.adopted {
            // The cause is returned, not what this step says.
            let _ = self.detach();
        }
        start
    }

    /// Takes the programs off their hooks and removes the pins. For a thread of the namespace that they were attached in.
    ///
    /// # Errors
    /// [`PlaneError::System`] if a pin cannot be removed.
    pub fn detach(&mut self) -> Result<()> {
        for (program, ifindex, point) in std::mem::take(&mut self.hooks) {
            // No error if there is nothing, nor if the interface is gone.
            if let Err(error) = hook(&self.program(program), ifindex, point).detach() {
                tracing::debug!(%error, ifindex, program, "nothing to detach");
            }
        }
        self.unpin()
    }

    fn unpin(&self) -> Result<()> {
        let programs = self.object.progs().map(|p| p.name().to_string_lossy().into_owned());
        for name in programs.chain(self.maps.keys().cloned()) {
            remove(&self.pin_dir.join(name))?;
        }
        match fs::remove_dir(&self.pin_dir) {
            Err(e) if e.kind() != io::ErrorKind::DirectoryNotEmpty => {
                Err(PlaneError::system("remove", self.pin_dir.display().to_string())(e))
            }
            _ => Ok(()),
        }
    }
}

/// Something that somebody had removed or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// A program on a hook.
    Program {
        /// Which.
        program: &'static str,
        /// `ingress` or `egress`.
        hook: &'static str,
        /// Of which interface.
        device: String,
    },
    /// A pin.
    Pin(PathBuf),
    /// All that is at an interface, which was removed and made again.
    Interface(String),
    /// An entry of a table.
    Entry(String),
}

impl Restored {
    /// Its label in metrics.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Program { .. } => "program",
            Self::Pin(_) => "pin",
            Self::Interface(_) => "interface",
            Self::Entry(_) => "entry",
        }
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { program, hook, device } => write!(f, "the program {program} on {hook} of {device}"),
            Self::Pin(path) => write!(f, "the pin {}", path.display()),
            Self::Interface(device) => write!(f, "the programs of {device}, which was removed and created again"),
            Self::Entry(entry) => write!(f, "the table's entry of {entry}"),
        }
    }
}

/// Hooks that are looked at in one go: 20 us each.
const HOOKS_AT_ONCE: usize = 64;

fn hook(program: &libbpf_rs::Program<'_>, ifindex: i32, point: TcAttachPoint) -> TcHook {
    TcHookBuilder::new(program.as_fd()).ifindex(ifindex).replace(true).handle(HANDLE).priority(PRIORITY).hook(point)
}

/// The programs' own place on a hook, so that they are found again; others may stand before and behind.
const HANDLE: u32 = 1;
const PRIORITY: u32 = 0x5746;

fn open(object: &[u8]) -> libbpf_rs::Result<OpenObject> {
    ObjectBuilder::default().name("vl2")?.open_memory(object)
}

fn resize(open: &mut OpenObject, sizes: Sizes<'_>) -> Result<()> {
    for mut map in open.maps_mut() {
        let size = sizes.iter().find(|(name, _)| map.name() == *name);
        if let Some((name, entries)) = size {
            map.set_max_entries(*entries).map_err(PlaneError::bpf("set the size of map", *name))?;
        }
    }
    Ok(())
}

/// Finds the pinned maps, and takes over those that have the shapes of this build.
fn adopt(open: &mut OpenObject, pin_dir: &Path) -> Result<BTreeMap<String, Pinned>> {
    let mut found = BTreeMap::new();
    for map in open.maps().filter(|map| is_table(map.name())) {
        let Ok(pinned) = MapHandle::from_pinned_path(pin_dir.join(map.name())) else { continue };
        let (from, to) = (Shape::of_map(&pinned), Shape::of_open(open, &map));
        let is_adopted = from.is(&to) && (map.name() != COUNTERS || from.counts_as(&to));
        let name = map.name().to_string_lossy().into_owned();
        found.insert(name, Pinned { map: pinned, shapes: (from, to), is_adopted });
    }
    // What was counted before goes with what is counted now.
    if let Some(false) = found.get(COUNTERS).map(|it| it.is_adopted)
        && let Some(carried) = found.get_mut(CARRIED.0)
    {
        carried.is_adopted = false;
    }
    // The kernel does not know what events look like: another build's may be others.
    let is_other = found.values().any(|it| !it.is_adopted);
    found.values_mut().filter(|it| it.map.map_type() == MapType::RingBuf).for_each(|it| it.is_adopted &= !is_other);
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if let Some(there) = found.get(&name).filter(|it| it.is_adopted) {
            map.reuse_fd(there.map.as_fd()).map_err(PlaneError::bpf("adopt map", name))?;
        }
    }
    Ok(found)
}

/// The map that the programs count in, and the one with what other builds have counted (bpf/common.h).
const COUNTERS: &str = "counters";
const CARRIED: TableName<u32, u64> = TableName::new("carried");

/// Maps with a dot in their name are the compiler's: constants, which belong to the programs.
fn is_table(name: &OsStr) -> bool {
    !name.as_bytes().contains(&b'.')
}

/// Makes the folder, on bpffs only.
fn prepare(pin_dir: &Path) -> Result<()> {
    fs::create_dir_all(pin_dir).map_err(|_| PlaneError::NoBpffs(pin_dir.to_owned()))?;
    match statfs(pin_dir) {
        Ok(info) if info.filesystem_type() == BPF_FS_MAGIC => Ok(()),
        _ => Err(PlaneError::NoBpffs(pin_dir.to_owned())),
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(PlaneError::system("remove", path.display().to_string())(e)),
        _ => Ok(()),
    }
}

/// What libbpf says goes where all else goes; that there is no qdisc yet, or one already, is no warning here.
fn log_by_tracing() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Info, |_, text| tracing::debug!(target: "libbpf", "{}", text.trim_end()))));
    });
}
