//! What the event loop asks of a model.

use weft_fabric::record::Outcome;
use weft_fabric::routing::Spread;
use weft_fabric::traffic::FlowSpec;
use weft_fabric::{BitsPerSec, Duration, FlowId, Instant, LinkId};

/// A flow that has delivered all its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub id: FlowId,
    pub at: Instant,
}

/// Hears now and then where a model's clock stands, and its [`Model::work`], while it goes on: at least a few times a second.
pub(crate) type Look<'a> = &'a mut dyn FnMut(Instant, u64);

/// Moves the bytes of flows over paths. Its clock starts at 0 and moves by [`Model::advance`].
pub(crate) trait Model {
    /// Whether answers travel too: the loop then gives each flow a path back.
    const ANSWERS: bool = false;
    /// Whether a flow sends on over a path that is broken, as hosts do until routing has learnt of it. Else it stands still.
    const BLIND: bool = false;
    /// Whether the model counts the bytes of links itself; else they follow from the flows' paths.
    const COUNTS_LINKS: bool = false;

    /// A flow begins, standing still: it has no path yet.
    fn start(&mut self, id: FlowId, spec: &FlowSpec);

    /// A flow that has been started sends from now on, if it has a path.
    fn open(&mut self, id: FlowId) {
        let _ = id;
    }

    /// Flows that have lost a full window since the last time this was asked. A model of rates knows none.
    fn take_congested(&mut self) -> Vec<FlowId> {
        Vec::new()
    }

    /// Paths that a flow takes at once.
    fn subflows(&self) -> u32 {
        1
    }

    /// The flow's subflow takes this path from now on; with an empty one it stands still. What it delivered stays delivered.
    fn set_path(&mut self, id: FlowId, subflow: u32, path: &[LinkId]);

    /// The path of the subflow's answers, if [`Model::ANSWERS`]; an empty one: they are lost.
    fn set_path_back(&mut self, id: FlowId, subflow: u32, path: &[LinkId]) {
        let _ = (id, subflow, path);
    }

    /// A model of packets: those of the flow that now has a path, or its answers (`back`), choose among several instead. Until the next
    /// [`Model::set_path`] or [`Model::set_path_back`].
    fn spread(&mut self, id: FlowId, back: bool, spread: &Spread) {
        let _ = (id, back, spread);
    }

    /// A model of rates: the flow is spread over links from now on, each with a share of its rate; with none it stands still.
    fn set_shares(&mut self, id: FlowId, shares: &[(LinkId, f64)]) {
        let _ = (id, shares);
        unreachable!("this model keeps a flow to one path");
    }

    /// Flows that are given a path from now on, of which this access path is a part, have at most this rate there, together with those that
    /// are on it already. A model without limits ignores it.
    fn set_limit(&mut self, links: &[LinkId], rate: BitsPerSec) {
        let _ = (links, rate);
    }

    /// The next path that the flow is given is to be taken once it has sent nothing for so long.
    fn wait_for_gap(&mut self, id: FlowId, gap: Duration) {
        let _ = (id, gap);
    }

    /// A link works, or not, from now on.
    fn set_link(&mut self, link: LinkId, up: bool) {
        let _ = (link, up);
    }

    /// Bytes that each link has carried, if [`Model::COUNTS_LINKS`]; `bytes` holds those of the last time.
    fn link_bytes(&mut self, bytes: &mut [u64]) {
        let _ = bytes;
    }

    /// What the model knows of the run besides flows.
    fn finish(&mut self, outcome: &mut Outcome) {
        let _ = outcome;
    }

    /// All changes of this instant are in: compute the rates.
    fn settle(&mut self);

    /// Moves the clock to `until`, but stops when flows end; these are appended by end, then id, and forgotten.
    /// A model with ticks may overshoot to the end of a tick. Returns where the clock stands. `look` may unwind, and the model is then
    /// used no more: the caller can end a run promptly, however long this takes.
    fn advance(&mut self, until: Instant, ended: &mut Vec<Ended>, look: Look<'_>) -> Instant;

    /// Whether some flow will end if nothing else happens.
    fn will_end(&self) -> bool;

    /// Whole bytes that a flow under way has delivered.
    fn delivered(&mut self, id: FlowId) -> u64;

    /// Bytes that all flows have delivered, ended ones too.
    fn delivered_total(&self) -> f64;

    /// Rate changes (max-min) or flow updates (AIMD) so far.
    fn work(&self) -> u64;
}
