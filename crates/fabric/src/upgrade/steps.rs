//! The order: what is new is plugged first, from the top down; then cables move, no part losing more than one at a time; then the rest goes.

use std::collections::BTreeMap;

use super::plugged::Plugged;
use super::{Change, OfPart, Step, tier};
use crate::cabling::Part;

/// Sorts the changes into steps and follows what stays in service.
pub(super) fn order(before: &Plugged, diff: BTreeMap<Part, OfPart>) -> Vec<Step> {
    let mut rounds: BTreeMap<(u8, usize, usize), Vec<Change>> = BTreeMap::new();
    for (lower, of_part) in diff {
        let tier = tier(lower);
        let mut moved = 0;
        for change in of_part.changes {
            let key = match change {
                Change::Add(_) => (0, 2 - tier, 0),
                Change::Move { .. } | Change::Replace { .. } => {
                    moved += 1;
                    (1, 2 - tier, moved)
                }
                Change::Remove(_) => (2, tier, 0),
            };
            rounds.entry(key).or_default().push(change);
        }
    }
    let mut plugged = before.clone();
    let start = plugged.service();
    let last: BTreeMap<(u8, usize), usize> = rounds.keys().map(|&(phase, tier, round)| ((phase, tier), round)).collect();
    rounds
        .into_iter()
        .map(|(key, changes)| {
            changes.iter().for_each(|c| plugged.take_out(c));
            let in_service = plugged.service().over(&start);
            changes.iter().for_each(|c| plugged.plug(c));
            let title = title(key, last[&(key.0, key.1)]);
            Step { title, count: changes.len(), in_service, changes }
        })
        .collect()
}

fn title((phase, place, round): (u8, usize, usize), rounds: usize) -> String {
    let what = |tier: usize| ["servers", "ToRs", "aggregation switches"][tier];
    let of = if rounds > 1 { format!(", {round} of {rounds}") } else { String::new() };
    match phase {
        0 => format!("plug the new cables of {}", what(2 - place)),
        1 => format!("rewire {}, a cable each at a time{of}", what(2 - place)),
        _ => format!("take out cables of {}", what(place)),
    }
}
