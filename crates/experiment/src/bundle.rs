//! The scenarios embedded in the program, so that it works away from its checkout.
//!
//! `@NAME` stands for them wherever a command, a Python call or a scenario expects a path: `@first` and `@hedera/figure9` are scenarios, `@hedera` is a
//! folder, `@` is all of them, `@data/prices.toml` is a file that scenarios use. Relative paths in a bundled scenario start at its bundled folder. A file
//! of the disk whose name begins with `@` is written `./@name`.

use std::borrow::Cow;
use std::io::{Error, ErrorKind, Result};
use std::path::{Component, Path, PathBuf};

use include_dir::{Dir, include_dir};

static SCENARIOS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../scenarios");

/// Reads a file, from the disk or from the bundle.
///
/// # Errors
/// As [`std::fs::read`]; for a bundled name that does not exist, the nearest one is proposed.
pub fn read(path: &Path) -> Result<Cow<'static, [u8]>> {
    match bundled_name(path) {
        None => std::fs::read(path).map(Cow::Owned),
        Some(name) => match SCENARIOS.get_file(&name).or_else(|| SCENARIOS.get_file(with_toml(&name))) {
            Some(file) => Ok(Cow::Borrowed(file.contents())),
            None if is_dir(path) => Err(ErrorKind::IsADirectory.into()),
            None => Err(not_bundled(path)),
        },
    }
}

/// Reads a UTF-8 file, from the disk or from the bundle.
///
/// # Errors
/// As [`read`], and [`ErrorKind::InvalidData`] for bytes that are not UTF-8.
pub fn read_to_string(path: &Path) -> Result<String> {
    match read(path)? {
        Cow::Borrowed(bytes) => Ok(std::str::from_utf8(bytes).expect("bundled files are UTF-8").to_owned()),
        Cow::Owned(bytes) => String::from_utf8(bytes).map_err(|e| Error::new(ErrorKind::InvalidData, e)),
    }
}

/// Whether a path names a folder, of the disk or of the bundle.
pub fn is_dir(path: &Path) -> bool {
    bundled_name(path).map_or_else(|| path.is_dir(), |name| name.as_os_str().is_empty() || SCENARIOS.get_dir(name).is_some())
}

/// Whether a path names a file, of the disk or of the bundle.
pub fn is_file(path: &Path) -> bool {
    bundled_name(path).map_or_else(
        || path.is_file(),
        |name| SCENARIOS.get_file(&name).or_else(|| SCENARIOS.get_file(with_toml(&name))).is_some(),
    )
}

/// All scenarios below a folder, sorted. Folders named `data` hold what scenarios read, and are left out.
///
/// # Errors
/// A folder that does not exist or cannot be read.
pub fn scenarios_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    match bundled_name(folder) {
        None => collect_from_disk(folder, &mut found)?,
        Some(name) if name.as_os_str().is_empty() => collect_bundled(&SCENARIOS, &mut found),
        Some(name) => collect_bundled(SCENARIOS.get_dir(&name).ok_or_else(|| not_bundled(folder))?, &mut found),
    }
    found.sort();
    Ok(found)
}

/// The folder of a file: where the relative paths that it holds start.
pub fn folder_of(path: &Path) -> PathBuf {
    match bundled_name(path) {
        None => path.parent().map(Path::to_owned).unwrap_or_default(),
        Some(name) => PathBuf::from(format!("@{}", name.parent().unwrap_or(Path::new("")).display())),
    }
}

/// A path that a file names, from that file's folder.
pub fn resolve(folder: &Path, path: &str) -> PathBuf {
    if path.starts_with('@') { PathBuf::from(path) } else { folder.join(path) }
}

/// The name of a scenario for its results: `hedera-figure4` for `@hedera/figure4`, `scenarios/hedera/figure4.toml` and `hedera/figure4.toml`; of a file that is not
/// below the working folder, the file's name alone.
pub fn results_name(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_str()?.trim_start_matches('@');
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let place = bundled_name(path).or_else(|| is_below.then(|| path.to_owned())).unwrap_or_default();
    let place = place.strip_prefix("scenarios").unwrap_or(&place);
    let folders = place.parent().into_iter().flat_map(Path::components).filter_map(|part| match part {
        Component::Normal(part) => part.to_str(),
        _ => None,
    });
    Some(folders.chain([stem]).collect::<Vec<_>>().join("-"))
}

/// The text of a bundled scenario as a file of its own: its relative paths name bundled files.
///
/// # Errors
/// As [`read_to_string`].
pub fn detached_text(path: &Path) -> Result<String> {
    let mut text = read_to_string(path)?;
    let folder = bundled_name(path).and_then(|name| Some(name.parent()?.to_owned())).unwrap_or_default();
    let up = "../".repeat(folder.components().count());
    let mut files = Vec::new();
    all_files(&SCENARIOS, &mut files);
    for file in files.iter().filter(|file| file.extension().is_none_or(|e| e != "toml") || file.starts_with("data")) {
        text = text.replace(&format!("\"{up}{}\"", file.display()), &format!("\"@{}\"", file.display()));
    }
    Ok(text)
}

