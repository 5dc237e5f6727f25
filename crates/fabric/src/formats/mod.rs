//! How other tools write fabrics, flows and size distributions down.

pub mod error;

pub use error::FormatError;
