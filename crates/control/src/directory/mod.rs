//! The directory: who is where (VL2, section 4.3; NetLord's location service).
//!
//! ```text
//!   agent: Resolver  --lookup to k random servers-->  Server  --commit-->  store (embedded, or etcd)
//!                    <--fastest answer, corrections--          <--watch---
//!   provisioning: Updater --update to one server---->          --disseminate--> other servers
//! ```
//! Formats: [`wire::directory`](crate::wire::directory), specified in `docs/protocol-directory.md`.

pub mod attempts;
pub mod auth;
pub mod budget;
pub mod denied;
#[cfg(test)]
mod divided;
pub mod documents;
pub mod front;
pub mod interest;
pub mod key;
mod learning;
pub mod parts;
pub mod policy;
pub mod request;
pub mod resolver;
pub mod server;
pub(crate) mod servers;
pub mod shared;
pub(crate) mod steady;
pub mod store;
pub mod table;
#[cfg(test)]
mod testing;
pub mod updater;
#[cfg(test)]
mod upgrades;
pub mod validity;
pub mod withdrawals;

/// How long the older version of the protocol is spoken with one that does not know the newer: it may be upgraded at any time.
pub const OLDER_VERSION: crate::time::Duration = crate::time::Duration::from_secs(60);

pub use key::{
    Generation, GroupAddresses, GroupId, Key, KeyError, Locator, MAX_GROUP_ADDRESSES, MAX_WRITES, MacSpace, Mapping, PrincipalId,
    Record, ServiceId, UpdateId, Value, Write,
};
