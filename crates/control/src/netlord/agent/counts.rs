//! What an agent has seen, counted: by reason, and by tenant.

use std::collections::BTreeMap;

use weft_fabric::TenantId;

/// Why a frame went no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Drop {
    /// Of a VM: no Ethernet frame, or an ARP or IP packet that has to be read and cannot be.
    Malformed,
    /// Of a VM: from another MAC address than its VIF's.
    SpoofedMac,
    /// Of a VM in the public space: from an address that is not its own.
    SpoofedIp,
    /// Of a VM: it claims a virtual router's address.
    SpoofedGateway,
    /// Of a VM: NL-ARP, LLDP, spanning tree, and other things between switches.
    Control,
    /// Of a VM: more broadcasts than it may send.
    Storm,
    /// Of a VM: it makes the agent look for too many.
    WhereLimit,
    /// Nobody has the destination, or it left while the frame was kept.
    NoLocation,
    /// Too many frames are kept already.
    Kept,
    /// There is no path to the edge switch.
    NoPath,
    /// No interface to the fabric knows its place.
    NoUplink,
    /// Longer than the fabric's MTU allows.
    TooLong,
    /// A virtual router's rules deny it.
    Denied,
    /// A virtual router has no route, or it is no IP packet.
    NoRoute,
    /// A virtual router at the end of its time to live.
    TimeToLive,
    /// A fragment to a virtual router with rules about ports: the first one has not come, or it overlaps that, or it is one of a fragment.
    Fragment,
    /// From the fabric: no encapsulation, nor anything else that an agent takes.
    Foreign,
    /// From the fabric: an encapsulation that is malformed.
    BadEncapsulation,
    /// From the fabric: NL-ARP or LLDP that is malformed.
    BadControl,
    /// From the fabric: NL-ARP of a version that this agent does not speak.
    OtherVersion,
    /// From the fabric: to another MAC address or port.
    NotMine,
    /// From the fabric: a tenant's frame that no agent would have sent.
    Forged,
    /// From the fabric: to a VIF that is not here; its sender is notified.
    Misdelivered,
}

impl Drop {
    /// All of them.
    pub const ALL: [Self; 23] = [
        Self::Malformed,
        Self::SpoofedMac,
        Self::SpoofedIp,
        Self::SpoofedGateway,
        Self::Control,
        Self::Storm,
        Self::WhereLimit,
        Self::NoLocation,
        Self::Kept,
        Self::NoPath,
        Self::NoUplink,
        Self::TooLong,
        Self::Denied,
        Self::NoRoute,
        Self::TimeToLive,
        Self::Fragment,
        Self::Foreign,
        Self::BadEncapsulation,
        Self::BadControl,
        Self::OtherVersion,
        Self::NotMine,
        Self::Forged,
        Self::Misdelivered,
    ];

    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::SpoofedMac => "spoofed_mac",
            Self::SpoofedIp => "spoofed_ip",
            Self::SpoofedGateway => "spoofed_gateway",
            Self::Control => "control",
            Self::Storm => "storm",
            Self::WhereLimit => "where_limit",
            Self::NoLocation => "no_location",
            Self::Kept => "kept",
            Self::NoPath => "no_path",
            Self::NoUplink => "no_uplink",
            Self::TooLong => "too_long",
            Self::Denied => "denied",
            Self::NoRoute => "no_route",
            Self::TimeToLive => "time_to_live",
            Self::Fragment => "fragment",
            Self::Foreign => "foreign",
            Self::BadEncapsulation => "bad_encapsulation",
            Self::BadControl => "bad_control",
            Self::OtherVersion => "other_version",
            Self::NotMine => "not_mine",
            Self::Forged => "forged",
            Self::Misdelivered => "misdelivered",
        }
    }
}

/// What became of a tenant's frames on this server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantCounts {
    /// Frames that its VMs sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames handed to its VMs.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Frames that went no further.
    pub dropped: u64,
}

/// All counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    drops: [u64; Drop::ALL.len()],
    /// By tenant, those that had a VIF here.
    pub tenants: BTreeMap<TenantId, TenantCounts>,
    /// ARP requests and neighbour solicitations answered in the VM's stead.
    pub answered: u64,
    /// Frames encapsulated.
    pub encapsulated: u64,
    /// Frames that passed a virtual router.
    pub routed: u64,
    /// ICMP errors that virtual routers sent.
    pub icmp_errors: u64,
    /// ICMP errors that were not sent, as there were too many.
    pub icmp_limited: u64,
    /// Addresses that VIFs here have taken over from others.
    pub addresses_taken: u64,
    /// Addresses that VIFs here have lost so.
    pub addresses_lost: u64,
    /// Claims to addresses with which VIFs here are configured, or which they announced at the same time.
    pub addresses_defended: u64,
    /// Takeovers that were not begun, as there were too many.
    pub takeovers_limited: u64,
    /// Announcements by others of VIFs that are here.
    pub elsewhere: u64,
    /// Broadcasts and multicasts that had come over another special VLAN or interface, or were this server's own.
    pub copies: u64,
}

impl Counts {
    /// Frames dropped for a reason.
    pub const fn dropped(&self, reason: Drop) -> u64 {
        self.drops[reason as usize]
    }

    /// Frames dropped, for all reasons.
    pub fn all_dropped(&self) -> u64 {
        self.drops.iter().sum()
    }

    pub(super) fn drop(&mut self, tenant: Option<TenantId>, reason: Drop) {
        self.drops[reason as usize] += 1;
        if let Some(tenant) = tenant {
            self.tenants.entry(tenant).or_default().dropped += 1;
        }
    }

    pub(super) fn sent(&mut self, tenant: TenantId, bytes: usize) {
        let counts = self.tenants.entry(tenant).or_default();
        counts.sent += 1;
        counts.sent_bytes += bytes as u64;
    }

    pub(super) fn delivered(&mut self, tenant: TenantId, bytes: usize) {
        let counts = self.tenants.entry(tenant).or_default();
        counts.delivered += 1;
        counts.delivered_bytes += bytes as u64;
    }
}

#[test]
fn reasons_stand_at_their_numbers_and_have_names_of_their_own() {
    for (at, reason) in Drop::ALL.into_iter().enumerate() {
        assert_eq!(reason as usize, at);
        assert!(Drop::ALL[..at].iter().all(|other| other.name() != reason.name()));
    }
}
