//! `[transport]`: the transport protocol of the packet world. The flow world reads and ignores it.

use weft_fabric::{Bytes, Duration};
use weft_sim::packet::{Recovery, Transport, TransportKind};

use crate::error::KeyError;
use crate::scenario::keys::Keys;

/// `[transport]`.
#[derive(Clone, Debug, PartialEq)]
pub struct TransportSpec {
    /// All but the number of subflows, which may depend on the fabric.
    pub transport: Transport,
    /// Subflows of MPTCP, if they are given.
    pub subflows: Option<u32>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    NewReno,
    Dctcp,
    Mptcp,
    Cubic,
}

const KINDS: &[(&str, Kind)] =
    &[("newreno", Kind::NewReno), ("cubic", Kind::Cubic), ("dctcp", Kind::Dctcp), ("mptcp", Kind::Mptcp)];

impl TransportSpec {
    /// Reads `[transport]`.
    pub fn read(keys: &Keys<'_>) -> Result<Self, KeyError> {
        let default = Transport::default();
        let kind = keys.word("kind", KINDS, Kind::NewReno)?;
        let subflows: Option<u32> = keys.opt("subflows")?;
        if subflows.is_some() && kind != Kind::Mptcp {
            return Err(keys.error("subflows", "only MPTCP has subflows", "write kind = \"mptcp\", or leave it out"));
        }
        let wait = keys.or("delayed_ack_timeout", Duration::from_ms(40))?;
        let transport = Transport {
            kind: match kind {
                Kind::NewReno => TransportKind::NewReno,
                Kind::Dctcp => TransportKind::Dctcp,
                Kind::Cubic => TransportKind::Cubic,
                Kind::Mptcp => TransportKind::Mptcp { subflows: subflows.unwrap_or(DEFAULT_SUBFLOWS) },
            },
            recovery: read_recovery(keys, kind)?,
            pacing: keys.or("pacing", default.pacing)?,
            mss: keys.or("mss", default.mss)?,
            header: keys.or("header", default.header)?,
            initial_window: keys.or("initial_window", default.initial_window)?,
            max_window: keys.opt::<Bytes>("max_window")?,
            rto_min: keys.or("rto_min", default.rto_min)?,
            rto_initial: keys.or("rto_initial", default.rto_initial)?,
            delayed_ack: keys.or("delayed_ack", false)?.then_some(wait),
        };
        keys.done()?;
        Ok(Self { transport, subflows })
    }

    /// The same with headers of an overlay around every packet.
    #[must_use]
    pub fn under(mut self, header: Bytes) -> Self {
        self.transport.header = Bytes(self.transport.header.0 + header.0);
        self
    }
}

/// `sack` and `rack`. Hosts with CUBIC recover losses as Linux does; the papers' hosts do not.
fn read_recovery(keys: &Keys<'_>, kind: Kind) -> Result<Recovery, KeyError> {
    let sack: Option<bool> = keys.opt("sack")?;
    let rack: Option<bool> = keys.opt("rack")?;
    match (rack.unwrap_or(kind == Kind::Cubic && sack != Some(false)), sack) {
        (true, Some(false)) => Err(keys.error(
            "sack",
            "RACK-TLP takes what has arrived from selective acknowledgements",
            "write rack = false, or leave out `sack`",
        )),
        (true, _) => Ok(Recovery::Rack),
        (false, Some(true)) => Ok(Recovery::Sack),
        (false, None) if kind == Kind::Cubic => Ok(Recovery::Sack),
        (false, _) => Ok(Recovery::NewReno),
    }
}

/// Subflows of MPTCP where hosts have one NIC.
const DEFAULT_SUBFLOWS: u32 = 8;
