//! Scenario -> run on a world -> records -> report.
//!
//! | module | stage |
//! | --- | --- |
//! | [`scenario`] | text, overrides and sweeps become built objects, once |
//! | [`run`] | tells the whole story: build, carry, measure, compare, write |
//! | [`search`] | tries settings until the largest that meets a bound is found |
//! | [`metrics`], [`expect`] | what a run's records say, and what the paper said |
//! | [`results`], [`report`] | the files of a run |
//! | [`spain`] | SPAIN's plan for a scenario |
//! | [`subways`] | cabling and upgrades of Subways fabrics |
//! | [`cli`] | the commands of the `weft` binary |

pub mod cli;
pub mod error;
pub mod expect;
pub mod ideal;
pub mod metrics;
pub mod report;
pub mod results;
pub mod run;
pub mod scenario;
pub mod search;
pub mod spain;
pub mod subways;
pub mod wall;
pub mod world;

pub use error::{Error, Result};
