//! Which hosts take part in a pattern, and lists of hosts as its two sides.
//!
//! ```text
//!   racks            |  0  |  1  |  2  |  3  |  4  |  5  |      15 hosts each
//!   12 spread         ..    ..    ..    ..    ..    ..         at even distances
//!   30 contiguous     ##    ##                                 from = [0]
//!   30 contiguous     ##                ##                     from = [0, 3]: split equally
//!   racks = [1, 4]          ##                ##
//! ```
//! Subways section 8.3 places its jobs contiguously, on as few racks as will do, or equally over two loops of racks.

use crate::ids::HostId;
use crate::topology::Fabric;
use crate::traffic::error::{TrafficError, parameter};

/// The hosts that take part in a pattern; all by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Participants {
    /// How many: `hosts`. `None`: all that may.
    pub hosts: Option<u32>,
    /// Just these, by number: `hosts` as a list, in place of all else here.
    pub listed: Option<Vec<u32>>,
    /// The racks whose hosts may, by number: `racks`. `None`: all.
    pub racks: Option<Vec<u32>>,
    /// Which of those that may: `place`.
    pub place: Place,
}

/// Which hosts take part if not all do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// At even distances, so that every rack gives its share.
    #[default]
    Spread,
    /// Rack by rack (Subways section 8.3).
    Contiguous {
        /// The racks to begin with: `first_rack`. Of several, each gives an equal part of the hosts, from itself and the racks
        /// that follow it. Empty: from the first rack that may take part.
        from: Vec<u32>,
    },
}

/// Hosts by name of their racks, or one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostList {
    /// All hosts of these racks.
    Racks(Vec<u32>),
    /// These hosts.
    Hosts(Vec<u32>),
}

impl Participants {
    /// The hosts on a fabric, ascending; at least one.
    ///
    /// # Errors
    /// [`TrafficError::Parameter`] with the key `hosts`, `racks` or `first_rack`.
    pub fn pick(&self, fabric: &Fabric) -> Result<Vec<HostId>, TrafficError> {
        if let Some(listed) = &self.listed {
            if self.racks.is_some() || self.place != Place::Spread {
                return Err(parameter("hosts", show(listed), "a list of hosts says all: leave out `racks` and `place`"));
            }
            let mut picked = HostList::Hosts(listed.clone()).pick(fabric, "racks", "hosts")?;
            picked.sort_unstable();
            return Ok(picked);
        }
        let candidates = match &self.racks {
            None => fabric.hosts().collect(),
            Some(racks) => hosts_of_racks(fabric, racks, "racks")?,
        };
        if self.hosts == Some(0) || self.hosts.is_some_and(|n| n as usize > candidates.len()) {
            let whose = if self.racks.is_some() { "these racks" } else { "the fabric" };
            let rule = format!("from 1 to the {} hosts of {whose} take part", candidates.len());
            return Err(parameter("hosts", self.hosts.unwrap_or(0), rule));
        }
        let count = self.hosts.map_or(candidates.len(), |n| n as usize);
        let mut picked = match &self.place {
            Place::Spread => {
                let mut sorted = candidates;
                sorted.sort_unstable();
                (0..count).map(|i| sorted[(i as u128 * sorted.len() as u128 / count as u128) as usize]).collect()
            }
            Place::Contiguous { from } if from.is_empty() => {
                let mut racked = candidates;
                if self.racks.is_none() {
                    racked.sort_by_key(|&h| (fabric.rack_of(h), h));
                }
                racked.truncate(count);
                racked
            }
            Place::Contiguous { from } => self.split(fabric, from, count)?,
        };
        picked.sort_unstable();
        Ok(picked)
    }

    /// Whether all hosts of any fabric take part.
    pub fn is_everybody(&self) -> bool {
        self.hosts.is_none() && self.listed.is_none() && self.racks.is_none()
    }

    /// An equal part from each of the first racks on.
    fn split(&self, fabric: &Fabric, from: &[u32], count: usize) -> Result<Vec<HostId>, TrafficError> {
        if self.racks.is_some() {
            return Err(parameter("first_rack", show(from), "`racks` names the racks already: leave one of them out"));
        }
        if self.hosts.is_none() {
            return Err(parameter("first_rack", show(from), "it needs `hosts`: how many take part"));
        }
        if !count.is_multiple_of(from.len()) {
            let rule = format!("{count} hosts do not split equally over {} first racks", from.len());
            return Err(parameter("hosts", count, rule));
        }
        check_racks(fabric, from, "first_rack")?;
        let mut taken = vec![false; fabric.host_count()];
        let mut picked = Vec::with_capacity(count);
        for &first in from {
            let following = fabric.racks()[first as usize..].iter().flat_map(|rack| rack.hosts.iter().copied());
            let part: Vec<HostId> = following.take(count / from.len()).collect();
            if part.len() < count / from.len() {
                let rule =
                    format!("from rack {first} on there are only {} hosts of the {} needed", part.len(), count / from.len());
                return Err(parameter("first_rack", first, rule));
            }
            for host in part {
                if std::mem::replace(&mut taken[host.index()], true) {
                    let rule = format!("{} hosts from rack {first} on run into those of another first rack", count / from.len());
                    return Err(parameter("first_rack", first, rule));
                }
                picked.push(host);
            }
        }
        Ok(picked)
    }
}

