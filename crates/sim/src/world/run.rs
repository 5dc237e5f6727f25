//! The event loop: what happens when, and who hears of it.

use weft_control::controller::{Controller, FlowCounter, Input, LinkCounters, Output};
use weft_fabric::record::Outcome;
use weft_fabric::routing::{FlowKey, Path, Router, Spread, subflow_nics};
use weft_fabric::time::NsInstant;
use weft_fabric::topology::{Fabric, Health, Part};
use weft_fabric::traffic::{Size, Workload};
use weft_fabric::{Bytes, Duration, FlowId, Instant, LinkId};

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::world::ledger::Ledger;
use crate::world::model::{Ended, Look, Model};
use crate::world::overlay::Agents;
use crate::world::{Change, Parts, Progress, TimedEvent};

/// How the loop and a model share time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// The run ends here at the latest.
    pub end: Instant,
    /// The model's clock moves in steps of this.
    pub unit: Duration,
    /// Rates change between events, so the network is sampled this often too.
    pub sample_every: Option<Duration>,
}

/// Runs a world with a model.
pub(crate) fn run<M: Model>(parts: Parts, model: M, pace: Pace, progress: &mut dyn FnMut(Progress)) -> Outcome {
    let mut run = Run::new(parts, model, pace);
    run.begin();
    while run.step(progress) {
        if run.steps.is_multiple_of(PROGRESS_EVERY) {
            progress(run.progress());
        }
    }
    progress(run.progress());
    run.finish()
}

struct Run<M> {
    fabric: Arc<Fabric>,
    router: Router,
    controller: Option<Box<dyn Controller>>,
    workload: Box<dyn Workload>,
    model: M,
    pace: Pace,
    reconverge: Duration,
    restore_delay: Duration,
    now: Instant,
    steps: u64,
    /// Events to come, the next one last.
    events: Vec<TimedEvent>,
    /// Changes that routing will learn of.
    updates: BinaryHeap<RoutingUpdate>,
    update_count: u64,
    health: Health,
    failed: Vec<Part>,
    /// What routing knows of `health`.
    believed: Health,
    ledger: Ledger,
    link_samples: usize,
    next_sample: Instant,
    /// Rounds of the controller in a row during which nothing else was to happen.
    idle_rounds: u32,
    ended: Vec<Ended>,
    agents: Agents,
    /// Flows that wait for a lookup, and until when.
    waiting: BinaryHeap<Reverse<(Instant, FlowId)>>,
}

/// Routing learns of a change. Ordered so that the heap's greatest is the earliest, then the first scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RoutingUpdate {
    at: Instant,
    number: u64,
    part: Part,
    works: bool,
}

impl Ord for RoutingUpdate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for RoutingUpdate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<M: Model> Run<M> {
    fn new(parts: Parts, model: M, pace: Pace) -> Self {
        let Parts { fabric, router, controller, workload, mut events, reconverge, restore_delay, link_samples, overlay } = parts;
        events.sort_by_key(|e| e.at);
        events.reverse();
        Self {
            router,
            controller,
            workload,
            model,
            pace,
            reconverge,
            restore_delay,
            now: Instant::ZERO,
            steps: 0,
            events,
            updates: BinaryHeap::new(),
            update_count: 0,
            health: Health::new(&fabric),
            failed: Vec::new(),
            believed: Health::new(&fabric),
            ledger: Ledger::new(&fabric, !M::COUNTS_LINKS),
            link_samples,
            next_sample: Instant::ZERO,
            idle_rounds: 0,
            ended: Vec::new(),
            agents: Agents::new(overlay),
            waiting: BinaryHeap::new(),
            fabric,
        }
    }

    /// What happens at time 0.
    fn begin(&mut self) {
        self.happen();
        self.ledger.open_series(self.link_samples, self.pace.end, self.pace.unit);
    }

