//! The regular fabrics. Each function fixes names, numbering and wiring; ids follow from the order of construction.

mod fat_tree;
mod single_switch;

pub use fat_tree::fat_tree;
pub use single_switch::{ideal_of, single_switch};

use crate::time::Duration;
use crate::units::BitsPerSec;

/// Capacity and propagation delay of a kind of cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cabling {
    /// Bits per second in each direction.
    pub rate: BitsPerSec,
    /// One-way propagation delay.
    pub delay: Duration,
}
