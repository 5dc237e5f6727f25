//! Entries in tables.

use weft_control::directory::{Key, Value};

pub use crate::table::new;

/// The columns of an entry.
pub const ENTRY: [&str; 7] = ["key", "at", "group", "service", "owner", "lease", "generation"];

/// An entry's cells; `what` stands where there is no value.
pub fn entry(key: &Key, value: Option<&Value>, what: &str, generation: u64) -> [String; 7] {
    let none = || "-".to_owned();
    let some = |number: u32| if number == 0 { none() } else { number.to_string() };
    let generation = if generation == 0 { none() } else { generation.to_string() };
    match value {
        Some(Value::Mapping(it)) => {
            let mac = it.mac.map_or(String::new(), |mac| format!(" ({mac})"));
            let lease = weft_control::time::Duration::from_ms(u64::from(it.lease_ms)).to_string();
            let group = some(u32::from(it.group.0));
            [key.to_string(), format!("{}{mac}", it.locator), group, some(it.service.0), some(it.owner.0), lease, generation]
        }
        Some(Value::Group(addresses)) => {
            let addresses = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            [key.to_string(), addresses, none(), none(), none(), none(), generation]
        }
        None => [key.to_string(), what.to_owned(), none(), none(), none(), none(), generation],
    }
}