    /// Goes on to the next instant at which something happens; false when the run is over.
    fn step(&mut self, progress: &mut dyn FnMut(Progress)) -> bool {
        self.steps += 1;
        if self.now >= self.pace.end || self.nothing_left() {
            return false;
        }
        let due = self.next_due();
        if due == Instant::MAX && !self.model.will_end() {
            return false;
        }
        let mut ended = std::mem::take(&mut self.ended);
        let (end, active, before) = (self.pace.end, self.ledger.active().len(), self.ledger.ended());
        let look: Look<'_> = &mut |now, events| progress(Progress { now, end, active, ended: before, events });
        self.now = self.model.advance(due, &mut ended, look);
        for flow in ended.drain(..) {
            self.end_flow(flow);
        }
        self.ended = ended;
        for id in self.model.take_congested() {
            self.rehash(id);
        }
        if self.nothing_left() {
            // A tick may go on after the last end: the run does not.
            self.now = self.ledger.last_end();
            return false;
        }
        if self.now < self.pace.end {
            self.happen();
        }
        true
    }

    /// All but the ends of flows that happens now, in the order that the module's header promises.
    fn happen(&mut self) {
        self.change_parts();
        self.learn();
        self.begin_flows();
        self.wake_controller();
        self.model.settle();
        self.sample();
        if self.ledger.series_due().is_some_and(|at| at <= self.now) {
            self.ledger.close_span(self.now, &mut self.model);
        }
    }

    fn nothing_left(&self) -> bool {
        self.ledger.active().is_empty() && self.workload.next_start().is_none()
    }

