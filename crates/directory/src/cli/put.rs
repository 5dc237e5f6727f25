//! `put`: makes a mapping or a group, or changes what a key stands for.
//!
//! ```text
//!   look up the key, and the group that is named
//!     not there     -> make it, if it is still not there
//!     a mapping     -> change what is given, keep the rest, if it is still of this generation    (--replace: as a whole, whatever it is)
//! ```

use clap::Args;
use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::{
    Generation, GroupAddresses, GroupId, Key, Locator, MAX_GROUP_ADDRESSES, Mapping, PrincipalId, ServiceId, Value, validity,
};
use weft_control::wire::directory::{Finding, Op};
use weft_fabric::MacAddr;

use super::ask::{RetryArgs, expectation, report, send};
use super::connect::ConnectArgs;
use super::error::{Error, Result};
use crate::client::{Client, ClientError};
use crate::daemon::command_line::time;
use crate::entry::DEFAULT_LEASE_MS;

/// Examples at the end of `weft directory put --help`.
const EXAMPLES: &str = "\
Examples:
  weft directory put 10.0.0.7 10.0.1.1 --owner 17 --service web
  weft directory put group:3 10.9.0.1,10.9.0.2
  weft directory put 10.0.0.8 10.0.1.1 --expect new";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PutArgs {
    /// Key: 10.0.0.7, tenant:5/0/02:00:00:00:00:01, group:3, ...
    key: String,
    /// Locator: 10.0.1.1, edge:02:00:00:00:00:09/12; of a group: its addresses, separated by commas
    locator: String,
    /// Service that the key belongs to, by name or number
    #[arg(long, value_name = "NAME|ID", help_heading = "Mapping")]
    service: Option<String>,
    /// Principal of the host that has the address
    #[arg(long, value_name = "N", help_heading = "Mapping")]
    owner: Option<u32>,
    /// MAC address for answers to ARP
    #[arg(long, help_heading = "Mapping")]
    mac: Option<MacAddr>,
    /// Group of intermediate switches through which the locator is reached
    #[arg(long, value_name = "N", help_heading = "Mapping")]
    group: Option<u16>,
    /// How long an agent may use the mapping without contact to any server [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Mapping")]
    lease: Option<std::time::Duration>,
    /// Replace an existing mapping as a whole; attributes that are not given are dropped
    #[arg(long, help_heading = "Update")]
    replace: bool,
    /// Do not check that the service and the group exist
    #[arg(long, help_heading = "Update")]
    unchecked: bool,
    /// Change the key only if it has this generation or, with `new`, does not exist
    #[arg(long, value_name = "GENERATION|new", value_parser = expectation, help_heading = "Update")]
    expect: Option<Generation>,
    #[command(flatten)]
    again: RetryArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What is given of a mapping.
struct Given {
    locator: Locator,
    service: Option<ServiceId>,
    owner: Option<PrincipalId>,
    mac: Option<MacAddr>,
    group: Option<GroupId>,
    lease_ms: Option<u32>,
}

/// What the directory has of a key.
enum There {
    /// A mapping of this generation.
    Mapping(Generation, Mapping),
    /// No such key.
    Nothing,
    /// This principal may not know, or it was not asked.
    NotKnown,
}

/// Makes or changes a mapping, or replaces a group.
pub fn put(args: &PutArgs) -> Result<bool> {
    let key: Key = args.key.parse()?;
    if matches!(key, Key::Group(_)) {
        let op = Op { key, expect: args.expect, value: Some(checked(&key, Value::Group(group_addresses(args)?))?) };
        return report(&send(&mut args.connect.client()?, vec![op], args.again.token())?, &args.connect, &[]);
    }
    let given = Given::read(args)?;
    checked(&key, Value::Mapping(given.over(None)))?;
    let mut client = args.connect.client()?;
    let (mut at_least, mut attempts) = (Generation(0), ATTEMPTS);
    loop {
        attempts -= 1;
        let there = look(&mut client, args, &key, &given, at_least)?;
        let (value, expect, kept) = match there {
            There::Mapping(generation, old) => (given.over(Some(&old)), Some(generation), given.kept(&old)),
            There::Nothing => (given.over(None), Some(Generation(0)), Vec::new()),
            There::NotKnown => (given.over(None), None, Vec::new()),
        };
        let op = Op { key, expect: args.expect.or(expect), value: Some(Value::Mapping(value)) };
        let sent = send(&mut client, vec![op], args.again.token())?;
        match sent.updated.result {
            // Another writer was quicker, and nothing but what we saw was expected: look again.
            UpdateResult::Conflict { generation, .. }
                if args.expect.is_none() && args.again.token().is_none() && attempts > 0 =>
            {
                at_least = generation;
            }
            _ => return report(&sent, &args.connect, &kept),
        }
    }
}

