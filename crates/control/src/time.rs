//! The clock of all machines here: nanoseconds in 64 bits, which last 584 years.

pub use weft_fabric::time::{NS_PER_S, NsDuration as Duration, NsInstant as Instant};
