//! The results folder and its files.

mod folder;
pub mod parquet;
mod provenance;
mod tables;
mod write;

pub use folder::{Folder, remove_unfinished};
pub use write::{begin, finish, write_run};
