//! `trace`: the path of a flow, as the agent says that it leaves and as live packets of that very flow find it.
//!
//! ```text
//!   leg 1: [outer, TTL 1, 2, ...][second, TTL 64][inner]   the router at which the TTL ends reports itself; then one is delivered
//!   leg 2: [outer, TTL 64][second, TTL 1, 2, ...][inner]   the intermediate switch reports itself first
//! ```
//! The identification of the outer headers is the probe's tag: routers quote it.

mod prober;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use weft_control::wire::packet::ip::{TCP, UDP};
use weft_control::wire::vl2::ipip::Tunnel;
use weft_directory::daemon::command_line::{print_json, print_text, time};

use super::commands::AskArgs;
use crate::error::{Error, Result};
use crate::socket::Request;
use prober::{Flow, Prober, Reply};

#[derive(Debug, Args)]
pub(super) struct TraceArgs {
    /// Source: an application address of this host
    src: IpAddr,
    /// Destination: an application address
    dst: IpAddr,
    /// Transport protocol of the flow
    #[arg(long, value_enum, default_value_t)]
    protocol: Protocol,
    /// Source port
    #[arg(long, value_name = "N", default_value_t = 33_434)]
    sport: u16,
    /// Destination port
    #[arg(long, value_name = "N", default_value_t = 33_435)]
    dport: u16,
    /// How long to wait for each probe's answer
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    timeout: Duration,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Protocol {
    Tcp,
    #[default]
    Udp,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Trace {
    flow: FlowJson,
    hash: u64,
    source: Ipv4Addr,
    via: Option<Ipv4Addr>,
    locator: Ipv4Addr,
    hops: Vec<Hop>,
    reached: bool,
    broken: Option<String>,
}

#[derive(Debug, Serialize)]
struct FlowJson {
    src: IpAddr,
    dst: IpAddr,
    protocol: Protocol,
    sport: u16,
    dport: u16,
}

#[derive(Debug, Serialize)]
struct Hop {
    leg: &'static str,
    address: Option<IpAddr>,
    rtt_ms: Option<f64>,
}

pub(super) fn run(args: &TraceArgs) -> Result<bool> {
    let protocol = if args.protocol == Protocol::Tcp { TCP } else { UDP };
    let request = Request::Trace { source: args.src, destination: args.dst, protocol, sport: args.sport, dport: args.dport };
    let path = args.ask.ask(&request, Duration::ZERO)?;
    if let (Some(theirs), Some(pid)) = (path["namespace"].as_u64(), path["pid"].as_u64())
        && crate::netns::own().is_some_and(|own| own != theirs)
    {
        return Err(Error::OtherNamespace { pid });
    }
    let address = |name: &str| path[name].as_str().and_then(|text| text.parse::<Ipv4Addr>().ok());
    let odd = || Error::Answer;
    let (source, locator) = (address("source").ok_or_else(odd)?, address("locator").ok_or_else(odd)?);
    let tunnel = Tunnel { source, via: address("via"), locator };
    let flow = Flow { source: args.src, destination: args.dst, protocol, sport: args.sport, dport: args.dport };
    let failed = || Error::system("probe the path", "run it as root, where the agent runs");
    let mut prober = Prober::new(path["device"].as_str().ok_or_else(odd)?, tunnel, flow, args.timeout).map_err(failed())?;
    let (hops, broken) = probe(&mut prober, tunnel.via.is_some()).map_err(failed())?;
    let (src, dst) = (args.src, args.dst);
    let trace = Trace {
        flow: FlowJson { src, dst, protocol: args.protocol, sport: args.sport, dport: args.dport },
        hash: path["hash"].as_u64().ok_or_else(odd)?,
        source,
        via: tunnel.via,
        locator,
        hops,
        reached: broken.is_none(),
        broken,
    };
    if args.ask.json {
        print_json(&trace)?;
    } else {
        print_text(&trace.text())?;
    }
    Ok(trace.reached)
}

/// Follows both legs, or the only one.
fn probe(prober: &mut Prober, has_via: bool) -> std::io::Result<(Vec<Hop>, Option<String>)> {
    let mut hops = Vec::new();
    let legs: &[(bool, &'static str)] =
        if has_via { &[(true, "to intermediate"), (false, "to locator")] } else { &[(true, "to locator")] };
    for (at, &(is_outer, leg)) in legs.iter().enumerate() {
        let broken = follow(prober, is_outer, leg, at + 1 == legs.len(), &mut hops)?;
        if broken.is_some() {
            return Ok((hops, broken));
        }
    }
    Ok((hops, None))
}

fn follow(
    prober: &mut Prober,
    is_outer: bool,
    leg: &'static str,
    is_last: bool,
    hops: &mut Vec<Hop>,
) -> std::io::Result<Option<String>> {
    let mut unanswered = 0;
    for ttl in 1..=HOPS_MAX {
        let ttls = if is_outer { (ttl, HOPS_MAX * 4) } else { (HOPS_MAX * 4, ttl) };
        let Some((reply, from, rtt)) = prober.probe(ttls)? else {
            unanswered += 1;
            hops.push(Hop { leg, address: None, rtt_ms: None });
            if unanswered == UNANSWERED_MAX {
                return Ok(Some(format!("{leg}: no answer from {UNANSWERED_MAX} hops in a row")));
            }
            continue;
        };
        unanswered = 0;
        let rtt_ms = Some(rtt.as_secs_f64() * 1e3);
        match reply {
            Reply::Expired => hops.push(Hop { leg, address: Some(from), rtt_ms }),
            Reply::Delivered => {
                if is_last {
                    hops.push(Hop { leg: "delivered", address: Some(from), rtt_ms });
                }
                return Ok(None);
            }
            Reply::Failed(why) => {
                hops.push(Hop { leg, address: Some(from), rtt_ms });
                return Ok(Some(format!("{from} says: {why}")));
            }
        }
    }
    Ok(Some(format!("{leg}: more than {HOPS_MAX} hops")))
}

impl Trace {
    fn text(&self) -> String {
        use std::fmt::Write;
        let via = self.via.map_or(String::new(), |via| format!(" via {via}"));
        let mut out = format!(
            "{} -> {}: hash {}, outer source {}{via}, locator {}\n",
            self.flow.src, self.flow.dst, self.hash, self.source, self.locator
        );
        for (at, hop) in self.hops.iter().enumerate() {
            let address = hop.address.map_or_else(|| "*".to_owned(), |it| it.to_string());
            let rtt = hop.rtt_ms.map_or(String::new(), |rtt| format!("  {rtt:.3} ms"));
            let _ = writeln!(out, "{:>3}  {address:<20} {}{rtt}", at + 1, hop.leg);
        }
        if let Some(broken) = &self.broken {
            let _ = writeln!(out, "the path ends: {broken}");
        }
        out
    }
}

/// On each leg.
const HOPS_MAX: u8 = 16;
/// Hops in a row that do not answer.
const UNANSWERED_MAX: u32 = 3;
