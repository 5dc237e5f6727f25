//! The lock of an embedded store's folder.

use std::fs::OpenOptions;
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};

/// Waits until the folder's last user has let go of it, which a dropped store does a little later.
pub fn wait_until_free(folder: &Path) {
    let lock = OpenOptions::new().write(true).open(folder.join("lock")).expect("the folder was in use before");
    Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, error)| error).unwrap();
}
