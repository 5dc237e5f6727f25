//! The graph of a network, the shapes that it can have, and what can be said of it.

mod graph;
mod health;
pub mod metrics;
pub mod shapes;
pub(crate) mod switch_graph;

pub use graph::{End, Fabric, FabricBuilder, FabricError, Link, Node, Rack};
pub use health::{Health, Part, PartError, edit_distance};
pub use metrics::Metrics;
pub use shapes::Shape;
