//! Documents: cases, and random interleavings of writers and readers with a store that is slow, conflicts and fails.

use proptest::prelude::*;

use super::*;

const ADMIN: PrincipalId = PrincipalId(2);
const HOST: PrincipalId = PrincipalId(17);
/// Whom the policy allows to publish, and whom it does not: a provisioner of some services is among the latter.
const WRITERS: [PrincipalId; 2] = [ADMIN, PrincipalId(3)];
const OTHERS: [PrincipalId; 3] = [HOST, PrincipalId(4), PrincipalId(5)];

const POLICY: &str = r#"
version = 1

[[service]]
name = "web"
id = 1

[[principal]]
id = 2
role = "admin"

[[principal]]
id = 3
role = "provisioner"

[[principal]]
id = 4
role = "provisioner"
services = ["web"]

[[principal]]
id = 5
role = "server"
"#;

fn policy() -> Policy {
    Policy::parse(POLICY).unwrap()
}

fn requester(stream: u64, principal: PrincipalId) -> Requester {
    Requester { stream: StreamId(stream), principal, request: 7 }
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_ms(ms)
}

fn document(version: u32, bytes: &[u8]) -> Document {
    Document { version, bytes: bytes.into() }
}

fn fetch_part(machine: &mut Documents, now: Instant, from: Requester, known: u32, offset: u64) {
    machine.handle(now, Input::Fetch { from, fetch: Fetch { name: "tenants", known, offset } });
}

/// Publishes a part, `length` bytes of the whole from `offset` on.
fn publish_part(machine: &mut Documents, from: Requester, (expect, version): (u32, u32), length: u64, offset: u64, bytes: &[u8]) {
    let part = Publish { name: "tenants", expect, version, length, offset, bytes };
    machine.handle(at(0), Input::Publish { from, policy: &policy(), part });
}

fn published(output: &Output) -> Option<(PublishOutcome, u32)> {
    let Output::Reply { kind: kind @ Kind::Published, body, .. } = output else { return None };
    let Ok(Message::Published(it)) = Message::parse(*kind, body) else { panic!("{output:?}") };
    Some((it.outcome, it.version))
}

fn next_published(machine: &mut Documents) -> (PublishOutcome, u32) {
    published(&machine.poll().unwrap()).unwrap()
}

/// A fetched part: outcome, version, length, bytes.
fn next_part(machine: &mut Documents) -> (FetchOutcome, u32, u64, Vec<u8>) {
    let output = machine.poll().unwrap();
    let Output::Reply { kind: kind @ Kind::Document, body, .. } = &output else { panic!("{output:?}") };
    let Ok(Message::Document(it)) = Message::parse(*kind, body) else { panic!("{output:?}") };
    (it.outcome, it.version, it.length, it.bytes.to_vec())
}

/// Publishes a document of one part; the write that the machine asks for.
fn replace(machine: &mut Documents, stream: u64, versions: (u32, u32), bytes: &[u8]) -> ReplaceId {
    publish_part(machine, requester(stream, ADMIN), versions, bytes.len() as u64, 0, bytes);
    let output = machine.poll().unwrap();
    let Output::Replace { replace, principal: ADMIN, name, expect, document: written } = output else { panic!("{output:?}") };
    assert_eq!((name.as_str(), expect, written), ("tenants", versions.0, document(versions.1, bytes)));
    replace
}

fn is_reading(machine: &mut Documents, version: u32) -> bool {
    machine.poll() == Some(Output::Read { name: "tenants".into(), known: version })
}

fn read_done(machine: &mut Documents, now: Instant, result: ReadResult) {
    machine.handle(now, Input::ReadDone { name: "tenants", result });
}

