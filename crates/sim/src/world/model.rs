//! What the event loop asks of a model.

use weft_fabric::traffic::Size;
use weft_fabric::{FlowId, Instant, LinkId};

/// A flow that has delivered all its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub id: FlowId,
    pub at: Instant,
}

/// Moves the bytes of flows over paths. Its clock starts at 0 and moves by [`Model::advance`].
pub(crate) trait Model {
    /// A flow begins, standing still: it has no path yet.
    fn start(&mut self, id: FlowId, size: Size);

    /// The flow takes this path from now on; an empty one makes it stand still. What it delivered stays delivered.
    fn set_path(&mut self, id: FlowId, path: &[LinkId]);

    /// All changes of this instant are in: compute the rates.
    fn settle(&mut self);

    /// Moves the clock to `until`, but stops when flows end; these are appended by end, then id, and forgotten.
    /// A model with ticks may overshoot to the end of a tick. Returns where the clock stands.
    fn advance(&mut self, until: Instant, ended: &mut Vec<Ended>) -> Instant;

    /// Whether some flow will end if nothing else happens.
    fn will_end(&self) -> bool;

    /// Whole bytes that a flow under way has delivered.
    fn delivered(&mut self, id: FlowId) -> u64;

    /// Bytes that all flows have delivered, ended ones too.
    fn delivered_total(&self) -> f64;

    /// Rate changes (max-min) or flow updates (AIMD) so far.
    fn work(&self) -> u64;
}
