//! Shared by the tests: an etcd of one or three members on loopback, random operations, and a model of a store.
#![allow(dead_code)] // Each test file uses its own part.

pub mod agent;
pub mod clock;
pub mod cluster;
pub mod daemon;
pub mod disk;
pub mod etcd;
pub mod lock;
pub mod lossy;
pub mod model;
pub mod network;
pub mod shared;
pub mod site;