impl HostList {
    /// The hosts on a fabric, in the order of the list. `racks_key` and `hosts_key` are the keys that hold the two forms.
    ///
    /// # Errors
    /// [`TrafficError::Parameter`] with one of these keys: an empty list, one twice, or one that the fabric has not.
    pub fn pick(&self, fabric: &Fabric, racks_key: &'static str, hosts_key: &'static str) -> Result<Vec<HostId>, TrafficError> {
        match self {
            Self::Racks(racks) => hosts_of_racks(fabric, racks, racks_key),
            Self::Hosts(hosts) => {
                let rule = format!("the fabric has hosts 0 to {}", fabric.host_count() - 1);
                check_list(hosts, fabric.host_count(), hosts_key, &rule)?;
                Ok(hosts.iter().map(|&h| HostId(h)).collect())
            }
        }
    }
}

/// The hosts of racks, in the order of the list.
pub(super) fn hosts_of_racks(fabric: &Fabric, racks: &[u32], key: &'static str) -> Result<Vec<HostId>, TrafficError> {
    check_racks(fabric, racks, key)?;
    Ok(racks.iter().flat_map(|&r| fabric.racks()[r as usize].hosts.iter().copied()).collect())
}

fn check_racks(fabric: &Fabric, racks: &[u32], key: &'static str) -> Result<(), TrafficError> {
    check_list(racks, fabric.racks().len(), key, &format!("the fabric has racks 0 to {}", fabric.racks().len() - 1))
}

fn check_list(list: &[u32], known: usize, key: &'static str, rule: &str) -> Result<(), TrafficError> {
    if list.is_empty() {
        return Err(parameter(key, "[]", format!("name at least one: {rule}")));
    }
    if let Some(unknown) = list.iter().find(|&&n| n as usize >= known) {
        return Err(parameter(key, unknown, rule));
    }
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|w| w[0] == w[1]) {
        Some(twice) => Err(parameter(key, twice[0], "it is named twice")),
        None => Ok(()),
    }
}

fn show(list: &[u32]) -> String {
    format!("{list:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;
    use crate::topology::shapes::{Cabling, fat_tree};
    use crate::units::BitsPerSec;

    /// 16 hosts in 8 racks of 2.
    fn fabric() -> Fabric {
        fat_tree(4, Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO }).unwrap()
    }

    fn pick(hosts: Option<u32>, racks: Option<&[u32]>, place: Place) -> Result<Vec<u32>, &'static str> {
        let participants = Participants { hosts, listed: None, racks: racks.map(<[u32]>::to_vec), place };
        match participants.pick(&fabric()) {
            Ok(hosts) => Ok(hosts.iter().map(|h| h.0).collect()),
            Err(TrafficError::Parameter { key, .. }) => Err(key),
            Err(other) => panic!("{other}"),
        }
    }

    fn contiguous(from: &[u32]) -> Place {
        Place::Contiguous { from: from.to_vec() }
    }

    #[test]
    fn everybody_takes_part_by_default() {
        assert_eq!(pick(None, None, Place::Spread), Ok((0..16).collect()));
        assert_eq!(pick(Some(4), None, Place::Spread), Ok(vec![0, 4, 8, 12]));
    }

    #[test]
    fn contiguous_hosts_fill_rack_after_rack() {
        assert_eq!(pick(Some(5), None, contiguous(&[])), Ok(vec![0, 1, 2, 3, 4]));
        assert_eq!(pick(Some(4), None, contiguous(&[3])), Ok(vec![6, 7, 8, 9]));
        assert_eq!(pick(Some(6), None, contiguous(&[4, 0])), Ok(vec![0, 1, 2, 8, 9, 10]));
    }

    #[test]
    fn racks_narrow_the_choice() {
        assert_eq!(pick(None, Some(&[7, 1]), Place::Spread), Ok(vec![2, 3, 14, 15]));
        assert_eq!(pick(Some(2), Some(&[7, 1]), Place::Spread), Ok(vec![2, 14]));
        assert_eq!(pick(Some(3), Some(&[7, 1]), contiguous(&[])), Ok(vec![2, 14, 15]), "in the order of the list");
    }

    #[test]
    fn what_cannot_be_picked_names_its_key() {
        for (hosts, racks, place, key) in [
            (Some(17), None, Place::Spread, "hosts"),
            (Some(0), None, Place::Spread, "hosts"),
            (Some(5), Some(&[0, 1][..]), Place::Spread, "hosts"),
            (None, Some(&[8]), Place::Spread, "racks"),
            (None, Some(&[1, 1]), Place::Spread, "racks"),
            (None, Some(&[]), Place::Spread, "racks"),
            (Some(3), None, contiguous(&[0, 4]), "hosts"),
            (Some(6), None, contiguous(&[0, 1]), "first_rack"),
            (Some(4), None, contiguous(&[7]), "first_rack"),
            (Some(4), None, contiguous(&[8]), "first_rack"),
            (None, None, contiguous(&[0]), "first_rack"),
            (Some(2), Some(&[0]), contiguous(&[0]), "first_rack"),
        ] {
            assert_eq!(pick(hosts, racks, place.clone()), Err(key), "{hosts:?} {racks:?} {place:?}");
        }
    }

    #[test]
    fn lists_name_hosts_or_racks() {
        let pick = |list: HostList| list.pick(&fabric(), "sender_racks", "senders").map_err(|e| e.to_string());
        assert_eq!(pick(HostList::Racks(vec![3, 0])), Ok([6, 7, 0, 1].map(HostId).to_vec()));
        assert_eq!(pick(HostList::Hosts(vec![9, 2])), Ok([9, 2].map(HostId).to_vec()));
        assert!(pick(HostList::Hosts(vec![16])).unwrap_err().contains("`senders` = 16"));
        assert!(pick(HostList::Racks(vec![])).unwrap_err().contains("sender_racks"));
    }
}
