//! What a mistyped name was probably meant to be.

use std::path::{Path, PathBuf};

use weft_fabric::topology::edit_distance;

/// `did you mean X? valid values: A, B, C`.
pub fn one_of(names: &[impl AsRef<str>], given: &str) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let guess = nearest(&names, given).map_or(String::new(), |name| format!("did you mean `{name}`? "));
    format!("{guess}valid values: {}", names.join(", "))
}

/// The name that a mistyped one is probably meant to be.
pub fn nearest<'n>(names: &[&'n str], given: &str) -> Option<&'n str> {
    let (distance, name) = names.iter().map(|n| (edit_distance(n, given), *n)).min()?;
    (distance <= 2 || distance * 3 <= given.len()).then_some(name)
}

/// The existing path that differs least from a mistyped one, part by part; `None` if a part has nothing near it.
pub fn nearest_path(path: &Path) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for part in path.components() {
        let next = found.join(part);
        if next.exists() {
            found = next;
            continue;
        }
        let wanted = part.as_os_str().to_str()?;
        let folder = if found.as_os_str().is_empty() { Path::new(".") } else { &found };
        let names = std::fs::read_dir(folder).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let (distance, name) = names.map(|name| (edit_distance(&name, wanted), name)).min()?;
        if distance > 3 && distance * 3 > wanted.len() {
            return None;
        }
        found.push(name);
    }
    Some(found)
}
