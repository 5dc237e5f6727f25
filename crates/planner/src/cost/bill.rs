//! What to buy.

use std::collections::BTreeMap;

use serde::Serialize;
use weft_experiment::prices::{PriceList, Switch};
use weft_fabric::{BitsPerSec, Fabric, LinkId, NodeId};

use super::layout::Layout;

/// A bill of materials.
#[derive(Clone, Debug, Serialize)]
pub struct Bill {
    /// The scenario.
    pub scenario: String,
    /// The fabric, in a line.
    pub fabric: String,
    /// How many servers it has.
    pub servers: u64,
    /// Such as USD.
    pub currency: String,
    /// Sum of the parts.
    pub total: f64,
    /// The total by server.
    pub per_server: f64,
    /// Watts of switches, transceivers and NICs, without cooling.
    pub watts: f64,
    /// Price of power and cooling for a year, if the list has that of energy.
    pub energy_per_year: Option<f64>,
    /// What is bought.
    pub parts: Vec<BillPart>,
    /// Racks of servers, and racks of switches.
    pub racks: [u32; 2],
    /// Metres of cable.
    pub cable_m: f64,
    /// The longest cable.
    pub longest_m: f64,
}

/// A line of a bill.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct BillPart {
    pub part: String,
    pub unit: &'static str,
    pub count: f64,
    /// Of one.
    pub price: f64,
    pub total: f64,
}

/// Rack units if the list has no racks.
const UNITS: f64 = 42.0;

/// Quantities by item: unit, price, count.
type Items = BTreeMap<(u8, String), (&'static str, f64, f64)>;

/// A switch of the list in place of one of the fabric: which, and its ports in use.
type Chosen<'a> = BTreeMap<u32, (&'a Switch, u64)>;

impl Bill {
    /// Buys a fabric.
    ///
    /// # Errors
    /// What the list does not sell.
    pub fn of(fabric: &Fabric, prices: &PriceList, without_edge_and_cables: bool) -> Result<Self, String> {
        let chosen = choose(fabric, prices, without_edge_and_cables)?;
        let units = prices.rack.map_or(UNITS, |it| it.0);
        let height = |node: NodeId| chosen.get(&node.0).map_or(1.0, |(switch, _)| switch.rack_units);
        let layout = Layout::of(fabric, units, height);
        let mut items = Items::new();
        let mut watts = 0.0;
        for (switch, ports) in chosen.values() {
            let (unit, count) = if switch.is_modular { ("port", *ports as f64) } else { ("each", 1.0) };
            add(&mut items, 0, &switch.name, unit, switch.price, count);
            if switch.base_price > 0.0 {
                add(&mut items, 0, &format!("{}, base", switch.name), "each", switch.base_price, 1.0);
            }
            watts += switch.watts * count;
        }
        let (mut cable_m, mut longest_m) = (0.0, 0f64);
        if !without_edge_and_cables {
            for cable in fabric.cables() {
                let link = fabric.link(LinkId(cable.0 * 2));
                let length = layout.length_m(link.from, link.to);
                (cable_m, longest_m) = (cable_m + length, longest_m.max(length));
                watts += buy_cable(&mut items, prices, link.capacity, length)?;
                let has_server = [link.from, link.to].iter().any(|&end| fabric.as_host(end).is_some());
                if has_server && !prices.nics.is_empty() {
                    watts += buy_nic(&mut items, prices, link.capacity)?;
                }
            }
            if let Some((_, price)) = prices.rack {
                add(&mut items, 4, "rack of switches", "each", price, f64::from(layout.network_racks));
            }
        }
        let kwh_per_year = |cooling: f64| watts * (1.0 + cooling) * 8.766;
        if let Some((price, cooling, years)) = prices.energy {
            let item = format!("power and cooling for {years} years");
            add(&mut items, 5, &item, "kWh", price, kwh_per_year(cooling) * years);
        }
        let part = |((_, part), (unit, price, count)): ((u8, String), (&'static str, f64, f64))| BillPart {
            part,
            unit,
            count,
            price,
            total: price * count,
        };
        let parts: Vec<BillPart> = items.into_iter().map(part).filter(|it| it.count > 0.0).collect();
        let total = parts.iter().map(|it| it.total).sum();
        let servers = fabric.host_count() as u64;
        Ok(Self {
            scenario: String::new(),
            fabric: fabric.title().to_owned(),
            servers,
            currency: prices.currency.clone(),
            total,
            per_server: total / servers.max(1) as f64,
            watts,
            energy_per_year: prices.energy.map(|(price, cooling, _)| price * kwh_per_year(cooling)),
            parts,
            racks: [layout.server_racks, layout.network_racks],
            cable_m,
            longest_m,
        })
    }
}

fn add(items: &mut Items, order: u8, name: &str, unit: &'static str, price: f64, count: f64) {
    items.entry((order, name.to_owned())).or_insert((unit, price, 0.0)).2 += count;
}

/// The cheapest switch of the list for each of the fabric.
fn choose<'a>(fabric: &Fabric, prices: &'a PriceList, without_edge: bool) -> Result<Chosen<'a>, String> {
    let mut chosen = Chosen::new();
    for switch in fabric.switches() {
        let node = fabric.switch_node(switch);
        if without_edge && fabric.node(node).tier == 1 {
            continue;
        }
        let links: Vec<BitsPerSec> = fabric.out(node).iter().map(|&link| fabric.link(link).capacity).collect();
        let fits = prices.switches.iter().filter_map(|it| Some((it, ports_needed(it, &links)?)));
        let cost = |(it, ports): &(&Switch, u64)| it.base_price + if it.is_modular { it.price * *ports as f64 } else { it.price };
        let cheapest = fits.min_by(|a, b| cost(a).total_cmp(&cost(b)));
        let missing = || {
            let fastest = links.iter().max().copied().unwrap_or(BitsPerSec(0));
            format!("the price list has no switch for `{}`: {} links, the fastest {fastest}", fabric.node(node).name, links.len())
        };
        chosen.insert(node.0, cheapest.ok_or_else(missing)?);
    }
    Ok(chosen)
}

