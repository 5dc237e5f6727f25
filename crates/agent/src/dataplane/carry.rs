//! Carries what the maps of another build hold over into this build's, field by field.
//!
//! ```text
//!   another build's map --- its types, by the kernel ---.
//!                                                        fields of the same name --> this build's map
//!   this build's map ------ its types, by the object ---'
//! ```
//! A field that only the other build has is left out; one that only this build has begins as 0, which therefore means "as before there was this field". Entries of
//! which the key would change, or a number has no room, are left out. A field whose meaning changes gets another name.

use libbpf_rs::{ErrorKind, MapCore as _, MapFlags, MapHandle, MapType, OpenMap, OpenObject};

use super::btf::{self, Field, Layouts};
use super::maps::sums;
use super::{PlaneError, Result};

/// What decides whether one build can use a map of another.
#[derive(Debug)]
pub(super) struct Shape {
    kind: MapType,
    key_size: u32,
    value_size: u32,
    entries: u32,
    layouts: Option<Layouts>,
}

impl Shape {
    /// Of a map of the kernel.
    pub fn of_map(map: &MapHandle) -> Self {
        Self {
            kind: map.map_type(),
            key_size: map.key_size(),
            value_size: map.value_size(),
            entries: map.max_entries(),
            layouts: btf::of_map(map),
        }
    }

    /// Of a map that is to be made.
    pub fn of_open(object: &OpenObject, map: &OpenMap<'_>) -> Self {
        Self {
            kind: map.map_type(),
            key_size: map.key_size(),
            value_size: map.value_size(),
            entries: map.max_entries(),
            layouts: btf::of_open(object, map),
        }
    }

    /// Whether a map of one is a map of the other. Maps without types have the sizes only.
    pub fn is(&self, other: &Self) -> bool {
        let sizes = |it: &Self| (it.kind, it.key_size, it.value_size, it.entries);
        let same_fields = match (&self.layouts, &other.layouts) {
            (Some(one), Some(two)) => one.key == two.key && one.value == two.value,
            _ => true,
        };
        sizes(self) == sizes(other) && same_fields
    }

    /// Whether the counters of one have the numbers of the other's.
    pub fn counts_as(&self, other: &Self) -> bool {
        let (one, two) = (self.counters(), other.counters());
        one.is_empty() || two.is_empty() || one == two
    }

    fn counters(&self) -> &[String] {
        self.layouts.as_ref().map_or(&[], |layouts| &layouts.counters)
    }

    const fn is_table(&self) -> bool {
        matches!(self.kind, MapType::Hash | MapType::LruHash | MapType::Array | MapType::LpmTrie)
    }
}

/// What became of a map's entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried {
    pub entries: usize,
    pub left_out: usize,
}

/// Copies the entries of a map of the first shape into one of the second; what is no table has none.
///
/// # Errors
/// [`PlaneError::Bpf`] if the kernel refuses.
pub(super) fn entries(name: &str, (old, from): (&MapHandle, &Shape), (new, to): (&MapHandle, &Shape)) -> Result<Carried> {
    let mut carried = Carried::default();
    if !from.is_table() || !to.is_table() {
        return Ok(carried);
    }
    let plans = Plan::of_keys(from, to).zip(Plan::of_values(from, to));
    for key in old.keys() {
        let value = old.lookup(&key, MapFlags::ANY).map_err(PlaneError::bpf("read table", name))?;
        // It may have gone since. In an array everything is there, and most of it unused.
        let Some(value) = value.filter(|it| from.kind != MapType::Array || it.iter().any(|&byte| byte != 0)) else { continue };
        let entry = plans.as_ref().and_then(|(keys, values)| Some((keys.apply(&key)?, values.apply(&value)?)));
        let is_in = match entry.map(|(key, value)| new.update(&key, &value, MapFlags::ANY)) {
            // The table is smaller than the other build's.
            Some(Err(error)) if error.kind() == ErrorKind::TooBig || carried.entries >= to.entries as usize => false,
            Some(Err(error)) => return Err(PlaneError::bpf("write table", name)(error)),
            there => there.is_some(),
        };
        carried.entries += usize::from(is_in);
        carried.left_out += usize::from(!is_in);
    }
    Ok(carried)
}

/// What another build's counters stand at, by the numbers of this build's.
///
/// # Errors
/// [`PlaneError::Bpf`] if the kernel refuses.
pub(super) fn counters(old: &MapHandle, earlier: Option<&MapHandle>, (from, to): (&Shape, &Shape)) -> Result<Vec<u64>> {
    let mut values = sums(old, old.max_entries() as usize)?;
    for (number, value) in values.iter_mut().enumerate() {
        let before = earlier.map(|map| map.lookup(&(number as u32).to_ne_bytes(), MapFlags::ANY));
        let before = before.transpose().map_err(PlaneError::bpf("read table", "carried"))?.flatten();
        *value += before.and_then(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?))).unwrap_or(0);
    }
    let (old_names, names) = (from.counters(), to.counters());
    // A build that has no names for them has the numbers of this one, as far as they go.
    let place = |number: usize| match names.get(number) {
        Some(name) if !old_names.is_empty() => old_names.iter().position(|it| it == name),
        _ => Some(number),
    };
    Ok((0..to.entries as usize).map(|number| place(number).and_then(|at| values.get(at).copied()).unwrap_or(0)).collect())
}

/// How the bytes of one type become those of another.
#[derive(Debug)]
struct Plan {
    moves: Vec<Move>,
    length: usize,
}

#[derive(Debug)]
struct Move {
    from: Place,
    to: Place,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    offset: usize,
    size: usize,
    count: usize,
}

