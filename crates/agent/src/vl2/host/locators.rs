//! `[locator_traffic]`: what may arrive for the host's locators, which are the operator's and not the services'.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::Deserialize;
use toml::Spanned;

use crate::config::Place;
use crate::error::Result;
use crate::vl2::dataplane::LocatorRule;

/// `[locator_traffic]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocatorTraffic {
    /// Whether [`DEFAULTS`] are allowed.
    defaults: bool,
    /// What is allowed besides: `tcp/179`, `udp/7000-7009`, `ospf`, a protocol's number; or `any`.
    allow: Vec<Spanned<String>>,
    /// Addresses to which everything is allowed: those by which the Internet reaches this host.
    open: BTreeSet<IpAddr>,
}

impl Default for LocatorTraffic {
    fn default() -> Self {
        Self { defaults: true, allow: Vec::new(), open: BTreeSet::new() }
    }
}

impl LocatorTraffic {
    /// The rules; `None`: everything is allowed.
    pub fn rules(&self) -> Option<BTreeSet<LocatorRule>> {
        if self.allow.iter().any(|it| it.get_ref() == ANY) {
            return None;
        }
        let defaults = DEFAULTS.iter().copied().filter(|_| self.defaults);
        let listed = defaults.chain(self.allow.iter().map(|it| it.get_ref().as_str()));
        let rules = listed.flat_map(|text| parse(text).unwrap_or_default());
        Some(rules.chain(self.open.iter().map(|address| LocatorRule::Address(*address))).collect())
    }

    /// Checks what is listed.
    ///
    /// # Errors
    /// [`Error`](crate::error::Error) with file, line and remedy.
    pub fn check(&self, place: &Place<'_>) -> Result<()> {
        for text in self.allow.iter().filter(|it| it.get_ref() != ANY) {
            if parse(text.get_ref()).is_none() {
                let help = "write such as \"tcp/179\", \"udp/7000-7009\", \"ospf\", a protocol's number, or \"any\"";
                return Err(place.error(text.span(), &format!("`{}` is no traffic", text.get_ref()), help));
            }
        }
        // Some places are for the agent's own sockets.
        if let Some(rules) = self.rules().filter(|rules| rules.len() > LocatorRule::MAX - OWN) {
            let span = self.allow.first().map_or(0..0, Spanned::span);
            let help = "allow a whole protocol (\"udp\"), or fewer ports";
            return Err(place.error(span, &format!("{} ports and protocols are too many", rules.len()), help));
        }
        Ok(())
    }
}

fn parse(text: &str) -> Option<Vec<LocatorRule>> {
    let Some((protocol, ports)) = text.split_once('/') else { return Some(vec![LocatorRule::Protocol(protocol(text)?)]) };
    let protocol = protocol_with_ports(protocol)?;
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
    (0 < first && first <= last).then(|| (first..=last).map(|port| LocatorRule::Port(protocol, port)).collect())
}

fn protocol(name: &str) -> Option<u8> {
    let known = PROTOCOLS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    known.or_else(|| name.parse().ok().filter(|number| *number > 0))
}

/// Of those whose ports the programs read.
fn protocol_with_ports(name: &str) -> Option<u8> {
    protocol(name).filter(|number| [6, 17, 33, 132, 136].contains(number))
}

/// Everything.
const ANY: &str = "any";
/// Rules that the agent adds for its own sockets, at most.
const OWN: usize = 16;
/// Control messages; ssh; DHCP to clients; the directory, a scheduler, metrics.
const DEFAULTS: [&str; 10] =
    ["icmp", "icmpv6", "igmp", "tcp/22", "udp/68", "udp/546", "tcp/5303", "udp/5303", "udp/5305", "tcp/9304"];
/// As IANA numbers them.
const PROTOCOLS: [(&str, u8); 15] = [
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ospf", 89),
    ("vrrp", 112),
    ("sctp", 132),
    ("udplite", 136),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_is_read() {
        assert_eq!(parse("tcp/22"), Some(vec![LocatorRule::Port(6, 22)]));
        assert_eq!(parse("udp/7-9").unwrap().len(), 3);
        assert_eq!(parse("ospf"), Some(vec![LocatorRule::Protocol(89)]));
        assert_eq!(parse("253"), Some(vec![LocatorRule::Protocol(253)]));
        for wrong in ["", "tcp/", "tcp/0", "tcp/9-7", "tcp/70000", "icmp/8", "0", "256", "ssh", "tcp/22/1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert!(DEFAULTS.iter().all(|text| parse(text).is_some()));
    }

    #[test]
    fn the_defaults_can_be_left_out_and_everything_can_be_allowed() {
        let of = |text: &str| toml::from_str::<LocatorTraffic>(text).unwrap().rules();
        assert!(of("").unwrap().contains(&LocatorRule::Port(6, 22)));
        let only = of("defaults = false\nallow = [\"tcp/80\"]\nopen = [\"203.0.113.7\"]").unwrap();
        assert_eq!(only, BTreeSet::from([LocatorRule::Port(6, 80), LocatorRule::Address([203, 0, 113, 7].into())]));
        assert_eq!(of("allow = [\"any\"]"), None);
    }
}
