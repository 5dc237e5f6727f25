//! `follow_device`: the application addresses on the NIC are this host's: assigned by a DHCP client, systemd-networkd or an operator, for as long as they
//! are there.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::RawFd;

use weft_control::vl2::agent::Input;

use super::Host;
use crate::error::{Error, Result};
use crate::watch::KernelWatch;

/// The addresses that were attached because the NIC has them.
#[derive(Debug)]
pub(super) struct DeviceAddresses {
    watch: KernelWatch,
    attached: BTreeSet<IpAddr>,
    /// The machine is a new one, which has none of them.
    is_reloaded: bool,
}

impl DeviceAddresses {
    /// Listens to changes in the thread's network namespace.
    pub fn open() -> Result<Self> {
        let watch = KernelWatch::open(libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR);
        Ok(Self {
            watch: watch.map_err(Error::system("listen to changes of addresses", ""))?,
            attached: BTreeSet::new(),
            is_reloaded: false,
        })
    }

    pub fn descriptor(&self) -> RawFd {
        self.watch.descriptor()
    }

    /// Whether some interface has got or lost an address since.
    pub fn has_changed(&self) -> bool {
        self.watch.has_changed()
    }

    /// A new machine follows: all that the NIC has is new to it.
    pub const fn reload(&mut self) {
        self.is_reloaded = true;
    }

    /// The NIC has these now: which are new, and which are gone.
    fn replace(&mut self, present: BTreeSet<IpAddr>) -> (Vec<IpAddr>, Vec<IpAddr>) {
        let is_reloaded = std::mem::take(&mut self.is_reloaded);
        let new = present.iter().copied().filter(|it| is_reloaded || !self.attached.contains(it)).collect();
        let gone = self.attached.difference(&present).copied().collect();
        self.attached = present;
        (new, gone)
    }
}

impl Host {
    /// Attaches the application addresses that the NIC has got, and detaches those that it had and has lost. Those of the configuration stay.
    pub(super) fn follow_device(&mut self) {
        let Some(followed) = &mut self.followed else { return };
        let present = match self.link.addresses() {
            Ok(all) if self.config.follow_device => all,
            Ok(_) => Vec::new(),
            Err(error) => {
                return tracing::warn!(%error, "the addresses of the NIC cannot be read; those that it had stay attached");
            }
        };
        let configured: BTreeSet<IpAddr> = self.config.address.iter().map(|own| *own.address.get_ref()).collect();
        let present = present.into_iter().filter(|it| self.config.is_application(*it) && !configured.contains(it)).collect();
        let (new, gone) = followed.replace(present);
        for address in gone.into_iter().filter(|it| !configured.contains(it)) {
            tracing::info!(%address, "the NIC has lost this address");
            self.input(Input::Detach(address));
        }
        if new.is_empty() {
            return;
        }
        for address in new {
            tracing::info!(%address, "the NIC has this address");
            self.input(Input::Attach { address, mac: self.link.mac });
        }
        drop(self.narrow_routes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_and_what_is_gone_is_seen_once() {
        let of = |last: &[u8]| last.iter().map(|it| IpAddr::from([20, 0, 0, *it])).collect::<BTreeSet<_>>();
        let Ok(mut followed) = DeviceAddresses::open() else { panic!("no netlink") };
        let list = |(new, gone): (Vec<IpAddr>, Vec<IpAddr>)| (new.into_iter().collect(), gone.into_iter().collect());
        assert_eq!(list(followed.replace(of(&[1, 2]))), (of(&[1, 2]), of(&[])));
        assert_eq!(list(followed.replace(of(&[2, 3]))), (of(&[3]), of(&[1])));
        assert_eq!(list(followed.replace(of(&[2, 3]))), (of(&[]), of(&[])));
        followed.reload();
        assert_eq!(list(followed.replace(of(&[3]))), (of(&[3]), of(&[2])));
        assert_eq!(list(followed.replace(of(&[2, 3]))), (of(&[2]), of(&[])));
        assert_eq!(list(followed.replace(of(&[]))), (of(&[]), of(&[2, 3])));
    }
}
