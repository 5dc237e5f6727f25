//! The keys of `kind = "subways"`. What they may be together, [`SubwaysSpec::wiring`] checks.

use toml::Value;
use weft_fabric::BitsPerSec;
use weft_fabric::topology::shapes::subways::{RackSize, Speeds, SubwaysSpec, SubwaysType, Trunk, Uplinks};

use crate::error::{KeyError, Problem};
use crate::scenario::keys::{FromToml, Keys};

/// Reads the keys; `link`, `host_link`, `fabric_link` and `delay` are those of every kind.
pub fn read(keys: &Keys<'_>) -> Result<SubwaysSpec, KeyError> {
    let usual = SubwaysSpec::new(keys.need("type")?);
    let spec = SubwaysSpec {
        ports: keys.or("ports", usual.ports)?,
        rack: either(keys, ("servers_per_rack", RackSize::Servers), ("server_ports", RackSize::ServerPorts))?
            .unwrap_or(usual.rack),
        racks_per_cluster: keys.or("racks_per_cluster", usual.racks_per_cluster)?,
        clusters: keys.opt("clusters")?,
        loop_length: keys.opt("loop")?,
        loop_clusters: keys.opt("loop_clusters")?,
        tor_uplinks: either(keys, ("tor_oversubscription", Uplinks::Oversubscription), ("aggregations", Uplinks::Count))?
            .unwrap_or(usual.tor_uplinks),
        agg_uplinks: either(keys, ("agg_oversubscription", Uplinks::Oversubscription), ("agg_uplinks", Uplinks::Count))?
            .unwrap_or(usual.agg_uplinks),
        levels: keys.or("levels", usual.levels)?,
        speeds: speeds(keys)?,
        trunk: keys.word("trunk", &[("packet", Trunk::Packet), ("flow", Trunk::Flow)], Trunk::Packet)?,
        ..usual
    };
    if spec.levels == 2 {
        for key in ["agg_oversubscription", "agg_uplinks"] {
            if keys.has(key) {
                return Err(keys.error(
                    key,
                    "a fabric of 2 levels has no cores",
                    format!("leave `{key}` out, or write levels = 3"),
                ));
            }
        }
    }
    Ok(spec)
}

/// One of two keys that exclude each other.
fn either<A: FromToml, B: FromToml, T>(
    keys: &Keys<'_>,
    (a, of_a): (&'static str, impl FnOnce(A) -> T),
    (b, of_b): (&'static str, impl FnOnce(B) -> T),
) -> Result<Option<T>, KeyError> {
    match (keys.opt::<A>(a)?, keys.opt::<B>(b)?) {
        (Some(_), Some(_)) => Err(keys.problem(b, Problem::Exclusive { a: a.to_owned(), b: b.to_owned() })),
        (Some(value), None) => Ok(Some(of_a(value))),
        (None, Some(value)) => Ok(Some(of_b(value))),
        (None, None) => Ok(None),
    }
}

/// `speeds`: all links of an interconnect have its rate, so that no other key gives one.
fn speeds(keys: &Keys<'_>) -> Result<Speeds, KeyError> {
    let Some(rates) = keys.opt::<Vec<BitsPerSec>>("speeds")? else { return Ok(Speeds::default()) };
    if rates.is_empty() {
        return Err(keys.error(
            "speeds",
            "there is no rate in it",
            "write a rate for each interconnect, such as [\"10Gbps\", \"25Gbps\"]",
        ));
    }
    for key in ["link", "host_link", "fabric_link"] {
        if keys.has(key) {
            return Err(keys.problem(key, Problem::Exclusive { a: "speeds".to_owned(), b: key.to_owned() }));
        }
    }
    Speeds::new(&rates).ok_or_else(|| {
        keys.error("speeds", format!("{} interconnects", rates.len()), format!("write at most {} rates", Speeds::MAX))
    })
}

impl FromToml for SubwaysType {
    const WHAT: &'static str = "a type of Subways such as \"1LB\"";

    /// `1` is as good as `"1"`.
    fn from_toml(value: &Value) -> Result<Self, Problem> {
        let text = match value {
            Value::Integer(number) => number.to_string(),
            Value::String(text) => text.clone(),
            _ => return Err(Self::refused(value)),
        };
        let names: Vec<&str> = Self::ALL.iter().map(|&(name, _)| name).collect();
        text.parse().map_err(|()| Problem::no_such("type", text.clone(), &names))
    }
}
