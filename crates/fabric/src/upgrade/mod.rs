//! From one Subways fabric to another with the same servers: what is plugged, in which order, and what stays in service at each step
//! (Subways sections 4.1 to 4.3).
//!
//! ```text
//!   from, to --matching--> which part of `from` is which of `to` --diff--> keep | add | replace | move | remove --steps--> Plan
//! ```
//! New ToRs go between the old ones of a loop (figure 2), and servers keep every link that the new wiring has a use for: of all placements of
//! new ToRs and servers that are tried, the one that moves the fewest cables is taken. Where p does not divide evenly (2 to 3 ports), that leaves
//! logical racks of unequal size, with q server ports at every ToR all the same.
//!
//! Parts have the names of the new fabric, hosts those of the old one. What is taken out has numbers beyond those of the new fabric.

mod matching;
mod plugged;
mod steps;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cabling::{Cable, Part};
use crate::topology::shapes::subways::{SubwaysWiring, Wiring};

use matching::Matching;

pub use plugged::Plugged;

/// The way from one fabric to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The fabric as it is, in a line.
    pub from: String,
    /// As it will be.
    pub to: String,
    /// Switches that come new, by tier.
    pub new_switches: Switches,
    /// Switches that go.
    pub retired_switches: Switches,
    /// Switches whose name changes.
    pub renamed: Vec<Rename>,
    /// Servers of the smallest and of the largest rack afterwards.
    pub rack_sizes: [u32; 2],
    /// Cables of servers.
    pub server_cables: Counts,
    /// Cables from ToRs to aggregation switches.
    pub tor_cables: Counts,
    /// Cables from aggregation switches to cores.
    pub agg_cables: Counts,
    /// What is plugged before the first step.
    #[serde(skip)]
    pub before: Plugged,
    /// What to do, in order.
    pub steps: Vec<Step>,
}

/// Switches by tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs)]
pub struct Switches {
    pub tors: u32,
    pub aggs: u32,
    pub cores: u32,
}

/// A switch that stays and gets another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Rename {
    pub from: Part,
    pub to: Part,
}

/// What becomes of cables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// They stay as they are.
    pub kept: u64,
    /// They are new.
    pub added: u64,
    /// One end is plugged elsewhere: rewired.
    pub moved: u64,
    /// Another cable takes their port: the rate changes.
    pub replaced: u64,
    /// They go.
    pub removed: u64,
}

/// One thing to do with a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum Change {
    /// Plug a new cable.
    Add(#[serde(with = "cable")] Cable),
    /// Plug the upper end elsewhere.
    Move {
        /// The lower end, which stays.
        end: Part,
        /// Where the upper end is.
        from: Part,
        /// Where it goes.
        to: Part,
        /// Its rate in bits per second.
        rate_bps: u64,
    },
    /// Take a cable out and plug another into the same port of the lower end.
    Replace {
        /// The lower end.
        end: Part,
        /// The upper end of the old cable.
        from: Part,
        /// That of the new one.
        to: Part,
        /// The rate of the old cable in bits per second.
        from_bps: u64,
        /// That of the new one.
        to_bps: u64,
    },
    /// Take a cable out.
    Remove(#[serde(with = "cable")] Cable),
}

/// What is done before service is looked at again: nothing in it waits for anything else.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// What it is, in a line.
    pub title: String,
    /// How many changes there are.
    pub count: usize,
    /// What still works while it is done, all of its changes at once.
    pub in_service: Service,
    /// In the order of the parts.
    pub changes: Vec<Change>,
}

/// What works during a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Service {
    /// Servers that no link serves.
    pub servers_cut_off: u64,
    /// Links that the server with the fewest can use; a trunk is the links to one ToR.
    pub server_links_min: u32,
    /// Usable capacity of all servers over that before the upgrade.
    pub server_capacity: f64,
    /// Uplinks of the ToR with the fewest, of those with a server.
    pub tor_uplinks_min: u32,
    /// Capacity from ToRs with a server upwards over that before the upgrade.
    pub uplink_capacity: f64,
}

/// Two fabrics between which there is no upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum UpgradeError {
    #[error(
        "an upgrade keeps its servers, and {from} are not {to}: choose `clusters`, `racks_per_cluster` and `servers_per_rack` of the new fabric \
         whose product is {from}"
    )]
    Servers { from: u32, to: u32 },
}

