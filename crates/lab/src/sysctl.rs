//! `/proc/sys` settings of namespaces.
//!
//! The kernel keeps the folders `net/ipv4` of all namespaces in one list of each mount of procfs, and searches it at each lookup: with thousands of namespaces
//! that took longer than all else. So each thread has a mount of its own, which is attached nowhere, for some namespaces at a time, and looks each folder up once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use crate::error::{LabError, Result};

/// Writes settings of the namespace that the thread is in.
pub(crate) fn set(settings: &[(&'static str, String)], place: &str) -> Result<()> {
    MOUNT.with_borrow_mut(|mount| {
        if mount.as_ref().is_none_or(|(_, uses)| *uses >= USES) {
            *mount = Some((sys().map_err(|e| LabError::io("open", "/proc/sys".as_ref(), e))?, 0));
        }
        let (sys, uses) = mount.as_mut().expect("just made");
        *uses += 1;
        let mut folders = BTreeMap::new();
        settings.iter().try_for_each(|(key, value)| {
            write(sys, &mut folders, key, value).map_err(|e| {
                let command = format!("{key} = {value}");
                LabError::Command { program: "sysctl", place: place.to_owned(), command, message: e.to_string() }
            })
        })
    })
}

/// Writes a setting such as `net/ipv4/ip_forward`, by the folder `net/ipv4`.
fn write<'a>(sys: &File, folders: &mut BTreeMap<&'a str, File>, key: &'a str, value: &str) -> std::io::Result<()> {
    let split = key.match_indices('/').nth(1).map_or(0, |(at, _)| at);
    let (folder, name) = (&key[..split], key[split..].trim_start_matches('/'));
    if !folders.contains_key(folder) {
        let file = openat(sys, folder, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
        folders.insert(folder, File::from(file));
    }
    let file = openat(&folders[folder], name, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    File::from(file).write_all(value.as_bytes())
}

/// `/proc/sys`, of a mount of its own if the system permits one.
fn sys() -> std::io::Result<File> {
    match own_procfs() {
        Ok(root) => Ok(File::from(openat(&root, "sys", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?)),
        Err(_) => File::open("/proc/sys"),
    }
}

/// A mount of procfs that is attached nowhere; it ends with its last descriptor.
fn own_procfs() -> std::result::Result<OwnedFd, Errno> {
    // SAFETY: `fsopen` reads a string that ends with 0; the descriptor is new, and nothing else owns it.
    let context =
        unsafe { OwnedFd::from_raw_fd(Errno::result(libc::syscall(libc::SYS_fsopen, c"proc".as_ptr(), FSOPEN_CLOEXEC))? as i32) };
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: this command has no key and no value.
    Errno::result(unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, none, none, 0) })?;
    // SAFETY: `fsmount` has numbers alone, and its descriptor is new, too.
    Ok(unsafe {
        OwnedFd::from_raw_fd(Errno::result(libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, 0))? as i32)
    })
}

thread_local! {
    /// The thread's mount, and the namespaces for which it was used.
    static MOUNT: RefCell<Option<(File, u32)>> = const { RefCell::new(None) };
}

/// Namespaces for which a mount is used.
const USES: u32 = 64;
const FSOPEN_CLOEXEC: libc::c_long = 1;
const FSCONFIG_CMD_CREATE: libc::c_long = 6;
const FSMOUNT_CLOEXEC: libc::c_long = 1;
