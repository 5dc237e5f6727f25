//! The graph of a network and the shapes that it can have.

mod graph;
mod health;
pub mod shapes;

pub use graph::{End, Fabric, FabricBuilder, FabricError, Link, Node, Rack};
pub use health::{Health, Part, PartError, edit_distance};
