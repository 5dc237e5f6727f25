//! What a Subways fabric takes in a hall: where racks and switches stand, how long each cable is, what to buy (Subways section 7).
//!
//! ```text
//!   SubwaysWiring --cables--> Cable (a part to a part) --Floor--> run in mm --+ slack, PriceList--> Bill
//! ```
//! [`cables`] lists what is plugged, [`Floor`] places it, [`PriceList`] prices it, and [`survey`] puts the three together. Lengths are
//! whole millimetres here and metres in what is printed.

mod cables;
mod floor;
mod prices;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::topology::shapes::subways::SubwaysWiring;
use crate::units::BitsPerSec;

pub use cables::{Cable, Part, cables};
pub use floor::{Arrangement, Floor, FloorError, FloorPlan, Stretch};
use prices::Sold;
pub use prices::{Bill, BillLine, CablePrice, Medium, PortPrice, PriceError, PriceList, SwitchPrice};

/// The cabling of a fabric and its price.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Survey {
    /// The fabric, in a line.
    pub title: String,
    /// How the hall is laid out.
    pub floor: FloorPlan,
    /// Physical racks with servers.
    pub racks: u32,
    /// The most ToRs that such a rack holds.
    pub tors_per_rack: u32,
    /// The longest way of a cable from a server to a ToR, without slack, in metres.
    pub longest_server_run_m: f64,
    /// The same of all copper cables; `None` if there is none.
    pub longest_copper_run_m: Option<f64>,
    /// Whether every server is attached by copper.
    pub servers_on_copper: bool,
    /// Cables by what they join and how they run.
    pub classes: Vec<CableClass>,
    /// What to buy.
    pub bill: Bill,
}

/// Cables that run alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CableClass {
    /// How they run.
    pub stretch: Stretch,
    /// Rate of each in bits per second.
    pub rate_bps: u64,
    /// How many there are.
    pub count: u64,
    /// The shortest way, without slack, in metres.
    pub run_min_m: f64,
    /// The mean.
    pub run_mean_m: f64,
    /// The longest.
    pub run_max_m: f64,
    /// By medium and length as sold, in metres: how many.
    pub lengths: Vec<LengthCount>,
}

/// Cables of a medium and a length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LengthCount {
    /// Copper or fibre.
    pub medium: Medium,
    /// As sold, in metres.
    pub length_m: f64,
    /// How many.
    pub count: u64,
}

/// A survey that cannot be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum SurveyError {
    #[error(transparent)]
    Floor(#[from] FloorError),
    #[error(transparent)]
    Price(#[from] PriceError),
}

#[derive(Default)]
struct Tally {
    count: u64,
    sum_mm: u64,
    min_mm: Option<u32>,
    max_mm: u32,
    sold: BTreeMap<(Medium, u32), u64>,
}

/// Places the fabric, measures every cable and prices everything.
///
/// # Errors
/// A floor that cannot be, or something that the price list does not sell.
pub fn survey(wiring: &SubwaysWiring, plan: &FloorPlan, prices: &PriceList) -> Result<Survey, SurveyError> {
    let floor = Floor::new(wiring, plan)?;
    let mut tallies: BTreeMap<(Stretch, BitsPerSec), Tally> = BTreeMap::new();
    let mut sold = Sold::new();
    let (mut longest_server, mut longest_copper, mut servers_on_copper) = (0, None, true);
    for cable in cables(wiring) {
        let (stretch, run) = floor.run(&cable);
        let price = prices.cable(cable.rate, run + floor.slack_mm())?;
        let tally = tallies.entry((stretch, cable.rate)).or_default();
        tally.count += 1;
        tally.sum_mm += u64::from(run);
        tally.min_mm = Some(tally.min_mm.map_or(run, |least| least.min(run)));
        tally.max_mm = tally.max_mm.max(run);
        *tally.sold.entry((price.medium, price.length_mm)).or_default() += 1;
        if price.medium == Medium::Copper {
            longest_copper = longest_copper.max(Some(run));
        }
        if cable.is_server() {
            longest_server = longest_server.max(run);
            servers_on_copper &= price.medium == Medium::Copper;
        }
        *sold.entry((price.medium, price.rate, price.length_mm, price.price.to_bits())).or_default() += 1;
    }
    Ok(Survey {
        title: wiring.title(),
        floor: plan.clone(),
        racks: floor.racks(),
        tors_per_rack: floor.tors_per_rack(),
        longest_server_run_m: metres(longest_server),
        longest_copper_run_m: longest_copper.map(metres),
        servers_on_copper,
        classes: tallies.into_iter().map(|((stretch, rate), tally)| tally.class(stretch, rate)).collect(),
        bill: Bill::new(wiring, prices, &sold)?,
    })
}

impl Tally {
    fn class(self, stretch: Stretch, rate: BitsPerSec) -> CableClass {
        CableClass {
            stretch,
            rate_bps: rate.0,
            count: self.count,
            run_min_m: metres(self.min_mm.unwrap_or(0)),
            run_mean_m: libm::round(self.sum_mm as f64 / self.count as f64) / 1_000.0,
            run_max_m: metres(self.max_mm),
            lengths: self
                .sold
                .into_iter()
                .map(|((medium, mm), count)| LengthCount { medium, length_m: metres(mm), count })
                .collect(),
        }
    }
}

fn metres(mm: u32) -> f64 {
    f64::from(mm) / 1_000.0
}

#[cfg(test)]
mod tests;
