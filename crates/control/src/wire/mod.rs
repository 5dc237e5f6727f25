//! What goes over the wire: checked parsing and emitting, no I/O. A malformed packet is an error value, never a panic.

pub mod directory;
pub mod netlord;
pub mod packet;
pub mod subways;
pub mod versions;
pub mod vl2;
