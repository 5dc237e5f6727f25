//! How other tools write fabrics, flows and size distributions down.

pub mod cdf;
mod error;
pub mod flows;
pub mod topology;

pub use error::FormatError;
