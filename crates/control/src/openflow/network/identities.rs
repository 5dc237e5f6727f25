//! Who is who between a fabric and its OpenFlow switches: datapaths, port numbers, addresses of hosts.

use std::net::Ipv4Addr;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use weft_fabric::addressing::{AddressError, Addressing, Prefix};
use weft_fabric::topology::Health;
use weft_fabric::{Fabric, HostId, LinkId, MacAddr, RackId, SwitchId};

use crate::openflow::SWITCHES_MAC;

/// A host as packets name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostIdentity {
    /// Its IPv4 address.
    pub address: Ipv4Addr,
    /// The MAC address of its NIC.
    pub mac: MacAddr,
}

/// The fabric's parts as OpenFlow names them.
#[derive(Clone, Debug)]
pub struct Identities {
    fabric: Arc<Fabric>,
    /// By switch.
    datapaths: Vec<u64>,
    by_datapath: FxHashMap<u64, SwitchId>,
    /// By link: the number of the port by which it leaves its switch; 0 for a host's.
    ports: Vec<u32>,
    by_port: FxHashMap<(SwitchId, u32), LinkId>,
    hosts: Vec<HostIdentity>,
    by_address: FxHashMap<Ipv4Addr, HostId>,
    /// By rack: its prefix, if all of its hosts are in it.
    racks: Vec<Option<Prefix>>,
}

/// Parts that have the same name for packets, or that cannot be steered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum IdentityError {
    #[error("the switches `{first}` and `{second}` have the same datapath {datapath:016x}")]
    SameDatapath { datapath: u64, first: String, second: String },
    #[error("switch `{switch}` has two links at port {port}: to `{first}` and to `{second}`")]
    SamePort { switch: String, port: u32, first: String, second: String },
    #[error("port {port} of switch `{switch}`: ports are numbered from 1 to {PORT_MAX}")]
    PortNumber { switch: String, port: u32 },
    #[error("the hosts `{first}` and `{second}` have the same address {address}")]
    SameAddress { address: Ipv4Addr, first: String, second: String },
    #[error("host `{0}` has the MAC address {SWITCHES_MAC}, which the switches have")]
    SwitchMac(String),
    #[error("host `{host}` has {nics} NICs: OpenFlow switches steer hosts with one")]
    SeveralNics { host: String, nics: usize },
    #[error(transparent)]
    Addresses(#[from] AddressError),
}

impl Identities {
    /// The usual identities of a fabric: switch number n (from 0) is datapath n + 1, and its cables are its ports from 1, in the order of
    /// the fabric. `hosts` are in the order of the fabric.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn new(fabric: Arc<Fabric>, hosts: Vec<HostIdentity>) -> Result<Self, IdentityError> {
        let datapaths = fabric.switches().map(|s| u64::from(s.0) + 1).collect();
        let mut ports = vec![0; fabric.links().len()];
        for switch in fabric.switches() {
            for (port, &link) in (1..).zip(fabric.out(fabric.switch_node(switch))) {
                ports[link.index()] = port;
            }
        }
        Self::with(fabric, datapaths, ports, hosts)
    }

    /// Identities with given datapaths (by switch) and port numbers (by link; those of hosts' links are ignored).
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn with(
        fabric: Arc<Fabric>,
        datapaths: Vec<u64>,
        ports: Vec<u32>,
        hosts: Vec<HostIdentity>,
    ) -> Result<Self, IdentityError> {
        let name = |node| fabric.node(node).name.to_string();
        let mut by_datapath = FxHashMap::default();
        for (switch, &datapath) in fabric.switches().zip(&datapaths) {
            if let Some(first) = by_datapath.insert(datapath, switch) {
                let [first, second] = [first, switch].map(|s| name(fabric.switch_node(s)));
                return Err(IdentityError::SameDatapath { datapath, first, second });
            }
        }
        let mut by_port = FxHashMap::default();
        for (i, link) in fabric.links().iter().enumerate() {
            let (Some(switch), port) = (fabric.as_switch(link.from), ports[i]) else { continue };
            if !(1..=PORT_MAX).contains(&port) {
                return Err(IdentityError::PortNumber { switch: name(link.from), port });
            }
            if let Some(first) = by_port.insert((switch, port), LinkId::from(i)) {
                let [first, second] = [fabric.link(first).to, link.to].map(name);
                return Err(IdentityError::SamePort { switch: name(link.from), port, first, second });
            }
        }
        let mut by_address = FxHashMap::default();
        for (host, identity) in fabric.hosts().zip(&hosts) {
            let nics = fabric.out(host.node()).len();
            if nics > 1 {
                return Err(IdentityError::SeveralNics { host: name(host.node()), nics });
            }
            if identity.mac == SWITCHES_MAC {
                return Err(IdentityError::SwitchMac(name(host.node())));
            }
            if let Some(first) = by_address.insert(identity.address, host) {
                let [first, second] = [first, host].map(|h| name(h.node()));
                return Err(IdentityError::SameAddress { address: identity.address, first, second });
            }
        }
        let racks = prefixes(&fabric, &hosts)?;
        Ok(Self { fabric, datapaths, by_datapath, ports, by_port, hosts, by_address, racks })
    }

    /// The fabric.
    pub fn fabric(&self) -> &Arc<Fabric> {
        &self.fabric
    }

    /// The datapath of a switch.
    pub fn datapath(&self, switch: SwitchId) -> u64 {
        self.datapaths[switch.index()]
    }

    /// The switch of a datapath.
    pub fn switch_of(&self, datapath: u64) -> Option<SwitchId> {
        self.by_datapath.get(&datapath).copied()
    }

    /// The port by which a link leaves its switch.
    pub fn port(&self, link: LinkId) -> u32 {
        self.ports[link.index()]
    }

    /// The link that leaves a switch by a port.
    pub fn link_of(&self, switch: SwitchId, port: u32) -> Option<LinkId> {
        self.by_port.get(&(switch, port)).copied()
    }

    /// A host's address and MAC address.
    pub fn host(&self, host: HostId) -> HostIdentity {
        self.hosts[host.index()]
    }

    /// The host of an address.
    pub fn host_of(&self, address: Ipv4Addr) -> Option<HostId> {
        self.by_address.get(&address).copied()
    }

    /// The prefix of a rack, if its hosts' addresses are all in it.
    pub fn rack(&self, rack: RackId) -> Option<Prefix> {
        self.racks[rack.index()]
    }

    /// The switch of a host.
    pub fn edge_of(&self, host: HostId) -> SwitchId {
        let nic = self.fabric.out(host.node())[0];
        self.fabric.as_switch(self.fabric.link(nic).to).expect("hosts touch only switches")
    }

    /// A fabric of which everything works.
    pub(super) fn healthy(&self) -> Health {
        Health::new(&self.fabric)
    }
}

/// By rack: the fabric's own prefix, if the hosts have addresses of it.
fn prefixes(fabric: &Fabric, hosts: &[HostIdentity]) -> Result<Vec<Option<Prefix>>, IdentityError> {
    let addressing = Addressing::new(fabric)?;
    let is_own = |h: &HostId| u32::from(hosts[h.index()].address) == addressing.host(*h).0;
    let racks = fabric.racks().iter().enumerate();
    Ok(racks.map(|(r, rack)| rack.hosts.iter().all(is_own).then(|| addressing.rack(RackId::from(r)))).collect())
}

/// The highest number of a port (`OFPP_MAX`).
const PORT_MAX: u32 = 0xffff_ff00;
