//! A network of namespaces, with real agents and a directory server or with their data planes alone.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod ebpf;
pub mod fabric;
pub mod process;
#[path = "../../../directory/tests/support/shared.rs"]
pub mod shared;
pub mod site;
pub mod traffic;