/// Ports of a switch that some links take, uplinks not counted: a link faster than a port takes several, of a modular switch alone. `None`: they do not fit.
fn ports_needed(switch: &Switch, links: &[BitsPerSec]) -> Option<u64> {
    let (uplinks, uplink_rate) = switch.uplinks.unwrap_or((0, switch.rate));
    let (mut ports, mut faster) = (0, 0);
    for link in links {
        let of_link = link.0.div_ceil(switch.rate.0);
        if of_link > 1 && !switch.is_modular {
            faster += 1;
            if *link > uplink_rate {
                return None;
            }
        } else {
            ports += of_link;
        }
    }
    // A slow link fits into a fast port.
    let (most, free) = (u64::from(switch.ports), u64::from(uplinks).checked_sub(faster)?);
    (ports <= most + free).then_some(ports.min(most))
}

/// The cheapest port of a server for a link; gives the watts.
fn buy_nic(items: &mut Items, prices: &PriceList, rate: BitsPerSec) -> Result<f64, String> {
    let fits = prices.nics.iter().filter(|it| it.1 >= rate);
    let (name, _, price, watts) =
        fits.min_by(|a, b| a.2.total_cmp(&b.2)).ok_or_else(|| format!("the price list has no port of a server for {rate}"))?;
    add(items, 6, name, "each", *price, 1.0);
    Ok(*watts)
}

