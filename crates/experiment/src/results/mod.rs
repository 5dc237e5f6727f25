//! The files of a run.

mod folder;
mod parquet;

pub use folder::Folder;
pub use parquet::write_tables;
