//! Subflows of MPTCP that join their connection: one per pair of NICs, as soon as the connection can have more.

use weft_fabric::traffic::FlowSpec;
use weft_fabric::{Duration, FlowId, Instant};

use super::nics::{NicPair, NicSelection};
use super::{FlowTraffic, Transport};

/// Subflows of a flow that are to be opened.
#[derive(Debug)]
pub(super) struct Join {
    /// The next attempt.
    pub at: Instant,
    pub flow: FlowId,
    pairs: Vec<NicPair>,
    /// No attempts after that.
    until: Instant,
}

impl Join {
    /// The subflows but the first one, which the connection begins with.
    pub(super) fn of(flow: FlowId, pairs: &[NicPair], now: Instant) -> Option<Self> {
        let pairs = pairs.get(1..).filter(|pairs| !pairs.is_empty())?.to_vec();
        Some(Self { at: now + INTERVAL, flow, pairs, until: now + TIMEOUT })
    }
}

/// The NICs of each subflow of a flow, of which TCP has one; empty while no pair of NICs is connected.
pub(super) fn pairs(
    nics: Option<&mut NicSelection<'_>>,
    transport: Transport,
    id: FlowId,
    spec: &FlowSpec,
    attempt: u32,
    now: Instant,
) -> Vec<NicPair> {
    match (nics, transport) {
        (Some(nics), Transport::Tcp) => nics.of(id, spec, attempt, now).into_iter().collect(),
        (Some(nics), Transport::Mptcp { subflows }) => nics.of_subflows(id, spec, attempt, now, subflows).unwrap_or_default(),
        (None, Transport::Tcp) => vec![NicPair::default()],
        (None, Transport::Mptcp { subflows }) => vec![NicPair::default(); subflows as usize],
    }
}

impl FlowTraffic<'_> {
    /// Opens the subflows that are due. A connection can have them when its peer has acknowledged data; until then the kernel refuses them.
    pub(super) fn join_due(&mut self, now: Instant) {
        let Self { joins, flows, hosts, .. } = self;
        for join in joins.iter_mut().filter(|join| join.at <= now) {
            let flow = &flows[join.flow.index()];
            join.at = now + INTERVAL;
            let Some(token) = flow.token() else { continue };
            let (src, dst) = (flow.spec.src, flow.spec.dst);
            join.pairs.retain(|&nics| hosts.add_subflow(token, src, dst, nics).is_err());
        }
        joins.retain(|join| !join.pairs.is_empty() && now < join.until && flows[join.flow.index()].end().is_none());
    }
}

const INTERVAL: Duration = Duration::from_ms(5);
/// A connection that still waits for its first acknowledgement has lost a lot.
const TIMEOUT: Duration = Duration::from_secs(10);
