//! Scenario -> run on a world -> records -> report.
//!
//! | module | stage |
//! | --- | --- |
//! | [`scenario`] | text, overrides and sweeps become settings, one table per run |
//! | [`study`] | all runs of a scenario, built and checked before the first of them starts |
//! | [`run`] | the summary of a run: prepare, execute, measure, compare, write |
//! | [`world`] | a run on a world: prepared, then executed |
//! | [`schedule`], [`trials`], [`search`] | the order of runs; runs that search for a setting |
//! | [`measure`], [`metrics`], [`ideal`] | the metrics of a run, and its upper bound |
//! | [`summary`], [`expect`] | runs compared with what is expected of them |
//! | [`trust`] | whether results of a lab are trusted |
//! | [`results`], [`report`] | the files of a run |
//! | [`spain`] | SPAIN's plan for a scenario |
//! | [`subways`] | cabling and upgrades of Subways fabrics |
//! | [`prices`] | price lists |
//! | [`error`], [`suggest`] | what a user's input can break, and what was probably meant |
//! | [`bundle`] | the scenarios embedded in the program, named `@...` |
//! | [`cli`] | the commands of the `weft` binary |

pub mod atomic_file;
pub mod bundle;
pub mod cli;
pub mod error;
pub mod expect;
pub mod ideal;
pub mod measure;
pub mod metrics;
pub mod prices;
pub mod repeats;
pub mod report;
pub mod results;
pub mod run;
pub mod scenario;
pub mod schedule;
pub mod search;
pub mod spain;
pub mod study;
pub mod subways;
pub mod suggest;
pub mod summary;
pub mod trials;
pub mod trust;
pub mod wall;
pub mod world;

pub use error::{Error, Result};
