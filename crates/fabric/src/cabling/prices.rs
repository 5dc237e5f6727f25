//! What things cost: a list that the user edits, and the bill that follows from it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::topology::shapes::subways::SubwaysWiring;
use crate::units::BitsPerSec;

/// What carries the bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Medium {
    Copper,
    Fibre,
}

/// A cable as sold, ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CablePrice {
    /// Copper or fibre.
    pub medium: Medium,
    /// The fastest that it carries.
    pub rate: BitsPerSec,
    /// Its length in millimetres.
    pub length_mm: u32,
    /// Each.
    pub price: f64,
}

/// A switch as sold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwitchPrice {
    /// Of each port.
    pub rate: BitsPerSec,
    /// How many ports.
    pub ports: u32,
    /// Each.
    pub price: f64,
}

/// A server's port as sold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PortPrice {
    /// Of the port.
    pub rate: BitsPerSec,
    /// Each.
    pub price: f64,
}

/// What can be bought.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PriceList {
    /// Such as USD.
    pub currency: String,
    /// What to know of the prices: illustrative, or from whom and when.
    pub note: String,
    /// Cables.
    pub cables: Vec<CablePrice>,
    /// Switches.
    pub switches: Vec<SwitchPrice>,
    /// Ports of servers.
    pub nics: Vec<PortPrice>,
}

/// Something that the list does not sell.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum PriceError {
    #[error("the price list has no cable of {rate} that reaches {metres} m: add one to it, or shorten the ways")]
    Cable { rate: BitsPerSec, metres: f64 },
    #[error("the price list has no switch with {ports} ports of {rate}: add one to it, or use fewer ports")]
    Switch { rate: BitsPerSec, ports: u32 },
    #[error("the price list has no server port of {rate}: add one to it")]
    Nic { rate: BitsPerSec },
}

/// A list of what to buy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bill {
    /// Such as USD.
    pub currency: String,
    /// What to know of the prices.
    pub note: String,
    /// Cables, then switches, then server ports.
    pub lines: Vec<BillLine>,
    /// All lines together.
    pub total: f64,
}

/// A line of a bill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BillLine {
    /// `copper cable`, `fibre cable`, `ToR`, `aggregation switch`, `core switch`, `server port`.
    pub item: String,
    /// What the list sells: `10Gbps, 2 m`, `36 of 48 ports of 10Gbps`.
    pub size: String,
    /// How many.
    pub count: u64,
    /// Each.
    pub price: f64,
    /// Together.
    pub total: f64,
}

impl PriceList {
    /// The cheapest cable that carries the rate and reaches the length.
    ///
    /// # Errors
    /// [`PriceError::Cable`] if there is none.
    pub fn cable(&self, rate: BitsPerSec, length_mm: u32) -> Result<&CablePrice, PriceError> {
        let fits = self.cables.iter().filter(|c| c.rate >= rate && c.length_mm >= length_mm);
        let cheapest = fits.min_by(|a, b| a.price.total_cmp(&b.price).then(a.length_mm.cmp(&b.length_mm)));
        cheapest.ok_or(PriceError::Cable { rate, metres: f64::from(length_mm) / 1_000.0 })
    }

    /// The cheapest switch with so many ports of that rate.
    ///
    /// # Errors
    /// [`PriceError::Switch`] if there is none.
    pub fn switch(&self, rate: BitsPerSec, ports: u32) -> Result<&SwitchPrice, PriceError> {
        let fits = self.switches.iter().filter(|s| s.rate >= rate && s.ports >= ports);
        fits.min_by(|a, b| a.price.total_cmp(&b.price).then(a.ports.cmp(&b.ports))).ok_or(PriceError::Switch { rate, ports })
    }

    /// The cheapest server port of that rate.
    ///
    /// # Errors
    /// [`PriceError::Nic`] if there is none.
    pub fn nic(&self, rate: BitsPerSec) -> Result<&PortPrice, PriceError> {
        let fits = self.nics.iter().filter(|n| n.rate >= rate);
        fits.min_by(|a, b| a.price.total_cmp(&b.price)).ok_or(PriceError::Nic { rate })
    }
}

/// How many cables of each kind are bought: medium, rate, millimetres, and the bits of the price.
pub(super) type Sold = BTreeMap<(Medium, BitsPerSec, u32, u64), u64>;

impl Bill {
    pub(super) fn new(wiring: &SubwaysWiring, prices: &PriceList, cables: &Sold) -> Result<Self, PriceError> {
        let (currency, note) = (prices.currency.clone(), prices.note.clone());
        let mut bill = Self { currency, note, lines: Vec::new(), total: 0.0 };
        for (&(medium, rate, mm, price), &count) in cables {
            let item = if medium == Medium::Copper { "copper cable" } else { "fibre cable" };
            bill.add(item, format!("{rate}, {} m", f64::from(mm) / 1_000.0), count, f64::from_bits(price));
        }
        let clusters = wiring.clusters / wiring.networks();
        let tiers = [
            ("ToR", wiring.server_ports() + wiring.aggregations, clusters * wiring.racks_per_cluster),
            ("aggregation switch", wiring.racks_per_cluster + wiring.agg_uplinks, clusters * wiring.aggregations),
            ("core switch", clusters, wiring.cores() / wiring.networks()),
        ];
        for (item, ports, count) in tiers.into_iter().filter(|t| t.2 > 0) {
            for network in 0..wiring.networks() {
                let between = wiring.fabric_link(network).rate;
                let rate = if item == "ToR" { between.max(wiring.port_link(network).rate) } else { between };
                let switch = prices.switch(rate, ports)?;
                bill.add(item, format!("{ports} of {} ports of {}", switch.ports, switch.rate), u64::from(count), switch.price);
            }
        }
        for network in 0..wiring.networks() {
            let nic = prices.nic(wiring.port_link(network).rate)?;
            let ports = u64::from(clusters * wiring.racks_per_cluster) * u64::from(wiring.server_ports());
            bill.add("server port", nic.rate.to_string(), ports, nic.price);
        }
        Ok(bill)
    }

    /// Adds a line, or to the line of the same thing: interconnects of one speed buy together.
    fn add(&mut self, item: &str, size: String, count: u64, price: f64) {
        self.total += count as f64 * price;
        match self.lines.iter_mut().find(|l| l.item == item && l.size == size) {
            Some(line) => {
                line.count += count;
                line.total += count as f64 * price;
            }
            None => self.lines.push(BillLine { item: item.to_owned(), size, count, price, total: count as f64 * price }),
        }
    }
}
