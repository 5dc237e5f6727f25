//! Reads a price list: `scenarios/data/prices.toml`, or the user's own.

use std::path::Path;

use serde::Deserialize;
use weft_fabric::BitsPerSec;
use weft_fabric::cabling::{CablePrice, Medium, PortPrice, PriceList, SwitchPrice};
use weft_fabric::formats::FormatError;

use crate::bundle;
use crate::error::{Error, Result};

/// Reads the list of a file; without one, the illustrative prices.
pub fn read(path: Option<&Path>) -> Result<PriceList> {
    let Some(path) = path else {
        return Ok(parse(ILLUSTRATIVE).expect("the list that is built in is read by the tests"));
    };
    let text = bundle::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
    parse(&text).map_err(|e| Error::format(path, e))
}

const ILLUSTRATIVE: &str = include_str!("../../../../scenarios/data/prices.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    currency: String,
    #[serde(default)]
    note: String,
    cable: Vec<toml::Spanned<RawCable>>,
    switch: Vec<toml::Spanned<RawSwitch>>,
    nic: Vec<toml::Spanned<RawNic>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCable {
    medium: RawMedium,
    rate: String,
    length_m: f64,
    price: f64,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawMedium {
    Copper,
    #[serde(alias = "fiber")]
    Fibre,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSwitch {
    rate: String,
    ports: u32,
    price: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNic {
    rate: String,
    price: f64,
}

fn parse(text: &str) -> Result<PriceList, FormatError> {
    let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let raw: Raw = toml::from_str(text).map_err(|e| {
        let at = e.span().map_or(0, |span| span.start);
        FormatError::new(line(at), e.message(), "scenarios/data/prices.toml shows the form")
    })?;
    let rate = |at: usize, text: &str| -> Result<BitsPerSec, FormatError> {
        text.parse().map_err(|e: weft_fabric::units::UnitError| {
            FormatError::new(line(at), e.to_string(), "write a rate such as \"10Gbps\"")
        })
    };
    let price = |at: usize, price: f64| {
        let good = price.is_finite() && (0.0..=1e9).contains(&price);
        good.then_some(price)
            .ok_or_else(|| FormatError::new(line(at), format!("{price} is not a price"), "write a number from 0 to 1000000000"))
    };
    let length = |at: usize, metres: f64| {
        let good = metres > 0.0 && metres <= 1e5;
        good.then_some((metres * 1_000.0).round() as u32)
            .ok_or_else(|| FormatError::new(line(at), format!("{metres} m is not a length"), "write metres above 0, to 100000"))
    };
    let cable = |entry: &toml::Spanned<RawCable>| {
        let (at, c) = (entry.span().start, entry.get_ref());
        let medium = match c.medium {
            RawMedium::Copper => Medium::Copper,
            RawMedium::Fibre => Medium::Fibre,
        };
        Ok(CablePrice { medium, rate: rate(at, &c.rate)?, length_mm: length(at, c.length_m)?, price: price(at, c.price)? })
    };
    let switch = |entry: &toml::Spanned<RawSwitch>| {
        let (at, s) = (entry.span().start, entry.get_ref());
        Ok(SwitchPrice { rate: rate(at, &s.rate)?, ports: s.ports, price: price(at, s.price)? })
    };
    let nic = |entry: &toml::Spanned<RawNic>| {
        let (at, n) = (entry.span().start, entry.get_ref());
        Ok(PortPrice { rate: rate(at, &n.rate)?, price: price(at, n.price)? })
    };
    Ok(PriceList {
        cables: raw.cable.iter().map(cable).collect::<Result<_, FormatError>>()?,
        switches: raw.switch.iter().map(switch).collect::<Result<_, FormatError>>()?,
        nics: raw.nic.iter().map(nic).collect::<Result<_, FormatError>>()?,
        currency: raw.currency,
        note: raw.note,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_list_is_read() {
        let list = read(None).expect("a list");
        assert!(list.note.contains("illustrative"));
        assert!(list.cables.len() > 50 && list.switches.len() > 30 && list.nics.len() == 5);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let good = "currency = \"EUR\"\ncable = [\n{ medium = \"copper\", rate = \"10Gbps\", length_m = 2, price = 9 },\n]\nswitch = []\nnic = []\n";
        assert_eq!(parse(good).expect("a list").cables[0].length_mm, 2_000);
        for (from, to, line, what) in [
            ("\"10Gbps\"", "\"10G\"", 3, "`10G` is not a rate"),
            ("price = 9", "price = -9", 3, "-9 is not a price"),
            ("length_m = 2", "length_m = 0", 3, "0 m is not a length"),
            ("length_m", "length", 3, "length"),
            ("copper", "silver", 3, "silver"),
            ("nic = []", "nics = []", 6, "nics"),
        ] {
            let error = parse(&good.replace(from, to)).expect_err(to);
            assert!(error.line == line && error.message.contains(what), "{to}: {error}");
        }
    }
}
