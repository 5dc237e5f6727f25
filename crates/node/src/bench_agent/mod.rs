//! What the overlay costs: one TCP stream and a ping over one path, plain, over VL2 and over the kernel's VXLAN (VL2, section 5.1:
//! encapsulation is to cost little more than its headers).
//!
//! ```text
//!   plain   10.1.1.2 ----------------------- the kernel forwards ----------------------> 10.1.2.2
//!   vl2     20.0.0.1 --[two headers]--> ToR --> intermediate strips --> ToR strips ----> 20.0.0.2
//!   vxlan   30.0.0.1 --[50 bytes]-------------- the kernel forwards ----[stripped]-----> 30.0.0.2
//! ```
//! The kinds take turns over the very same links, and each is compared with the plain one of its own round: what else the machine does then
//! troubles both. Programs are on the interfaces only while theirs is measured. CPU time is that of this process, both ends and the
//! kernel's work on their behalf, so it is an estimate where interrupts do part of it.

mod cli;
mod error;
mod path;
mod report;
mod traffic;

use std::net::IpAddr;
use std::time::Duration;

pub use cli::{BenchArgs, main};
pub use error::{BenchError, Result};
pub use path::{AA, AA6, Node, Overlay, Path, UNDERLAY_MTU};
pub use report::{Case, Report};
pub use traffic::{Stream, ping, stream};

/// What is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rounds; each measures every kind once.
    pub runs: u32,
    /// How long a stream lasts.
    pub seconds: Duration,
    /// Echoes a ping.
    pub echoes: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { runs: 5, seconds: Duration::from_secs(3), echoes: 500 }
    }
}

/// How packets cross the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Vl2,
    Vl2Ipv6,
    Vxlan,
}

const KINDS: [Kind; 4] = [Kind::Plain, Kind::Vl2, Kind::Vl2Ipv6, Kind::Vxlan];

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Vl2 => "vl2",
            Self::Vl2Ipv6 => "vl2, IPv6 inside",
            Self::Vxlan => "vxlan",
        }
    }

    const fn target(self) -> IpAddr {
        match self {
            Self::Plain => IpAddr::V4(path::LA[1]),
            Self::Vl2 => IpAddr::V4(AA[1]),
            Self::Vl2Ipv6 => IpAddr::V6(AA6[1]),
            Self::Vxlan => IpAddr::V4(path::VXLAN[1]),
        }
    }
}

/// One kind in one round.
#[derive(Clone, Copy, Debug)]
struct Measured {
    stream: Stream,
    ping: Duration,
}

/// Measures; needs root. `progress` hears what is done.
///
/// # Errors
/// [`BenchError`] if the path cannot be made, or carries nothing.
pub fn run(options: &Options, mut progress: impl FnMut(&str)) -> Result<Report> {
    let path = Path::build("bench")?;
    path.add_vxlan()?;
    let mut rounds = Vec::new();
    for round in 0..options.runs as usize {
        let mut measured = [None; KINDS.len()];
        for turn in 0..KINDS.len() {
            // Who comes first changes from round to round.
            let at = (round + turn) % KINDS.len();
            progress(&format!("round {} of {}: {}", round + 1, options.runs, KINDS[at].name()));
            measured[at] = Some(measure(&path, KINDS[at], options)?);
        }
        rounds.push(measured.map(|m| m.expect("each kind had its turn")));
    }
    Ok(report::report(&rounds))
}

fn measure(path: &Path, kind: Kind, options: &Options) -> Result<Measured> {
    let overlay = match kind {
        Kind::Vl2 | Kind::Vl2Ipv6 => Some(path.attach()?),
        Kind::Plain | Kind::Vxlan => None,
    };
    let measured = (|| {
        let ping = ping(path, kind.target(), options.echoes)?;
        Ok(Measured { ping, stream: stream(path, kind.target(), options.seconds)? })
    })();
    if let Some(overlay) = overlay {
        overlay.detach(path)?;
    }
    measured
}
