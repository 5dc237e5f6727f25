//! The price list of cabling: `scenarios/data/prices.toml`, or the user's own, of the format of [`crate::prices`].
//!
//! Fibre is bought in a few lengths, with a transceiver at each end. Modular switches, racks and energy are not used.

use std::path::Path;

use weft_fabric::cabling::{CablePrice, Medium, PortPrice, PriceList, SwitchPrice};
use weft_fabric::formats::FormatError;

use crate::bundle;
use crate::error::{Error, Result};
use crate::prices;

/// Reads the list of a file; without one, the illustrative prices.
pub fn read(path: Option<&Path>) -> Result<PriceList> {
    let Some(path) = path else {
        return Ok(parse(ILLUSTRATIVE).expect("the list that is built in is read by the tests"));
    };
    let text = bundle::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
    parse(&text).map_err(|e| Error::format(path, e))
}

const ILLUSTRATIVE: &str = include_str!("../../../../scenarios/data/prices.toml");

fn parse(text: &str) -> Result<PriceList, FormatError> {
    prices::parse(text).map(|list| of_cabling(&list))
}

fn of_cabling(list: &prices::PriceList) -> PriceList {
    let copper = list.copper.iter().map(|(_, rate, length_m, price)| CablePrice {
        medium: Medium::Copper,
        rate: *rate,
        length_mm: millimetres(*length_m),
        price: *price,
    });
    let metre = list.fibre.as_ref().map(|(_, price)| *price);
    let fibre = list.transceivers.iter().flat_map(|(_, rate, reach_m, price, _)| {
        let lengths = FIBRE_LENGTHS_M.into_iter().filter(move |length| length <= reach_m);
        lengths.filter_map(move |length| {
            let price = 2.0 * price + length * metre?;
            Some(CablePrice { medium: Medium::Fibre, rate: *rate, length_mm: millimetres(length), price })
        })
    });
    let switches = list.switches.iter().filter(|switch| !switch.is_modular);
    PriceList {
        currency: list.currency.clone(),
        note: list.note.clone(),
        cables: copper.chain(fibre).collect(),
        switches: switches.map(|it| SwitchPrice { rate: it.rate, ports: it.ports, price: it.price }).collect(),
        nics: list.nics.iter().map(|(_, rate, price, _)| PortPrice { rate: *rate, price: *price }).collect(),
    }
}

/// Rounded; longer than any cable if it does not fit.
fn millimetres(metres: f64) -> u32 {
    (metres * 1_000.0).round() as u32
}

/// Lengths in which fibre is bought.
const FIBRE_LENGTHS_M: [f64; 9] = [5.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0, 300.0, 1_000.0];

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::BitsPerSec;

    #[test]
    fn the_built_in_list_is_read() {
        let list = read(None).expect("a list");
        assert!(list.note.contains("illustrative"));
        assert!(list.cables.len() > 50 && list.switches.len() > 30 && list.nics.len() == 5);
    }

    /// Two transceivers and the metres, in the next length, within the transceivers' reach.
    #[test]
    fn fibre_is_bought_with_its_ends() {
        let common = "source = \"me\"\ndate = \"2026-01-31\"\n";
        let text = format!(
            "currency = \"EUR\"\n[fibre]\nname = \"f\"\nprice = 0.5\nunit = \"metre\"\n{common}[[transceiver]]\nname = \"t\"\n\
             rate = \"10Gbps\"\nreach_m = 20\nprice = 30\nunit = \"each\"\nwatts = 1\n{common}"
        );
        let list = parse(&text).expect("a list");
        let cable = list.cable(BitsPerSec(10_000_000_000), 12_300).expect("a cable");
        assert_eq!((cable.medium, cable.length_mm, cable.price), (Medium::Fibre, 15_000, 67.5));
        assert!(list.cable(BitsPerSec(10_000_000_000), 20_001).is_err(), "beyond its reach");
        assert!(parse(&text.replace("[fibre]", "[fiber]")).is_err());
    }
}
