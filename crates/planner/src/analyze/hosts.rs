//! Which rack, pod and service a host belongs to: from a map of the user, or by its address.
//!
//! ```text
//!   address,rack,pod,service       the header; pod and service may be absent
//!   10.0.1.0/24,tor1,pod0,web      a prefix, an address, a name, or a range of host numbers such as 0-19
//! ```

use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use rustc_hash::FxHashMap;

use super::anonymize::Anonymizer;
use super::formats::Endpoint;
use crate::error::{Error, Result};

/// The group of all hosts that the map does not name (VL2 section 3.3: "servers outside the cluster are treated as a single ToR").
pub const OUTSIDE: &str = "outside";

/// A line of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    rack: String,
    pod: Option<String>,
    service: Option<String>,
}

/// Where hosts are.
#[derive(Clone, Debug, Default)]
pub struct HostMap {
    names: FxHashMap<String, Place>,
    /// First and last number, sorted.
    numbers: Vec<(u64, u64, Place)>,
    /// Longest prefix first.
    prefixes: Vec<(IpNet, Place)>,
}

impl HostMap {
    /// Reads a map.
    ///
    /// # Errors
    /// The file cannot be read; the line that is not one of a map.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
        Self::parse(&text).map_err(|(line, message, help)| Error::input(path, format!("line {line}"), message, help))
    }

    /// Parses a map.
    ///
    /// # Errors
    /// The line that is not one of a map, what is wrong with it, what to do.
    pub fn parse(text: &str) -> std::result::Result<Self, (u64, String, &'static str)> {
        const HELP: &str = "the first line must be `address,rack`, with `pod` and `service` if known; each further line is a host, a prefix or a range of host numbers";
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).from_reader(text.as_bytes());
        let header = reader.headers().map_err(|e| (1, e.to_string(), HELP))?.clone();
        let find = |name: &str| header.iter().position(|it| it.eq_ignore_ascii_case(name));
        let (Some(address), Some(rack)) = (find("address"), find("rack")) else {
            return Err((1, "there is no column `address` or no column `rack`".to_owned(), HELP));
        };
        if let Some(unknown) = header.iter().find(|name| !["address", "rack", "pod", "service"].contains(name)) {
            return Err((1, format!("unknown column `{unknown}`"), HELP));
        }
        let (pod, service) = (find("pod"), find("service"));
        let mut map = Self::default();
        for record in reader.records() {
            let record = record.map_err(|e| (e.position().map_or(1, csv::Position::line), e.to_string(), HELP))?;
            let line = record.position().map_or(1, csv::Position::line);
            let field = |at: Option<usize>| at.and_then(|at| record.get(at)).filter(|it| !it.is_empty()).map(str::to_owned);
            let Some(rack) = field(Some(rack)) else { return Err((line, "the rack is empty".to_owned(), HELP)) };
            let place = Place { rack, pod: field(pod), service: field(service) };
            let host = record.get(address).unwrap_or_default();
            map.add(host, place).map_err(|message| (line, message, HELP))?;
        }
        map.numbers.sort_by_key(|&(from, ..)| from);
        if let Some(pair) = map.numbers.windows(2).find(|pair| pair[1].0 <= pair[0].1) {
            return Err((1, format!("host {} is in two ranges", pair[1].0), HELP));
        }
        map.prefixes.sort_by_key(|(net, _)| std::cmp::Reverse(net.prefix_len()));
        Ok(map)
    }

    fn add(&mut self, host: &str, place: Place) -> std::result::Result<(), String> {
        if let Ok(net) = host.parse::<IpNet>() {
            self.prefixes.push((net.trunc(), place));
        } else if let Ok(address) = host.parse::<IpAddr>() {
            self.prefixes.push((address.into(), place));
        } else if let Some((from, to)) = numbers(host) {
            if to < from {
                return Err(format!("`{host}` ends before it begins"));
            }
            self.numbers.push((from, to, place));
        } else if host.is_empty() {
            return Err("the address is empty".to_owned());
        } else if self.names.insert(host.to_owned(), place).is_some() {
            return Err(format!("`{host}` is listed twice"));
        }
        Ok(())
    }

    fn find(&self, host: &Endpoint) -> Option<&Place> {
        match host {
            Endpoint::Ip(address) => {
                let address = address.to_canonical();
                self.prefixes.iter().find(|(net, _)| net.contains(&address)).map(|(_, place)| place)
            }
            Endpoint::Name(name) => match name.parse::<u64>() {
                Ok(number) => {
                    let at = self.numbers.partition_point(|&(_, to, _)| to < number);
                    self.numbers.get(at).filter(|&&(from, ..)| from <= number).map(|(.., place)| place)
                }
                Err(_) => self.names.get(&**name),
            },
        }
    }
}

/// `7` or `0-19`.
fn numbers(text: &str) -> Option<(u64, u64)> {
    if let Ok(one) = text.parse() {
        return Some((one, one));
    }
    let (from, to) = text.split_once('-')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

/// A rack, or what stands for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its pod, if the map names one.
    pub pod: Option<String>,
    /// Whether it is that of all unknown hosts.
    pub is_outside: bool,
    /// Number of hosts seen in it.
    pub hosts: u64,
}

/// A host by number, and its group by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// In the order of appearance.
    pub host: u32,
    /// Index into [`Hosts::groups`].
    pub group: u32,
}

