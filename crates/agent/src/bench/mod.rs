//! What the overlay costs: one TCP stream and a ping over one path, plain, over VL2 and over the kernel's VXLAN (VL2, section 5.1:
//! encapsulation is to cost little more than its headers).
//!
//! ```text
//!   plain   10.1.1.2 ----------------------- the kernel forwards ----------------------> 10.1.2.2
//!   vl2     20.0.0.1 --[two headers]--> ToR --> intermediate strips --> ToR strips ----> 20.0.0.2
//!   vxlan   30.0.0.1 --[50 bytes]-------------- the kernel forwards ----[stripped]-----> 30.0.0.2
//! ```
//! With NetLord the ends are VMs, and the path is another one:
//!
//! ```text
//!   plain     10.9.1.2 VM --- server --- edge switch --- edge switch --- server --- VM 10.9.2.2     the kernel forwards
//!   netlord   10.8.0.1        [34 bytes, tag]             last hop       stripped      10.8.0.2
//! ```
//! The kinds take turns over the very same links, and each is compared with plain forwarding of the same version of IP in its own round: what
//! else the machine does then troubles both. Programs are on the interfaces only while theirs is measured. CPU time is that of this process, both ends and the
//! kernel's work on their behalf, so it is an estimate where interrupts do part of it.

mod cli;
mod error;
mod netlord;
mod path;
mod report;
mod traffic;

use std::net::IpAddr;
use std::time::Duration;

pub use cli::{BenchArgs, main};
pub use error::{BenchError, Result};
pub use netlord::{Overlay as NetlordOverlay, VM, VM6, attach as attach_netlord, build as build_netlord};
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
    /// What is compared with plain forwarding.
    pub overlay: OverlayKind,
}

/// An overlay that is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OverlayKind {
    /// VL2's two headers, and the kernel's VXLAN.
    #[default]
    Vl2,
    /// NetLord's encapsulation, between VMs.
    Netlord,
}

impl Default for Options {
    fn default() -> Self {
        Self { runs: 5, seconds: Duration::from_secs(3), echoes: 500, overlay: OverlayKind::Vl2 }
    }
}

/// How packets cross the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    PlainIpv6,
    Vl2,
    Vl2Ipv6,
    Vxlan,
    PlainVm,
    PlainVmIpv6,
    Netlord,
    NetlordIpv6,
}

impl OverlayKind {
    /// What is measured.
    const fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Vl2 => &[Kind::Plain, Kind::PlainIpv6, Kind::Vl2, Kind::Vl2Ipv6, Kind::Vxlan],
            Self::Netlord => &[Kind::PlainVm, Kind::PlainVmIpv6, Kind::Netlord, Kind::NetlordIpv6],
        }
    }
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Plain | Self::PlainVm => "plain",
            Self::PlainIpv6 | Self::PlainVmIpv6 => "plain, IPv6",
            Self::Vl2 => "vl2",
            Self::Vl2Ipv6 => "vl2, IPv6 inside",
            Self::Vxlan => "vxlan",
            Self::Netlord => "netlord",
            Self::NetlordIpv6 => "netlord, IPv6 inside",
        }
    }

    const fn target(self) -> IpAddr {
        match self {
            Self::Plain => IpAddr::V4(path::LA[1]),
            Self::PlainIpv6 => IpAddr::V6(path::LA6),
            Self::Vl2 => IpAddr::V4(AA[1]),
            Self::Vl2Ipv6 => IpAddr::V6(AA6[1]),
            Self::Vxlan => IpAddr::V4(path::VXLAN[1]),
            Self::PlainVm => IpAddr::V4(netlord::PLAIN),
            Self::PlainVmIpv6 => IpAddr::V6(netlord::PLAIN6),
            Self::Netlord => IpAddr::V4(netlord::VM[1]),
            Self::NetlordIpv6 => IpAddr::V6(netlord::VM6[1]),
        }
    }

    /// What it is compared with.
    const fn plain(self) -> Self {
        match self {
            Self::Plain | Self::Vl2 | Self::Vxlan => Self::Plain,
            Self::PlainIpv6 | Self::Vl2Ipv6 => Self::PlainIpv6,
            Self::PlainVm | Self::Netlord => Self::PlainVm,
            Self::PlainVmIpv6 | Self::NetlordIpv6 => Self::PlainVmIpv6,
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
    let path = match options.overlay {
        OverlayKind::Vl2 => {
            let path = Path::build("bench")?;
            path.add_vxlan()?;
            path
        }
        OverlayKind::Netlord => netlord::build("bench")?,
    };
    let kinds = options.overlay.kinds();
    let mut rounds = Vec::new();
    for round in 0..options.runs as usize {
        let mut measured = vec![None; kinds.len()];
        for turn in 0..kinds.len() {
            // Who comes first changes from round to round.
            let at = (round + turn) % kinds.len();
            progress(&format!("round {} of {}: {}", round + 1, options.runs, kinds[at].name()));
            measured[at] = Some(measure(&path, kinds[at], options)?);
        }
        rounds.push(measured.into_iter().map(|m| m.expect("each kind had its turn")).collect());
    }
    Ok(report::report(kinds, &rounds))
}

fn measure(path: &Path, kind: Kind, options: &Options) -> Result<Measured> {
    let both = || {
        let ping = ping(path, kind.target(), options.echoes)?;
        Ok(Measured { ping, stream: stream(path, kind.target(), options.seconds)? })
    };
    match kind {
        Kind::Vl2 | Kind::Vl2Ipv6 => {
            let overlay = path.attach()?;
            let measured = both();
            overlay.detach(path)?;
            measured
        }
        Kind::Netlord | Kind::NetlordIpv6 => {
            let overlay = netlord::attach(path)?;
            let measured = both();
            overlay.detach(path)?;
            measured
        }
        Kind::Plain | Kind::PlainIpv6 | Kind::Vxlan | Kind::PlainVm | Kind::PlainVmIpv6 => both(),
    }
}
