//! What a host's plane should have in the kernel, compared with what is there.

use std::net::{IpAddr, Ipv4Addr};

use weft_control::directory::key::GroupId;

use super::super::layout::{self, GROUPS, LOCALS, PEERS, SETTINGS};
use super::super::{Local, Peer, PeerKey, PeerState};
use super::HostPlane;
use crate::dataplane::nic::{FrameSocket, Nic};
use crate::dataplane::{Restored, Result};

impl HostPlane {
    /// The interface's index.
    pub const fn index(&self) -> u32 {
        self.nic.index as u32
    }

    /// Puts back what somebody has removed from the kernel: programs, pins, settings; at an interface that was made again, everything.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if the interface is not there, or the kernel refuses.
    pub fn reconcile(&mut self) -> Result<Vec<Restored>> {
        let mut restored = Vec::new();
        let nic = Nic::find(&self.interface)?;
        if nic != self.nic {
            self.to_stack = FrameSocket::new(nic, layout::MARK_TO_STACK, false)?;
            self.release_in = FrameSocket::new(nic, layout::MARK_RELEASE_IN, true)?;
            self.release_out = FrameSocket::new(nic, layout::MARK_RELEASE_OUT, true)?;
            self.nic = nic;
            self.begin()?;
            restored.push(Restored::Interface(self.interface.clone()));
        }
        restored.extend(self.loaded.reconcile()?);
        if self.table(&SETTINGS).restore(&0, &self.values(&self.settings)?)? {
            restored.push(Restored::Entry("the settings".to_owned()));
        }
        if self.write_rules(&self.settings)? {
            restored.push(Restored::Entry("the rules for locators".to_owned()));
        }
        Ok(restored)
    }

    /// Writes a peer, unless the table has it so; whether it had not.
    ///
    /// # Errors
    /// [`PlaneError::Full`](crate::dataplane::PlaneError::Full).
    pub fn restore_peer(&mut self, key: PeerKey, peer: &Peer) -> Result<bool> {
        let (table, key) = (self.table(&PEERS), layout::peer_key(key));
        let used = table.get(&key)?.is_some_and(|there| there.used != 0);
        table.restore(&key, &layout::peer(&PeerState::Known(*peer), used))
    }

    /// Writes a group, unless the table has it so; whether it had not.
    ///
    /// # Errors
    /// As [`set_group`](Self::set_group).
    pub fn restore_group(&mut self, group: GroupId, anycast: &[Ipv4Addr]) -> Result<bool> {
        self.table(&GROUPS).restore(&group.0.into(), &layout::group(group, anycast)?)
    }

    /// Writes an AA of this host, unless the table has it so; whether it had not.
    ///
    /// # Errors
    /// As [`set_local`](Self::set_local).
    pub fn restore_local(&mut self, aa: IpAddr, local: &Local) -> Result<bool> {
        let restored = self.table(&LOCALS).restore(&layout::key(aa), &layout::local(local))?;
        if restored {
            self.write_services()?;
        }
        Ok(restored)
    }
}