#[test]
fn one_read_answers_all_who_wait_and_holds_for_a_while() {
    let mut machine = Documents::new();
    for stream in 0..3 {
        fetch_part(&mut machine, at(0), requester(stream, HOST), 0, stream);
    }
    assert!(is_reading(&mut machine, 0));
    assert_eq!(machine.poll(), None, "one read for all");
    read_done(&mut machine, at(10), ReadResult::Found(document(3, b"abc")));
    for bytes in [&b"abc"[..], b"bc", b"c"] {
        assert_eq!(next_part(&mut machine), (FetchOutcome::Found, 3, 3, bytes.to_vec()));
    }
    fetch_part(&mut machine, at(509), requester(1, HOST), 3, 0);
    assert_eq!(next_part(&mut machine), (FetchOutcome::Found, 3, 3, vec![]), "it is known");
    fetch_part(&mut machine, at(510), requester(1, HOST), 0, 0);
    assert!(is_reading(&mut machine, 3));
    read_done(&mut machine, at(511), ReadResult::Unchanged);
    assert_eq!(next_part(&mut machine), (FetchOutcome::Found, 3, 3, b"abc".to_vec()));
}

#[test]
fn a_failing_store_is_answered_for_from_memory() {
    let mut machine = Documents::new();
    fetch_part(&mut machine, at(0), requester(1, HOST), 0, 0);
    assert!(is_reading(&mut machine, 0));
    read_done(&mut machine, at(0), ReadResult::Failed);
    assert_eq!(next_part(&mut machine).0, FetchOutcome::Elsewhere, "nothing is known");
    fetch_part(&mut machine, at(0), requester(1, HOST), 0, 0);
    assert!(is_reading(&mut machine, 0));
    read_done(&mut machine, at(0), ReadResult::Missing);
    assert_eq!(next_part(&mut machine).0, FetchOutcome::Unknown);
    let write = replace(&mut machine, 1, (0, 1), b"one");
    machine.handle(at(0), Input::ReplaceDone { replace: write, result: ReplaceResult::Committed });
    assert_eq!(next_published(&mut machine), (PublishOutcome::Committed, 1));
    fetch_part(&mut machine, at(1_000), requester(1, HOST), 0, 0);
    assert!(is_reading(&mut machine, 1));
    read_done(&mut machine, at(1_000), ReadResult::Failed);
    assert_eq!(next_part(&mut machine).1, 1);
    fetch_part(&mut machine, at(5_999), requester(1, HOST), 0, 0);
    assert_eq!(next_part(&mut machine).1, 1, "the store is left alone");
    fetch_part(&mut machine, at(6_000), requester(1, HOST), 0, 0);
    assert!(is_reading(&mut machine, 1));
}

#[test]
fn what_a_read_finds_does_not_hide_a_later_commit() {
    let mut machine = Documents::new();
    fetch_part(&mut machine, at(0), requester(1, HOST), 0, 0);
    assert!(is_reading(&mut machine, 0));
    let writes = [replace(&mut machine, 2, (0, 1), b"one"), replace(&mut machine, 3, (1, 2), b"two")];
    for replace in [writes[1], writes[0]] {
        machine.handle(at(1), Input::ReplaceDone { replace, result: ReplaceResult::Committed });
    }
    assert_eq!(next_published(&mut machine), (PublishOutcome::Committed, 2));
    assert_eq!(next_published(&mut machine), (PublishOutcome::Committed, 1));
    read_done(&mut machine, at(2), ReadResult::Missing);
    assert_eq!(next_part(&mut machine), (FetchOutcome::Found, 2, 3, b"two".to_vec()));
    fetch_part(&mut machine, at(2), requester(1, HOST), 0, 0);
    assert_eq!(next_part(&mut machine).1, 2);
}

#[test]
fn parts_out_of_order_are_malformed_and_end_the_draft() {
    let mut machine = Documents::new();
    let admin = requester(1, ADMIN);
    publish_part(&mut machine, admin, (0, 1), 6, 0, b"abc");
    assert_eq!(next_published(&mut machine).0, PublishOutcome::More);
    publish_part(&mut machine, admin, (0, 2), 6, 3, b"def");
    assert_eq!(next_published(&mut machine).0, PublishOutcome::Malformed, "another version");
    publish_part(&mut machine, admin, (0, 1), 6, 3, b"def");
    assert_eq!(next_published(&mut machine).0, PublishOutcome::Malformed, "the draft is gone");
    publish_part(&mut machine, admin, (0, 1), 6, 0, b"");
    assert_eq!(next_published(&mut machine).0, PublishOutcome::Malformed, "an empty part that is not the last");
    publish_part(&mut machine, admin, (1, 1), 3, 0, b"abc");
    assert_eq!(next_published(&mut machine).0, PublishOutcome::Malformed, "versions grow");
    publish_part(&mut machine, admin, (0, 1), 6, 0, b"abc");
    assert_eq!(next_published(&mut machine).0, PublishOutcome::More);
    machine.handle(at(0), Input::StreamClosed(StreamId(1)));
    publish_part(&mut machine, admin, (0, 1), 6, 3, b"def");
    assert_eq!(next_published(&mut machine).0, PublishOutcome::Malformed, "the stream has ended");
    replace(&mut machine, 1, (0, 1), b"");
}

