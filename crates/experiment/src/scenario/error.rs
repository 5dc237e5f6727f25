//! What can be wrong at a key of a scenario.
//!
//! Problems that several keys share are variants of [`Problem`] with typed fields: their message and remedy are written here, once.
//! [`Problem::Rule`] is for what concerns one key alone. Errors of the crates below come with the key that has to change.

use std::fmt::Display;
use std::path::PathBuf;

use weft_control::hedera::HederaError;
use weft_control::subways::SubwaysError;
use weft_fabric::routing::spain::SpainError;
use weft_fabric::topology::FabricError;
use weft_fabric::traffic::TrafficError;
#[cfg(all(feature = "lab", target_os = "linux"))]
use weft_lab::plan::PlanError;
use weft_sim::packet::PacketError;
use weft_sim::packet::bridged::BridgedError;

use crate::suggest::one_of;

/// A problem at a key of the scenario, before it is known which line that is.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct KeyError {
    /// Dotted path of the key: `fabric.k`, `event[0].fail`.
    pub key: String,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong at a key.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Problem {
    // Of the form of the file.
    #[error("`{value}` is not {what}")]
    NotA { value: String, what: &'static str },
    #[error("`{value}` has no unit")]
    NoUnit { value: String, what: &'static str },
    #[error("`{text}` is not {what}")]
    NoQuantity { text: String, what: &'static str, example: &'static str },
    #[error("`{path}` is missing")]
    Missing { path: String, key: &'static str, what: &'static str },
    #[error("unknown key `{key}`")]
    Misspelt { key: String, meant: &'static str },
    #[error("unknown key `{key}`")]
    UnknownKey { key: String, valid: Vec<String> },
    #[error("unknown table `[{table}]`")]
    UnknownTable { table: String, valid: Vec<String> },
    #[error("`{value}` is not a table")]
    NotATable { value: String, table: String },
    #[error("`{key}` is not a list of tables")]
    NotTables { key: String },
    // Of values.
    #[error("there is no {what} `{name}`")]
    NoSuch { what: String, name: String, valid: Vec<String> },
    #[error("`{key}` cannot be 0: {why}")]
    Zero { key: String, why: &'static str, help: &'static str },
    #[error("`{key}` is from {} to {}", grouped(low), grouped(high))]
    OutOfRange { key: String, low: String, high: String, help: &'static str },
    #[error("`{name} = {value}` is not possible")]
    Impossible { name: String, value: String, rule: String },
    #[error("`{a}` and `{b}` exclude each other")]
    Exclusive { a: String, b: String },
    #[error("`{key}` belongs to {owner}")]
    BelongsTo { key: String, owner: &'static str, write: &'static str },
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable { path: PathBuf, cause: std::io::Error },
    // Of a scenario as a whole.
    #[error("the fabric has no host {host}")]
    NoHost { host: u32, hosts: usize },
    #[error("{what}, and neither would the run")]
    Endless { what: &'static str },
    #[error("{why}")]
    NoScheduler { why: &'static str },
    // Of the crates below.
    #[error(transparent)]
    Fabric(FabricError),
    #[error(transparent)]
    Traffic(TrafficError),
    #[error(transparent)]
    Packet(PacketError),
    #[error(transparent)]
    Bridged(BridgedError),
    #[error(transparent)]
    Spain(SpainError),
    #[error(transparent)]
    Hedera(HederaError),
    #[error(transparent)]
    Subways(SubwaysError),
    #[cfg(all(feature = "lab", target_os = "linux"))]
    #[error(transparent)]
    Plan(PlanError),
    /// A rule of one key.
    #[error("{message}")]
    Rule { message: String, help: Option<String> },
}

impl KeyError {
    /// A problem at a key.
    pub fn at(key: impl Into<String>, problem: Problem) -> Self {
        Self { key: key.into(), problem }
    }

    /// A violated rule of one key, with a remedy.
    pub fn new(key: impl Into<String>, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::at(key, Problem::Rule { message: message.into(), help: Some(help.into()) })
    }

    /// A run that no scheduler can have.
    pub fn no_scheduler(why: &'static str) -> Self {
        Self::at("control.scheduler", Problem::NoScheduler { why })
    }
}

impl miette::Diagnostic for KeyError {
    fn help<'a>(&'a self) -> Option<Box<dyn Display + 'a>> {
        self.problem.help().map(|help| Box::new(help) as Box<dyn Display>)
    }
}

impl Problem {
    /// A name that is none of the valid ones.
    pub fn no_such(what: impl Into<String>, name: impl Into<String>, valid: &[&str]) -> Self {
        Self::NoSuch { what: what.into(), name: name.into(), valid: owned(valid) }
    }

    /// What to do.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::NotA { what, .. } => format!("write {what} here"),
            Self::NoUnit { what, .. } => format!("write {what} in quotes"),
            Self::NoQuantity { example, .. } => format!("write it as {example}"),
            Self::Missing { key, what, .. } => format!("add `{key} = ...`: {what}"),
            Self::Misspelt { meant, .. } => format!("did you mean `{meant}`?"),
            Self::UnknownKey { key: name, valid }
            | Self::UnknownTable { table: name, valid }
            | Self::NoSuch { name, valid, .. } => one_of(valid, name),
            Self::NotATable { table, .. } => format!("write a `[{table}]` table"),
            Self::NotTables { key } => format!("write `[[{key}]]`"),
            Self::Impossible { rule, .. } => rule.clone(),
            Self::Exclusive { .. } => "leave one of them out".to_owned(),
            Self::BelongsTo { write, .. } => format!("{write}, or leave it out"),
            Self::Unreadable { .. } => "relative paths start at the scenario's folder".to_owned(),
            Self::NoHost { hosts, .. } => format!("its hosts are 0 to {}", hosts.saturating_sub(1)),
            Self::Endless { .. } => "add `duration = \"60s\"` to [world]".to_owned(),
            Self::NoScheduler { .. } => "write scheduler = \"none\"".to_owned(),
            Self::Zero { help, .. } | Self::OutOfRange { help, .. } => (*help).to_owned(),
            Self::Fabric(_) => "change the fabric's parameters".to_owned(),
            Self::Traffic(_) => "see docs/traffic.md".to_owned(),
            Self::Packet(error) => of_packet(error).1.to_owned(),
            Self::Bridged(error) => of_bridged(error).1.to_owned(),
            Self::Spain(error) => of_spain(error).1.to_owned(),
            Self::Hedera(_) | Self::Subways(_) => "see docs/scenario.md, [control]".to_owned(),
            #[cfg(all(feature = "lab", target_os = "linux"))]
            Self::Plan(_) => return None,
            Self::Rule { help, .. } => return help.clone(),
        })
    }
}

/// Copies of names.
pub fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A number with its thousands apart: `10,000,000`.
fn grouped(number: &str) -> String {
    let digits = number.len();
    if digits < 5 || !number.bytes().all(|b| b.is_ascii_digit()) {
        return number.to_owned();
    }
    let comma = |i: usize| if i > 0 && (digits - i).is_multiple_of(3) { "," } else { "" };
    number.chars().enumerate().fold(String::new(), |text, (i, digit)| format!("{text}{}{digit}", comma(i)))
}

impl From<FabricError> for KeyError {
    fn from(error: FabricError) -> Self {
        match error {
            FabricError::Parameter { parameter, value, rule } => {
                Self::at(format!("fabric.{parameter}"), Problem::Impossible { name: parameter.to_owned(), value, rule })
            }
            other => Self::at("fabric", Problem::Fabric(other)),
        }
    }
}

impl From<TrafficError> for KeyError {
    fn from(error: TrafficError) -> Self {
        let key = match &error {
            TrafficError::Parameter { key, .. } => format!("traffic.{key}"),
            TrafficError::Size(_) => "traffic.size".to_owned(),
            TrafficError::TooFewHosts { .. } => "traffic".to_owned(),
        };
        Self::at(key, Problem::Traffic(error))
    }
}

impl From<PacketError> for KeyError {
    fn from(error: PacketError) -> Self {
        Self::at(of_packet(&error).0, Problem::Packet(error))
    }
}

impl From<BridgedError> for KeyError {
    fn from(error: BridgedError) -> Self {
        Self::at(of_bridged(&error).0, Problem::Bridged(error))
    }
}

impl From<SpainError> for KeyError {
    fn from(error: SpainError) -> Self {
        Self::at(of_spain(&error).0, Problem::Spain(error))
    }
}

impl From<HederaError> for KeyError {
    fn from(error: HederaError) -> Self {
        Self::at("control", Problem::Hedera(error))
    }
}

impl From<SubwaysError> for KeyError {
    fn from(error: SubwaysError) -> Self {
        Self::at(format!("control.{}", error.setting()), Problem::Subways(error))
    }
}

#[cfg(all(feature = "lab", target_os = "linux"))]
impl From<PlanError> for KeyError {
    fn from(error: PlanError) -> Self {
        Self::at(error.key(), Problem::Plan(error))
    }
}

/// Key and remedy of an error of the packet world.
fn of_packet(error: &PacketError) -> (&'static str, &'static str) {
    match error {
        PacketError::PacketTooLarge { .. } | PacketError::NoPayload => ("transport.mss", "write a size such as \"1460B\""),
        PacketError::NoHeader => ("transport.header", "write a size such as \"40B\""),
        PacketError::QueueTooSmall { .. } => ("world.switch_queue", "enlarge it, or leave it out"),
        PacketError::Alpha(_) => ("world.buffer_alpha", "write a number such as 1 or 0.5"),
        PacketError::WindowTooSmall { .. } => ("transport.max_window", "enlarge it, or leave it out"),
        PacketError::NoWindow => ("transport.initial_window", "write 1 or more"),
        PacketError::Subflows(_) => ("transport.subflows", "choose a number from 2 to 16"),
        PacketError::NoTimeout => ("transport.rto_min", "write a time such as \"200ms\""),
        PacketError::Duplex(_) => ("world.nic_duplex", "write a number above 0 and at most 1, such as 0.9"),
    }
}

/// Key and remedy of an error of tenants on bridges.
fn of_bridged(error: &BridgedError) -> (&'static str, &'static str) {
    match error {
        BridgedError::Packet(_) | BridgedError::NoRoom { .. } | BridgedError::TooLarge { .. } => {
            ("transport.mss", "write a size such as \"1460B\"")
        }
        BridgedError::Spain(_) => ("control.spain_paths", "write fewer paths, such as spain_paths = 4"),
        BridgedError::Agent(_) => ("control.chirp_period", "write a time such as \"100ms\""),
        BridgedError::TooManyVms { .. } | BridgedError::TooManyVmsTogether { .. } => {
            ("tenant", "lower `count`, `hosts` or `vms_per_host`")
        }
        BridgedError::Associativity { .. } => ("switches.fib_ways", "write a number that divides `fib_entries`, such as 4"),
        BridgedError::Recovery => ("transport.sack", "write sack = false and rack = false"),
        BridgedError::Pacing => ("transport.pacing", "leave it out"),
        BridgedError::NoBytes => ("traffic.size", "write a size such as \"10MB\""),
        BridgedError::NoIncoming => ("traffic.incoming", "write 3, as NetLord"),
    }
}

/// Key and remedy of an error of SPAIN's plan.
fn of_spain(error: &SpainError) -> (&'static str, &'static str) {
    match error {
        SpainError::Trees(_) => ("control.special_trees", "write 2, as is usual"),
        SpainError::NoPaths | SpainError::TooManyVlans { .. } => ("control.spain_paths", "write fewer, such as spain_paths = 4"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        assert_eq!(["0.0001", "9999", "65536", "10000000"].map(grouped), ["0.0001", "9999", "65,536", "10,000,000"]);
    }

    #[test]
    fn equal_situations_have_equal_words() {
        let (key, low, high) = ("keys".to_owned(), "1".to_owned(), 1e7.to_string());
        let range = Problem::OutOfRange { key, low, high, help: "write fewer" };
        assert_eq!(range.to_string(), "`keys` is from 1 to 10,000,000");
        let host = KeyError::at("tenant[0].hosts", Problem::NoHost { host: 9, hosts: 4 });
        assert_eq!(host.to_string(), "tenant[0].hosts: the fabric has no host 9");
        assert_eq!(host.problem.help().as_deref(), Some("its hosts are 0 to 3"));
        let fabric = Problem::no_such("fabric", "fat-tre", &["clos", "fat-tree"]);
        assert_eq!(fabric.help().as_deref(), Some("did you mean `fat-tree`? valid values: clos, fat-tree"));
        let error = KeyError::from(PacketError::NoPayload);
        assert!(error.key == "transport.mss" && error.problem.help().is_some());
    }
}
