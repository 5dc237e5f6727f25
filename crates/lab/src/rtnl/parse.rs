//! Lines of batches for `ip` and `tc`, as far as labs consist of them.

use std::net::Ipv4Addr;

use crate::plan::Net;

/// A command, whose names are borrowed from its line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command<'a> {
    /// `link add`: a pair of virtual devices.
    AddVeth([VethEnd<'a>; 2]),
    /// `link set`.
    SetLink { name: &'a str, up: Option<bool>, address: Option<[u8; 6]>, mtu: Option<u32> },
    /// `addr add`.
    AddAddress { address: Net, peer: Option<Ipv4Addr>, device: &'a str, prefix_route: bool },
    /// `route add`.
    AddRoute(NewRoute<'a>),
    /// `rule add from`.
    AddRule { from: Net, table: u32 },
    /// `qdisc add ... root tbf`.
    AddTbf { device: &'a str, rate_bps: u64, burst: u32, limit: u32 },
}

/// One end of a pair.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct VethEnd<'a> {
    pub name: &'a str,
    /// `None`: the namespace of the socket.
    pub namespace: Option<&'a str>,
    pub mtu: Option<u32>,
    /// Queues of each direction; `None`: as many as processors are possible.
    pub queues: Option<u32>,
}

/// A route of the main table or another.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NewRoute<'a> {
    pub to: Option<Net>,
    pub unreachable: bool,
    pub via: Option<Ipv4Addr>,
    pub device: Option<&'a str>,
    pub onlink: bool,
    pub source: Option<Ipv4Addr>,
    pub mtu: Option<u32>,
    pub table: Option<u32>,
    pub hops: Vec<(Ipv4Addr, &'a str)>,
}

impl<'a> Command<'a> {
    /// The devices whose indices the message needs.
    pub(super) fn devices(&self) -> impl Iterator<Item = &'a str> {
        let (one, hops) = match self {
            Self::AddAddress { device, .. } | Self::AddTbf { device, .. } => (Some(*device), &[][..]),
            Self::AddRoute(route) => (route.device, &route.hops[..]),
            Self::AddVeth(_) | Self::SetLink { .. } | Self::AddRule { .. } => (None, &[][..]),
        };
        let hops: Vec<&'a str> = hops.iter().map(|(_, device)| *device).collect();
        one.into_iter().chain(hops)
    }
}

/// A line of a batch for a program; `None` if it has anything that is not known here.
pub(super) fn command<'a>(program: &str, line: &'a str) -> Option<Command<'a>> {
    let words = &mut line.split_ascii_whitespace();
    match (program, words.next()?, words.next()?) {
        ("ip", "link", "add") => add_veth(words),
        ("ip", "link", "set") => set_link(words),
        ("ip", "addr", "add") => add_address(words),
        ("ip", "route", "add") => add_route(words).map(Command::AddRoute),
        ("ip", "rule", "add") => add_rule(words),
        ("tc", "qdisc", "add") => add_tbf(words),
        _ => None,
    }
}

type Words<'a, 'w> = &'w mut std::str::SplitAsciiWhitespace<'a>;

fn add_veth<'a>(words: Words<'a, '_>) -> Option<Command<'a>> {
    let mut ends = [VethEnd { name: words.next()?, ..VethEnd::default() }, VethEnd::default()];
    let mut at = 0;
    while let Some(word) = words.next() {
        match word {
            "type" if at == 0 => {
                if [words.next()?, words.next()?, words.next()?] != ["veth", "peer", "name"] {
                    return None;
                }
                at = 1;
                ends[at].name = words.next()?;
            }
            "netns" => ends[at].namespace = Some(words.next()?),
            "mtu" => ends[at].mtu = Some(number(words)?),
            "numtxqueues" => ends[at].queues = Some(number(words)?),
            "numrxqueues" if ends[at].queues == Some(number(words)?) => {}
            _ => return None,
        }
    }
    (at == 1).then_some(Command::AddVeth(ends))
}

fn set_link<'a>(words: Words<'a, '_>) -> Option<Command<'a>> {
    let name = words.next()?;
    let (mut up, mut address, mut mtu) = (None, None, None);
    while let Some(word) = words.next() {
        match word {
            "up" => up = Some(true),
            "down" => up = Some(false),
            "address" => address = Some(mac(words.next()?)?),
            "mtu" => mtu = Some(number(words)?),
            _ => return None,
        }
    }
    Some(Command::SetLink { name, up, address, mtu })
}

fn add_address<'a>(words: Words<'a, '_>) -> Option<Command<'a>> {
    let address = net(words.next()?)?;
    let (mut peer, mut device, mut prefix_route) = (None, None, true);
    while let Some(word) = words.next() {
        match word {
            "peer" => peer = Some(words.next()?.parse().ok()?),
            "dev" => device = Some(words.next()?),
            "noprefixroute" => prefix_route = false,
            _ => return None,
        }
    }
    Some(Command::AddAddress { address, peer, device: device?, prefix_route })
}

fn add_route<'a>(words: Words<'a, '_>) -> Option<NewRoute<'a>> {
    let mut route = NewRoute::default();
    let mut first = words.next()?;
    if first == "unreachable" {
        route.unreachable = true;
        first = words.next()?;
    }
    route.to = Some(if first == "default" { Net::DEFAULT } else { net(first)? });
    while let Some(word) = words.next() {
        match word {
            "via" => route.via = Some(words.next()?.parse().ok()?),
            "dev" => route.device = Some(words.next()?),
            "src" => route.source = Some(words.next()?.parse().ok()?),
            "mtu" => route.mtu = Some(number(words)?),
            "table" => route.table = Some(number(words)?),
            "onlink" => route.onlink = true,
            "nexthop" => route.hops.push(hop(words)?),
            _ => return None,
        }
    }
    Some(route)
}

/// `via ADDRESS dev DEVICE`, after `nexthop`.
fn hop<'a>(words: Words<'a, '_>) -> Option<(Ipv4Addr, &'a str)> {
    (words.next()? == "via").then_some(())?;
    let gateway = words.next()?.parse().ok()?;
    (words.next()? == "dev").then_some(())?;
    Some((gateway, words.next()?))
}