#[test]
fn a_principal_that_loses_its_role_midway_publishes_nothing() {
    let mut machine = Documents::new();
    publish_part(&mut machine, requester(1, ADMIN), (0, 1), 6, 0, b"abc");
    assert_eq!(next_published(&mut machine).0, PublishOutcome::More);
    publish_part(&mut machine, requester(1, HOST), (0, 1), 6, 3, b"def");
    assert_eq!(next_published(&mut machine), (PublishOutcome::Refused, 0));
    publish_part(&mut machine, requester(1, ADMIN), (0, 1), 6, 3, b"def");
    assert_eq!(next_published(&mut machine).0, PublishOutcome::Malformed);
}

#[test]
fn few_names_are_kept() {
    let mut machine = Documents::new();
    let names: Vec<String> = (0..=CACHED_NAMES).map(|n| format!("n{n}")).collect();
    for name in &names {
        machine.handle(at(0), Input::Fetch { from: requester(1, HOST), fetch: Fetch { name, known: 0, offset: 0 } });
        machine.handle(at(0), Input::ReadDone { name, result: ReadResult::Found(document(1, b"x")) });
    }
    assert_eq!(machine.cached.len(), 1, "the last one: memory is bounded");
}

#[test]
fn a_closed_stream_gets_no_reply_and_its_write_counts() {
    let mut machine = Documents::new();
    let write = replace(&mut machine, 1, (0, 1), b"one");
    fetch_part(&mut machine, at(0), requester(1, HOST), 0, 0);
    assert!(is_reading(&mut machine, 0));
    machine.handle(at(0), Input::StreamClosed(StreamId(1)));
    machine.handle(at(0), Input::ReplaceDone { replace: write, result: ReplaceResult::Committed });
    read_done(&mut machine, at(0), ReadResult::Missing);
    assert_eq!(machine.poll(), None);
    fetch_part(&mut machine, at(0), requester(2, HOST), 0, 0);
    assert_eq!(next_part(&mut machine).1, 1);
}

/// What a random run does next. Streams 0 to 2 have writers, 3 one that may not publish; 4 and 5 read.
#[derive(Clone, Debug)]
enum Step {
    /// A stream begins a document: so many parts, the version it expects relative to the store's, and how much greater its own is.
    Begin { stream: usize, principal: usize, parts: usize, expect: i64, grow: u32 },
    /// A stream sends its next part, or one that is not the next.
    Part { stream: usize, in_order: bool },
    /// A stream ends and another takes its number.
    Close { stream: usize },
    /// A reader asks for its next part.
    Fetch { reader: usize },
    /// The store does one of the operations that it has been given; a failing write may have been applied.
    Store { which: usize, fails: bool, applied: bool },
    /// The machine hears of one of the operations that have ended.
    Deliver { which: usize },
    /// Time passes.
    Wait { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..4usize, 0..3usize, 0..4usize, -1..2i64, 0..3u32)
            .prop_map(|(stream, principal, parts, expect, grow)| Step::Begin { stream, principal, parts, expect, grow }),
        8 => (0..4usize, prop::bool::weighted(0.95)).prop_map(|(stream, in_order)| Step::Part { stream, in_order }),
        1 => (0..4usize).prop_map(|stream| Step::Close { stream }),
        6 => (0..2usize).prop_map(|reader| Step::Fetch { reader }),
        5 => (0..4usize, prop::bool::weighted(0.1), any::<bool>()).prop_map(|(which, fails, applied)| Step::Store { which, fails, applied }),
        5 => (0..4usize).prop_map(|which| Step::Deliver { which }),
        3 => prop_oneof![1..50u64, 400..700u64].prop_map(|ms| Step::Wait { ms }),
    ]
}

