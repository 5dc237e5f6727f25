//! Lists of flows, as people and other tools write them.
//!
//! | format | a line | start | size |
//! | --- | --- | --- | --- |
//! | [`csv`] | `src,dst,start,size` below that header | seconds, or with a unit | bytes, or with a unit, or `inf` |
//! | [`cm`] | htsim: `src->dst id 1 start 0 size 2000000` | picoseconds | bytes; 0 is without end |
//! | [`flow_txt`] | HPCC's ns-3: `src dst 3 dport size start`, below their number | seconds | bytes |
//! | [`demand`] | `src,dst` below that header | | |
//! | [`matrix`] | `t,src,dst,bps` below that header: rates between racks, no flows | | |
//!
//! The readers take any bytes and give flows in the order of the file, or a [`FormatError`] that names the line.
//! They read whole files from memory: opening files is the caller's work.

pub mod cm;
pub mod csv;
pub mod demand;
pub(in crate::formats) mod fields;
pub mod flow_txt;
mod hosts;
pub mod matrix;

pub use hosts::HostNames;

use crate::formats::FormatError;

/// Why flows cannot be written in a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum WriteError {
    #[error("flow {flow} sends without end, which {format} cannot say: give it a size")]
    Endless { flow: usize, format: &'static str },
    #[error("flow {flow} sends {bytes} bytes, and {format} takes at most {most}: split it into smaller flows")]
    TooLarge { flow: usize, bytes: u64, most: u64, format: &'static str },
}