impl Plan {
    /// None if a key of the one names something else in the other.
    fn of_keys(from: &Shape, to: &Shape) -> Option<Self> {
        let Some((one, two)) = from.layouts.as_ref().zip(to.layouts.as_ref()) else {
            return Self::as_it_is(from.key_size, to.key_size);
        };
        let names = |fields: &[Field]| {
            let mut names: Vec<_> = fields.iter().map(|field| (field.path.clone(), field.size, field.count)).collect();
            names.sort_unstable();
            names
        };
        (names(&one.key) == names(&two.key)).then(|| Self::by_name(&one.key, &two.key, to.key_size))
    }

    fn of_values(from: &Shape, to: &Shape) -> Option<Self> {
        match from.layouts.as_ref().zip(to.layouts.as_ref()) {
            Some((one, two)) => Some(Self::by_name(&one.value, &two.value, to.value_size)),
            None => Self::as_it_is(from.value_size, to.value_size),
        }
    }

    fn as_it_is(from: u32, to: u32) -> Option<Self> {
        let whole = Place { offset: 0, size: 1, count: to as usize };
        (from == to).then(|| Self { moves: vec![Move { from: whole, to: whole }], length: to as usize })
    }

    fn by_name(from: &[Field], to: &[Field], length: u32) -> Self {
        let place = |field: &Field| Place { offset: field.offset, size: field.size, count: field.count };
        let moves = to.iter().filter_map(|field| {
            let old = from.iter().find(|it| it.path == field.path)?;
            Some(Move { from: place(old), to: place(field) })
        });
        Self { moves: moves.collect(), length: length as usize }
    }

    /// None if a number has no room.
    fn apply(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; self.length];
        for Move { from, to } in &self.moves {
            for at in 0..from.count.max(to.count) {
                let read = |place: &Place| place.offset + at * place.size..place.offset + (at + 1) * place.size;
                let number = if at < from.count { bytes.get(read(from))? } else { &[] };
                if at < to.count {
                    resize(number, out.get_mut(read(to))?)?;
                } else if number.iter().any(|&byte| byte != 0) {
                    return None;
                }
            }
        }
        Some(out)
    }
}

/// A number in another width, in this machine's byte order. None if it does not fit.
fn resize(from: &[u8], to: &mut [u8]) -> Option<()> {
    let common = from.len().min(to.len());
    let (kept, lost, place) = if cfg!(target_endian = "little") {
        (&from[..common], &from[common..], 0..common)
    } else {
        (&from[from.len() - common..], &from[..from.len() - common], to.len() - common..to.len())
    };
    to[place].copy_from_slice(kept);
    lost.iter().all(|&byte| byte == 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(path: &str, offset: usize, size: usize, count: usize) -> Field {
        Field { path: path.to_owned(), offset, size, count }
    }

    fn shape(key: &[Field], value: &[Field], counters: &[&str]) -> Shape {
        let size = |fields: &[Field]| fields.iter().map(|it| it.offset + it.size * it.count).max().unwrap_or(0) as u32;
        let counters = counters.iter().map(|&name| name.to_owned()).collect();
        let layouts = Layouts { key: key.to_vec(), value: value.to_vec(), counters };
        Shape { kind: MapType::Hash, key_size: size(key), value_size: size(value), entries: 8, layouts: Some(layouts) }
    }

    #[test]
    fn fields_of_one_name_are_moved_widened_and_narrowed() {
        let old = [field("a", 0, 1, 1), field("gone", 1, 1, 1), field("b", 2, 2, 1), field("list", 4, 1, 3)];
        let new = [field("fresh", 0, 4, 1), field("b", 4, 4, 1), field("a", 8, 1, 1), field("list", 9, 1, 2)];
        let plan = Plan::by_name(&old, &new, 11);
        let b = 0x0102u16.to_ne_bytes();
        let wanted = [&[0; 4][..], &0x0102u32.to_ne_bytes(), &[7, 5, 6]].concat();
        assert_eq!(plan.apply(&[7, 9, b[0], b[1], 5, 6, 0]), Some(wanted));
        assert_eq!(plan.apply(&[7, 9, b[0], b[1], 5, 6, 1]), None, "the third of a list that has room for two");
        let back = Plan::by_name(&new, &old, 7);
        let wide = [&[9; 4][..], &0x0001_0000u32.to_ne_bytes(), &[7, 5, 6]].concat();
        assert_eq!(back.apply(&wide), None, "65,536 in 16 bits");
        let narrow = [&[9; 4][..], &0xffffu32.to_ne_bytes(), &[7, 5, 6]].concat();
        assert_eq!(back.apply(&narrow), Some(vec![7, 0, 0xff, 0xff, 5, 6, 0]));
        assert_eq!(plan.apply(&[7, 9]), None, "bytes are missing");
    }

    #[test]
    fn keys_keep_their_meaning_or_are_left_out() {
        let old = shape(&[field("ip", 0, 4, 1), field("port", 4, 2, 1)], &[], &[]);
        let other_order = shape(&[field("port", 0, 2, 1), field("ip", 4, 4, 1)], &[], &[]);
        assert!(!old.is(&other_order));
        let plan = Plan::of_keys(&old, &other_order).unwrap();
        assert_eq!(plan.apply(&[1, 2, 3, 4, 5, 6]), Some(vec![5, 6, 0, 0, 1, 2, 3, 4]));
        let another = shape(&[field("ip", 0, 4, 1), field("vlan", 4, 2, 1)], &[], &[]);
        assert!(!old.is(&another) && Plan::of_keys(&old, &another).is_none());
        let bare = |size| Shape { layouts: None, key_size: size, ..shape(&[], &[], &[]) };
        assert!(Plan::of_keys(&bare(4), &bare(4)).is_some() && Plan::of_keys(&bare(4), &bare(8)).is_none());
    }
}
