//! Room for neighbours (ARP, NDP): all namespaces of a system share one table of them, 1,024 by default.
//!
//! Hosts of an overlay are each other's neighbours, each of 80 has 79; beyond the limit the kernel sends to none that is new. So the limit is raised while labs
//! stand, and the last of them that goes puts it back.

use std::fs;
use std::path::Path;

use crate::error::{LabError, Result};
use crate::plan::Plan;
use crate::{netns, state};

/// Makes room for a lab's.
pub(crate) fn make_room(plan: &Plan) -> Result<()> {
    let more = wanted(plan);
    let _turn = netns::turn()?;
    for (family, note) in FAMILIES {
        let place = limit(family);
        let before = read(&place)?;
        if !Path::new(note).exists() {
            if more + SPARE <= before {
                continue;
            }
            fs::write(note, before.to_string()).map_err(|e| LabError::io("write", Path::new(note), e))?;
        }
        fs::write(&place, (before + more).to_string()).map_err(|e| LabError::io("raise", Path::new(&place), e))?;
    }
    Ok(())
}

/// Puts the limits back, if no lab stands any more.
pub(crate) fn put_back() -> Result<()> {
    let _turn = netns::turn()?;
    if !state::names().is_empty() {
        return Ok(());
    }
    for (family, note) in FAMILIES {
        if let Ok(before) = fs::read_to_string(note) {
            let restored = fs::write(limit(family), before).and_then(|()| fs::remove_file(note));
            restored.map_err(|e| LabError::io("put back what is in", Path::new(note), e))?;
        }
    }
    Ok(())
}

/// Neighbours of a lab whose hosts all talk to each other.
fn wanted(plan: &Plan) -> u64 {
    let hosts = plan.hosts().count() as u64;
    let cables: u64 = plan.nodes.iter().map(|n| n.ports.len() as u64).sum();
    // What has aged is not yet gone, and multicast has entries too.
    cables * 8 + if plan.overlay.is_some() { hosts * hosts * 2 } else { 0 }
}

fn read(place: &str) -> Result<u64> {
    let text = fs::read_to_string(place).map_err(|e| LabError::io("read", Path::new(place), e))?;
    Ok(text.trim().parse().unwrap_or(0))
}

fn limit(family: &str) -> String {
    format!("/proc/sys/net/{family}/neigh/default/gc_thresh3")
}

/// Where what was before is noted; in no lab's folder, since the limits are of all.
const FAMILIES: [(&str, &str); 2] = [("ipv4", "/run/weft/neighbours-ipv4"), ("ipv6", "/run/weft/neighbours-ipv6")];
/// Of the limit, for everything else on the machine.
const SPARE: u64 = 512;
