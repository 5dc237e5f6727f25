//! The programs' counters, by name. The numbers are those of the enumerations in bpf/netlord/layout.h; a test compares the names.

/// A counter's name, and whether it counts frames that were dropped.
pub type Name = (&'static str, bool);

/// Of a server's programs.
pub const HOST_COUNTERS: &[Name] = &[
    ("sent", false),
    ("sent_bytes", false),
    ("sent_same_switch", false),
    ("local", false),
    ("routed", false),
    ("received", false),
    ("received_bytes", false),
    ("to_agent", false),
    ("control_in", false),
    ("plain", false),
    ("spoofed_mac", true),
    ("control", true),
    ("too_long", true),
    ("no_uplink", true),
    ("no_path", true),
    ("header_failed", true),
    ("events_full", true),
    ("bad_encapsulation", true),
    ("not_mine", true),
    ("forged", true),
    ("misdelivered_limit", true),
    ("agent_limit", true),
    ("space_limit", true),
    ("other_spaces", false),
];

/// Of a switch's program.
pub const SWITCH_COUNTERS: &[Name] = &[
    ("forwarded", false),
    ("flooded", false),
    ("flooded_copies", false),
    ("last_hop", false),
    ("learned", false),
    ("moved", false),
    ("evicted", false),
    ("aged", false),
    ("learn_limited", false),
    ("misses", false),
    ("arp", false),
    ("claims", false),
    ("no_vlan", true),
    ("not_member", true),
    ("same_port", true),
    ("reserved", true),
    ("bad_source", true),
    ("forged_claims", true),
    ("bad_header", true),
    ("ttl_expired", true),
    ("no_route", true),
    ("no_neighbour", true),
    ("denied", true),
    ("limited", true),
    ("failed", true),
];

/// Values of all counters of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    names: &'static [Name],
    values: Vec<u64>,
}

impl Named {
    pub(super) fn new(names: &'static [Name], values: Vec<u64>) -> Self {
        assert_eq!(names.len(), values.len());
        Self { names, values }
    }

    /// The value of this name.
    ///
    /// # Panics
    /// If there is none: names are written in the program.
    pub fn get(&self, name: &str) -> u64 {
        let at = self.names.iter().position(|(it, _)| *it == name);
        self.values[at.unwrap_or_else(|| panic!("there is no counter `{name}`"))]
    }

    /// Name, whether it counts drops, and value of each.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, bool, u64)> + '_ {
        self.names.iter().zip(&self.values).map(|(&(name, is_drop), &value)| (name, is_drop, value))
    }

    /// Frames dropped, for whatever reason.
    pub fn drops(&self) -> u64 {
        self.iter().filter(|(_, is_drop, _)| *is_drop).map(|(.., value)| value).sum()
    }
}
