//! `status`, `attach` and `detach`: questions to a running agent.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use weft_fabric::MacAddr;

use super::show;
use crate::agent::socket::{Request, ask};
use crate::cli::{Result, print_json, print_text, time};

/// Whom to ask, and how to print.
#[derive(Debug, Args)]
pub(super) struct AskArgs {
    /// The agent's Unix socket
    #[arg(long, value_name = "FILE", env = "WEFT_AGENT_SOCKET", default_value = "/run/weft/agent.sock")]
    socket: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl AskArgs {
    pub fn ask(&self, request: &Request, patience: Duration) -> Result<Value> {
        ask(&self.socket, request, patience + ANSWER)
    }
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub(super) struct AttachArgs {
    /// An application address
    address: IpAddr,
    /// Who has it below this host [default: the device]
    #[arg(long, value_name = "MAC")]
    mac: Option<MacAddr>,
    /// How long to wait for the ToR
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    timeout: Duration,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub(super) struct DetachArgs {
    /// An application address
    address: IpAddr,
    /// How long to wait for the ToR
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    timeout: Duration,
    #[command(flatten)]
    ask: AskArgs,
}

pub(super) fn status(args: &StatusArgs) -> Result<bool> {
    let status = args.ask.ask(&Request::Status, Duration::ZERO)?;
    if args.ask.json {
        print_json(&status)?;
    } else {
        print_text(&show::status(&status))?;
    }
    Ok(status["verdict"] == "ok")
}

pub(super) fn attach(args: &AttachArgs) -> Result<bool> {
    let mac = args.mac.map(|mac| mac.to_string());
    let request = Request::Attach { address: args.address, mac, timeout_ms: args.timeout.as_millis() as u64 };
    outcome(&args.ask, &request, args.timeout)
}

pub(super) fn detach(args: &DetachArgs) -> Result<bool> {
    let request = Request::Detach { address: args.address, timeout_ms: args.timeout.as_millis() as u64 };
    outcome(&args.ask, &request, args.timeout)
}

fn outcome(args: &AskArgs, request: &Request, timeout: Duration) -> Result<bool> {
    let answer = args.ask(request, timeout)?;
    let outcome = answer["outcome"].as_str().unwrap_or_default();
    if args.json {
        print_json(&answer)?;
    } else {
        let detail = answer["detail"].as_str().map(|detail| format!(": {detail}")).unwrap_or_default();
        print_text(&format!("{} {outcome}{detail}\n", answer["address"].as_str().unwrap_or_default()))?;
    }
    Ok(matches!(outcome, "attached" | "detached"))
}

/// For the agent itself to answer.
const ANSWER: Duration = Duration::from_secs(5);
