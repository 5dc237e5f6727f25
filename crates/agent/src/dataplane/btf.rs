//! Types of maps as the kernel describes them (BTF, Documentation/bpf/btf.rst of Linux): which field is where, so that the entries of another build's maps can be
//! read. Of a map that an earlier build has pinned the kernel keeps them for as long as the map lives.
//!
//! ```text
//!   header (magic eb9f, where types and strings are) | types: name u32, info u32 (kind, count), size or type u32, by kind more | strings
//! ```

use std::os::fd::AsFd;

use libbpf_rs::{AsRawLibbpf as _, MapHandle, OpenMap, OpenObject, libbpf_sys};

/// A field of a key or a value that is not itself made of fields: numbers, one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Its name, with those of what it is in: `address.word`.
    pub path: String,
    /// Bytes before it.
    pub offset: usize,
    /// Bytes of one number.
    pub size: usize,
    /// Numbers.
    pub count: usize,
}

/// What a map's keys and values are made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layouts {
    pub key: Vec<Field>,
    pub value: Vec<Field>,
    /// The names of counters by number, if the programs have an enumeration of them.
    pub counters: Vec<String>,
}

/// The layouts of a map of the kernel; none if it was made without types.
pub(crate) fn of_map(map: &MapHandle) -> Option<Layouts> {
    let info = libbpf_rs::MapInfo::new(map.as_fd()).ok()?.info;
    if info.btf_id == 0 {
        return None;
    }
    // SAFETY: what is returned is null, or belongs to the caller, who frees it once, after its bytes were read.
    unsafe {
        let types = libbpf_sys::btf__load_from_kernel_by_id(info.btf_id);
        if types.is_null() {
            return None;
        }
        let found = raw(types).and_then(|bytes| layouts(bytes, info.btf_key_type_id, info.btf_value_type_id));
        libbpf_sys::btf__free(types);
        found
    }
}

/// The layouts of a map of programs that are not loaded yet.
pub(crate) fn of_open(object: &OpenObject, map: &OpenMap<'_>) -> Option<Layouts> {
    // SAFETY: both pointers are valid as long as the object, which keeps the types.
    unsafe {
        let map = map.as_libbpf_object().as_ptr();
        let (key, value) = (libbpf_sys::bpf_map__btf_key_type_id(map), libbpf_sys::bpf_map__btf_value_type_id(map));
        let types = libbpf_sys::bpf_object__btf(object.as_libbpf_object().as_ptr());
        if types.is_null() { None } else { layouts(raw(types)?, key, value) }
    }
}

/// # Safety
/// The types are valid, and live for as long as their bytes are used.
unsafe fn raw<'a>(types: *const libbpf_sys::btf) -> Option<&'a [u8]> {
    let mut length = 0;
    // SAFETY: as above; libbpf gives the number of bytes behind its pointer.
    unsafe {
        let bytes = libbpf_sys::btf__raw_data(types, &raw mut length);
        (!bytes.is_null()).then(|| std::slice::from_raw_parts(bytes.cast::<u8>(), length as usize))
    }
}

/// The layouts of a map whose key and value have these types.
fn layouts(bytes: &[u8], key: u32, value: u32) -> Option<Layouts> {
    if key == 0 || value == 0 {
        return None;
    }
    let types = Types::parse(bytes)?;
    Some(Layouts { key: types.fields(key)?, value: types.fields(value)?, counters: types.counters() })
}

const MAGIC: u16 = 0xeb9f;
/// Types that a key or value is made of, one within the other; names and qualifiers around one; and bytes of a field's name with those of what it is in.
const STEPS: usize = 1024;
const DEPTH: u32 = 16;
const PATH: usize = 256;

const INT: u32 = 1;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;
const TYPE_TAG: u32 = 18;
const ENUM64: u32 = 19;

/// The types of an object, numbered from 1.
#[derive(Debug)]
struct Types<'a> {
    types: Vec<Type<'a>>,
    strings: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
struct Type<'a> {
    name: u32,
    kind: u32,
    /// Whether members may be parts of bytes.
    has_bits: bool,
    size_or_type: u32,
    /// What follows, in words.
    rest: &'a [u8],
}

