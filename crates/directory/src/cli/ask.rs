//! `del`, `get`, and what all updates have in common.

use clap::Args;
use serde::Serialize;
use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::{Generation, Key};
use weft_control::wire::directory::{Finding, MAX_OPS, Op};

use super::connect::ConnectArgs;
use super::error::{Error, Result};
use super::table;
use crate::client::{Client, ClientError, RetryToken, Updated};
use crate::daemon::command_line::{print_json, print_text};
use crate::entry::ValueLine;

#[derive(Debug, Args)]
pub struct DelArgs {
    /// Keys to delete
    #[arg(required = true)]
    keys: Vec<String>,
    /// Delete only if the key has this generation
    #[arg(long, value_name = "GENERATION", value_parser = expectation, help_heading = "Update")]
    expect: Option<Generation>,
    #[command(flatten)]
    again: RetryArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// How to repeat an update whose result is unknown.
#[derive(Debug, Args)]
pub(super) struct RetryArgs {
    /// Repeat an update whose result is unknown: its number
    #[arg(long, value_name = "N", requires = "known", help_heading = "Update")]
    number: Option<u64>,
    /// Repeat an update whose result is unknown: the revision known when it was first sent
    #[arg(long, value_name = "REVISION", requires = "number", help_heading = "Update")]
    known: Option<u64>,
}

#[derive(Debug, Args)]
pub struct GetArgs {
    /// Keys to look up: 10.0.0.7, tenant:5/0/02:00:00:00:00:01, group:3, ...
    #[arg(required = true)]
    keys: Vec<String>,
    /// Ask on behalf of this key, whose mapping the asking principal owns
    #[arg(long = "as", value_name = "KEY")]
    asker: Option<String>,
    /// Accept only servers that have this revision or a later one
    #[arg(long, value_name = "GENERATION", default_value_t = 0)]
    at_least: u64,
    #[command(flatten)]
    connect: ConnectArgs,
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
    let sent = send(&mut args.connect.client()?, ops, args.again.token())?;
    report(&sent, &args.connect, &[])
}

impl RetryArgs {
    /// The update's name, if it is given.
    pub(super) fn token(&self) -> Option<RetryToken> {
        self.number.zip(self.known).map(|(number, known)| RetryToken { number, known: Generation(known) })
    }
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept: Vec<String>,
    number: u64,
    server: String,
}

/// What became of an update of these keys.
pub(super) struct Sent {
    keys: Vec<Key>,
    pub updated: Updated,
}

/// Sends an update.
pub(super) fn send(client: &mut Client, ops: Vec<Op>, again: Option<RetryToken>) -> Result<Sent> {
    let keys: Vec<Key> = ops.iter().map(|op| op.key).collect();
    let updated = client.update(ops, again).map_err(|error| match error {
        ClientError::InDoubt { number, known, .. } => Error::InDoubt { error, number, known },
        _ => error.into(),
    })?;
    Ok(Sent { keys, updated })
}

/// Prints what became of an update, and which attributes it kept; true if it is committed.
pub(super) fn report(sent: &Sent, connect: &ConnectArgs, kept: &[String]) -> Result<bool> {
    let Sent { keys, updated: Updated { result, server, number, .. } } = sent;
    let about = |at: u8| keys.get(usize::from(at)).map_or_else(|| "it".to_owned(), Key::to_string);
    let (outcome, cause, generation, text) = match *result {
        UpdateResult::Committed(at) => {
            let also = if kept.is_empty() { String::new() } else { format!("; kept {}", kept.join(", ")) };
            ("committed", None, at, format!("committed at generation {}{also}", at.0))
        }
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
            return Err(Error::NotApplied(server.clone()));
        }
    };
    if connect.json {
        let (number, server) = (*number, server.clone());
        print_json(&UpdateJson { outcome, key: cause, generation: generation.0, kept: kept.to_vec(), number, server })?;
    } else {
        print_text(&format!("{text}\n"))?;
    }
    Ok(outcome == "committed")
}

pub(super) fn expectation(text: &str) -> Result<Generation, String> {
    if text == "new" {
        return Ok(Generation(0));
    }
    text.parse().map(Generation).map_err(|_| "a generation is a number; `new` is a key that does not exist".to_owned())
}
