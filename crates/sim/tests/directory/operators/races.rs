//! After the faults, rounds in which a document is read at a server while it is replaced there, right after that, and at another server once that must know it.
//!
//! ```text
//!   writer:  Fetch at S (which remembers it for 0.5 s) ... Publish at S ............ Fetch at O ...0.53 s... Fetch at O
//!   reader:                                                  '-- < 4 ms -- Fetch at S ... Fetch at S
//! ```
//! The first read of the reader may find what was there before, and end after the commit: it must not be what S serves from then on.

use rand::RngExt;
use weft_control::directory::documents::FRESH;
use weft_fabric::{Duration, Instant};
use weft_sim::directory::cluster::Cluster;

use super::{NAMES, Operators, WATCHERS};

/// Token of the first step's call.
pub(super) const FIRST_CALL: u64 = super::FIRST_CALL + 100;

const WRITER: u16 = WATCHERS;
const READER: u16 = WATCHERS + 1;

/// Rounds begin so long after the faults, and there are so many.
const BEGIN: Duration = Duration::from_secs(2);
const ROUNDS: u64 = 7;
const ROUND: Duration = Duration::from_ms(1_280);

/// A round.
#[derive(Debug)]
pub(super) struct Race {
    /// A server where the document is not replaced, if there are several.
    other: u16,
    name: usize,
}

/// What happens in a round, by the number of its step.
const ENTER: u64 = 0;
const PUBLISH: u64 = 1;
const READ_DURING: u64 = 2;
const READ_AFTER: u64 = 3;
const READ_LATER: u64 = 4;

impl Operators {
    pub(super) fn begin_races(&self, cluster: &mut Cluster) {
        // What was read at first is not remembered any more.
        let publish = FRESH.to_ps() + Duration::from_ms(60);
        let after = publish + Duration::from_ms(80);
        // What was read at the other server then is not, either.
        let later = after + FRESH.to_ps() + Duration::from_ms(30);
        for round in 0..ROUNDS {
            let begin = self.races_begin() + ROUND * round;
            for (step, at) in [(ENTER, Duration::ZERO), (PUBLISH, publish), (READ_AFTER, after), (READ_LATER, later)] {
                cluster.call_at(begin + at, FIRST_CALL + step);
            }
        }
    }

    pub(super) fn is_racing(&self, cluster: &Cluster) -> bool {
        (self.races_begin()..self.races_begin() + ROUND * ROUNDS).contains(&cluster.now())
    }

    fn races_begin(&self) -> Instant {
        self.heal_at + BEGIN
    }

    pub(super) fn race(&mut self, cluster: &mut Cluster, step: u64) {
        if step == ENTER {
            let server = self.rng.random_range(0..self.servers);
            let other = (server + self.rng.random_range(1..=self.servers)) % self.servers;
            let name = self.rng.random_range(0..NAMES.len());
            self.race = Some(Race { other, name });
            self.go_to(cluster, READER, server);
            self.go_to(cluster, WRITER, server);
        }
        let Some(Race { other, name }) = self.race else { return };
        match step {
            ENTER => self.fetch_if_idle(cluster, WRITER, name),
            PUBLISH if self.is_idle(WRITER) => {
                let known = self.publisher(WRITER).known.get(&name).map_or(0, |it| it.version);
                self.begin_publish(cluster, WRITER, name, known);
                let delay = Duration::from_us(self.rng.random_range(0..4_000));
                cluster.call_at(cluster.now() + delay, FIRST_CALL + READ_DURING);
            }
            READ_DURING => self.fetch_if_idle(cluster, READER, name),
            READ_AFTER => {
                self.fetch_if_idle(cluster, READER, name);
                self.go_to(cluster, WRITER, other);
                self.fetch_if_idle(cluster, WRITER, name);
            }
            READ_LATER => self.fetch_if_idle(cluster, WRITER, name),
            _ => {}
        }
    }

    fn go_to(&mut self, cluster: &mut Cluster, operator: u16, server: u16) {
        self.leave(cluster, operator);
        self.open(cluster, operator, server);
    }

    fn fetch_if_idle(&mut self, cluster: &mut Cluster, operator: u16, name: usize) {
        if self.is_idle(operator) {
            self.begin_fetch(cluster, operator, name);
        }
    }
}
