//! Cabling and upgrades of Subways fabrics, for the command line and Python alike.

mod prices;

use std::path::Path;

use toml::Table;
use weft_fabric::cabling::{Arrangement, FloorPlan, Survey, SurveyError, survey};
use weft_fabric::topology::shapes::Shape;
use weft_fabric::topology::shapes::subways::SubwaysWiring;
use weft_fabric::upgrade::{Plan, plan};

use crate::error::{Error, KeyError, Problem, Result};
use crate::scenario::fabric::FabricSpec;
use crate::scenario::keys::Keys;

/// Keys of a floor plan.
pub const FLOOR_KEYS: &[&str] =
    &["arrangement", "tors_per_rack", "rack_height", "rack_width", "rack_depth", "cold_aisle", "hot_aisle", "slack"];

/// Places a fabric by the keys of a floor plan ([`FLOOR_KEYS`]), measures its cables and prices everything by a list; without one, by the
/// illustrative prices that are built in.
///
/// # Errors
/// A fabric that is not Subways, a key that is wrong, a price list that cannot be read, or that lacks something.
pub fn cabling(spec: &FabricSpec, floor: &Table, prices: Option<&Path>) -> Result<Survey> {
    let wiring = wiring(spec, "lengths and prices are worked out")?;
    let plan = read_floor(floor)?;
    let prices = prices::read(prices)?;
    survey(&wiring, &plan, &prices).map_err(|e| match e {
        SurveyError::Floor(e) => KeyError::at(
            e.key,
            Problem::Impossible { name: e.key.to_owned(), value: e.value.to_string(), rule: e.rule.to_string() },
        )
        .into(),
        SurveyError::Price(e) => {
            Error::usage(e.to_string(), "copy scenarios/data/prices.toml, edit it, and name it with `--prices FILE`")
        }
    })
}

/// Whether a fabric is a Subways wiring.
pub const fn is_subways(spec: &FabricSpec) -> bool {
    matches!(spec, FabricSpec::Regular { shape: Shape::Subways(_), .. })
}

/// The steps from one fabric to another.
///
/// # Errors
/// A fabric that is not Subways, or other servers.
pub fn upgrade(from: &FabricSpec, to: &FabricSpec) -> Result<Plan> {
    let (from, to) = (wiring(from, "steps are worked out")?, wiring(to, "steps are worked out")?);
    plan(&from, &to).map_err(|e| {
        Error::usage(e.to_string(), "an upgrade to p times the ports has p times the ToRs, with 1/p of the servers a rack")
    })
}

fn wiring(spec: &FabricSpec, what: &str) -> Result<SubwaysWiring> {
    match spec {
        FabricSpec::Regular { shape: Shape::Subways(subways), host_link, fabric_link } => {
            subways.wiring(*host_link, *fabric_link).map_err(|e| KeyError::from(e).into())
        }
        _ => Err(Error::usage(
            format!("{what} for Subways wirings alone"),
            "choose kind = \"subways\", as in `weft topo subways type=1`",
        )),
    }
}

fn read_floor(table: &Table) -> Result<FloorPlan> {
    let keys = Keys::new("", table);
    let usual = FloorPlan::default();
    let arrangements = [("aisle", Arrangement::Aisle), ("row", Arrangement::Row)];
    let plan = FloorPlan {
        arrangement: keys.word("arrangement", &arrangements, usual.arrangement)?,
        tors_per_rack: keys.opt("tors_per_rack")?,
        rack_height: keys.or("rack_height", usual.rack_height)?,
        rack_width: keys.or("rack_width", usual.rack_width)?,
        rack_depth: keys.or("rack_depth", usual.rack_depth)?,
        cold_aisle: keys.or("cold_aisle", usual.cold_aisle)?,
        hot_aisle: keys.or("hot_aisle", usual.hot_aisle)?,
        slack: keys.or("slack", usual.slack)?,
    };
    keys.done()?;
    Ok(plan)
}
