//! The wall clock of a process, which a test can set (`clock.c`). What runs on the monotonic clock goes on as it did.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// A clock that can be set.
pub struct Clock {
    library: PathBuf,
    path: PathBuf,
    file: File,
    shift_s: i64,
}

impl Clock {
    /// Compiles what programs preload; its path.
    pub fn library(folder: &Path) -> PathBuf {
        let library = folder.join("clock.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/clock.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC"]).arg(source).arg("-o").arg(&library);
        let out = compiler.output().expect("cc runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        library
    }

    /// A clock that is right.
    pub fn new(library: &Path, path: PathBuf) -> Self {
        let file = File::create_new(&path).unwrap();
        let clock = Self { library: library.to_owned(), path, file, shift_s: 0 };
        clock.write([0; 3]);
        clock
    }

    /// Lets a program use it.
    pub fn hold(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("WEFT_TEST_CLOCK", &self.path);
    }

    /// So many seconds ahead of the true time from now on.
    pub fn set(&mut self, shift_s: i64) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as i64;
        self.write([self.shift_s * 1_000_000_000, shift_s * 1_000_000_000, now]);
        self.shift_s = shift_s;
    }

    fn write(&self, numbers: [i64; 3]) {
        self.file.write_all_at(&numbers.map(i64::to_ne_bytes).concat(), 0).unwrap();
    }
}
