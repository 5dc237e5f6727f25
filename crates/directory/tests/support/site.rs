//! An inventory and its plan, by `weft deploy`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// An inventory, and the folder that is planned from it.
pub struct Site {
    pub folder: TempDir,
    /// The inventory's name: YAML or TOML.
    file: &'static str,
}

impl Site {
    pub fn new() -> Self {
        Self::of("inventory.toml")
    }

    /// With an inventory of this name.
    pub fn of(file: &'static str) -> Self {
        Self { folder: TempDir::new().unwrap(), file }
    }

    pub fn out(&self) -> PathBuf {
        self.folder.path().join("plan")
    }

    pub fn write(&self, inventory: &str) -> PathBuf {
        let path = self.folder.path().join(self.file);
        fs::write(&path, inventory).unwrap();
        path
    }

    pub fn plan(&self, inventory: &str, more: &[&str]) -> Output {
        let path = self.write(inventory);
        deploy().arg("plan").arg(path).arg("--out").arg(self.out()).args(more).output().unwrap()
    }

    pub fn check(&self, inventory: &str, more: &[&str]) -> Output {
        let path = self.write(inventory);
        deploy().arg("check").arg(path).args(more).output().unwrap()
    }

    /// Of the folder.
    pub fn check_folder(&self, inventory: &str) -> Output {
        self.check(inventory, &["--dir", self.out().to_str().unwrap()])
    }

    /// Content, mode and time of every file.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, (Vec<u8>, u32, std::time::SystemTime)> {
        let mut files = BTreeMap::new();
        collect(&self.out(), &mut files);
        files
    }
}

fn collect(folder: &Path, files: &mut BTreeMap<PathBuf, (Vec<u8>, u32, std::time::SystemTime)>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            let meta = path.metadata().unwrap();
            files.insert(path.clone(), (fs::read(&path).unwrap(), meta.permissions().mode() & 0o777, meta.modified().unwrap()));
        }
    }
}

fn deploy() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft-directory"));
    command.arg("deploy");
    command
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

pub fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", text(output));
}

/// Plans an inventory with one change at a time, each of which is refused with its line; nothing is written.
pub fn assert_refused(site: &Site, inventory: &str, cases: &[(&str, &str, u32, &str, &str)]) {
    assert_code(&site.plan(inventory, &[]), 0);
    let before = site.snapshot();
    let mut wrong = String::new();
    for (from, to, line, what, help) in cases {
        assert!(inventory.contains(from), "{from}");
        let output = site.plan(&inventory.replacen(from, to, 1), &[]);
        let printed = text(&output);
        let place = format!("{}:{line}: ", site.file);
        if !(output.status.code() == Some(2) && printed.contains(&place) && printed.contains(what) && printed.contains(help)) {
            wrong += &format!("{to}: {printed}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(site.snapshot(), before, "nothing is written");
}
