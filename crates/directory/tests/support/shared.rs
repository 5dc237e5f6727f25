//! What the tests of the agent use as well: the secret of a test's cluster, its clients, and children that end with the test.

use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use weft_control::directory::PrincipalId;
use weft_control::directory::auth::Secret;
use weft_directory::client::{Auth, Client, Settings};

/// The principal that may write.
pub const WRITER: PrincipalId = PrincipalId(7);

/// The secret of every cluster here.
pub fn secret() -> Secret {
    Secret::new([9; 32])
}

/// Writes it to a file that nobody else can read.
pub fn write_secret(folder: &Path) -> PathBuf {
    let path = folder.join("secret");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&path).unwrap();
    std::io::Write::write_all(&mut file, secret().to_hex().as_bytes()).unwrap();
    path
}

/// A client that acts as a principal.
pub fn client_of(principal: PrincipalId, addresses: &[String], timeout: Duration) -> Client {
    let key = Some(secret().key_of(principal));
    Client::new(Settings { servers: addresses.to_vec(), principal, key, auth: Auth::Mac, timeout, only: false }).unwrap()
}

/// A child that outlives the test's thread is killed.
pub fn die_with_parent(command: &mut Command) {
    // SAFETY: prctl is safe between fork and exec.
    unsafe {
        command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?));
    }
}
