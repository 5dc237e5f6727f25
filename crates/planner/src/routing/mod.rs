//! What routings carry of traffic between racks, and what the best one would.
//!
//! | module | question |
//! | --- | --- |
//! | [`matrix`] | who sends how much to whom |
//! | [`series`] | the same over time, from a file |
//! | [`router`] | loads and throughput of ECMP, VLB and single paths |
//! | [`optimum`] | certified bounds of the best possible throughput |

pub mod matrix;
pub mod optimum;
pub mod router;
pub mod series;
