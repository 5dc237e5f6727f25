//! A host's plane: the programs on the two hooks of its NIC.

mod locators;
mod reconcile;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::BorrowedFd;
use std::path::Path;

use libbpf_rs::{TC_EGRESS, TC_INGRESS};
use weft_control::directory::key::{GroupId, ServiceId};
use weft_control::wire::vl2::icmp::Problem;
use weft_fabric::MacAddr;

use super::hash::{self, hash_flow, outer_source};
use super::icmp::{self, icmp_error_to_sender};
use super::layout::{
    self, COUNTS, FLOWS, GROUPS, LOCALS, MULTICASTS, PATHS, PEERS, PLACEMENTS, RawEvent, SETTINGS, vl2_event_kind,
    vl2_flow_state, vl2_settings,
};
use super::{Count, Counters, Direction, Event, Flow, Held, HostSettings, Local, Peer, PeerKey, PeerState, Placement, Refusal};
use crate::dataplane::bytes::{Plain, array, be, read_be};
use crate::dataplane::load::Loaded;
use crate::dataplane::maps::{Table, TableName};
use crate::dataplane::nic::{FrameSocket, Nic};
use crate::dataplane::offload::with_offloads;
use crate::dataplane::ring::Ring;
use crate::dataplane::{PlaneError, Result};

/// The programs on one NIC, and their tables. Dropping it leaves them in place.
#[derive(Debug)]
pub struct HostPlane {
    loaded: Loaded,
    ring: Ring<RawEvent>,
    interface: String,
    nic: Nic,
    settings: HostSettings,
    to_stack: FrameSocket,
    release_in: FrameSocket,
    release_out: FrameSocket,
}

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vl2_host.bpf.o"));

impl HostPlane {
    /// Puts the programs on an interface of the calling thread's network namespace and pins them in a folder of bpffs (made if it is not
    /// there), or adopts those that an earlier process left: their tables stay as they are, settings are written again, and programs of
    /// another build are replaced without a gap.
    ///
    /// # Errors
    /// [`PlaneError`] if the interface is missing, settings contradict each other, or the kernel refuses.
    pub fn attach(interface: &str, settings: &HostSettings, pin_dir: &Path) -> Result<Self> {
        let nic = Nic::find(interface)?;
        layout::host_settings(settings, nic.mac, ServiceId(0))?;
        let loaded = load(settings, pin_dir)?;
        let mut plane = Self {
            ring: Ring::new(loaded.map("events"), layout::read_event)?,
            loaded,
            interface: interface.to_owned(),
            nic,
            settings: settings.clone(),
            to_stack: FrameSocket::new(nic, layout::MARK_TO_STACK, false)?,
            release_in: FrameSocket::new(nic, layout::MARK_RELEASE_IN, true)?,
            release_out: FrameSocket::new(nic, layout::MARK_RELEASE_OUT, true)?,
        };
        let begun = plane.begin();
        plane.rollback_on_error(begun)?;
        Ok(plane)
    }

    fn begin(&mut self) -> Result<()> {
        self.write_rules(&self.settings)?;
        self.table(&SETTINGS).set(&0, &self.values(&self.settings)?)?;
        self.loaded.attach("vl2_in", self.nic.index, TC_INGRESS)?;
        self.loaded.attach("vl2_out", self.nic.index, TC_EGRESS)
    }

    /// Detaches if the caller's start has failed, unless an earlier process' tables are in use: then flows go on as before.
    ///
    /// # Errors
    /// That of the start.
    pub fn rollback_on_error<T, E>(&mut self, start: std::result::Result<T, E>) -> std::result::Result<T, E> {
        self.loaded.rollback_on_error(start)
    }

    /// Whether tables of an earlier process were adopted.
    pub const fn adopted(&self) -> bool {
        self.loaded.adopted
    }

    /// The settings as they are now.
    pub const fn settings(&self) -> &HostSettings {
        &self.settings
    }

