//! Budgets of what is handed to the agent (`bpf/netlord/budget.h`): one for each VIF, and one for each MAC space that has a VIF here.

use weft_control::netlord::{MacSpace, Vif};
use weft_fabric::{MacAddr, TenantId};

use super::HostPlane;
use super::layout::{self, LOCALS, SPACE_BUDGETS, VIF_BUDGETS, VIFS, netlord_budget};
use crate::dataplane::bytes::Plain;
use crate::dataplane::maps::Table;
use crate::dataplane::{Rate, Result};

/// Frames of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handed {
    /// That were handed to the agent.
    pub handed: u64,
    /// That were dropped, since they exceeded its budget.
    pub refused: u64,
}

impl HostPlane {
    /// Budgets for all that an earlier process left in the tables.
    pub(super) fn grant_all(&mut self) -> Result<()> {
        for (ifindex, _) in self.table(&VIFS).all()? {
            self.grant_vif(ifindex)?;
        }
        for (name, _) in self.table(&LOCALS).all()? {
            self.enter(layout::read_name(&name))?;
        }
        Ok(())
    }

    /// A budget for a VIF, unless it has one; whether it had none.
    pub(super) fn grant_vif(&self, ifindex: u32) -> Result<bool> {
        grant(&self.table(&VIF_BUDGETS), &ifindex, self.rate)
    }

    /// A VIF is here, and so its MAC space is.
    pub(super) fn enter(&mut self, vif: Vif) -> Result<()> {
        self.here.insert(vif);
        grant(&self.table(&SPACE_BUDGETS), &layout::space(vif.tenant, vif.space), self.rate).map(drop)
    }

    /// A VIF is not here any more, and perhaps no other of its MAC space is.
    pub(super) fn leave(&mut self, vif: Vif) -> Result<()> {
        self.here.remove(&vif);
        let [first, last] = [[0; 6], [0xff; 6]].map(|mac| Vif { mac: MacAddr(mac), ..vif });
        if self.here.range(first..=last).next().is_some() {
            return Ok(());
        }
        self.table(&SPACE_BUDGETS).remove(&layout::space(vif.tenant, vif.space))
    }

    /// What VIFs have handed to the agent, by interface.
    ///
    /// # Errors
    /// [`PlaneError`](super::super::super::dataplane::PlaneError) if the kernel refuses.
    pub fn handed_by_vifs(&self) -> Result<Vec<(u32, Handed)>> {
        Ok(self.table(&VIF_BUDGETS).all()?.iter().map(|(ifindex, budget)| (*ifindex, handed(budget))).collect())
    }

    /// What has come from the fabric for MAC spaces and was handed to the agent.
    ///
    /// # Errors
    /// [`PlaneError`](super::super::super::dataplane::PlaneError) if the kernel refuses.
    pub fn handed_to_spaces(&self) -> Result<Vec<((TenantId, MacSpace), Handed)>> {
        Ok(self.table(&SPACE_BUDGETS).all()?.iter().map(|(key, budget)| (layout::read_space(key), handed(budget))).collect())
    }
}

const fn handed(budget: &netlord_budget) -> Handed {
    Handed { handed: budget.handed, refused: budget.refused }
}

/// An entry with this rate, which keeps what it has counted; whether there was none.
fn grant<K: Plain>(table: &Table<'_, K, netlord_budget>, key: &K, rate: Rate) -> Result<bool> {
    let fresh = layout::budget(rate);
    match table.get(key)? {
        Some(there) if (there.per_second, there.burst) == (rate.per_second, rate.burst) => Ok(false),
        Some(there) => {
            let changed = netlord_budget { handed: there.handed, refused: there.refused, ..fresh };
            table.set(key, &changed).map(|()| false)
        }
        None => table.set(key, &fresh).map(|()| true),
    }
}
