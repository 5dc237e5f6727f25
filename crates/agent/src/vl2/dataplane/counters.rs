//! What the programs count, by reason. Names are the same in status, metrics and tests.

use metrics::counter;

use crate::dataplane::Result;
use crate::dataplane::load::Loaded;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $kind:ident $variant:ident = $name:literal,)+) => {
        /// What is counted: packets (a packet of several segments is one), unless it says bytes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum Counter {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Counter {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name, in the field's snake case.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Whether it counts packets that were dropped.
            pub const fn is_drop(self) -> bool {
                match self {
                    $(Self::$variant => counters!(@drop $kind),)+
                }
            }
        }
    };
    (@drop drop) => { true };
    (@drop count) => { false };
}

// The numbers are those of enum vl2_counter in bpf/vl2/layout.h; a test compares the names.
counters! {
    /// Neither from nor to an AA: left alone.
    count Untouched = "untouched",
    /// Sent with two headers.
    count PushedTwo = "pushed_two",
    /// Sent with one header.
    count PushedOne = "pushed_one",
    /// Bytes of inner frames sent with headers.
    count PushedBytes = "pushed_bytes",
    /// Of those with two headers: over the intermediate switch that a scheduler chose.
    count PushedPlaced = "pushed_placed",
    /// Headers stripped by the destination host.
    count StrippedHost = "stripped_host",
    /// Headers stripped by an intermediate switch.
    count StrippedIntermediate = "stripped_intermediate",
    /// Headers stripped by a ToR, and the packet handed to a port.
    count StrippedTor = "stripped_tor",
    /// Inner packets handed to this host's applications.
    count Delivered = "delivered",
    /// Bytes of them, with their Ethernet headers.
    count DeliveredBytes = "delivered_bytes",
    /// ARP requests answered from the table.
    count ArpAnswered = "arp_answered",
    /// Neighbour solicitations answered from the table.
    count NdpAnswered = "ndp_answered",
    /// ARP requests and neighbour solicitations handed to the agent.
    count ResolveAsked = "resolve_asked",
    /// Packets to an unknown AA handed to the agent.
    count MissOut = "miss_out",
    /// Packets from an unknown AA handed to the agent.
    count MissIn = "miss_in",
    /// Frames that the agent put in.
    count Injected = "injected",
    /// Held packets that the agent released.
    count Released = "released",
    /// Broadcast and multicast packets sent to the service's group.
    count BroadcastSent = "broadcast_sent",
    /// Broadcast and multicast packets received.
    count BroadcastReceived = "broadcast_received",
    /// ICMP errors from the fabric handed to the agent.
    count IcmpErrors = "icmp_errors",
    /// Severe congestion events reported to the agent.
    count CongestionEvents = "congestion_events",
    /// ARP and NDP about own addresses (probes, gratuitous, duplicate address detection): never answered.
    count OwnAddressAsked = "own_address_asked",
    /// Broadcasts of this host that came back.
    count BroadcastEcho = "broadcast_echo",
    /// Congestion experienced on the way, marked in the inner header.
    count EcnMarked = "ecn_marked",
    /// Samples of undeliverable packets reported to the agent.
    count UndeliverableSampled = "undeliverable_sampled",
    /// Dropped: an inner source that is not an AA of this host; at a ToR: of the host behind the port.
    drop ForgedSource = "forged_source",
    /// Dropped: to an AA that the directory refused to resolve.
    drop OutForbidden = "out_forbidden",
    /// Dropped: to an AA that the directory does not know.
    drop OutUnknown = "out_unknown",
    /// Dropped: from an AA that the directory refused to resolve.
    drop InForbidden = "in_forbidden",
    /// Dropped: from an AA that the directory does not know.
    drop InUnknown = "in_unknown",
    /// Dropped: for an AA that is not here.
    drop NotLocal = "not_local",
    /// Dropped: a packet with AAs that came or left without the headers that it should have had.
    drop Plain = "plain",
    /// Dropped: headers that contradict themselves or end early.
    drop Malformed = "malformed",
    /// Dropped: fragments of encapsulated packets; the fabric's MTU is too small.
    drop OuterFragment = "outer_fragment",
    /// Dropped: more than the fabric carries; the sender got an ICMP error.
    drop TooBig = "too_big",
    /// Dropped: too large to be held.
    drop HoldTooLarge = "hold_too_large",
    /// Dropped: no room for an event, the agent is slow or gone.
    drop EventsFull = "events_full",
    /// Dropped: the next hop's MAC address is not known.
    drop NoGateway = "no_gateway",
    /// Dropped: the kernel refused to make or strip headers (a packet that was decapsulated in the same kernel cannot be sent on).
    drop HeaderFailed = "header_failed",
    /// Dropped: over the rate of broadcasts.
    drop BroadcastLimited = "broadcast_limited",
    /// Dropped: broadcast of an AA whose service has no multicast address.
    drop BroadcastNoGroup = "broadcast_no_group",
    /// Dropped: ARP or NDP for AAs that came from outside, or contradicts itself.
    drop ForeignResolution = "foreign_resolution",
    /// Dropped: to an outer source, and no ICMP error.
    drop EntropyTarget = "entropy_target",
    /// Dropped: congestion experienced by a packet whose ends do not speak ECN.
    drop EcnDropped = "ecn_dropped",
    /// Dropped: released by the agent, and its peer was gone again.
    drop ReleasedLate = "released_late",
    /// ARP requests of the ToR for an own address, which the program answers without the agent.
    count TorAnswered = "tor_answered",
    /// Dropped: a packet between AAs that a program of this host has encapsulated by itself.
    drop ForgedTunnel = "forged_tunnel",
    /// Dropped at a ToR: a host's packet whose locator or outer source is not that host's.
    drop ForgedOuter = "forged_outer",
    /// Dropped: to a locator of this host, and neither tunnelled, nor allowed, nor an answer.
    drop LocatorRefused = "locator_refused",
    /// DHCP of an AA to the relay of its ToR: sent by its host; at the ToR, handed to the agent.
    count DhcpToRelay = "dhcp_to_relay",
    /// Answers of the ToR's relay to an AA of this host.
    count DhcpFromRelay = "dhcp_from_relay",
}

/// Values of all counters.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Counters(Vec<u64>);

impl Counters {
    /// Reads them, each summed over the CPUs.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if the kernel refuses.
    pub(super) fn read(loaded: &Loaded) -> Result<Self> {
        loaded.counters(Counter::ALL.len()).map(Self)
    }

    /// One of them.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0.get(counter as usize).copied().unwrap_or(0)
    }

    /// All, in the order of [`Counter::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        Counter::ALL.iter().map(|&counter| (counter, self.get(counter)))
    }

    /// Packets dropped, for whatever reason.
    pub fn drops(&self) -> u64 {
        self.iter().filter(|(counter, _)| counter.is_drop()).map(|(_, value)| value).sum()
    }

    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self(Counter::ALL.iter().map(|&counter| self.get(counter).saturating_sub(earlier.get(counter))).collect())
    }

    /// Exports them: `weft_agent_packets_total{reason}`, and for dropped packets `weft_agent_dropped_total{reason}`.
    pub fn export(&self) {
        for (which, value) in self.iter() {
            let name = if which.is_drop() { "weft_agent_dropped_total" } else { "weft_agent_packets_total" };
            counter!(name, "reason" => which.name()).absolute(value);
        }
    }
}
