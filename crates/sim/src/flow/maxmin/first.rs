//! The earliest of many instants that keep changing: a tournament of eight a match.
//!
//! ```text
//!   level 2                 [ min ............ ]
//!   level 1     [ min | min | min ... ]                8 to a cache line
//!   level 0   [ e0 e1 .. e7 ][ e8 .. e15 ] ...         the entries
//! ```
//! A change goes up only as far as it alters a minimum: most stop after a level or two.

/// Instants in picoseconds by entry; [`u64::MAX`] for none.
#[derive(Clone, Debug, Default)]
pub(crate) struct First {
    /// From the entries up to the top, which has at most eight.
    levels: Vec<Vec<u64>>,
}

impl First {
    /// The earliest instant and its entry, the lowest one of equals; `u64::MAX` if there is none.
    pub fn earliest(&self) -> (u64, u32) {
        let mut entry = 0;
        let mut value = u64::MAX;
        for level in self.levels.iter().rev() {
            let group = &level[entry * WIDTH..(entry * WIDTH + WIDTH).min(level.len())];
            let (i, &least) = group.iter().enumerate().min_by_key(|&(_, v)| v).expect("groups are not empty");
            entry = entry * WIDTH + i;
            value = least;
        }
        (value, entry as u32)
    }

    /// An entry's instant.
    pub fn of(&self, entry: u32) -> u64 {
        self.levels.first().and_then(|entries| entries.get(entry as usize)).copied().unwrap_or(u64::MAX)
    }

    /// Sets an entry.
    pub fn set(&mut self, entry: u32, at: u64) {
        let mut index = entry as usize;
        if self.levels.first().is_none_or(|l| index >= l.len()) {
            self.grow(index + 1);
        }
        let mut value = at;
        for depth in 0..self.levels.len() {
            let before = std::mem::replace(&mut self.levels[depth][index], value);
            let group = index / WIDTH;
            let Some(&least) = self.levels.get(depth + 1).and_then(|above| above.get(group)) else { return };
            if value > least {
                if before > least {
                    return;
                }
                // The least one may have risen.
                value = self.levels[depth][group * WIDTH..].iter().take(WIDTH).copied().min().expect("groups are not empty");
            }
            if value == least {
                return;
            }
            index = group;
        }
    }

    fn grow(&mut self, entries: usize) {
        let mut len = entries.next_power_of_two().max(WIDTH);
        let mut values = std::mem::take(&mut self.levels).into_iter().next().unwrap_or_default();
        values.resize(len, u64::MAX);
        loop {
            let above: Vec<u64> = values.chunks(WIDTH).map(|g| g.iter().copied().min().expect("chunks are not empty")).collect();
            self.levels.push(values);
            if len <= WIDTH {
                return;
            }
            len = above.len();
            values = above;
        }
    }
}

const WIDTH: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_the_minimum(changes in proptest::collection::vec((0u32..700, 0u64..50), 1..400)) {
            let mut first = First::default();
            let mut plain = vec![u64::MAX; 700];
            for (entry, at) in changes {
                let at = if at == 0 { u64::MAX } else { at };
                first.set(entry, at);
                plain[entry as usize] = at;
                let least = *plain.iter().min().unwrap();
                let (value, entry) = first.earliest();
                prop_assert_eq!(value, least);
                prop_assert!(value == u64::MAX || plain.iter().position(|&v| v == least) == Some(entry as usize));
            }
        }
    }
}