/// A document on its way from a writer.
struct Sending {
    principal: PrincipalId,
    expect: u32,
    document: Document,
    sent: usize,
    /// Whether all parts so far were in order.
    sound: bool,
}

/// What a reader has so far.
#[derive(Default)]
struct Receiving {
    version: u32,
    bytes: Vec<u8>,
    /// The version that every later fetch must at least find.
    at_least: u32,
    busy: bool,
}

enum Operation {
    Read,
    Replace { replace: ReplaceId, expect: u32, document: Document },
}

enum Done {
    Read(ReadResult),
    Replace(ReplaceId, ReplaceResult),
}

/// A server's documents with writers, readers and a store.
struct World {
    machine: Documents,
    policy: Policy,
    now: Instant,
    /// Of the store: the document, and all that it ever held.
    held: Option<Document>,
    history: Vec<Document>,
    pending: Vec<Operation>,
    done: Vec<Done>,
    sending: [Option<Sending>; 4],
    /// Whether a stream waits for the store: then it sends nothing.
    waiting: [bool; 4],
    receiving: [Receiving; 2],
    /// Documents that a writer with the right to do so has sent in full.
    complete: Vec<Document>,
    /// The greatest version whose publication was acknowledged.
    acknowledged: u32,
}

const PART: usize = 5;

impl World {
    fn new() -> Self {
        Self {
            machine: Documents::new(),
            policy: policy(),
            now: Instant::ZERO,
            held: None,
            history: Vec::new(),
            pending: Vec::new(),
            done: Vec::new(),
            sending: [const { None }; 4],
            waiting: [false; 4],
            receiving: Default::default(),
            complete: Vec::new(),
            acknowledged: 0,
        }
    }

    fn version(&self) -> u32 {
        self.held.as_ref().map_or(0, |it| it.version)
    }

    fn run(&mut self, number: usize, step: Step) {
        match step {
            Step::Begin { stream, principal, parts, expect, grow } if !self.waiting[stream] => {
                let principal = if stream == 3 { OTHERS[principal] } else { WRITERS[principal % 2] };
                let expect = u32::try_from(i64::from(self.version()) + expect).unwrap_or(0);
                // Each document is like no other, so that a mixture of two is found.
                let bytes: Vec<u8> =
                    (0..(parts * PART).saturating_sub(number % PART)).map(|at| (number * 31 + at) as u8).collect();
                let document = Document { version: expect + grow, bytes: bytes.into() };
                self.sending[stream] = Some(Sending { principal, expect, document, sent: 0, sound: grow > 0 });
            }
            Step::Part { stream, in_order } if !self.waiting[stream] => self.send(stream, in_order),
            Step::Close { stream } => {
                self.machine.handle(self.now, Input::StreamClosed(StreamId(stream as u64)));
                (self.sending[stream], self.waiting[stream]) = (None, false);
            }
            Step::Fetch { reader } if !self.receiving[reader].busy => {
                let it = &mut self.receiving[reader];
                (it.busy, it.at_least) = (true, self.acknowledged);
                let from = requester(4 + reader as u64, HOST);
                fetch_part(&mut self.machine, self.now, from, 0, self.receiving[reader].bytes.len() as u64);
            }
            Step::Store { which, fails, applied } if !self.pending.is_empty() => {
                let operation = self.pending.remove(which % self.pending.len());
                let done = self.store(operation, fails, applied);
                self.done.push(done);
            }
            Step::Deliver { which } if !self.done.is_empty() => match self.done.remove(which % self.done.len()) {
                Done::Read(result) => read_done(&mut self.machine, self.now, result),
                Done::Replace(replace, result) => self.machine.handle(self.now, Input::ReplaceDone { replace, result }),
            },
            Step::Wait { ms } => self.now += Duration::from_ms(ms),
            // A client waits for one answer before it sends the next message; the store has nothing to do.
            _ => return,
        }
        while let Some(output) = self.machine.poll() {
            self.take(output);
        }
    }