    fn next_due(&self) -> Instant {
        let sample = self.pace.sample_every.map(|_| self.next_sample);
        // Spans of links end only while something moves: the last one ends with the run.
        let series = self.ledger.series_due().filter(|_| self.pace.end != Instant::MAX || self.model.will_end());
        [
            Some(self.pace.end),
            self.workload.next_start(),
            self.events.last().map(|e| e.at),
            self.updates.peek().map(|l| l.at),
            self.controller_due(),
            self.waiting.peek().map(|w| w.0.0),
            sample.filter(|_| self.pace.end != Instant::MAX || self.model.will_end()),
            series,
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(Instant::MAX)
        .max(self.now)
    }

    /// The controller's timer. In a run that only its flows end, it does not keep a run alive in which nothing else can happen: after a
    /// few rounds that set nothing in motion the run is over.
    fn controller_due(&self) -> Option<Instant> {
        let due = self.wake_at()?;
        (self.pace.end != Instant::MAX || self.idle_rounds < IDLE_ROUNDS).then_some(due)
    }

    /// The controller's deadline on the clock of the run.
    fn wake_at(&self) -> Option<Instant> {
        self.controller.as_ref().and_then(|c| c.deadline()).map(|at| at.to_ps())
    }

    /// Whether something besides the controller's timer will happen.
    fn is_moving(&self) -> bool {
        self.model.will_end()
            || self.workload.next_start().is_some()
            || !self.events.is_empty()
            || !self.updates.is_empty()
            || !self.waiting.is_empty()
    }

    fn sample(&mut self) {
        self.ledger.sample(self.now, self.model.delivered_total());
        if let Some(every) = self.pace.sample_every
            && self.next_sample <= self.now
        {
            self.next_sample = self.now.saturating_add(every);
        }
    }

    fn end_flow(&mut self, ended: Ended) {
        let spec = self.ledger.end(ended.id, ended.at);
        self.workload.flow_ended(ended.id, &spec, ended.at);
        if self.controller.is_some() {
            let record = &self.ledger.flow(ended.id).record;
            let (bytes, path) = (record.bytes, record.path.clone());
            let flow = FlowKey::of_flow(ended.id.0, spec.src, spec.dst);
            self.input(Input::FlowRemoved(FlowCounter { flow, bytes, read_at: ended.at.to_ns(), path: &path }));
        }
    }

    fn begin_flows(&mut self) {
        while let Some(&Reverse((at, id))) = self.waiting.peek()
            && at <= self.now
        {
            self.waiting.pop();
            self.open(id);
        }
        while self.workload.next_start().is_some_and(|at| at <= self.now) {
            let Some(spec) = self.workload.next_flow() else { break };
            let id = self.ledger.begin(spec);
            if spec.size == Size::Finite(Bytes(0)) {
                let spec = self.ledger.end(id, spec.start);
                self.workload.flow_ended(id, &spec, self.now);
                continue;
            }
            if !self.agents.admit(id, spec.src, spec.dst) {
                self.ledger.refuse(id);
                // Who waits for its end goes on when the refusal is known.
                self.workload.flow_ended(id, &spec, self.now + self.agents.refusal_takes());
                continue;
            }
            self.model.start(id, &spec);
            self.open(id);
        }
    }

    /// A flow sends, or waits for a lookup first.
    fn open(&mut self, id: FlowId) {
        let record = &self.ledger.flow(id).record;
        let at = self.agents.look_up(record.src, record.dst, self.now);
        self.ledger.flow_mut(id).waits = at > self.now;
        if at > self.now {
            self.waiting.push(Reverse((at, id)));
        } else {
            self.route(id);
            self.model.open(id);
        }
    }

    /// A flow has lost a full window: it gets another hash, and so another path, if its host's agent allows. Its answers stay where they are.
    fn rehash(&mut self, id: FlowId) {
        let src = self.ledger.flow(id).record.src;
        if !self.ledger.is_active(id) || !self.agents.rehash(id, src, self.now) {
            return;
        }
        self.ledger.flow_mut(id).salt += 1;
        self.ledger.flow_mut(id).scheduled = false;
        if let Some(path) = self.router.route(&self.routing_key(id)) {
            self.assign(id, path);
        }
    }

    /// How switches see a flow whose agent may have given it another hash.
    fn routing_key(&self, id: FlowId) -> FlowKey {
        self.ledger.key(id).salted(self.ledger.flow(id).salt)
    }

    fn change_parts(&mut self) {
        while let Some(&TimedEvent { at, change }) = self.events.last()
            && at <= self.now
        {
            self.events.pop();
            match change {
                Change::Fail(part) => self.fail(part, true),
                Change::FailSilent(part) => self.fail(part, false),
                Change::Restore(part) => self.restore(part),
            }
        }
    }

    fn fail(&mut self, part: Part, noticed: bool) {
        if !self.failed.contains(&part) {
            self.failed.push(part);
        }
        let down = self.health.fail(&self.fabric, part);
        self.links_changed(&down, false);
        if noticed {
            self.schedule_update(part, false, self.reconverge);
            self.input(Input::Failed(part));
        }
    }

    fn restore(&mut self, part: Part) {
        self.failed.retain(|&p| p != part);
        let up = self.health.restore(&self.fabric, part);
        self.links_changed(&up, true);
        self.schedule_update(part, true, self.restore_delay);
        self.input(Input::Restored(part));
    }

    fn links_changed(&mut self, links: &[LinkId], up: bool) {
        for &link in links {
            self.model.set_link(link, up);
        }
        if !links.is_empty() && !M::BLIND {
            for id in self.ledger.active().to_vec() {
                self.refresh(id);
            }
        }
    }

    fn schedule_update(&mut self, part: Part, works: bool, delay: Duration) {
        let at = self.now.saturating_add(delay);
        self.updates.push(RoutingUpdate { at, number: self.update_count, part, works });
        self.update_count += 1;
    }

    /// Routing learns what is due, unless the part has changed back in the meantime: another update is scheduled.
    fn learn(&mut self) {
        let (mut lost, mut gained) = (false, false);
        while self.updates.peek().is_some_and(|l| l.at <= self.now) {
            let update = self.updates.pop().expect("peeked");
            if self.failed.contains(&update.part) == update.works {
                continue;
            }
            let changed = if update.works {
                self.believed.restore(&self.fabric, update.part)
            } else {
                self.believed.fail(&self.fabric, update.part)
            };
            lost |= !update.works && !changed.is_empty();
            gained |= update.works && !changed.is_empty();
        }
        if lost || gained {
            self.router.health_changed(&self.believed);
            self.reroute(gained);
        }
    }

    /// After routing has learnt: flows without a usable path get one; if a part came back, or flows have several paths, all unscheduled
    /// flows are routed again.
    fn reroute(&mut self, gained: bool) {
        let all = gained || self.router.spreads();
        let mut ids = self.ledger.active().to_vec();
        ids.sort_unstable();
        for id in ids {
            let flow = self.ledger.flow(id);
            if flow.waits {
                continue;
            }
            let usable = flow.routed && self.believed.path_is_up(&flow.record.path);
            if !usable {
                self.ledger.flow_mut(id).scheduled = false;
            }
            if !usable || (all && !self.ledger.flow(id).scheduled) {
                self.route(id);
            } else if M::ANSWERS && !self.believed.path_is_up(&self.ledger.flow(id).back) {
                self.route_back(id);
            }
        }
    }

    /// The flow takes the path that the switches give it, if they have one.
    fn route(&mut self, id: FlowId) {
        if M::ANSWERS {
            self.route_back(id);
        }
        let key = self.routing_key(id);
        if let Some(spread) = self.router.spread(&key) {
            return self.spread(id, &key, &spread);
        }
        for subflow in 1..self.model.subflows() {
            self.route_subflow(id, &key, subflow);
        }
        let path = if self.model.subflows() > 1 { self.subflow_path(&key, 0) } else { self.router.route(&key) };
        match path {
            Some(path) => self.assign(id, path),
            None => {
                self.ledger.flow_mut(id).routed = false;
                self.refresh(id);
            }
        }
    }

    /// The answers of a flow take the path that the switches give the reverse flow.
    fn route_back(&mut self, id: FlowId) {
        let back = self.router.route(&self.ledger.key(id).reverse()).unwrap_or_default();
        self.model.set_path_back(id, 0, &back);
        self.ledger.flow_mut(id).back = back;
        if let Some(spread) = self.router.spread(&self.ledger.key(id).reverse()) {
            self.model.spread(id, true, &spread);
        }
    }

    /// The flow takes several paths. Its record has the one that it would take if switches hashed.
    fn spread(&mut self, id: FlowId, key: &FlowKey, spread: &Spread) {
        if !M::COUNTS_LINKS {
            self.ledger.credit(id, self.model.delivered(id));
            self.ledger.set_shares(id, &spread.paths);
            if std::mem::take(&mut self.ledger.flow_mut(id).moving) {
                self.model.set_path(id, 0, &[]);
            }
        }
        let path = self.router.route(key).expect("there are several");
        self.assign(id, path);
        self.model.spread(id, false, spread);
    }

    fn route_subflow(&mut self, id: FlowId, key: &FlowKey, subflow: u32) {
        let path = self.subflow_path(key, subflow).unwrap_or_default();
        self.model.set_path(id, subflow, &path);
        let back = self.subflow_path(&key.reverse(), subflow).unwrap_or_default();
        self.model.set_path_back(id, subflow, &back);
    }

    /// A subflow is a connection of its own, between addresses of its own where hosts have several: it takes each combination of NICs
    /// in turn (Subways section 5.1), and hashes by a port of its own.
    fn subflow_path(&mut self, key: &FlowKey, subflow: u32) -> Option<Path> {
        let key = key.subflow(subflow);
        let (leaving, arriving) = (self.fabric.out(key.src.node()), self.fabric.out(key.dst.node()));
        if leaving.len() * arriving.len() == 1 {
            return self.router.route(&key);
        }
        let (from, to) = subflow_nics(leaving.len(), arriving.len(), subflow);
        let (nic, last) = (leaving[from], arriving[to].reverse());
        let shares = self.fabric.link(nic).to == self.fabric.link(last).from;
        let path = if shares { Some(Path::from_slice(&[nic, last])) } else { self.router.route_through(&key, &[nic], &[last]) };
        path.filter(|p| self.believed.path_is_up(p)).or_else(|| self.router.route(&key))
    }

    fn assign(&mut self, id: FlowId, path: Path) {
        if self.ledger.flow(id).record.path != path {
            // Also if it stands still: it may have moved since it was last booked.
            self.ledger.credit(id, self.model.delivered(id));
            let flow = self.ledger.flow_mut(id);
            flow.record.path = path;
            if std::mem::take(&mut flow.moving) && !M::BLIND {
                self.model.set_path(id, 0, &[]);
            }
        }
        self.ledger.flow_mut(id).routed = true;
        self.refresh(id);
    }

    /// Starts or stops the flow as its path works or not.
    fn refresh(&mut self, id: FlowId) {
        let (flow, shares) = self.ledger.flow_and_shares(id);
        let works = || match shares {
            [] => self.health.path_is_up(&flow.record.path),
            shares => shares.iter().all(|&(link, _)| self.health.is_up(link)),
        };
        let moving = flow.routed && (M::BLIND || works());
        if moving != flow.moving {
            flow.moving = moving;
            match shares {
                _ if !moving => self.model.set_path(id, 0, &[]),
                [] => self.model.set_path(id, 0, &flow.record.path),
                shares => self.model.set_shares(id, shares),
            }
        }
    }

    fn wake_controller(&mut self) {
        if self.wake_at().is_some_and(|at| at <= self.now) {
            self.idle_rounds = if self.is_moving() { 0 } else { self.idle_rounds + 1 };
            self.input(Input::Timer);
        }
    }

    /// Hands the controller an input and does what it wants until it wants nothing more.
    fn input(&mut self, input: Input<'_>) {
        let Some(mut controller) = self.controller.take() else { return };
        let now = self.now.to_ns();
        controller.handle(now, input);
        while let Some(output) = controller.poll() {
            match output {
                Output::ReadFlowCounters => {
                    let counters = counters(&self.ledger, &mut self.model, now);
                    controller.handle(now, Input::FlowCounters(&counters));
                }
                Output::ReadLinkCounters => {
                    let bytes = self.ledger.link_bytes(&mut self.model);
                    controller.handle(now, Input::LinkCounters(LinkCounters { bytes: &bytes, read_at: now }));
                }
                Output::SetAccessPaths { host, direction, paths } => {
                    for path in paths.iter().flatten() {
                        if let Some(rate) = path.limit {
                            self.model.set_limit(&path.links, rate);
                        }
                    }
                    self.router.set_access_paths(host, direction, paths);
                }
                Output::Rebind { flow, leaving, arriving, gap } => self.rebind(&flow, &leaving, &arriving, gap.to_ps()),
                Output::SetPath { flow, path } => {
                    if let Some(id) = self.ledger.find(&flow) {
                        self.ledger.flow_mut(id).scheduled = true;
                        self.assign(id, path);
                    }
                }
                Output::ClearPath { flow } => {
                    if let Some(id) = self.ledger.find(&flow) {
                        self.ledger.flow_mut(id).scheduled = false;
                        self.route(id);
                    }
                }
            }
        }
        self.controller = Some(controller);
    }

    /// The flow goes by these paths, if it is still there and they lead to its destination. It belongs to the switches again.
    fn rebind(&mut self, flow: &FlowKey, leaving: &[LinkId], arriving: &[LinkId], gap: Duration) {
        let Some(id) = self.ledger.find(flow) else { return };
        if let Some(path) = self.router.route_through(flow, leaving, arriving)
            && self.ledger.flow(id).record.path != path
        {
            self.model.wait_for_gap(id, gap);
            self.ledger.flow_mut(id).scheduled = false;
            self.assign(id, path);
        }
    }

    fn progress(&self) -> Progress {
        Progress {
            now: self.now,
            end: self.pace.end,
            active: self.ledger.active().len(),
            ended: self.ledger.ended(),
            events: self.model.work(),
        }
    }

    fn finish(mut self) -> Outcome {
        let control = self.controller.as_ref().map(|c| c.record()).unwrap_or_default();
        let mut outcome = self.ledger.finish(&self.fabric, self.now, &mut self.model, control);
        outcome.services = self.workload.services().to_vec();
        outcome.overlay = self.agents.are_there().then_some(self.agents.record);
        outcome
    }
}

/// The counters of all flows under way, by key.
fn counters<'a>(ledger: &'a Ledger, model: &mut impl Model, read_at: NsInstant) -> Vec<FlowCounter<'a>> {
    let mut counter = |id: FlowId| {
        let path = &ledger.flow(id).record.path;
        FlowCounter { flow: ledger.key(id), bytes: Bytes(model.delivered(id)), read_at, path }
    };
    let mut counters: Vec<_> = ledger.active().iter().map(|&id| counter(id)).collect();
    counters.sort_unstable_by_key(|c| c.flow);
    counters
}

/// Steps of the loop between two calls of the progress bar: one may take milliseconds where flows are many. Models look in long ones.
const PROGRESS_EVERY: u64 = 32;
/// A controller may need a round to see a stalled flow and one to move it.
const IDLE_ROUNDS: u32 = 3;