/// The cheapest of copper, and of fibre with a transceiver at each end; gives the watts. A link faster than all of them takes several cables.
fn buy_cable(items: &mut Items, prices: &PriceList, rate: BitsPerSec, length: f64) -> Result<f64, String> {
    let cables = |each: BitsPerSec| rate.0.div_ceil(each.0) as f64;
    let copper = prices.copper.iter().filter(|it| it.2 >= length).map(|it| (it.3 * cables(it.1), it));
    let copper = copper.min_by(|a, b| a.0.total_cmp(&b.0));
    let metre = prices.fibre.as_ref().map(|it| it.1);
    let optics = prices.transceivers.iter().filter(|it| it.2 >= length);
    let optics = metre
        .and_then(|metre| optics.map(|it| ((2.0 * it.3 + metre * length) * cables(it.1), it)).min_by(|a, b| a.0.total_cmp(&b.0)));
    match (copper, optics) {
        (Some((cost, it)), other) if other.is_none_or(|other| cost <= other.0) => {
            add(items, 1, &it.0, "each", it.3, cables(it.1));
            Ok(0.0)
        }
        (_, Some((_, it))) => {
            let (name, price) = prices.fibre.as_ref().expect("optics need fibre");
            add(items, 2, &it.0, "each", it.3, 2.0 * cables(it.1));
            add(items, 3, name, "metre", *price, length * cables(it.1));
            Ok(2.0 * cables(it.1) * it.4)
        }
        _ => Err(format!("the price list has no cable that reaches {length:.1} m")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_experiment::prices::parse;
    use weft_fabric::Duration;
    use weft_fabric::topology::shapes::{Cabling, Shape, fat_tree};

    const LIST: &str = include_str!("../../../../scenarios/data/prices-illustrative.toml");

    #[test]
    fn everything_of_a_fat_tree_is_bought_once() {
        let fabric = fat_tree(4, Cabling { rate: BitsPerSec(10_000_000_000), delay: Duration::ZERO }).expect("a fabric");
        let bill = Bill::of(&fabric, &parse(LIST).expect("a list"), false).expect("a bill");
        let count = |unit: &str, what: &str| -> f64 {
            bill.parts.iter().filter(|it| it.unit == unit && it.part.contains(what)).map(|it| it.count).sum()
        };
        assert_eq!(count("each", "switch, "), 20.0);
        // 48 cables: of copper, or with a transceiver at each end.
        assert_eq!(count("each", "copper") + count("each", "optic") / 2.0, 48.0);
        assert!((bill.total - bill.parts.iter().map(|it| it.price * it.count).sum::<f64>()).abs() < 1e-6);
        assert!(bill.watts > 0.0 && bill.longest_m > 5.0 && bill.cable_m >= 48.0 * 2.0);
    }

    /// A ToR of 48 servers and 6 uplinks is one switch with uplinks; 7 uplinks do not fit. Slow links may take uplinks, and every server has a NIC.
    #[test]
    fn uplinks_and_nics_are_bought() {
        let rate = |gbps: u64| BitsPerSec(gbps * 1_000_000_000);
        let list = parse(LIST).expect("a list");
        let tor = list.switches.iter().find(|it| it.uplinks == Some((6, rate(100)))).expect("such a switch");
        let links = |slow: usize, fast: usize| [vec![rate(10); slow], vec![rate(100); fast]].concat();
        assert_eq!(ports_needed(tor, &links(48, 6)), Some(48));
        assert_eq!(ports_needed(tor, &links(50, 4)), Some(48));
        assert_eq!(ports_needed(tor, &links(51, 4)), None);
        assert_eq!(ports_needed(tor, &links(8, 7)), None);
        assert_eq!(ports_needed(tor, &[rate(400)]), None);
        let link = |gbps: u64| Cabling { rate: rate(gbps), delay: Duration::ZERO };
        let fabric = Shape::VL2_TESTBED.build(link(1), link(10)).expect("a fabric");
        let bill = |list: &PriceList| Bill::of(&fabric, list, false).expect("a bill");
        let (with, without) = (bill(&list), bill(&PriceList { nics: Vec::new(), ..list.clone() }));
        let ports: f64 = with.parts.iter().filter(|it| it.part.starts_with("server port")).map(|it| it.count).sum();
        assert!(ports == 80.0 && with.total > without.total && with.watts > without.watts, "{ports}");
    }

    #[test]
    fn every_kind_of_fabric_has_a_bill() {
        let link = |gbps: u64| Cabling { rate: BitsPerSec(gbps * 1_000_000_000), delay: Duration::ZERO };
        let shapes = [
            Shape::VL2_TESTBED,
            Shape::Clique { switches: 4, hosts_per_switch: 4 },
            Shape::Switch { hosts: 16 },
            Shape::TwoLevelOfPorts { k: 4 },
            Shape::Tree {
                tors: 4,
                hosts_per_tor: 20,
                tors_per_pod: Some(2),
                redundancy: 2,
                tor_oversubscription: 1.0,
                top_oversubscription: 1.0,
            },
        ];
        let list = parse(LIST).expect("a list");
        for shape in shapes {
            let fabric = shape.build(link(1), link(10)).expect("a fabric");
            let bill = Bill::of(&fabric, &list, false).unwrap_or_else(|e| panic!("{}: {e}", fabric.title()));
            assert!(bill.total > 0.0);
        }
        let none = parse("currency = \"EUR\"").expect("a list");
        let fabric = Shape::VL2_TESTBED.build(link(1), link(10)).expect("a fabric");
        let error = Bill::of(&fabric, &none, false).expect_err("nothing is sold");
        assert!(error.contains("no switch for `tor0`"), "{error}");
    }
}