/// The cheapest way, of those tried, from one fabric to another.
///
/// # Errors
/// [`UpgradeError`] if the numbers of servers differ.
pub fn plan(from: &SubwaysWiring, to: &SubwaysWiring) -> Result<Plan, UpgradeError> {
    if from.hosts() != to.hosts() {
        return Err(UpgradeError::Servers { from: from.hosts(), to: to.hosts() });
    }
    let matching = Matching::best(from, to);
    let (before, after) = (matching.cables_before(from), matching.cables_after(to));
    let diff = diff(&before, &after);
    let mut tiers = [Counts::default(); 3];
    for (lower, of_part) in &diff {
        let counts = &mut tiers[tier(*lower)];
        counts.kept += of_part.kept;
        for change in &of_part.changes {
            match change {
                Change::Add(_) => counts.added += 1,
                Change::Move { .. } => counts.moved += 1,
                Change::Replace { .. } => counts.replaced += 1,
                Change::Remove(_) => counts.removed += 1,
            }
        }
    }
    let [server_cables, tor_cables, agg_cables] = tiers;
    let before = Plugged::new(before, to.kind.wiring() == Wiring::Trunk);
    Ok(Plan {
        from: from.title(),
        to: to.title(),
        new_switches: matching.new_switches(to),
        retired_switches: matching.retired_switches(to),
        renamed: matching.renamed(),
        rack_sizes: matching.rack_sizes(to),
        server_cables,
        tor_cables,
        agg_cables,
        steps: steps::order(&before, diff),
        before,
    })
}

/// What happens to the cables of a part's upper side.
#[derive(Default)]
struct OfPart {
    kept: u64,
    /// Moves, replacements, then additions or removals.
    changes: Vec<Change>,
}

/// Cables by lower end, ascending.
type ByLower = BTreeMap<Part, Vec<Cable>>;

/// Compares port by port: a cable whose ends and rate are wanted stays; of the others each makes room for a new one.
fn diff(before: &ByLower, after: &ByLower) -> BTreeMap<Part, OfPart> {
    let mut parts: Vec<Part> = before.keys().chain(after.keys()).copied().collect();
    parts.sort_unstable();
    parts.dedup();
    let none = Vec::new();
    let of_part = |part: Part| {
        let mut new: Vec<Cable> = after.get(&part).unwrap_or(&none).clone();
        let mut old = Vec::new();
        let mut result = OfPart::default();
        for &cable in before.get(&part).unwrap_or(&none) {
            match new.iter().position(|&c| c == cable) {
                Some(i) => {
                    new.remove(i);
                    result.kept += 1;
                }
                None => old.push(cable),
            }
        }
        // A cable of the right rate is moved before one is replaced.
        for rate_matters in [true, false] {
            old.retain(|cable| {
                let Some(i) = new.iter().position(|c| !rate_matters || c.rate == cable.rate) else { return true };
                result.changes.push(change(cable, &new.remove(i)));
                false
            });
        }
        result.changes.extend(new.into_iter().map(Change::Add));
        result.changes.extend(old.into_iter().map(Change::Remove));
        result
    };
    parts.into_iter().map(|part| (part, of_part(part))).collect()
}

fn change(old: &Cable, new: &Cable) -> Change {
    let (end, from, to) = (old.lower, old.upper, new.upper);
    if old.rate == new.rate {
        Change::Move { end, from, to, rate_bps: old.rate.0 }
    } else {
        Change::Replace { end, from, to, from_bps: old.rate.0, to_bps: new.rate.0 }
    }
}

/// 0 for cables of servers, 1 of ToRs, 2 of aggregation switches.
fn tier(lower: Part) -> usize {
    match lower {
        Part::Host(_) => 0,
        Part::Tor(_) => 1,
        Part::Agg(_) | Part::Core(_) => 2,
    }
}

mod cable {
    use serde::ser::{Serialize, SerializeStruct, Serializer};

    use crate::cabling::Cable;

    pub fn serialize<S: Serializer>(cable: &Cable, serializer: S) -> Result<S::Ok, S::Error> {
        Named(cable).serialize(serializer)
    }

    struct Named<'a>(&'a Cable);

    impl Serialize for Named<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut named = serializer.serialize_struct("cable", 3)?;
            named.serialize_field("end", &self.0.lower)?;
            named.serialize_field("to", &self.0.upper)?;
            named.serialize_field("rate_bps", &self.0.rate.0)?;
            named.end()
        }
    }
}
