//! VLANs as a configuration writes them: `1-4,7`.

use std::collections::BTreeSet;
use std::str::FromStr;

use weft_control::wire::packet::ethernet::VlanId;

/// Some VLANs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Vlans(pub BTreeSet<VlanId>);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_numbers() {
        let of = |text: &str| text.parse::<Vlans>().map(|it| it.0.iter().map(|v| v.get()).collect::<Vec<_>>());
        assert_eq!(of("1-3, 7,4094"), Ok(vec![1, 2, 3, 7, 4094]));
        assert_eq!(of(""), Ok(vec![]));
        for wrong in ["0", "4095", "3-1", "x", "1-"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
