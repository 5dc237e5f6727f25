//! Whether what writers saw of a key can be put in one order: linearizability of a register with put, delete, compare-and-set, reads, and
//! updates of which nobody knows whether they happened (Wing and Gong's search, with the states that failed remembered).
//!
//! A key is a register `(generation, value)`. The answer that a writer gets (the generation of its commit, or the one that was in its way) must fit the state
//! at some moment between call and return. An update without an outcome may happen at any moment after its call, or never; its generation
//! is not known until somebody reports it. Linearizability is local: keys are checked one by one.

use rustc_hash::FxHashSet;
use weft_fabric::Instant;

/// An operation on a key and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// When it was asked.
    pub call: Instant,
    /// When the answer came; `None`: never.
    pub returned: Option<Instant>,
    /// What it was.
    pub action: Action,
}

/// An operation and its answer. Generations are numbers; values are whatever number stands for them, `None` for a deleted key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It happened.
    Wrote {
        /// What it wrote.
        value: Option<u64>,
        /// The generation that it expected; `None`: any. 0: no such key.
        expect: Option<u64>,
        /// The generation that it made.
        generation: u64,
    },
    /// Nobody knows whether it happened, or will.
    MayWrite {
        /// What it writes.
        value: Option<u64>,
        /// The generation that it expects.
        expect: Option<u64>,
    },
    /// It did not happen, for the key had another generation than expected.
    Conflicted {
        /// The generation that it expected.
        expect: u64,
        /// The key's; 0: no such key.
        generation: u64,
    },
    /// It was read.
    Read {
        /// What the key stood for.
        value: Option<u64>,
        /// Its generation, if it was there.
        generation: u64,
    },
}

/// The register's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    value: Option<u64>,
    /// Its generation; or, if that is not known, one that it is greater than.
    generation: u64,
    is_known: bool,
}

/// Whether the operations on one key can be put in one order.
pub fn is_linearizable(operations: &[Operation]) -> bool {
    let mut ops: Vec<&Operation> = operations.iter().collect();
    ops.sort_by_key(|op| op.call);
    let words = ops.len().div_ceil(64);
    let start = State { value: None, generation: 0, is_known: true };
    let mut search = Search { ops, done: vec![0; words], failed: FxHashSet::default() };
    search.from(start)
}

struct Search<'a> {
    /// By call.
    ops: Vec<&'a Operation>,
    /// A bit for each that has its place.
    done: Vec<u64>,
    failed: FxHashSet<(Vec<u64>, State)>,
}

impl Search<'_> {
    fn from(&mut self, state: State) -> bool {
        let open = || (0..self.ops.len()).filter(|&i| !self.is_done(i));
        let definite = |i: &usize| !matches!(self.ops[*i].action, Action::MayWrite { .. });
        let Some(horizon) = open().filter(definite).map(|i| self.ops[i].returned.unwrap_or(Instant::MAX)).min() else {
            return true;
        };
        if self.failed.contains(&(self.done.clone(), state)) {
            return false;
        }
        // Only what was called before the first of the others returned can come next.
        // Generations grow, so of the writes whose generation is known only the one with the least can.
        let made = |i: usize| match self.ops[i].action {
            Action::Wrote { generation, .. } => Some(generation),
            _ => None,
        };
        let least = open().filter_map(made).min();
        let can_be_next = |i: &usize| made(*i).is_none_or(|generation| Some(generation) == least);
        let candidates: Vec<usize> = open().take_while(|&i| self.ops[i].call <= horizon).filter(can_be_next).collect();
        for i in candidates {
            let Some(next) = state.after(&self.ops[i].action) else { continue };
            self.done[i / 64] |= 1 << (i % 64);
            if self.from(next) {
                return true;
            }
            self.done[i / 64] &= !(1 << (i % 64));
        }
        self.failed.insert((self.done.clone(), state));
        false
    }

    fn is_done(&self, i: usize) -> bool {
        self.done[i / 64] >> (i % 64) & 1 == 1
    }
}

impl State {
    /// The state after an operation; `None` if it cannot happen here.
    fn after(self, action: &Action) -> Option<Self> {
        match *action {
            Action::Wrote { value, expect, generation } => {
                let state = self.expecting(expect)?;
                (generation > state.generation).then_some(Self { value, generation, is_known: true })
            }
            Action::MayWrite { value, expect } => {
                let state = self.expecting(expect)?;
                Some(Self { value, generation: state.generation, is_known: false })
            }
            Action::Conflicted { expect, generation } => {
                let state = self.seen(generation)?;
                (state.expecting(Some(expect)).is_none() || !state.is_known).then_some(state)
            }
            Action::Read { value, generation } => {
                if value != self.value {
                    return None;
                }
                if value.is_none() { Some(self) } else { self.seen(generation) }
            }
        }
    }

    /// The state, if it meets what an update expects.
    fn expecting(self, expect: Option<u64>) -> Option<Self> {
        match expect {
            None => Some(self),
            Some(0) => self.value.is_none().then_some(self),
            Some(_) if self.value.is_none() => None,
            Some(generation) => self.seen(generation),
        }
    }

