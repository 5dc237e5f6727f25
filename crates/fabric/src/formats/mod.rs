//! How other tools write fabrics, flows and size distributions down.

pub mod error;
pub mod topology;

pub use error::FormatError;
