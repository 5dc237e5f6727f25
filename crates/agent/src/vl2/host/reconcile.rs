//! The kernel's tables are compared with what the machine knows: what somebody has removed is put back.

use weft_control::vl2::agent::OwnState;

use super::Host;
use crate::dataplane::{PlaneError, Restored};
use crate::vl2::dataplane::Local;

impl Host {
    /// Looks whether the kernel has what it should have, and puts back what it lacks.
    pub(super) fn reconcile(&mut self) {
        let done = self.plane.reconcile().and_then(|mut restored| {
            self.reconcile_locals(&mut restored)?;
            self.reconcile_peers(&mut restored)?;
            Ok(restored)
        });
        self.reconciler.record(done);
    }

    /// This host's addresses: those that the directory confirms, and none that it refuses.
    fn reconcile_locals(&mut self, restored: &mut Vec<Restored>) -> Result<(), PlaneError> {
        for (address, service, multicast) in self.agent.locals() {
            if self.plane.tables().restore_local(address, &Local { service, multicast })? {
                restored.push(Restored::Entry(address.to_string()));
            }
        }
        let may_be_here = |state: OwnState| matches!(state, OwnState::Confirmed(_) | OwnState::Unconfirmed);
        for (address, _) in self.plane.tables().locals()? {
            if !self.agent.own().any(|own| own.address == address && may_be_here(own.state)) {
                self.plane.tables().remove_local(address)?;
                restored.push(Restored::Entry(format!("{address}, which is not this host's")));
            }
        }
        Ok(())
    }

    /// Groups, and as many peers as take a millisecond: the next ones each time.
    fn reconcile_peers(&mut self, restored: &mut Vec<Restored>) -> Result<(), PlaneError> {
        for (group, addresses) in self.agent.groups() {
            if self.plane.tables().restore_group(group, addresses)? {
                restored.push(Restored::Entry(format!("group {}", group.0)));
            }
        }
        let next: Vec<_> = self.agent.peers_after(self.compared).take(PEERS_AT_ONCE).collect();
        self.compared = next.last().map(|it| it.key).filter(|_| next.len() == PEERS_AT_ONCE);
        for view in next {
            if self.plane.tables().restore_peer(view.key, &view.peer)? {
                restored.push(Restored::Entry(view.key.address.to_string()));
            }
        }
        Ok(())
    }
}

const PEERS_AT_ONCE: usize = 1024;