    /// The state, if its generation can be this one. A deleted key's may be reported as 0 or as that of its deletion.
    fn seen(self, generation: u64) -> Option<Self> {
        if self.value.is_none() && generation == 0 {
            return Some(self);
        }
        if self.is_known {
            return (generation == self.generation).then_some(self);
        }
        (generation > self.generation).then_some(Self { generation, is_known: true, ..self })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn op(call: u64, returned: u64, action: Action) -> Operation {
        Operation { call: Instant::from_ps(call), returned: Some(Instant::from_ps(returned)), action }
    }

    fn lost(call: u64, action: Action) -> Operation {
        Operation { call: Instant::from_ps(call), returned: None, action }
    }

    const fn put(value: u64, generation: u64) -> Action {
        Action::Wrote { value: Some(value), expect: None, generation }
    }

    const fn cas(value: u64, expect: u64, generation: u64) -> Action {
        Action::Wrote { value: Some(value), expect: Some(expect), generation }
    }

    const fn read(value: Option<u64>, generation: u64) -> Action {
        Action::Read { value, generation }
    }

    #[test]
    fn good_histories() {
        let good: &[&[Operation]] = &[
            &[],
            &[op(0, 1, put(7, 3)), op(2, 3, cas(8, 3, 5)), op(4, 5, read(Some(8), 5))],
            // Two at a time, in the order opposite to that of their calls.
            &[op(0, 10, put(1, 9)), op(1, 9, put(2, 4)), op(11, 12, read(Some(1), 9))],
            // One without an outcome happened late, another never.
            &[lost(0, Action::MayWrite { value: Some(1), expect: None }), op(1, 2, put(2, 3)), op(3, 4, read(Some(1), 8))],
            &[lost(0, Action::MayWrite { value: Some(1), expect: None }), op(1, 2, put(2, 3)), op(3, 4, read(Some(2), 3))],
            // A conflict that reveals a write without an outcome.
            &[
                op(0, 1, put(1, 2)),
                lost(2, Action::MayWrite { value: Some(5), expect: Some(2) }),
                op(3, 4, Action::Conflicted { expect: 2, generation: 6 }),
                op(5, 6, cas(9, 6, 7)),
            ],
            &[
                op(0, 1, put(1, 2)),
                op(2, 3, Action::Wrote { value: None, expect: Some(2), generation: 4 }),
                op(4, 5, cas(2, 0, 6)),
            ],
        ];
        for history in good {
            assert!(is_linearizable(history), "{history:?}");
        }
    }

    #[test]
    fn bad_histories() {
        let bad: &[&[Operation]] = &[
            // A lost update: acknowledged, and then not there.
            &[op(0, 1, put(7, 3)), op(2, 3, read(None, 0))],
            &[op(0, 1, put(7, 3)), op(2, 3, put(8, 5)), op(4, 5, read(Some(7), 3))],
            // Applied twice: the second time undid what came between.
            &[op(0, 9, put(1, 2)), op(3, 4, put(2, 3)), op(10, 11, read(Some(1), 4))],
            // A generation that went back.
            &[op(0, 1, put(1, 5)), op(2, 3, put(2, 4))],
            // Both took the same generation for granted.
            &[op(0, 1, put(1, 2)), op(2, 8, cas(2, 2, 3)), op(2, 8, cas(3, 2, 4))],
            // A conflict with what it expected.
            &[op(0, 1, put(1, 2)), op(2, 3, Action::Conflicted { expect: 2, generation: 2 })],
            // It came back after it was deleted.
            &[
                op(0, 1, put(1, 2)),
                op(2, 3, Action::Wrote { value: None, expect: None, generation: 3 }),
                op(4, 5, read(Some(1), 2)),
            ],
            // One without an outcome cannot happen before it was asked for.
            &[op(0, 1, read(Some(1), 2)), lost(2, Action::MayWrite { value: Some(1), expect: None })],
        ];
        for history in bad {
            assert!(!is_linearizable(history), "{history:?}");
        }
    }

    /// Every order of every subset of the uncertain, tried one after another.
    fn reference(history: &[Operation]) -> bool {
        fn go(left: &[Operation], state: State) -> bool {
            if left.iter().all(|op| matches!(op.action, Action::MayWrite { .. })) {
                return true;
            }
            (0..left.len()).any(|i| {
                let first = &left[i];
                let in_order = left.iter().enumerate().all(|(j, other)| {
                    i == j
                        || matches!(other.action, Action::MayWrite { .. })
                        || other.returned.unwrap_or(Instant::MAX) >= first.call
                });
                let mut rest = left.to_vec();
                rest.remove(i);
                in_order && state.after(&first.action).is_some_and(|next| go(&rest, next))
            })
        }
        go(history, State { value: None, generation: 0, is_known: true })
    }

    fn any_action() -> impl Strategy<Value = Action> {
        let value = prop::option::weighted(0.8, 1u64..3);
        let expect = prop::option::of(0u64..5);
        prop_oneof![
            (value.clone(), expect.clone(), 1u64..6).prop_map(|(value, expect, generation)| Action::Wrote {
                value,
                expect,
                generation
            }),
            (value.clone(), expect).prop_map(|(value, expect)| Action::MayWrite { value, expect }),
            (0u64..5, 0u64..5).prop_map(|(expect, generation)| Action::Conflicted { expect, generation }),
            (value, 1u64..6).prop_map(|(value, generation)| Action::Read { value, generation }),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_trying_everything(ops in prop::collection::vec((0u64..8, 0u64..6, any_action()), 0..6)) {
            let history: Vec<Operation> = ops
                .into_iter()
                .map(|(call, took, action)| Operation {
                    call: Instant::from_ps(call),
                    returned: (!matches!(action, Action::MayWrite { .. })).then(|| Instant::from_ps(call + took)),
                    action,
                })
                .collect();
            prop_assert_eq!(is_linearizable(&history), reference(&history));
        }
    }
}
