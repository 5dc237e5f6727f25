//! A network of namespaces with real agents and a directory server.

pub mod fabric;
pub mod process;
#[path = "../../../directory/tests/support/shared.rs"]
pub mod shared;
