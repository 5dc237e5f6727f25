//! The files of a run.

mod folder;
mod parquet;

pub use folder::{Folder, remove_unfinished};
pub use parquet::write_tables;
