//! `put`, `del`, `get`.

use clap::Args;
use serde::Serialize;
use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::{
    Generation, GroupAddresses, GroupId, Key, Locator, MAX_GROUP_ADDRESSES, Mapping, PrincipalId, ServiceId, Value,
};
use weft_control::wire::directory::{Finding, MAX_OPS, Op};
use weft_fabric::MacAddr;

use super::connect::ConnectArgs;
use super::entry::ValueLine;
use super::error::{Error, Result};
use super::table;
use crate::client::{ClientError, RetryToken, Updated};
use crate::daemon::command_line::{print_json, print_text, time};

#[derive(Debug, Args)]
pub struct PutArgs {
    /// 10.0.0.7, tenant:5/0/02:00:00:00:00:01, group:3, ...
    key: String,
    /// Where it is: 10.0.1.1, edge:02:00:00:00:00:09/12; of a group: its addresses, with commas between
    locator: String,
    /// The service it belongs to, by name or number
    #[arg(long, value_name = "NAME|ID")]
    service: Option<String>,
    /// Principal of the host that it lives on
    #[arg(long, value_name = "N")]
    owner: Option<u32>,
    /// What answers ARP for it
    #[arg(long)]
    mac: Option<MacAddr>,
    /// Group of intermediate switches through which it is reached
    #[arg(long, value_name = "N")]
    group: Option<u16>,
    /// How long an agent may use it while it hears from no server [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    lease: Option<std::time::Duration>,
    /// Only if the key has this generation, or, with `new`, none
    #[arg(long, value_name = "GENERATION|new", value_parser = expectation)]
    expect: Option<Generation>,
    #[command(flatten)]
    again: RetryArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct DelArgs {
    /// The keys, all or none
    #[arg(required = true)]
    keys: Vec<String>,
    /// Only if the key has this generation
    #[arg(long, value_name = "GENERATION", value_parser = expectation)]
    expect: Option<Generation>,
    #[command(flatten)]
    again: RetryArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// How to send an update again whose fate is not known.
#[derive(Debug, Args)]
struct RetryArgs {
    /// The update's number: of an earlier try whose fate is not known
    #[arg(long, value_name = "N", requires = "known")]
    number: Option<u64>,
    /// The revision known before it was first sent
    #[arg(long, value_name = "REVISION", requires = "number")]
    known: Option<u64>,
}

#[derive(Debug, Args)]
pub struct GetArgs {
    /// The keys
    #[arg(required = true)]
    keys: Vec<String>,
    /// On whose behalf: a key whose mapping the asking principal owns
    #[arg(long = "as", value_name = "KEY")]
    asker: Option<String>,
    /// Only from a server that knows everything up to here
    #[arg(long, value_name = "GENERATION", default_value_t = 0)]
    at_least: u64,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Makes or replaces a mapping.
pub fn put(args: &PutArgs) -> Result<bool> {
    let key: Key = args.key.parse()?;
    let value = if matches!(key, Key::Group(_)) { Value::Group(group_addresses(args)?) } else { Value::Mapping(mapping(args)?) };
    update(vec![Op { key, expect: args.expect, value: Some(value) }], &args.again, &args.connect)
}

/// Deletes keys.
pub fn del(args: &DelArgs) -> Result<bool> {
    let keys = args.keys.iter().map(|key| key.parse()).collect::<Result<Vec<Key>, _>>()?;
    if keys.len() > MAX_OPS {
        return Err(Error::TooManyKeys(keys.len()));
    }
    if args.expect.is_some() && keys.len() > 1 {
        return Err(Error::ExpectMany);
    }
    for (at, key) in keys.iter().enumerate() {
        if keys[..at].contains(key) {
            return Err(Error::KeyTwice(*key));
        }
    }
    let ops = keys.into_iter().map(|key| Op { key, expect: args.expect, value: None }).collect();
    update(ops, &args.again, &args.connect)
}

/// Looks up keys.
pub fn get(args: &GetArgs) -> Result<bool> {
    let keys = args.keys.iter().map(|key| key.parse()).collect::<Result<Vec<Key>, _>>()?;
    let asker = args.asker.as_deref().map(str::parse).transpose()?;
    let found = args.connect.client()?.look_up(&keys, asker.as_ref(), Generation(args.at_least))?;
    let all = found.findings.iter().all(|(_, finding)| matches!(finding, Finding::Found(_)));
    if args.connect.json {
        let findings = keys.iter().zip(&found.findings).map(|(key, (generation, finding))| FindingLine {
            key: key.to_string(),
            finding: name(finding),
            generation: generation.0,
            value: match finding {
                Finding::Found(value) => value.into(),
                _ => ValueLine::default(),
            },
        });
        let findings = findings.collect();
        print_json(&GetJson { server: found.server, revision: found.revision.0, policy: found.policy, findings })?;
        return Ok(all);
    }
    let mut rows = table::new(&table::ENTRY);
    for (key, (generation, finding)) in keys.iter().zip(&found.findings) {
        let value = match finding {
            Finding::Found(value) => Some(value),
            _ => None,
        };
        rows.add_row(table::entry(key, value, name(finding), generation.0));
    }
    print_text(&format!("{rows}\n"))?;
    Ok(all)
}

#[derive(Serialize)]
struct GetJson {
    server: String,
    revision: u64,
    policy: u32,
    findings: Vec<FindingLine>,
}

#[derive(Serialize)]
struct FindingLine {
    key: String,
    finding: &'static str,
    generation: u64,
    #[serde(flatten)]
    value: ValueLine,
}

const fn name(finding: &Finding) -> &'static str {
    match finding {
        Finding::Found(_) => "found",
        Finding::Unknown => "unknown",
        Finding::Forbidden => "forbidden",
        Finding::Elsewhere => "elsewhere",
    }
}

#[derive(Serialize)]
struct UpdateJson {
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    generation: u64,
    number: u64,
    server: String,
}

/// Sends an update and says what became of it; true if it is committed.
fn update(ops: Vec<Op>, again: &RetryArgs, connect: &ConnectArgs) -> Result<bool> {
    let mut client = connect.client()?;
    let again = again.number.zip(again.known).map(|(number, known)| RetryToken { number, known: Generation(known) });
    let keys: Vec<Key> = ops.iter().map(|op| op.key).collect();
    let Updated { result, server, number, .. } = client.update(ops, again).map_err(|error| match error {
        ClientError::InDoubt { number, known, .. } => Error::InDoubt { error, number, known },
        _ => error.into(),
    })?;
    let about = |at: u8| keys.get(usize::from(at)).map_or_else(|| "it".to_owned(), Key::to_string);
    let (outcome, cause, generation, text) = match result {
        UpdateResult::Committed(at) => ("committed", None, at, format!("committed at generation {}", at.0)),
        UpdateResult::Refused(at) => {
            let text = format!("refused: the policy does not let this principal change {}", about(at));
            ("refused", Some(about(at)), Generation(0), text)
        }
        UpdateResult::Conflict { at, generation } => {
            let there = if generation.0 == 0 { "does not exist".into() } else { format!("has generation {}", generation.0) };
            ("conflict", Some(about(at)), generation, format!("conflict: {} {there}", about(at)))
        }
        UpdateResult::Unknown => {
            let text = "not known: a copy of it may have been applied or not; look before trying again".to_owned();
            ("unknown", None, Generation(0), text)
        }
        UpdateResult::Malformed(at) => {
            return Err(Error::MalformedUpdate(about(at)));
        }
        UpdateResult::NotApplied => {
            return Err(Error::NotApplied(server));
        }
    };
    if connect.json {
        print_json(&UpdateJson { outcome, key: cause, generation: generation.0, number, server })?;
    } else {
        print_text(&format!("{text}\n"))?;
    }
    Ok(outcome == "committed")
}

fn mapping(args: &PutArgs) -> Result<Mapping> {
    let locator: Locator = args.locator.parse()?;
    let lease = args.lease.unwrap_or(std::time::Duration::from_millis(u64::from(super::entry::DEFAULT_LEASE_MS)));
    Ok(Mapping {
        locator,
        mac: args.mac,
        group: GroupId(args.group.unwrap_or(0)),
        service: args.service.as_deref().map_or(Ok(ServiceId(0)), |service| args.connect.service(service))?,
        owner: PrincipalId(args.owner.unwrap_or(0)),
        lease_ms: u32::try_from(lease.as_millis()).map_err(|_| Error::Lease)?,
    })
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

fn expectation(text: &str) -> Result<Generation, String> {
    if text == "new" {
        return Ok(Generation(0));
    }
    text.parse().map(Generation).map_err(|_| "a generation is a number; `new` is a key that does not exist".to_owned())
}
