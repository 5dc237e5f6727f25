//! Sets of VLANs as configurations write them: `1-4,7`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::wire::packet::ethernet::VlanId;

/// Some VLANs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vlans(pub BTreeSet<VlanId>);

impl Vlans {
    /// Those of these numbers that are VLANs.
    pub fn of(numbers: impl IntoIterator<Item = u16>) -> Self {
        Self(numbers.into_iter().filter_map(VlanId::new).collect())
    }

    /// Ascending.
    pub fn list(&self) -> Vec<VlanId> {
        self.0.iter().copied().collect()
    }
}

impl FromStr for Vlans {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let id = text.trim().parse().ok().and_then(VlanId::new);
            id.ok_or_else(|| format!("`{}` is no VLAN: write numbers from 1 to 4094, as \"1-4,7\"", text.trim()))
        };
        let mut all = BTreeSet::new();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?.get(), number(last)?.get());
            if first > last {
                return Err(format!("`{}` counts down", part.trim()));
            }
            all.extend((first..=last).filter_map(VlanId::new));
        }
        Ok(Self(all))
    }
}

impl fmt::Display for Vlans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.list();
        let mut rest = &all[..];
        while let Some(first) = rest.first().map(|vlan| vlan.get()) {
            let run = rest.iter().zip(first..).take_while(|(vlan, wanted)| vlan.get() == *wanted).count();
            let comma = if rest.len() == all.len() { "" } else { "," };
            let last = rest[run - 1].get();
            if run > 1 {
                write!(f, "{comma}{first}-{last}")?
            } else {
                write!(f, "{comma}{first}")?
            }
            rest = &rest[run..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_and_numbers() {
        let of = |text: &str| text.parse::<Vlans>().map(|it| it.0.iter().map(|v| v.get()).collect::<Vec<_>>());
        assert_eq!(of("1-3, 7,4094"), Ok(vec![1, 2, 3, 7, 4094]));
        assert_eq!(of(""), Ok(vec![]));
        assert_eq!(Vlans::of([4094, 3, 1, 2, 7, 0]).to_string(), "1-3,7,4094");
        for wrong in ["0", "4095", "3-1", "x", "1-"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(numbers in prop::collection::vec(1u16..4095, 0..60)) {
            let vlans = Vlans::of(numbers);
            prop_assert_eq!(vlans.to_string().parse(), Ok(vlans));
        }
    }
}
