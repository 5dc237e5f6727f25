//! Room for neighbours (ARP, NDP): all namespaces of a system share one table of them, 1,024 by default.
//!
//! Hosts of an overlay are each other's neighbours, each of 80 has 79; beyond the limit the kernel sends to none that is new. So each lab notes what it wants, and
//! the limit is what it was before the first lab, raised by what all that stand want together, if that does not fit below it.

use std::fs;
use std::path::Path;

use crate::error::{LabError, Result};
use crate::plan::{LabName, Plan};
use crate::{netns, state};

/// Makes room for a lab's, whose folder is there.
pub(crate) fn make_room(plan: &Plan) -> Result<()> {
    let _turn = netns::turn()?;
    let note = state::path(&plan.name).join(SHARE);
    fs::write(&note, wanted(plan).to_string()).map_err(|e| LabError::io("write", &note, e))?;
    set()
}

/// Takes back what was for a lab whose folder is gone.
pub(crate) fn put_back() -> Result<()> {
    let _turn = netns::turn()?;
    set()?;
    // The folder of all labs goes with the last note.
    let _ = fs::remove_dir(ROOT);
    Ok(())
}

/// Sets the limits to what the labs that stand want.
fn set() -> Result<()> {
    let share = |lab: &LabName| number(&state::path(lab).join(SHARE)).unwrap_or(0);
    let all: u64 = state::names().iter().map(share).sum();
    for family in ["ipv4", "ipv6"] {
        let (place, note) = (format!("/proc/sys/net/{family}/neigh/default/gc_thresh3"), format!("{ROOT}/neighbours-{family}"));
        let (place, note) = (Path::new(&place), Path::new(&note));
        let now = number(place).ok_or_else(|| LabError::io("read", place, std::io::ErrorKind::InvalidData.into()))?;
        let before = number(note).unwrap_or(now);
        let wanted = if all + SPARE > before { before + all } else { before };
        if wanted != before && !note.exists() {
            fs::write(note, before.to_string()).map_err(|e| LabError::io("write", note, e))?;
        }
        if wanted != now {
            fs::write(place, wanted.to_string()).map_err(|e| LabError::io("set", place, e))?;
        }
        if wanted == before && note.exists() {
            fs::remove_file(note).map_err(|e| LabError::io("remove", note, e))?;
        }
    }
    Ok(())
}

/// Neighbours of a lab whose hosts all talk to each other.
fn wanted(plan: &Plan) -> u64 {
    // An overlay's hosts are each other's neighbours, in two families; so are a tenant's VMs, which are fewer than all.
    let ends =
        if plan.overlay.is_some() { plan.hosts().count() } else { plan.tenants.as_ref().map_or(0, |it| it.vms.len()) } as u64;
    // Servers are each other's in tenant 1, of IPv4.
    let servers = plan.tenants.as_ref().and_then(|it| it.provider.as_ref()).map_or(0, |it| it.leases.len()) as u64;
    let cables: u64 = plan.nodes.iter().map(|n| n.ports.len() as u64).sum();
    // What has aged is not yet gone, and multicast has entries too.
    cables * 8 + ends * ends * 2 + servers * servers
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Where what was before the first lab is noted.
const ROOT: &str = "/run/weft";
/// In a lab's folder: what it wants.
const SHARE: &str = "neighbours";
/// Of the limit, for everything else on the machine.
const SPARE: u64 = 512;
