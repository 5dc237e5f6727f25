//! `weft test isolation`: an adversary's attacks in a lab, or from a host of the operator's.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use weft_lab::probe::isolation::{self, Isolation, Scene};

use super::{Of, STOP, open, say, tables};
use crate::error::{Error, Result};

/// Arguments of `weft test isolation`.
#[derive(Debug, Args)]
pub(super) struct IsolationArgs {
    #[command(flatten)]
    of: Of,
    /// Attack from this host instead of a lab, with the addresses in this file
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    from: Option<PathBuf>,
    /// With `--from`: socket of this host's agent, whose counters are compared
    #[arg(long, value_name = "FILE", default_value = "/run/weft/agent.sock")]
    socket: PathBuf,
    /// Listen on this host for this time, and fail if a packet of an attack arrives
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["name", "from"])]
    listen: Option<u64>,
}

/// Examples at the end of `weft test isolation --help`.
pub(super) const EXAMPLES: &str = "\
Examples:
  weft test isolation                     attack in the lab of `weft lab up`
  weft test isolation --from attack.toml  attack from this host
  weft test isolation --listen 60         on the victim, at the same time";

/// Whether isolation holds.
pub(super) fn test(args: &IsolationArgs) -> Result<bool> {
    if let Some(seconds) = args.listen {
        let arrived = isolation::listen_here(Duration::from_secs(seconds)).map_err(failed("listen"))?;
        say(args.of.json, &json!({ "arrived": arrived }), |_| format!("{arrived} packets of an attack arrived\n"))?;
        return Ok(arrived == 0);
    }
    let result = match &args.from {
        Some(file) => {
            weft_lab::need_root()?;
            let text = std::fs::read_to_string(file).map_err(|cause| Error::io("read", file, cause))?;
            let wrong = |error: toml::de::Error| {
                Error::usage(format!("{}: {error}", file.display()), "docs/cli.md#weft-test-isolation lists the keys")
            };
            let scene: Scene = toml::from_str(&text).map_err(wrong)?;
            let cases = isolation::attack(&scene, &args.socket).map_err(failed("attack"))?;
            Isolation { ok: cases.iter().all(|case| case.ok != Some(false)), cases }
        }
        None => isolation::test(&open(&args.of)?.record.plan, &STOP)?,
    };
    say(args.of.json, &result, tables::of_isolation)?;
    Ok(result.ok)
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |cause| {
        let help = "run it as root, with the agent of this host running; check `device`, `next_hop` and `--socket`";
        Error::usage(format!("cannot {what}: {cause}"), help)
    }
}