fn add_rule<'a>(words: Words<'a, '_>) -> Option<Command<'a>> {
    (words.next()? == "from").then_some(())?;
    let from = net(words.next()?)?;
    (words.next()? == "lookup").then_some(())?;
    let table = number(words)?;
    words.next().is_none().then_some(Command::AddRule { from, table })
}

fn add_tbf<'a>(words: Words<'a, '_>) -> Option<Command<'a>> {
    (words.next()? == "dev").then_some(())?;
    let device = words.next()?;
    if [words.next()?, words.next()?] != ["root", "tbf"] {
        return None;
    }
    let (mut rate, mut burst, mut limit) = (None, None, None);
    while let Some(word) = words.next() {
        match word {
            "rate" => rate = Some(words.next()?.strip_suffix("bit")?.parse().ok()?),
            "burst" => burst = Some(number(words)?),
            "limit" => limit = Some(number(words)?),
            _ => return None,
        }
    }
    // `tc` explains what is wrong with a rate of 0.
    let rate = rate.filter(|&rate| rate > 0);
    Some(Command::AddTbf { device, rate_bps: rate?, burst: burst?, limit: limit? })
}

fn number(words: Words<'_, '_>) -> Option<u32> {
    words.next()?.parse().ok()
}

/// An IPv4 address, with or without the length of a prefix.
fn net(word: &str) -> Option<Net> {
    Net::try_from(word.to_owned()).ok()
}

fn mac(word: &str) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    let mut parts = word.split(':');
    for byte in &mut bytes {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(bytes)
}
