//! `status`, `attach`, `detach` and `vif`: requests to a running agent.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;
use weft_directory::daemon::command_line::{print_json, print_text, time};
use weft_fabric::MacAddr;

use super::show;
use crate::error::Result;
use crate::socket::{Request, ask};

/// The agent to ask, and the form of its answer.
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
    pub fn ask(&self, request: &Request, timeout: Duration) -> Result<Value> {
        ask(&self.socket, request, timeout + ANSWER)
    }
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub(super) struct AttachArgs {
    /// Application address to attach
    address: IpAddr,
    /// MAC address that has it below this host, such as a VM's [default: that of the device]
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
    /// Application address to detach
    address: IpAddr,
    /// How long to wait for the ToR
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    timeout: Duration,
    #[command(flatten)]
    ask: AskArgs,
}

/// Examples at the end of `weft agent vif --help`.
const VIF: &str = "\
Examples:
  weft agent vif attach tap0 acme/web1
  weft agent vif detach tap0";

#[derive(Debug, Args)]
#[command(after_help = VIF)]
pub(super) struct VifArgs {
    #[command(subcommand)]
    command: VifCommand,
}

#[derive(Debug, Subcommand)]
enum VifCommand {
    /// Attach a tenant's VIF to an interface of this server
    Attach {
        /// Interface of this server that leads to the VM
        device: String,
        /// The VIF, by the names of tenant and VIF in the tenants' file
        #[arg(value_name = "TENANT/NAME", value_parser = names)]
        vif: (String, String),
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Detach the VIF from an interface of this server
    Detach {
        /// Interface of this server
        device: String,
        #[command(flatten)]
        ask: AskArgs,
    },
}

/// `acme/web1`.
fn names(text: &str) -> std::result::Result<(String, String), String> {
    let (tenant, name) = text.split_once('/').ok_or("write the tenant's name, a slash and the VIF's: acme/web1")?;
    Ok((tenant.to_owned(), name.to_owned()))
}

pub(super) fn vif(args: &VifArgs) -> Result<bool> {
    let (ask, request) = match &args.command {
        VifCommand::Attach { device, vif: (tenant, name), ask } => {
            (ask, Request::AttachVif { device: device.clone(), tenant: tenant.clone(), name: name.clone() })
        }
        VifCommand::Detach { device, ask } => (ask, Request::DetachVif { device: device.clone() }),
    };
    let answer = ask.ask(&request, Duration::ZERO)?;
    if ask.json {
        print_json(&answer)?;
    } else {
        let text = |name: &str| answer[name].as_str().unwrap_or_default();
        print_text(&format!("{} {} {}\n", text("device"), text("outcome"), text("vif")))?;
    }
    Ok(true)
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