    fn send(&mut self, stream: usize, in_order: bool) {
        let Some(it) = &mut self.sending[stream] else { return };
        let from = if in_order { it.sent } else { it.sent + 1 };
        let bytes = it.document.bytes.get(from..it.document.bytes.len().min(from + PART)).unwrap_or(&[]);
        it.sound &= in_order;
        it.sent += bytes.len();
        let length = it.document.bytes.len() as u64;
        let part =
            Publish { name: "tenants", expect: it.expect, version: it.document.version, length, offset: from as u64, bytes };
        if it.sound && it.sent == it.document.bytes.len() && WRITERS.contains(&it.principal) {
            self.complete.push(it.document.clone());
        }
        let from = requester(stream as u64, it.principal);
        self.waiting[stream] = true;
        self.machine.handle(self.now, Input::Publish { from, policy: &self.policy, part });
    }

    fn store(&mut self, operation: Operation, fails: bool, applied: bool) -> Done {
        match operation {
            Operation::Read if fails => Done::Read(ReadResult::Failed),
            Operation::Read => Done::Read(self.held.clone().map_or(ReadResult::Missing, ReadResult::Found)),
            Operation::Replace { replace, .. } if fails && !applied => Done::Replace(replace, ReplaceResult::Failed),
            Operation::Replace { replace, expect, .. } if expect != self.version() => {
                Done::Replace(replace, ReplaceResult::Conflict(self.version()))
            }
            Operation::Replace { replace, document, .. } => {
                assert!(document.version > self.version(), "versions only grow");
                self.history.push(document.clone());
                self.held = Some(document);
                Done::Replace(replace, if fails { ReplaceResult::Failed } else { ReplaceResult::Committed })
            }
        }
    }

    fn take(&mut self, output: Output) {
        match output {
            Output::Read { .. } => self.pending.push(Operation::Read),
            Output::Replace { replace, principal, expect, document, .. } => {
                assert!(WRITERS.contains(&principal), "a principal without the right changes nothing");
                assert!(self.complete.contains(&document), "only what one writer has sent, whole and in order");
                self.pending.push(Operation::Replace { replace, expect, document });
            }
            Output::Reply { to, kind: Kind::Document, ref body } => {
                let Ok(Message::Document(part)) = Message::parse(Kind::Document, body) else { panic!("{output:?}") };
                self.received(to.stream.0 as usize - 4, &part);
            }
            Output::Reply { to, .. } => {
                let (outcome, version) = published(&output).unwrap();
                let stream = to.stream.0 as usize;
                self.waiting[stream] = false;
                let it = self.sending[stream].as_ref().unwrap();
                let may = WRITERS.contains(&it.principal);
                assert_eq!(outcome == PublishOutcome::Refused, !may);
                assert!(it.sound || !matches!(outcome, PublishOutcome::Committed | PublishOutcome::More), "{outcome:?}");
                if outcome == PublishOutcome::Committed {
                    assert!(self.history.iter().any(|held| *held == it.document && held.version == version));
                    self.acknowledged = self.acknowledged.max(version);
                }
                if outcome != PublishOutcome::More {
                    self.sending[stream] = None;
                }
            }
        }
    }

    fn received(&mut self, reader: usize, part: &DocumentPart<'_>) {
        let it = &mut self.receiving[reader];
        it.busy = false;
        if part.outcome != FetchOutcome::Found {
            assert_eq!(it.at_least, 0, "what was acknowledged is there");
            it.bytes.clear();
            return;
        }
        assert!(part.version >= it.at_least, "version {} after {} was acknowledged", part.version, it.at_least);
        if part.version != it.version {
            it.bytes.clear();
            it.version = part.version;
            if part.offset > 0 {
                return;
            }
        }
        it.bytes.extend_from_slice(part.bytes);
        if it.bytes.len() as u64 == part.length {
            let whole = Document { version: part.version, bytes: it.bytes.as_slice().into() };
            assert!(self.history.contains(&whole), "only whole documents that the store has held");
            it.bytes.clear();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn whatever_the_order_only_whole_documents_of_growing_versions_are_written_and_served(
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut world = World::new();
        for (number, step) in steps.into_iter().enumerate() {
            world.run(number, step);
        }
        prop_assert!(world.history.windows(2).all(|pair| pair[0].version < pair[1].version));
    }
}