/// The place of `@...` inside the bundle, without `.` and `..`; `None` for a path of the disk.
fn bundled_name(path: &Path) -> Option<PathBuf> {
    let rest = path.to_str()?.strip_prefix('@')?;
    let mut name = PathBuf::new();
    for part in Path::new(rest).components() {
        match part {
            Component::Normal(part) => name.push(part),
            // What is above the bundle is no file of it: the name that stays is not found.
            Component::ParentDir => drop(name.pop()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Some(name)
}

fn with_toml(name: &Path) -> PathBuf {
    let mut name = name.as_os_str().to_owned();
    name.push(".toml");
    name.into()
}

/// The bundled scenario that a path outside of a checkout probably means: `@first` for `scenarios/first.toml` and for `first`.
pub fn namesake(path: &Path) -> Option<PathBuf> {
    let below = path.strip_prefix("scenarios").unwrap_or(path).with_extension("");
    let name = PathBuf::from(format!("@{}", below.to_str()?));
    is_file(&name).then_some(name)
}

fn not_bundled(path: &Path) -> Error {
    let given = path.to_string_lossy();
    let mut names = vec!["@".to_owned()];
    collect_names(&SCENARIOS, &mut names);
    let near = names.iter().min_by_key(|name| weft_fabric::topology::edit_distance(name, &given)).expect("the bundle has names");
    Error::new(ErrorKind::NotFound, format!("there is no bundled scenario of that name; did you mean `{near}`?"))
}

fn collect_names(dir: &Dir<'_>, names: &mut Vec<String>) {
    names.extend(dir.files().map(|file| format!("@{}", file.path().with_extension("").display())));
    for inner in dir.dirs() {
        names.push(format!("@{}", inner.path().display()));
        collect_names(inner, names);
    }
}

fn all_files(dir: &'static Dir<'static>, files: &mut Vec<&'static Path>) {
    files.extend(dir.files().map(include_dir::File::path));
    dir.dirs().for_each(|inner| all_files(inner, files));
}

fn is_data(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "data")
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "toml")
}

fn collect_bundled(dir: &Dir<'_>, found: &mut Vec<PathBuf>) {
    let scenarios = dir.files().map(include_dir::File::path).filter(|path| is_toml(path));
    found.extend(scenarios.map(|path| PathBuf::from(format!("@{}", path.with_extension("").display()))));
    dir.dirs().filter(|inner| !is_data(inner.path())).for_each(|inner| collect_bundled(inner, found));
}

fn collect_from_disk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if !is_data(&path) {
                collect_from_disk(&path, found)?;
            }
        } else if is_toml(&path) {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_a_bundled_file_or_folder() {
        let first = read_to_string(Path::new("@first")).unwrap();
        assert_eq!(first, read_to_string(Path::new("@first.toml")).unwrap());
        assert_eq!(first, std::fs::read_to_string("../../scenarios/first.toml").unwrap());
        assert_eq!(read(Path::new("@hedera/../data/./prices.toml")).unwrap(), read(Path::new("@data/prices.toml")).unwrap());
        assert!(is_dir(Path::new("@")) && is_dir(Path::new("@hedera")) && !is_dir(Path::new("@first")));
        assert!(is_file(Path::new("@first")) && !is_file(Path::new("@hedera")) && !is_file(Path::new("@../Cargo")));
        assert_eq!(folder_of(Path::new("@hedera/figure4")), Path::new("@hedera"));
        assert_eq!(resolve(&folder_of(Path::new("@first")), "data/prices.toml"), Path::new("@/data/prices.toml"));
        assert!(is_file(Path::new("@/data/prices.toml")));
        assert_eq!(resolve(Path::new("mine"), "@data/prices.toml"), Path::new("@data/prices.toml"));
        assert_eq!(results_name(Path::new("@first")).as_deref(), Some("first"));
        assert_eq!(results_name(Path::new("@hedera/figure9")).as_deref(), Some("hedera-figure9"));
    }

    #[test]
    fn the_bundle_lists_what_the_disk_holds() {
        let bundled = scenarios_below(Path::new("@")).unwrap();
        let disk = scenarios_below(Path::new("../../scenarios")).unwrap();
        let disk: Vec<PathBuf> = disk
            .iter()
            .map(|path| format!("@{}", path.strip_prefix("../../scenarios").unwrap().with_extension("").display()).into())
            .collect();
        assert_eq!(bundled.len(), disk.len());
        assert!(disk.iter().all(|path| bundled.contains(path)));
        assert!(bundled.iter().all(|path| is_file(path)));
    }

    #[test]
    fn a_mistyped_name_proposes_the_nearest() {
        let error = read(Path::new("@frist")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("`@first`"), "{error}");
        let error = scenarios_below(Path::new("@hedra")).unwrap_err();
        assert!(error.to_string().contains("`@hedera`"), "{error}");
        assert_eq!(read(Path::new("@hedera")).unwrap_err().kind(), ErrorKind::IsADirectory);
    }

    #[test]
    fn a_detached_scenario_names_bundled_data() {
        for path in scenarios_below(Path::new("@")).unwrap() {
            let text = detached_text(&path).unwrap();
            assert!(!text.contains("\"../data/"), "{} would lose a file", path.display());
        }
    }
}
