use proptest::prelude::*;

use super::*;

const STREAMS: StreamLimits = StreamLimits { unauthenticated: 3, hosts: 8, principal: 3, reserved: 2 };
const BYTES: ByteLimits = ByteLimits { stream: 40, principal: 100, all: 300, reserved: 120 };

#[derive(Clone, Debug)]
enum Step {
    Connect,
    Disconnect {
        which: usize,
    },
    /// Principals 0 and 1 may list.
    Open {
        principal: u32,
    },
    Close {
        which: usize,
    },
    Charge {
        which: usize,
        bytes: usize,
    },
    Release {
        which: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Connect),
        1 => (0..9usize).prop_map(|which| Step::Disconnect { which }),
        4 => (0..6u32).prop_map(|principal| Step::Open { principal }),
        1 => (0..99usize).prop_map(|which| Step::Close { which }),
        8 => (0..99usize, 0..45usize).prop_map(|(which, bytes)| Step::Charge { which, bytes }),
        3 => (0..99usize).prop_map(|which| Step::Release { which }),
    ]
}

/// An open stream and what it holds.
struct Stream {
    principal: u32,
    held: Vec<usize>,
}

/// The reference: everything that is in use, one by one.
struct World {
    usage: Usage,
    waiting: Vec<u64>,
    open: Vec<Stream>,
}

const fn may_list(principal: u32) -> bool {
    principal < 2
}

impl Stream {
    fn bytes(&self) -> usize {
        self.held.iter().sum()
    }
}

impl World {
    fn bytes(&self, of: impl Fn(u32) -> bool) -> usize {
        self.open.iter().filter(|it| of(it.principal)).map(Stream::bytes).sum()
    }

    fn streams(&self, of: impl Fn(u32) -> bool) -> usize {
        self.open.iter().filter(|it| of(it.principal)).count()
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Connect => {
                let (number, closed) = self.usage.connect();
                let oldest = (self.waiting.len() == STREAMS.unauthenticated).then(|| self.waiting.remove(0));
                assert_eq!(closed, oldest);
                self.waiting.push(number);
            }
            Step::Disconnect { which } if which < self.waiting.len() => self.usage.disconnect(self.waiting.remove(which)),
            Step::Open { principal } => {
                let taken = self.usage.open(PrincipalId(principal), may_list(principal));
                if may_list(principal) {
                    assert!(taken || self.streams(may_list) >= STREAMS.reserved, "an operator gets in");
                } else {
                    let has_room = self.streams(|it| !may_list(it)) < STREAMS.hosts
                        && self.streams(|_| true) < STREAMS.hosts + STREAMS.reserved;
                    assert_eq!(taken, has_room && self.streams(|it| it == principal) < STREAMS.principal);
                }
                if taken {
                    self.open.push(Stream { principal, held: Vec::new() });
                }
            }
            Step::Close { which } if which < self.open.len() => self.close(which),
            Step::Charge { which, bytes } if !self.open.is_empty() => {
                let which = which % self.open.len();
                let Stream { principal, .. } = self.open[which];
                let held = self.open[which].bytes();
                let own = self.bytes(|it| it == principal);
                let taken = self.usage.charge(held, PrincipalId(principal), may_list(principal), bytes);
                let may = held + bytes <= BYTES.stream && own + bytes <= BYTES.principal;
                let all = self.bytes(|_| true) + bytes;
                if may_list(principal) {
                    assert_eq!(taken, may && all <= BYTES.all);
                    let fits_reserve = self.bytes(may_list) + bytes <= BYTES.reserved;
                    assert!(taken || !may || !fits_reserve, "hosts leave operators their room");
                } else {
                    assert_eq!(taken, may && all <= BYTES.all - BYTES.reserved);
                }
                if taken {
                    self.open[which].held.push(bytes);
                }
            }
            Step::Release { which } if !self.open.is_empty() => {
                let which = which % self.open.len();
                if let Some(bytes) = self.open[which].held.pop() {
                    self.usage.release(PrincipalId(self.open[which].principal), bytes);
                }
            }
            _ => {}
        }
        assert_eq!(self.usage.bytes(), self.bytes(|_| true));
        assert!(self.streams(|_| true) <= STREAMS.hosts + STREAMS.reserved && self.waiting.len() <= STREAMS.unauthenticated);
    }

    /// What a stream holds is given back before or after it ends: the daemon's queue may end later.
    fn close(&mut self, which: usize) {
        let Stream { principal, held } = self.open.remove(which);
        let id = PrincipalId(principal);
        let late = held.len() / 2;
        held[late..].iter().for_each(|&bytes| self.usage.release(id, bytes));
        self.usage.close(id, may_list(principal));
        held[..late].iter().for_each(|&bytes| self.usage.release(id, bytes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn whatever_streams_do_limits_hold_operators_get_in_and_all_is_given_back(steps in prop::collection::vec(step(), 1..300)) {
        let mut world = World { usage: Usage::new(STREAMS, BYTES), waiting: Vec::new(), open: Vec::new() };
        steps.iter().for_each(|step| world.run(step));
        while !world.open.is_empty() {
            world.close(0);
        }
        for number in std::mem::take(&mut world.waiting) {
            world.usage.disconnect(number);
        }
        prop_assert!(world.usage.is_idle(), "{:?}", world.usage);
    }
}
