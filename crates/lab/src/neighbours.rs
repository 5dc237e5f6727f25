//! The limit of neighbour entries (ARP, NDP): all namespaces of a system share one table, of 1,024 entries by default.
//!
//! Hosts of an overlay are each other's neighbours: each of 80 has 79. Beyond the limit the kernel sends nothing to new neighbours. So each lab notes the entries that
//! it needs, and the limit is that before the first lab, raised by the needs of all labs together if they do not fit below it.

use std::fs;
use std::path::Path;

use crate::error::{LabError, Result};
use crate::plan::{LabName, Overlay, Plan};
use crate::{netns, state};

/// Raises the limit for a lab, whose folder exists.
pub(crate) fn reserve(plan: &Plan) -> Result<()> {
    let _lock = netns::lock_system()?;
    let note = state::path(&plan.name).join(SHARE);
    fs::write(&note, entries_of(plan).to_string()).map_err(|e| LabError::io("write", &note, e))?;
    set()
}

/// Lowers the limit after the folder of a lab has been removed.
pub(crate) fn release() -> Result<()> {
    let _lock = netns::lock_system()?;
    set()?;
    // The folder of all labs is removed with the last note.
    let _ = fs::remove_dir(ROOT);
    Ok(())
}

/// Sets the limits according to the needs of all labs.
fn set() -> Result<()> {
    let share = |lab: &LabName| number(&state::path(lab).join(SHARE)).unwrap_or(0);
    let all: u64 = state::names().iter().map(share).sum();
    for family in ["ipv4", "ipv6"] {
        let (place, note) = (format!("/proc/sys/net/{family}/neigh/default/gc_thresh3"), format!("{ROOT}/neighbours-{family}"));
        let (place, note) = (Path::new(&place), Path::new(&note));
        let now = number(place).ok_or_else(|| LabError::io("read", place, std::io::ErrorKind::InvalidData.into()))?;
        let before = number(note).unwrap_or(now);
        let limit = if all + SPARE > before { before + all } else { before };
        if limit != before && !note.exists() {
            fs::write(note, before.to_string()).map_err(|e| LabError::io("write", note, e))?;
        }
        if limit != now {
            fs::write(place, limit.to_string()).map_err(|e| LabError::io("set", place, e))?;
        }
        if limit == before && note.exists() {
            fs::remove_file(note).map_err(|e| LabError::io("remove", note, e))?;
        }
    }
    Ok(())
}

/// Neighbour entries of a lab whose hosts all communicate with each other.
fn entries_of(plan: &Plan) -> u64 {
    // VL2's hosts are each other's neighbours, in two families, and so are the VMs of a tenant, at most all. NetLord's hosts are neighbours in tenant 1, of IPv4.
    let (ends, leases) = match &plan.overlay {
        Overlay::None | Overlay::Access(_) => (0, 0),
        Overlay::Vl2(_) => (plan.hosts().count(), 0),
        Overlay::Netlord(netlord) => (netlord.vms.len(), netlord.provider.as_ref().map_or(0, |it| it.leases.len())),
    };
    let (ends, leases) = (ends as u64, leases as u64);
    let cables: u64 = plan.nodes.iter().map(|n| n.ports.len() as u64).sum();
    // Stale entries remain for some time, and multicast has entries too.
    cables * 8 + ends * ends * 2 + leases * leases
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Where the limits before the first lab are noted.
const ROOT: &str = "/run/weft";
/// In a lab's folder: the entries that it needs.
const SHARE: &str = "neighbours";
/// Entries for everything else on the machine.
const SPARE: u64 = 512;
