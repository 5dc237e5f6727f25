//! Rates as integers, so that reservations and energies are exact whatever the order in which they are added: no drift after a million
//! changes, and the same result on any machine.

/// A rate or a capacity: 2^-32 of the fastest NIC of the fabric.
pub type Units = i64;

/// The fastest NIC of the fabric, in units.
pub const NIC: Units = 1 << 32;

/// A fraction of the fastest NIC in units, rounded down.
///
/// Flows that together fill a link exactly must fit although their estimates carry rounding errors: what is cut off here is the
/// tolerance, less than 2^-32 of a NIC a flow, thousands of times more than the errors.
pub fn to_units(fraction: f64) -> Units {
    (fraction * NIC as f64 + ROUNDING) as Units
}

/// An estimate that should be a whole number of units must not lose one: far above the errors of estimation, far below a unit.
const ROUNDING: f64 = 1e-4;

/// Units as a fraction of the fastest NIC.
pub fn from_units(units: Units) -> f64 {
    units as f64 / NIC as f64
}