/// Other writers that one `put` gives way to.
const ATTEMPTS: u32 = 4;

/// What is there; and the group that is named must be.
fn look(client: &mut Client, args: &PutArgs, key: &Key, given: &Given, at_least: Generation) -> Result<There> {
    let group = given.group.filter(|group| group.0 != 0 && !args.unchecked);
    let is_wanted = !args.replace && args.expect != Some(Generation(0));
    let mut keys: Vec<Key> = is_wanted.then_some(*key).into_iter().collect();
    keys.extend(group.map(Key::Group));
    if keys.is_empty() {
        return Ok(There::NotKnown);
    }
    let found = client.look_up(&keys, None, at_least).map_err(|error| match error {
        ClientError::NoKey(principal) => Error::NotVisible(principal),
        error => error.into(),
    })?;
    let findings = keys.iter().zip(found.findings);
    let mut there = There::NotKnown;
    for (asked, (generation, finding)) in findings {
        match (asked, finding) {
            (Key::Group(group), Finding::Unknown) => return Err(Error::NoGroup(*group)),
            (Key::Group(_), _) => {}
            (_, Finding::Found(Value::Mapping(mapping))) => there = There::Mapping(generation, mapping),
            (_, Finding::Unknown) => there = There::Nothing,
            (_, Finding::Forbidden) => there = look_as_owner(client, key, at_least)?,
            (_, Finding::Found(_) | Finding::Elsewhere) => {}
        }
    }
    Ok(there)
}

/// A host sees its own mappings on their behalf.
fn look_as_owner(client: &mut Client, key: &Key, at_least: Generation) -> Result<There> {
    let found = client.look_up(&[*key], Some(key), at_least)?;
    Ok(match found.findings.into_iter().next() {
        Some((generation, Finding::Found(Value::Mapping(mapping)))) => There::Mapping(generation, mapping),
        _ => There::NotKnown,
    })
}

impl Given {
    fn read(args: &PutArgs) -> Result<Self> {
        let service = args.service.as_deref().map(|service| args.connect.service(service, args.unchecked)).transpose()?;
        let lease_ms = args.lease.map(|lease| u32::try_from(lease.as_millis()).map_err(|_| Error::Lease)).transpose()?;
        let (owner, group) = (args.owner.map(PrincipalId), args.group.map(GroupId));
        Ok(Self { locator: args.locator.parse()?, service, owner, mac: args.mac, group, lease_ms })
    }

    /// The mapping: what is given, and of the rest what there was.
    fn over(&self, old: Option<&Mapping>) -> Mapping {
        Mapping {
            locator: self.locator,
            mac: self.mac.or(old.and_then(|old| old.mac)),
            group: self.group.or(old.map(|old| old.group)).unwrap_or_default(),
            service: self.service.or(old.map(|old| old.service)).unwrap_or_default(),
            owner: self.owner.or(old.map(|old| old.owner)).unwrap_or_default(),
            lease_ms: self.lease_ms.or(old.map(|old| old.lease_ms)).unwrap_or(DEFAULT_LEASE_MS),
        }
    }

    /// What was not given and is not the default, in words.
    fn kept(&self, old: &Mapping) -> Vec<String> {
        let mut kept = Vec::new();
        let mut keep = |is: bool, text: String| {
            if is {
                kept.push(text)
            }
        };
        keep(self.owner.is_none() && old.owner.0 != 0, format!("owner {}", old.owner.0));
        keep(self.service.is_none() && old.service.0 != 0, format!("service {}", old.service.0));
        keep(self.group.is_none() && old.group.0 != 0, format!("group {}", old.group.0));
        if let (None, Some(mac)) = (self.mac, old.mac) {
            kept.push(format!("MAC address {mac}"));
        }
        if self.lease_ms.is_none() && old.lease_ms != DEFAULT_LEASE_MS {
            kept.push(format!("lease {} ms", old.lease_ms));
        }
        kept
    }
}

fn checked(key: &Key, value: Value) -> Result<Value> {
    validity::check(key, &value)?;
    Ok(value)
}

fn group_addresses(args: &PutArgs) -> Result<GroupAddresses> {
    if args.service.is_some() || args.owner.is_some() || args.mac.is_some() || args.group.is_some() || args.lease.is_some() {
        return Err(Error::GroupOnly);
    }
    let wrong = |part: &str| Error::GroupAddress(part.to_owned());
    let addresses = args.locator.split(',').map(|part| part.trim().parse().map_err(|_| wrong(part)));
    let addresses = addresses.collect::<Result<GroupAddresses>>()?;
    if addresses.len() > MAX_GROUP_ADDRESSES {
        return Err(Error::GroupAddresses(addresses.len()));
    }
    Ok(addresses)
}