impl<'a> Types<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        if u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?) != MAGIC {
            return None;
        }
        let part = |at: usize| {
            let header = word(bytes, 4)? as usize;
            let start = header.checked_add(word(bytes, at)? as usize)?;
            bytes.get(start..start.checked_add(word(bytes, at + 4)? as usize)?)
        };
        let (mut rest, strings) = (part(8)?, part(16)?);
        let mut types = Vec::new();
        while !rest.is_empty() {
            let (name, info, size_or_type) = (word(rest, 0)?, word(rest, 4)?, word(rest, 8)?);
            let (kind, count) = (info >> 24 & 0x1f, info as usize & 0xffff);
            let length = 4 * match kind {
                INT | VAR | DECL_TAG => 1,
                ARRAY => 3,
                STRUCT | UNION | DATASEC | ENUM64 => 3 * count,
                ENUM | FUNC_PROTO => 2 * count,
                _ => 0,
            };
            let (own, next) = rest.get(12..)?.split_at_checked(length)?;
            types.push(Type { name, kind, has_bits: info >> 31 != 0, size_or_type, rest: own });
            rest = next;
        }
        Some(Self { types, strings })
    }

    /// A type, without the names and qualifiers around it.
    fn get(&self, mut id: u32) -> Option<Type<'a>> {
        for _ in 0..DEPTH {
            let found = *self.types.get((id as usize).checked_sub(1)?)?;
            match found.kind {
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => id = found.size_or_type,
                _ => return Some(found),
            }
        }
        None
    }

    fn name(&self, at: u32) -> Option<&'a str> {
        let text = self.strings.get(at as usize..)?;
        std::str::from_utf8(text.split(|&byte| byte == 0).next()?).ok()
    }

    /// The fields of a type; none if it has parts that are no fields of whole bytes.
    fn fields(&self, id: u32) -> Option<Vec<Field>> {
        let (mut fields, mut steps) = (Vec::new(), 0);
        self.collect(id, "", 0, &mut steps, &mut fields)?;
        Some(fields)
    }

    fn collect(&self, id: u32, path: &str, offset: usize, steps: &mut usize, fields: &mut Vec<Field>) -> Option<()> {
        let found = self.get(id)?;
        let size = found.size_or_type as usize;
        *steps += 1;
        // A type that contains itself would go on for ever.
        if *steps > STEPS || path.len() > PATH {
            return None;
        }
        match found.kind {
            INT | ENUM | ENUM64 => fields.push(Field { path: path.to_owned(), offset, size, count: 1 }),
            ARRAY => {
                let (element, count) = (word(found.rest, 0)?, word(found.rest, 8)? as usize);
                match self.get(element)?.kind {
                    INT | ENUM | ENUM64 => {
                        let size = self.get(element)?.size_or_type as usize;
                        fields.push(Field { path: path.to_owned(), offset, size, count });
                    }
                    _ => {
                        let each = self.size(element, DEPTH)?;
                        for at in 0..count {
                            let offset = offset.checked_add(at.checked_mul(each)?)?;
                            self.collect(element, &format!("{path}[{at}]"), offset, steps, fields)?;
                        }
                    }
                }
            }
            STRUCT => {
                for member in found.rest.chunks_exact(12) {
                    let (name, of, bits) = (self.name(word(member, 0)?)?, word(member, 4)?, word(member, 8)?);
                    if found.has_bits || bits % 8 != 0 {
                        return None;
                    }
                    let path = [path, if path.is_empty() || name.is_empty() { "" } else { "." }, name].concat();
                    self.collect(of, &path, offset.checked_add(bits as usize / 8)?, steps, fields)?;
                }
            }
            // Which member is meant, nobody knows: bytes.
            UNION => {
                let names = found.rest.chunks_exact(12).map(|member| self.name(word(member, 0)?));
                let names: Vec<&str> = names.collect::<Option<_>>()?;
                fields.push(Field { path: format!("{path}.{}", names.join("|")), offset, size: 1, count: size });
            }
            _ => return None,
        }
        Some(())
    }

    fn size(&self, id: u32, depth: u32) -> Option<usize> {
        let found = self.get(id)?;
        if found.kind != ARRAY {
            return Some(found.size_or_type as usize);
        }
        let (element, count) = (word(found.rest, 0)?, word(found.rest, 8)? as usize);
        self.size(element, depth.checked_sub(1)?)?.checked_mul(count)
    }

    /// The names of the enumeration `..._counter`, by number.
    fn counters(&self) -> Vec<String> {
        let is_counters = |it: &&Type<'_>| it.kind == ENUM && self.name(it.name).is_some_and(|name| name.ends_with("_counter"));
        let Some(found) = self.types.iter().find(is_counters) else { return Vec::new() };
        let values = found.rest.chunks_exact(8).map(|value| Some((word(value, 4)?, self.name(word(value, 0)?)?)));
        let mut values: Vec<(u32, &str)> = values.flatten().collect();
        values.sort_unstable();
        // The last is their number. With gaps they are not what is meant here.
        values.pop();
        let has_gaps = values.iter().enumerate().any(|(at, (value, _))| at != *value as usize);
        if has_gaps { Vec::new() } else { values.into_iter().map(|(_, name)| name.to_owned()).collect() }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The types of `struct { u32 n; struct { u8 mac[6]; u16 port; } at[2]; }` (6) and an enumeration of counters.
    fn example() -> Vec<u8> {
        let strings = b"\0n\0at\0mac\0port\0x_counter\0A\0B\0ALL\0";
        let name = |text: &str| {
            let text = [text.as_bytes(), &[0]].concat();
            strings.windows(text.len()).position(|it| it == text).unwrap() as u32
        };
        let kind = |kind: u32, count: u32| kind << 24 | count;
        let types = [
            [0, kind(INT, 0), 4, 32].to_vec(),
            [0, kind(INT, 0), 1, 8].to_vec(),
            [0, kind(INT, 0), 2, 16].to_vec(),
            [0, kind(ARRAY, 0), 0, 2, 1, 6].to_vec(),
            [0, kind(STRUCT, 2), 8, name("mac"), 4, 0, name("port"), 3, 48].to_vec(),
            [0, kind(STRUCT, 2), 20, name("n"), 1, 0, name("at"), 7, 32].to_vec(),
            [0, kind(ARRAY, 0), 0, 8, 1, 2].to_vec(),
            [0, kind(TYPEDEF, 0), 5].to_vec(),
            [name("x_counter"), kind(ENUM, 3), 4, name("B"), 1, name("A"), 0, name("ALL"), 2].to_vec(),
        ]
        .concat();
        let types: Vec<u8> = types.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let header = [24u32, 0, types.len() as u32, types.len() as u32, strings.len() as u32];
        let mut bytes = [&MAGIC.to_ne_bytes()[..], &[1, 0]].concat();
        bytes.extend(header.iter().flat_map(|word| word.to_ne_bytes()));
        [bytes, types, strings.to_vec()].concat()
    }

    fn field(path: &str, offset: usize, size: usize, count: usize) -> Field {
        Field { path: path.to_owned(), offset, size, count }
    }

    #[test]
    fn fields_are_found_with_their_names_and_places() {
        let found = layouts(&example(), 1, 6).unwrap();
        assert_eq!(found.key, [field("", 0, 4, 1)]);
        let wanted = [
            field("n", 0, 4, 1),
            field("at[0].mac", 4, 1, 6),
            field("at[0].port", 10, 2, 1),
            field("at[1].mac", 12, 1, 6),
            field("at[1].port", 18, 2, 1),
        ];
        assert_eq!(found.value, wanted);
        assert_eq!(found.counters, ["A", "B"]);
        assert_eq!(layouts(&example(), 1, 77), None);
    }

    #[test]
    fn damaged_types_are_no_types() {
        let whole = example();
        for length in 0..whole.len() {
            let _ = layouts(&whole[..length], 1, 6);
        }
        // Each word by itself replaced: types that contain themselves, counts without end.
        for at in (0..whole.len() - 4).step_by(4) {
            for value in [0u32, 1, 6, 7, 8, 0xffff, u32::MAX, 3 << 24, 4 << 24 | 3, 5 << 24 | 1] {
                let mut bytes = whole.clone();
                bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
                if let Some(found) = layouts(&bytes, 1, 6) {
                    assert!(found.value.len() <= STEPS);
                }
            }
        }
    }
}
