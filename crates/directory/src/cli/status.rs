//! `status`: how each of the servers is.

use std::time::Instant;

use clap::Args;
use serde::Serialize;
use weft_control::wire::directory::{State, Vitals};

use super::connect::ConnectArgs;
use super::error::Result;
use super::table;
use crate::client::{Client, OnePart, Settings, split};
use crate::daemon::command_line::{print_json, print_text};

/// Examples at the end of `weft directory status --help`.
const EXAMPLES: &str = "\
Examples:
  weft directory status
  weft directory status --servers 10.0.0.1:5303,10.0.0.2:5303
  weft directory status --json

Exit code 1: a server does not serve, or servers differ.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StatusArgs {
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
struct StatusJson {
    ok: bool,
    servers: Vec<ServerJson>,
}

#[derive(Serialize)]
struct ServerJson {
    server: String,
    /// Of a divided directory: its part.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<String>,
    state: &'static str,
    /// Whether it is a replica, if it says so.
    replica: Option<bool>,
    #[serde(flatten)]
    vitals: Option<VitalsJson>,
    /// The server's counters.
    status: serde_json::Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct VitalsJson {
    revision: u64,
    policy: u32,
    entries: u64,
    hash: String,
    rtt_us: u64,
}

/// Asks every server.
pub fn run(args: &StatusArgs) -> Result<bool> {
    let parts = split(&args.connect.settings()?)?;
    let is_divided = parts.iter().any(|part| part.name.is_some());
    let of_part = |part: &OnePart| part.settings.servers.iter().map(|server| ask(server, part)).collect::<Vec<_>>();
    let servers: Vec<ServerJson> = parts.iter().flat_map(of_part).collect();
    let agree = |a: &ServerJson, b: &ServerJson| match (&a.vitals, &b.vitals) {
        _ if a.part != b.part => true,
        (Some(a), Some(b)) => a.revision != b.revision || (a.hash == b.hash && a.entries == b.entries),
        _ => true,
    };
    let differ = servers.iter().enumerate().any(|(at, a)| servers[..at].iter().any(|b| !agree(a, b)));
    let ok = !differ && servers.iter().all(|server| server.state == name(State::Serving));
    if args.connect.json {
        print_json(&StatusJson { ok, servers })?;
        return Ok(ok);
    }
    let columns = ["server", "state", "revision", "policy", "entries", "hash", "answers in", "part"];
    let mut rows = table::new(&columns[..columns.len() - usize::from(!is_divided)]);
    for server in &servers {
        let replica = if server.replica == Some(true) { ", replica" } else { "" };
        let state = format!("{}{replica}", server.state);
        let mut row = vec![server.server.clone(), server.error.as_ref().map_or(state.clone(), |e| format!("{state}: {e}"))];
        if let Some(it) = &server.vitals {
            let rtt = format!("{} us", it.rtt_us);
            row.extend([it.revision.to_string(), it.policy.to_string(), it.entries.to_string(), it.hash.clone(), rtt]);
        }
        if is_divided {
            row.resize(columns.len() - 1, String::new());
            row.extend(server.part.clone());
        }
        rows.add_row(row);
    }
    let remark =
        if differ { "servers at one revision hold different things: see docs/directory.md, alarm `differs`\n" } else { "" };
    print_text(&format!("{rows}\n{remark}"))?;
    Ok(ok)
}

fn ask(server: &str, part: &OnePart) -> ServerJson {
    let settings = Settings { servers: vec![server.to_owned()], only: true, ..part.settings.clone() };
    let asked = Client::new(settings).and_then(|mut client| {
        client.health_of_any_state()?; // the cookie costs a round trip that is not to be timed
        let begin = Instant::now();
        let vitals = client.health_of_any_state()?;
        Ok((vitals, begin.elapsed(), client.status()))
    });
    let blank = ServerJson {
        server: server.to_owned(),
        part: part.name.clone(),
        state: "unreachable",
        replica: None,
        vitals: None,
        status: serde_json::Value::Null,
        error: None,
    };
    match asked {
        Err(error) => ServerJson { error: Some(error.to_string()), ..blank },
        Ok((vitals, rtt, status)) => {
            // Only administrators may see the counters.
            let status: serde_json::Value = status.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
            let (state, replica) = (name(vitals.state), status["replica"].as_bool());
            ServerJson { state, replica, vitals: Some(vitals_json(&vitals, rtt)), status, ..blank }
        }
    }
}

fn vitals_json(vitals: &Vitals, rtt: std::time::Duration) -> VitalsJson {
    let rtt_us = u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX);
    let (revision, policy) = (vitals.revision.0, vitals.policy);
    VitalsJson { revision, policy, entries: vitals.entries, hash: format!("{:016x}", vitals.hash), rtt_us }
}

const fn name(state: State) -> &'static str {
    match state {
        State::Loading => "loading",
        State::Serving => "serving",
        State::StoreLost => "store lost",
        State::Leaving => "leaving",
    }
}
