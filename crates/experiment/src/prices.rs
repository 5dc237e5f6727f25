//! The price list, of `weft cost` and of `weft topo subways --cabling`. Each line states what it is, its unit, and where the price is from: nothing is built in
//! as truth.
//!
//! ```toml
//! currency = "USD"
//! [[switch]]        # name, ports, rate, price, unit = "each", watts, rack_units; source, date; uplinks, uplink_rate: further, faster ports
//! [[modular]]       # the same with max_ports, and base_price without ports (0 if absent); unit = "port"
//! [[transceiver]]   # name, rate, reach_m, price, unit = "each", watts
//! [[copper]]        # name, rate, length_m, price, unit = "each": with its ends
//! [[nic]]           # name, rate, price, unit = "each", watts: a port of a server
//! [fibre]           # name, price, unit = "metre"
//! [rack]            # units, price, unit = "each"
//! [energy]          # price, unit = "kWh", cooling (watts for each watt), years
//! ```

use serde::Deserialize;
use toml::Spanned;
use weft_fabric::BitsPerSec;
use weft_fabric::formats::FormatError;

/// A switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// As sold.
    pub name: String,
    /// Ports; of a modular one, the most.
    pub ports: u32,
    /// Of a port.
    pub rate: BitsPerSec,
    /// How many further ports there are, and their rate, which is higher.
    pub uplinks: Option<(u32, BitsPerSec)>,
    /// Of the switch, or of a port of a modular one.
    pub price: f64,
    /// Of a modular one without ports.
    pub base_price: f64,
    /// Whether it is priced by port.
    pub is_modular: bool,
    /// Watts, of the switch or of a port.
    pub watts: f64,
    /// Height.
    pub rack_units: f64,
}

/// What can be bought.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceList {
    /// Such as USD.
    pub currency: String,
    /// What to know of the list.
    pub note: String,
    /// Switches.
    pub switches: Vec<Switch>,
    /// Name, rate, reach in metres, price, watts.
    pub transceivers: Vec<(String, BitsPerSec, f64, f64, f64)>,
    /// Name, rate, length in metres, price.
    pub copper: Vec<(String, BitsPerSec, f64, f64)>,
    /// Ports of servers: name, rate, price, watts. None: they are not bought.
    pub nics: Vec<(String, BitsPerSec, f64, f64)>,
    /// Name and price of a metre.
    pub fibre: Option<(String, f64)>,
    /// Units and price of a rack.
    pub rack: Option<(f64, f64)>,
    /// Price of a kWh, watts of cooling for each watt, years.
    pub energy: Option<(f64, f64, f64)>,
    /// Sources with their dates, each once.
    pub sources: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    currency: String,
    #[serde(default)]
    note: String,
    #[serde(default)]
    switch: Vec<Spanned<RawItem>>,
    #[serde(default)]
    modular: Vec<Spanned<RawItem>>,
    #[serde(default)]
    transceiver: Vec<Spanned<RawItem>>,
    #[serde(default)]
    copper: Vec<Spanned<RawItem>>,
    #[serde(default)]
    nic: Vec<Spanned<RawItem>>,
    fibre: Option<Spanned<RawItem>>,
    rack: Option<Spanned<RawItem>>,
    energy: Option<Spanned<RawItem>>,
}

/// Any line: which keys it needs depends on its table.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawItem {
    name: Option<String>,
    ports: Option<u32>,
    max_ports: Option<u32>,
    rate: Option<String>,
    uplinks: Option<u32>,
    uplink_rate: Option<String>,
    price: Option<f64>,
    base_price: Option<f64>,
    unit: Option<String>,
    watts: Option<f64>,
    rack_units: Option<f64>,
    reach_m: Option<f64>,
    length_m: Option<f64>,
    units: Option<f64>,
    cooling: Option<f64>,
    years: Option<f64>,
    source: Option<String>,
    date: Option<String>,
}

const HELP: &str = "scenarios/data/prices-illustrative.toml shows the form";
const CABLE_HELP: &str = "write [[copper]] for cables of copper, and [[transceiver]] and [fibre] for those of fibre: scenarios/data/prices.toml shows the form";

/// A line of the list, with its table and its place.
struct Item<'a> {
    raw: &'a RawItem,
    table: &'static str,
    line: usize,
}