    /// Takes the programs off the interface and removes the pins: AAs are unreachable from here on. For a thread of the namespace that
    /// it was attached in.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn detach(mut self) -> Result<()> {
        self.loaded.detach()
    }

    /// Writes the settings again, except for `limits`.
    ///
    /// # Errors
    /// [`PlaneError`] if they contradict each other.
    pub fn set_settings(&mut self, settings: &HostSettings) -> Result<()> {
        let values = self.values(settings)?;
        if settings.entropy.prefix_len() != self.settings.entropy.prefix_len() {
            return Err(PlaneError::Setting(
                "the length of the entropy prefix is fixed until the programs are detached".to_owned(),
            ));
        }
        self.write_rules(settings)?;
        self.table(&SETTINGS).set(&0, &values)?;
        self.settings = settings.clone();
        Ok(())
    }

    /// The next hop's MAC address, when it changes.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn set_gateway(&mut self, mac: MacAddr) -> Result<()> {
        let settings = HostSettings { gateway: mac, ..self.settings.clone() };
        self.set_settings(&settings)
    }

    /// Lets packets go to and come from an AA.
    ///
    /// # Errors
    /// [`PlaneError::Full`].
    pub fn set_peer(&mut self, key: PeerKey, peer: &Peer) -> Result<()> {
        self.write_peer(key, &PeerState::Known(*peer))
    }

    /// Has packets to and from an AA dropped and counted without asking again, until it is set or removed.
    ///
    /// # Errors
    /// [`PlaneError::Full`].
    pub fn refuse_peer(&mut self, key: PeerKey, refusal: Refusal) -> Result<()> {
        self.write_peer(key, &PeerState::Refused(refusal))
    }

    /// Forgets what was said of an AA: the next packet is a miss. No error if there was nothing.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn remove_peer(&mut self, key: PeerKey) -> Result<()> {
        self.table(&PEERS).remove(&layout::peer_key(key))
    }

    /// What the table says of an AA.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn peer(&self, key: PeerKey) -> Result<Option<PeerState>> {
        Ok(self.table(&PEERS).get(&layout::peer_key(key))?.as_ref().map(layout::read_peer))
    }

    /// The whole table, ordered by AA and service.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn peers(&self) -> Result<Vec<(PeerKey, PeerState)>> {
        let entries = self.table(&PEERS).all()?;
        Ok(entries.iter().map(|(key, peer)| (layout::read_peer_key(key), layout::read_peer(peer))).collect())
    }

    /// Whether packets went to an AA or came from it since the last time this was asked.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn take_used(&mut self, key: PeerKey) -> Result<bool> {
        let (table, key) = (self.table(&PEERS), layout::peer_key(key));
        let Some(mut peer) = table.get(&key)? else { return Ok(false) };
        let was_used = std::mem::take(&mut peer.used) != 0;
        if was_used {
            table.set(&key, &peer)?;
        }
        Ok(was_used)
    }

    /// The anycast addresses of a group, 1 to 16: flows spread over them. Without them its peers are misses.
    ///
    /// # Errors
    /// [`PlaneError`] if there are none or too many.
    pub fn set_group(&mut self, group: GroupId, anycast: &[Ipv4Addr]) -> Result<()> {
        self.table(&GROUPS).set(&group.0.into(), &layout::group(group, anycast)?)
    }

    /// Forgets a group.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn remove_group(&mut self, group: GroupId) -> Result<()> {
        self.table(&GROUPS).remove(&group.0.into())
    }

    /// An AA that is of this host: it may send with it, and receive.
    ///
    /// # Errors
    /// [`PlaneError::Full`].
    pub fn set_local(&mut self, aa: IpAddr, local: &Local) -> Result<()> {
        self.table(&LOCALS).set(&layout::key(aa), &layout::local(local))?;
        self.write_services()
    }

    /// An AA that no longer is.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn remove_local(&mut self, aa: IpAddr) -> Result<()> {
        self.table(&LOCALS).remove(&layout::key(aa))?;
        self.write_services()
    }

    /// The AAs of this host, in order.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn locals(&self) -> Result<Vec<(IpAddr, Local)>> {
        let entries = self.table(&LOCALS).all()?;
        Ok(entries.iter().map(|(key, local)| (layout::read_key(key), layout::read_local(local))).collect())
    }

    /// Changes what is mixed into a flow's hash, and so its path (VL2, section 4.2.2).
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn salt(&mut self, flow: Flow, salt: u32) -> Result<()> {
        let (table, key) = (self.table(&FLOWS), layout::flow(&flow));
        // The kernel's hash and the time of the last event stay, so that the change itself is no event.
        let state = table.get(&key)?.unwrap_or_default();
        table.set(&key, &vl2_flow_state { salt, ..state })
    }

    /// Sends a flow over the intermediate switch that a scheduler chose, until it is removed.
    ///
    /// # Errors
    /// [`PlaneError::Full`].
    pub fn place(&mut self, flow: Flow, placement: &Placement) -> Result<()> {
        self.table(&PLACEMENTS).set(&layout::flow(&flow), &layout::placement(placement))
    }

    /// Sends a flow over anycast addresses again. No error if it was not placed.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn remove_placement(&mut self, flow: Flow) -> Result<()> {
        self.table(&PLACEMENTS).remove(&layout::flow(&flow))
    }

    /// The scheduler's choice for a flow.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn placement(&self, flow: Flow) -> Result<Option<Placement>> {
        Ok(self.table(&PLACEMENTS).get(&layout::flow(&flow))?.as_ref().map(layout::read_placement))
    }

    /// All placed flows.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn placements(&self) -> Result<Vec<(Flow, Placement)>> {
        let entries = self.table(&PLACEMENTS).all()?;
        Ok(entries.iter().map(|(flow, placement)| (layout::read_flow(flow), layout::read_placement(placement))).collect())
    }

    /// What a flow has sent; `None` if it is not counted.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn count(&self, flow: Flow) -> Result<Option<Count>> {
        Ok(self.table(&COUNTS).get(&layout::flow(&flow))?.as_ref().map(layout::read_count))
    }

    /// The flows that were reported as elephants and have not ended.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn elephants(&self) -> Result<Vec<Flow>> {
        let entries = self.table(&COUNTS).all()?;
        let elephants = entries.iter().filter(|(_, count)| layout::read_count(count).is_elephant);
        Ok(elephants.map(|(flow, _)| layout::read_flow(flow)).collect())
    }

    /// Counts a flow from nothing again: it has ended.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn forget_count(&mut self, flow: Flow) -> Result<()> {
        self.table(&COUNTS).remove(&layout::flow(&flow))
    }

    /// The outer source that a flow has now: its path, as far as the host decides it.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn outer_source(&self, flow: Flow) -> Result<Ipv4Addr> {
        Ok(outer_source(self.settings.entropy, self.hash(flow)?))
    }

    /// Which of a group's anycast addresses a flow has now.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn anycast(&self, flow: Flow, addresses: &[Ipv4Addr]) -> Result<Option<Ipv4Addr>> {
        Ok(addresses.get(hash::anycast(self.hash(flow)?, addresses.len())).copied())
    }

    fn hash(&self, flow: Flow) -> Result<u32> {
        let state = self.table(&FLOWS).get(&layout::flow(&flow))?;
        Ok(hash_flow(&flow, state.unwrap_or_default().salt))
    }

    /// Readable when there are events; for epoll.
    pub fn events_fd(&self) -> BorrowedFd<'_> {
        self.ring.fd()
    }

    /// The events that are there, in order; does not wait. The senders of packets that are too big, or that caused an ICMP error in the fabric, get an ICMP error.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn events(&mut self) -> Result<Vec<Event>> {
        let raw = self.ring.take()?;
        let mut events = Vec::with_capacity(raw.len());
        for event in raw {
            events.extend(self.understand(event)?);
        }
        Ok(events)
    }

    /// Puts an Ethernet frame into the host's stack, unchecked, as if it had come over the NIC: answers to ARP and NDP.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn inject(&mut self, frame: &[u8]) -> Result<()> {
        self.to_stack.send(frame).map_err(PlaneError::system("send", "a frame to the stack"))
    }

    /// Releases a held packet: it goes through all checks again; what is still a miss is dropped and counted, without
    /// an error.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn release(&mut self, direction: Direction, held: &Held) -> Result<()> {
        let socket = match direction {
            Direction::Out => &self.release_out,
            Direction::In => &self.release_in,
        };
        match socket.send(&with_offloads(&held.frame, held.segment)) {
            // The programs dropped it, and counted it by its reason.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(()),
            sent => sent.map_err(PlaneError::system("release", "a held packet")),
        }
    }

    /// What was counted since the maps were made.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn counters(&self) -> Result<Counters> {
        Counters::read(&self.loaded)
    }

    fn table<K: Plain, V: Plain>(&self, name: &TableName<K, V>) -> Table<'_, K, V> {
        self.loaded.table(name)
    }

    fn write_peer(&self, key: PeerKey, state: &PeerState) -> Result<()> {
        let (table, key) = (self.table(&PEERS), layout::peer_key(key));
        let used = table.get(&key)?.is_some_and(|peer| peer.used != 0);
        table.set(&key, &layout::peer(state, used))
    }

    /// The multicast addresses of the services of this host's AAs: what comes for them is taken.
    /// Writes what follows from the AAs of this host: their services' multicast addresses, and the service of its link-local addresses.
    fn write_services(&self) -> Result<()> {
        let table = self.table(&MULTICASTS);
        let locals = self.locals()?;
        let wanted: BTreeMap<Ipv4Addr, ServiceId> =
            locals.iter().filter_map(|(_, local)| Some((local.multicast?, local.service))).collect();
        table.remove_all(|key, _| !wanted.contains_key(&read_be(*key)))?;
        wanted.iter().try_for_each(|(&group, service)| table.set(&be(group), &service.0))?;
        self.table(&SETTINGS).restore(&0, &self.values(&self.settings)?).map(drop)
    }

    /// Settings as the programs have them.
    fn values(&self, settings: &HostSettings) -> Result<vl2_settings> {
        let service = self.locals()?.first().map_or(ServiceId(0), |(_, local)| local.service);
        layout::host_settings(settings, self.nic.mac, service)
    }

    /// What an event means; the sender of a packet that failed gets an ICMP error.
    fn understand(&self, raw: RawEvent) -> Result<Option<Event>> {
        let RawEvent { kind, segment, mtu, outer_source, locator, flow, frame } = raw;
        let (source, destination) = (flow.source, flow.destination);
        let held = |frame| Held { frame, segment };
        Ok(Some(match kind {
            vl2_event_kind::VL2_EVENT_RESOLVE if frame.len() >= 12 => {
                Event::Resolve { target: destination, asker: source, asker_mac: MacAddr(array(&frame, 6)) }
            }
            vl2_event_kind::VL2_EVENT_MISS_OUT => {
                Event::Miss { direction: Direction::Out, source, destination, held: held(frame) }
            }
            vl2_event_kind::VL2_EVENT_MISS_IN => Event::Miss { direction: Direction::In, source, destination, held: held(frame) },
            vl2_event_kind::VL2_EVENT_CONGESTION => Event::Congestion { flow },
            vl2_event_kind::VL2_EVENT_ELEPHANT => Event::Elephant { flow },
            vl2_event_kind::VL2_EVENT_FLOW_END => Event::FlowEnd { flow },
            vl2_event_kind::VL2_EVENT_UNDELIVERABLE => Event::Undeliverable { source, destination, outer_source, locator },
            vl2_event_kind::VL2_EVENT_TOO_BIG => {
                let inner = frame.get(ETHERNET..).unwrap_or_default();
                self.inject_error(icmp_error_to_sender(inner, None, Problem::TooBig { mtu }, self.nic.mac))?;
                Event::TooBig { flow, mtu }
            }
            vl2_event_kind::VL2_EVENT_ICMP => return self.fabric_error(&frame),
            _ => return Ok(None),
        }))
    }

    /// An ICMP error that came back to an outer source.
    fn fabric_error(&self, frame: &[u8]) -> Result<Option<Event>> {
        let packet = frame.get(ETHERNET..).unwrap_or_default();
        let Some(error) = icmp::read(packet, self.settings.entropy) else { return Ok(None) };
        let flow = match error.flow() {
            // Quoted, and yet none of ours: a guess of someone else.
            Some(flow) if self.table(&LOCALS).get(&layout::key(flow.source))?.is_none() => return Ok(None),
            Some(flow) => {
                self.inject_error(icmp_error_to_sender(error.inner, Some(error.from), error.problem_of_inner(), self.nic.mac))?;
                Some(flow)
            }
            None => self.last_flow_of(error.outer_source)?,
        };
        Ok(Some(Event::IcmpError { flow, from: error.from, problem: error.problem }))
    }

    /// The flow that last had an outer source.
    fn last_flow_of(&self, outer: Ipv4Addr) -> Result<Option<Flow>> {
        let bits = u32::from(outer) & self.settings.entropy.hostmask().to_bits() & (layout::PATHS_MAX - 1);
        let path = self.table(&PATHS).get(&bits)?;
        Ok(path.filter(|path| path.bytes().iter().any(|&byte| byte != 0)).map(|path| layout::read_flow(&path.flow)))
    }

    fn inject_error(&self, frame: Option<Vec<u8>>) -> Result<()> {
        let sent = frame.map_or(Ok(()), |frame| self.to_stack.send(&frame));
        sent.map_err(PlaneError::system("send", "an ICMP error to the stack"))
    }
}

const ETHERNET: usize = 14;

/// The programs over their maps, with the sizes of the settings.
pub(super) fn load(settings: &HostSettings, pin_dir: &Path) -> Result<Loaded> {
    let (limits, has_placements) = (settings.limits, settings.elephant_bytes.is_some());
    let wild = 32 - u32::from(settings.entropy.prefix_len());
    let sizes = [
        ("peers", limits.peers),
        ("locals", limits.locals),
        ("multicasts", limits.locals),
        ("flows", limits.flows),
        ("counts", if has_placements { limits.flows } else { 1 }),
        ("placements", if has_placements { limits.placements } else { 1 }),
        ("fragments", limits.fragments),
        ("events", limits.event_bytes),
        ("paths", (1u32 << wild.min(16)).min(layout::PATHS_MAX)),
    ];
    Loaded::load(OBJECT, &sizes, pin_dir)
}