/// Numbers hosts and groups in the order of their appearance.
#[derive(Debug)]
pub struct Hosts {
    map: Option<HostMap>,
    /// Hides names.
    pub key: Option<Anonymizer>,
    of_host: FxHashMap<Endpoint, Located>,
    of_group: FxHashMap<String, u32>,
    of_service: FxHashMap<String, u32>,
    /// Names of the hosts, by number.
    pub names: Vec<Endpoint>,
    /// Groups, by number.
    pub groups: Vec<Group>,
    /// Group of each host.
    pub group_of: Vec<u32>,
    /// Service of each host.
    pub service_of: Vec<Option<u32>>,
    /// Names of the services.
    pub services: Vec<String>,
}

impl Hosts {
    /// No hosts yet.
    pub fn new(map: Option<HostMap>, key: Option<Anonymizer>) -> Self {
        Self {
            map,
            key,
            of_host: FxHashMap::default(),
            of_group: FxHashMap::default(),
            of_service: FxHashMap::default(),
            names: Vec::new(),
            groups: Vec::new(),
            group_of: Vec::new(),
            service_of: Vec::new(),
            services: Vec::new(),
        }
    }

    /// Whether a map places the hosts.
    pub const fn has_map(&self) -> bool {
        self.map.is_some()
    }

    /// How groups were formed.
    pub fn grouping(&self) -> &'static str {
        if self.has_map() { "racks of the host map" } else { "prefixes (/24 of IPv4, /64 of IPv6), named hosts one by one" }
    }

    /// The number of a host and of its group.
    pub fn locate(&mut self, host: &Endpoint) -> Located {
        if let Some(&known) = self.of_host.get(host) {
            return known;
        }
        let (name, pod, service, is_outside) = match &self.map {
            None => (prefix_of(host), None, None, false),
            Some(map) => match map.find(host) {
                Some(place) => (place.rack.clone(), place.pod.clone(), place.service.clone(), false),
                None => (OUTSIDE.to_owned(), None, None, true),
            },
        };
        let next = self.groups.len() as u32;
        let group = *self.of_group.entry(name.clone()).or_insert(next);
        if group == next {
            self.groups.push(Group { name, pod, is_outside, hosts: 0 });
        }
        self.groups[group as usize].hosts += 1;
        let service = service.map(|name| {
            let next = self.services.len() as u32;
            let id = *self.of_service.entry(name.clone()).or_insert(next);
            if id == next {
                self.services.push(name);
            }
            id
        });
        let located = Located { host: self.names.len() as u32, group };
        self.names.push(host.clone());
        self.group_of.push(group);
        self.service_of.push(service);
        self.of_host.insert(host.clone(), located);
        located
    }

    /// A name, or its hash.
    fn hidden(&self, prefix: &str, name: &str) -> String {
        self.key.as_ref().map_or_else(|| name.to_owned(), |key| key.name(prefix, name))
    }

    /// The name of a host in reports.
    pub fn shown(&self, host: usize) -> String {
        self.hidden("host", &self.names[host].to_string())
    }

    /// The name of a group in reports.
    pub fn shown_group(&self, group: usize) -> String {
        let group = &self.groups[group];
        if group.is_outside { group.name.clone() } else { self.hidden("group", &group.name) }
    }

    /// The name of a service in reports.
    pub fn shown_service(&self, service: usize) -> String {
        self.hidden("service", &self.services[service])
    }

    /// Whether a host is inside: all are, without a map.
    pub fn is_inside(&self, host: usize) -> bool {
        !self.groups[self.group_of[host] as usize].is_outside
    }
}

fn prefix_of(host: &Endpoint) -> String {
    match host {
        Endpoint::Ip(address) => {
            let address = address.to_canonical();
            let length = if address.is_ipv4() { 24 } else { 64 };
            IpNet::new(address, length).map_or_else(|_| address.to_string(), |net| net.trunc().to_string())
        }
        Endpoint::Name(name) => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_by_prefix_name_and_number() {
        let map = HostMap::parse(
            "# racks\naddress,rack,pod,service\n10.0.0.0/16,tor0,pod0,\n10.0.1.0/24,tor1,pod0,web\n0-19,r0,p0,\n20,r1,p0,\ndb1,r2,p1,db\n",
        )
        .expect("a map");
        let mut hosts = Hosts::new(Some(map), None);
        let mut group = |host: &str| {
            let located = hosts.locate(&Endpoint::parse(host));
            hosts.groups[located.group as usize].name.clone()
        };
        let found: Vec<String> = ["10.0.1.7", "10.0.2.7", "7", "20", "21", "db1", "11.0.0.1"].map(&mut group).into();
        assert_eq!(found, ["tor1", "tor0", "r0", "r1", "outside", "r2", "outside"]);
        assert_eq!(hosts.services, ["web", "db"]);
        assert!(hosts.is_inside(0) && !hosts.is_inside(6));
    }

    #[test]
    fn a_wrong_map_is_named_by_its_line() {
        for (text, line, message) in [
            ("host,rack\n", 1, "no column `address`"),
            ("address,rack,color\n", 1, "unknown column `color`"),
            ("address,rack\n7,\n", 2, "the rack is empty"),
            ("address,rack\n7,r0\n9-8,r0\n", 3, "ends before"),
            ("address,rack\n0-9,r0\n9,r1\n", 1, "in two ranges"),
            ("address,rack\na,r0\na,r1\n", 3, "twice"),
            ("address,rack\na\n", 2, "field"),
        ] {
            let (at, found, _) = HostMap::parse(text).expect_err(text);
            assert!(at == line && found.contains(message), "{text:?}: line {at}: {found}");
        }
    }
}