impl Item<'_> {
    fn wrong(&self, message: String) -> FormatError {
        FormatError::new(self.line, format!("[{}] {message}", self.table), HELP)
    }

    fn need<T: Clone>(&self, key: &str, value: &Option<T>) -> Result<T, FormatError> {
        value.clone().ok_or_else(|| self.wrong(format!("has no `{key}`")))
    }

    /// A number that is not negative.
    fn number(&self, key: &str, value: Option<f64>) -> Result<f64, FormatError> {
        let value = self.need(key, &value)?;
        let is_good = value.is_finite() && (0.0..=1e12).contains(&value);
        if is_good { Ok(value) } else { Err(self.wrong(format!("{key} = {value} is not a number from 0 to 10^12"))) }
    }

    /// The price, whose unit must be the table's.
    fn price(&self, unit: &str) -> Result<f64, FormatError> {
        let given = self.need("unit", &self.raw.unit)?;
        if given != unit {
            return Err(self.wrong(format!("unit = \"{given}\": a price here is by \"{unit}\"")));
        }
        self.need("source", &self.raw.source)?;
        self.need("date", &self.raw.date)?;
        self.number("price", self.raw.price)
    }

    fn rate(&self, key: &str, value: &Option<String>) -> Result<BitsPerSec, FormatError> {
        let text = self.need(key, value)?;
        let rate: BitsPerSec = text.parse().map_err(|e: weft_fabric::units::UnitError| self.wrong(e.to_string()))?;
        if rate.0 == 0 { Err(self.wrong("a rate of 0".to_owned())) } else { Ok(rate) }
    }

    /// Further ports, of a switch that is not modular.
    fn uplinks(&self, is_modular: bool) -> Result<Option<(u32, BitsPerSec)>, FormatError> {
        match (self.raw.uplinks, &self.raw.uplink_rate) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) if is_modular => Err(self.wrong("`uplinks` are of switches that are not modular".to_owned())),
            (uplinks, rate) => {
                let (uplinks, faster) = (self.need("uplinks", &uplinks)?, self.rate("uplink_rate", rate)?);
                let is_faster = faster > self.rate("rate", &self.raw.rate)?;
                let slow = || self.wrong(format!("uplink_rate = {faster} is not above `rate`: count them as `ports`"));
                is_faster.then_some(Some((uplinks, faster))).ok_or_else(slow)
            }
        }
    }

    fn switch(&self, is_modular: bool) -> Result<Switch, FormatError> {
        let (key, ports) = if is_modular { ("max_ports", self.raw.max_ports) } else { ("ports", self.raw.ports) };
        Ok(Switch {
            name: self.need("name", &self.raw.name)?,
            ports: self.need(key, &ports)?,
            rate: self.rate("rate", &self.raw.rate)?,
            uplinks: self.uplinks(is_modular)?,
            price: self.price(if is_modular { "port" } else { "each" })?,
            base_price: raw_base(self.raw.base_price, is_modular, self)?,
            is_modular,
            watts: self.number("watts", self.raw.watts)?,
            rack_units: self.number("rack_units", self.raw.rack_units)?,
        })
    }
}

fn raw_base(base: Option<f64>, is_modular: bool, item: &Item<'_>) -> Result<f64, FormatError> {
    match base {
        None => Ok(0.0),
        Some(_) if is_modular => item.number("base_price", base),
        Some(_) => Err(item.wrong("a `base_price` is of modular switches".to_owned())),
    }
}

/// Reads a price list.
///
/// # Errors
/// The line that is wrong: an unknown key, a missing unit, a price that is none.
pub fn parse(text: &str) -> Result<PriceList, FormatError> {
    let line = |at: usize| text.as_bytes()[..at.min(text.len())].iter().filter(|&&b| b == b'\n').count() + 1;
    let raw: Raw = toml::from_str(text).map_err(|e| {
        // Lists for cabling alone once had this table.
        let help = if e.message().contains("`cable`") { CABLE_HELP } else { HELP };
        FormatError::new(line(e.span().map_or(0, |span| span.start)), e.message(), help)
    })?;
    let item = |table, it: &Spanned<RawItem>| (table, line(it.span().start), it.get_ref().clone());
    let many = |table, all: &[Spanned<RawItem>]| all.iter().map(|it| item(table, it)).collect::<Vec<_>>();
    let all: Vec<(&'static str, usize, RawItem)> = [
        many("switch", &raw.switch),
        many("modular", &raw.modular),
        many("transceiver", &raw.transceiver),
        many("copper", &raw.copper),
        many("nic", &raw.nic),
        raw.fibre.iter().map(|it| item("fibre", it)).collect(),
        raw.rack.iter().map(|it| item("rack", it)).collect(),
        raw.energy.iter().map(|it| item("energy", it)).collect(),
    ]
    .concat();
    let mut list = PriceList {
        currency: raw.currency,
        note: raw.note,
        switches: Vec::new(),
        transceivers: Vec::new(),
        copper: Vec::new(),
        nics: Vec::new(),
        fibre: None,
        rack: None,
        energy: None,
        sources: Vec::new(),
    };
    for (table, line, raw) in &all {
        list.add(&Item { raw, table, line: *line })?;
    }
    Ok(list)
}

