//! What routings carry of traffic between racks, and what the best one would.
//!
//! | module | question |
//! | --- | --- |
//! | [`matrix`] | who sends how much to whom |
//! | [`demand`] | which matrices a command is about |
//! | [`volatile`] | matrices drawn at random, as VL2's section 3.3 has them |
//! | [`series`] | the same over time, from a file |
//! | [`router`] | loads and throughput of ECMP, VLB and single paths |
//! | [`optimum`] | certified bounds of the best possible throughput |
//! | [`oblivious`] | the best routing that is the same for all matrices of a series, with bounds |
//! | [`shortest`] | shortest paths by lengths, which both use |

pub mod demand;
pub mod matrix;
pub mod oblivious;
pub mod optimum;
pub mod router;
pub mod series;
pub mod shortest;
pub mod volatile;
