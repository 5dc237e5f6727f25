//! Tenants as keyed records of the directory's store: changed one by one, and read by an agent for the tenants of its VIFs alone
//! (sections 3.3 and 3.9).
//!
//! ```text
//!   site                service of all bindings; where it is, the store has records
//!   t/acme              id, MAC spaces, readers
//!   r/acme/core         interfaces, routes, rules in order
//!   v/acme/web1         MAC space, MAC address, addresses
//!   ------------------- of the store alone: what makes two records that contradict each other impossible
//!   i/17                whose the id is                      m/17/1/02:00:00:00:00:01, a/17/1/10.0.0.1   the record that has the address
//!   l/acme              changes with each router of the tenant
//! ```
//! A record's body is a part of the tenants' file, so the two turn into each other ([`records_of`], [`tenants_of`]).
//! [`Amendment`] is a change on its way into the store, [`Interest`] what agents of a server asked for, [`View`] what one agent has.

mod amend;
mod answer;
mod body;
mod interest;
pub mod messages;
mod name;
mod plan;
#[cfg(test)]
mod tests;
mod view;

pub use amend::{Amendment, Step, StoreAnswer};
pub use answer::{Listed, ListedState, answer, are_names, reads_of};
pub use body::{records_of, tenants_of};
pub use interest::Interest;
pub use name::{Name, NameError};
pub use plan::{Entries, Found, MAX_KEYS, Op, Outcome, Plan, Reads};
pub use view::{Missing, Question, View, Why};

/// Bytes of a record's body at most: about 600 routes and rules of a virtual router.
pub const MAX_BODY: usize = 60_000;