impl PriceList {
    fn add(&mut self, item: &Item<'_>) -> Result<(), FormatError> {
        let raw = item.raw;
        match item.table {
            "switch" => self.switches.push(item.switch(false)?),
            "modular" => self.switches.push(item.switch(true)?),
            "transceiver" => {
                let (name, reach) = (item.need("name", &raw.name)?, item.number("reach_m", raw.reach_m)?);
                self.transceivers.push((
                    name,
                    item.rate("rate", &raw.rate)?,
                    reach,
                    item.price("each")?,
                    item.number("watts", raw.watts)?,
                ));
            }
            "copper" => {
                let (name, length) = (item.need("name", &raw.name)?, item.number("length_m", raw.length_m)?);
                self.copper.push((name, item.rate("rate", &raw.rate)?, length, item.price("each")?));
            }
            "nic" => {
                let (name, watts) = (item.need("name", &raw.name)?, item.number("watts", raw.watts)?);
                self.nics.push((name, item.rate("rate", &raw.rate)?, item.price("each")?, watts));
            }
            "fibre" => self.fibre = Some((item.need("name", &raw.name)?, item.price("metre")?)),
            "rack" => {
                let units = item.number("units", raw.units)?;
                if units < 1.0 {
                    return Err(item.wrong(format!("units = {units}: a rack has at least one")));
                }
                self.rack = Some((units, item.price("each")?));
            }
            _ => {
                let (cooling, years) = (item.number("cooling", raw.cooling)?, item.number("years", raw.years)?);
                self.energy = Some((item.price("kWh")?, cooling, years));
            }
        }
        if let (Some(source), Some(date)) = (&raw.source, &raw.date) {
            let source = format!("{source}, {date}");
            if !self.sources.contains(&source) {
                self.sources.push(source);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "currency = \"EUR\"\n[[switch]]\nname = \"a\"\nports = 48\nrate = \"10Gbps\"\nprice = 9\nunit = \"each\"\nwatts = 100\nrack_units = 1\nsource = \"me\"\ndate = \"2026-01-31\"\n";

    #[test]
    fn mistakes_are_named_by_their_line() {
        assert_eq!(parse(GOOD).expect("a list").switches[0].ports, 48);
        for (from, to, line, what) in [
            ("unit = \"each\"\n", "", 2, "has no `unit`"),
            ("unit = \"each\"", "unit = \"port\"", 2, "by \"each\""),
            ("date = \"2026-01-31\"\n", "", 2, "has no `date`"),
            ("watts", "wats", 8, "wats"),
            ("price = 9", "price = -9", 2, "price = -9"),
            ("10Gbps", "10G", 2, "`10G` is not a rate"),
            ("rack_units", "uplinks = 4\nrack_units", 2, "has no `uplink_rate`"),
            ("rack_units", "uplinks = 4\nuplink_rate = \"10Gbps\"\nrack_units", 2, "not above"),
            ("currency", "currencies", 1, "currenc"),
            ("[[switch]]", "[[cable]]\n[[switch]]", 2, "`cable`"),
        ] {
            let error = parse(&GOOD.replace(from, to)).expect_err(to);
            assert!(error.message.contains(what), "{to}: {error}");
            assert!(error.line == line || what == "currenc", "{to}: {error}");
        }
        let old = parse(&format!("{GOOD}[[cable]]\n")).expect_err("an old key");
        assert!(old.help.contains("[[copper]]"), "{old:?}");
    }

    proptest! {
        #[test]
        fn any_text_is_an_error_or_a_list(tail in "\\PC{0,60}") {
            let _ = (parse(&tail), parse(&format!("{GOOD}{tail}")));
        }
    }
}
