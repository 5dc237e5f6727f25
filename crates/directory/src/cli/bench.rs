//! `bench`: runs a set of measurements and prints them, compared with the papers' figures and the goals.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::connect::Dir;
use super::error::{Error, Result};
use crate::bench::{self, Case, Options, Set, StoreKind};
use crate::daemon::command_line::{print_json, print_text, time};

/// Examples at the end of `weft directory bench --help`.
const EXAMPLES: &str = "\
Examples:
  weft directory bench lookups --duration 10s
  weft directory bench updates --store etcd
  weft directory bench lookups --servers 10.0.0.1:5303 --rate 100000
  weft directory bench --print-policy > policy.toml";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// Set of measurements
    set: Option<Set>,
    /// Measure these servers instead of own ones; they need `serve --auth mac`, the policy of `--print-policy`, and the secret in `--dir`
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', help_heading = "Servers")]
    servers: Vec<String>,
    /// Store of the own servers; repeatable [default: both; failover: etcd; lookups: embedded]
    #[arg(long, help_heading = "Servers")]
    store: Vec<StoreKind>,
    /// Number of mappings to load [default: 1000000 for lookups, else 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..=16_000_000), help_heading = "Load")]
    mappings: Option<u32>,
    /// Duration of each case
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time, help_heading = "Load")]
    duration: Duration,
    /// Measure only open loop, at this rate per second; repeatable
    #[arg(long, value_name = "R", help_heading = "Load")]
    rate: Vec<f64>,
    /// For lookups: keys per datagram; repeatable [default: 1, 16 and 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=32), help_heading = "Load")]
    keys: Vec<u8>,
    /// Core for servers and stores
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Servers")]
    server_core: usize,
    /// Core for the load generator
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    generator_core: usize,
    /// Seed of the random choices
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    seed: u64,
    /// Print the policy that the servers of `--servers` must have, and exit
    #[arg(long, help_heading = "Servers")]
    print_policy: bool,
    #[command(flatten)]
    dir: Dir,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct BenchJson {
    cases: Vec<Case>,
}

/// Measures.
pub fn run(args: &BenchArgs) -> Result<bool> {
    if args.print_policy {
        print_text(&bench::policy())?;
        return Ok(true);
    }
    let Some(set) = args.set else {
        return Err(Error::NoSet);
    };
    if !args.servers.is_empty() && set == Set::Failover {
        return Err(Error::FailoverServers);
    }
    if args.rate.iter().any(|rate| !(rate.is_finite() && *rate > 0.0)) {
        return Err(Error::Rate);
    }
    if args.duration.is_zero() {
        return Err(Error::NoDuration);
    }
    let servers = args.servers.iter().map(|server| resolve(server)).collect::<Result<Vec<_>>>()?;
    let servers = if servers.is_empty() { None } else { Some((servers, args.dir.secret(None)?)) };
    let stores = match (args.store.is_empty(), servers.is_some()) {
        (false, _) => args.store.clone(),
        (true, true) => vec![StoreKind::Embedded],
        (true, false) => vec![StoreKind::Embedded, StoreKind::Etcd],
    };
    let keys = if args.keys.is_empty() { vec![1, 16, 32] } else { args.keys.iter().map(|&keys| keys.into()).collect() };
    let options = Options {
        servers,
        stores,
        mappings: args.mappings.map(|mappings| mappings as usize),
        duration: args.duration,
        rates: args.rate.clone(),
        keys,
        server_core: args.server_core,
        generator_core: args.generator_core,
        seed: args.seed,
    };
    let print = |case: &Case| {
        let _ = writeln!(std::io::stderr(), "{}: {:.0} a second", case.name, case.keys_per_s);
    };
    let cases = bench::run(set, &options, print)?;
    let right = cases.iter().all(|case| case.wrong == 0);
    if args.json {
        print_json(&BenchJson { cases })?;
    } else {
        print_text(&format!("{}\n", bench::table(&cases)))?;
    }
    Ok(right)
}

fn resolve(server: &str) -> Result<SocketAddr> {
    let resolved = server.to_socket_addrs().ok().and_then(|mut all| all.next());
    resolved.ok_or_else(|| Error::ServerAddress(server.to_owned()))
}
