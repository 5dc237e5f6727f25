use weft_fabric::rng;

use super::part::{ASK_AGAIN, BACK_OFF};
use super::*;
use crate::directory::auth::{Secret, Tagger};
use crate::directory::key::{Generation, Key};
use crate::wire::directory::{Acknowledgement, Frame, Header, Message, Outcome, State, Update, Vitals};

/// A writer, and servers that a test speaks for.
struct Bench {
    writer: Updater,
    tagger: Tagger,
    now: Instant,
}

/// A datagram that the writer sent.
#[derive(Clone, Debug)]
struct Sent {
    to: SocketAddr,
    header: Header,
    /// `None`: it asks after the server's health.
    update: Option<Update>,
}

const ME: PrincipalId = PrincipalId(9);
const COOKIE: u64 = 77;

fn server(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 5303))
}

impl Bench {
    fn new(servers: u8) -> Self {
        let secret = Secret::new([3; 32]);
        let stream = rng::stream(1, rng::Stream::Traffic);
        let mut writer = Updater::new(UpdaterConfig::new(ME), &secret.key_of(ME), stream);
        let list: Vec<SocketAddr> = (1..=servers).map(server).collect();
        writer.handle(Instant::ZERO, Input::SetServers(&list));
        Self { writer, tagger: secret.key_of(ME).tagger(), now: Instant::ZERO }
    }

    fn submit(&mut self, token: u64) {
        let op = Op { key: Key::App4([20, 0, 0, 1].into()), expect: None, value: None };
        self.writer.handle(self.now, Input::Submit { ops: vec![op], token });
    }

    /// A writer that has sent an update, and knew revision 5.
    fn with_update(servers: u8) -> (Self, Sent) {
        let mut bench = Self::new(servers);
        bench.submit(1);
        let health = bench.only_sent();
        bench.vitals(&health, 5);
        let sent = bench.only_sent();
        (bench, sent)
    }

    /// What the writer sent, and which updates ended how.
    fn drain(&mut self) -> (Vec<Sent>, Vec<(u64, UpdateResult)>) {
        let (mut sent, mut done) = (Vec::new(), Vec::new());
        while let Some(output) = self.writer.poll() {
            match output {
                Output::Done { token, result } => done.push((token, result)),
                Output::Send { to, bytes } => {
                    let frame = Frame::parse(&bytes).unwrap();
                    assert!(self.tagger.verify(frame.covered, frame.tag));
                    let update = match Message::parse(frame.header.kind, frame.body).unwrap() {
                        Message::Update(update) => Some(update),
                        Message::Health => None,
                        // As a server of before: it does not answer.
                        Message::Parts(_) => continue,
                        other => panic!("{other:?}"),
                    };
                    sent.push(Sent { to, header: frame.header, update });
                }
            }
        }
        (sent, done)
    }

    fn only_sent(&mut self) -> Sent {
        let (sent, done) = self.drain();
        assert!(sent.len() == 1 && done.is_empty(), "{sent:?} {done:?}");
        sent[0].clone()
    }

    fn ended(&mut self) -> Vec<UpdateResult> {
        let (sent, done) = self.drain();
        assert!(sent.is_empty(), "{sent:?}");
        done.into_iter().map(|(_, result)| result).collect()
    }

    fn reply(&mut self, sent: &Sent, cookie: u64, message: &Message<'_>) {
        let mut bytes = Vec::new();
        Header { kind: message.kind(), principal: ME, cookie, request: sent.header.request }.emit(&mut bytes);
        message.emit(&mut bytes);
        self.tagger.seal(&mut bytes, 0);
        self.writer.handle(self.now, Input::Datagram { from: sent.to, bytes: &bytes });
    }

    fn vitals(&mut self, sent: &Sent, revision: u64) {
        let vitals = Vitals { state: State::Serving, revision: Generation(revision), policy: 1, entries: 0, hash: 0 };
        self.reply(sent, COOKIE, &Message::Vitals(vitals));
    }

    fn acknowledge(&mut self, sent: &Sent, outcome: Outcome, generation: u64) {
        let number = sent.number();
        let ack = Acknowledgement { number, outcome, at: 0, generation: Generation(generation) };
        self.reply(sent, COOKIE, &Message::Acknowledgement(ack));
    }

    /// Lets time go by, with all timers at their times.
    fn wait(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(at) = self.writer.deadline().filter(|&at| at <= end) {
            self.now = at.max(self.now);
            self.writer.handle(self.now, Input::Timer);
        }
        self.now = end;
    }
}

impl Sent {
    fn number(&self) -> u64 {
        self.update.as_ref().expect("an update").number
    }

    fn known(&self) -> Generation {
        self.update.as_ref().expect("an update").known
    }
}

const CONFLICT: UpdateResult = UpdateResult::Conflict { at: 0, generation: Generation(7) };

#[test]
fn a_revision_is_asked_for_first_and_is_good_for_a_second() {
    let mut bench = Bench::new(3);
    bench.submit(1);
    let health = bench.only_sent();
    assert!(health.update.is_none());
    bench.submit(2);
    assert_eq!(bench.ended(), [], "one question is enough");
    bench.wait(ASK_AGAIN);
    let again = bench.only_sent();
    assert!(again.update.is_none(), "no answer: the question is asked again");
    bench.vitals(&again, 5);
    let (sent, _) = bench.drain();
    assert_eq!(sent.iter().map(Sent::known).collect::<Vec<_>>(), [Generation(5); 2]);
    assert_ne!(sent[0].number(), sent[1].number());
    bench.vitals(&health, 4);
    bench.acknowledge(&sent[0], Outcome::Committed, 8);
    assert_eq!(bench.ended(), [UpdateResult::Committed(Generation(8))]);
    bench.wait(Duration::from_ms(900));
    bench.submit(3);
    assert_eq!(bench.only_sent().known(), Generation(8), "a commit's generation is a revision, too");
    bench.wait(Duration::from_ms(200));
    bench.submit(4);
    assert!(bench.only_sent().update.is_none(), "too old by now");
}

#[test]
fn what_is_not_acknowledged_goes_to_another_server_with_the_same_number() {
    let (mut bench, first) = Bench::with_update(2);
    bench.wait(Duration::from_ms(1_999));
    assert_eq!(bench.ended(), []);
    bench.wait(Duration::from_ms(1));
    let second = bench.only_sent();
    assert_ne!(second.to, first.to);
    assert_eq!(second.update, first.update, "number and `known` included");
    // All servers have a copy: round again.
    bench.wait(Duration::from_secs(2));
    let third = bench.only_sent();
    assert_eq!((third.to, &third.update), (first.to, &first.update));
    assert_ne!(third.header.request, first.header.request);
}

#[test]
fn a_late_acknowledgement_of_any_copy_counts_once() {
    let (mut bench, first) = Bench::with_update(2);
    bench.wait(Duration::from_secs(2));
    let second = bench.only_sent();
    bench.acknowledge(&first, Outcome::Committed, 7);
    assert_eq!(bench.ended(), [UpdateResult::Committed(Generation(7))]);
    bench.acknowledge(&second, Outcome::Committed, 7);
    bench.acknowledge(&first, Outcome::Committed, 7);
    bench.wait(Duration::from_secs(20));
    assert_eq!(bench.ended(), [], "it is over");
    assert_eq!((bench.writer.waiting(), bench.writer.deadline()), (0, None));
}

#[test]
fn an_acknowledgement_of_something_else_is_ignored() {
    let (mut bench, sent) = Bench::with_update(2);
    let (mut other_number, mut other_request, mut other_server) = (sent.clone(), sent.clone(), sent.clone());
    other_number.update.as_mut().unwrap().number += 1;
    other_request.header.request += 1;
    other_server.to = server(if sent.to == server(1) { 2 } else { 1 });
    for wrong in [other_number, other_request, other_server] {
        bench.acknowledge(&wrong, Outcome::Committed, 7);
    }
    assert_eq!(bench.ended(), []);
    bench.acknowledge(&sent, Outcome::Committed, 7);
    assert_eq!(bench.ended().len(), 1);
}

#[test]
fn at_the_deadline_nobody_knows_unless_every_copy_is_dead() {
    let (mut bench, first) = Bench::with_update(1);
    bench.wait(Duration::from_secs(10));
    let (copies, done) = bench.drain();
    assert_eq!((copies.len(), done), (4, vec![(1, UpdateResult::Unknown)]), "copies after 2, 4, 6 and 8 s");
    bench.acknowledge(&first, Outcome::Committed, 7);
    assert_eq!(bench.ended(), [], "too late");

    let mut bench = Bench::new(1);
    bench.submit(1);
    bench.wait(Duration::from_secs(10));
    let (asked, done) = bench.drain();
    assert!(asked.iter().all(|sent| sent.update.is_none()));
    assert_eq!(done, [(1, UpdateResult::NotApplied)], "it was never sent");
}

#[test]
fn elsewhere_goes_to_the_next_server_at_once_and_round_again_after_a_while() {
    let (mut bench, first) = Bench::with_update(2);
    bench.acknowledge(&first, Outcome::Elsewhere, 0);
    let second = bench.only_sent();
    assert_ne!(second.to, first.to);
    assert_eq!(second.update, first.update);
    bench.acknowledge(&second, Outcome::Elsewhere, 0);
    assert_eq!(bench.ended(), []);
    bench.wait(BACK_OFF);
    let mut last = bench.only_sent();
    assert_eq!((last.to, &last.update), (first.to, &first.update));
    // Nobody takes it, until the deadline.
    loop {
        bench.acknowledge(&last, Outcome::Elsewhere, 0);
        bench.wait(BACK_OFF);
        let (sent, done) = bench.drain();
        match sent.into_iter().next_back() {
            Some(next) => last = next,
            None => return assert_eq!(done, [(1, UpdateResult::NotApplied)]),
        }
    }
}

#[test]
fn one_copy_that_nobody_accounts_for_leaves_the_update_in_doubt() {
    let (mut bench, first) = Bench::with_update(2);
    bench.wait(Duration::from_secs(2));
    let second = bench.only_sent();
    bench.acknowledge(&second, Outcome::Elsewhere, 0);
    bench.wait(BACK_OFF);
    let third = bench.only_sent();
    bench.acknowledge(&third, Outcome::Elsewhere, 0);
    // The second and the third are dead; the first is not.
    bench.writer.handle(bench.now + Duration::from_secs(10), Input::Timer);
    assert_eq!(bench.ended(), [UpdateResult::Unknown]);
    bench.acknowledge(&first, Outcome::Elsewhere, 0);
    assert_eq!(bench.ended(), []);
}

#[test]
fn a_conflict_holds_if_no_other_copy_is_alive() {
    let (mut bench, only) = Bench::with_update(2);
    bench.acknowledge(&only, Outcome::Conflict, 7);
    assert_eq!(bench.ended(), [CONFLICT]);

    let (mut bench, first) = Bench::with_update(2);
    bench.acknowledge(&first, Outcome::Elsewhere, 0);
    let second = bench.only_sent();
    bench.acknowledge(&second, Outcome::Conflict, 7);
    assert_eq!(bench.ended(), [CONFLICT], "the first is dead");

    for outcome in [Outcome::Conflict, Outcome::Refused, Outcome::Stale] {
        let (mut bench, _) = Bench::with_update(2);
        bench.wait(Duration::from_secs(2));
        let second = bench.only_sent();
        bench.acknowledge(&second, outcome, 7);
        assert_eq!(bench.ended(), [UpdateResult::Unknown], "the first may have been applied, or be applied yet");
    }
}

/// The store did not answer this copy's commit: it must not be asked for again under another number.
#[test]
fn unknown_is_the_end_even_of_the_only_copy() {
    let (mut bench, only) = Bench::with_update(2);
    bench.acknowledge(&only, Outcome::Unknown, 0);
    assert_eq!(bench.ended(), [UpdateResult::Unknown]);
}

#[test]
fn stale_restarts_with_a_fresh_revision() {
    let (mut bench, first) = Bench::with_update(1);
    bench.acknowledge(&first, Outcome::Stale, 0);
    let health = bench.only_sent();
    assert!(health.update.is_none(), "what was known is too old, though it was not yet a second");
    bench.vitals(&health, 40);
    let second = bench.only_sent();
    assert_eq!(second.known(), Generation(40));
    assert_ne!(second.number(), first.number());
    bench.acknowledge(&first, Outcome::Committed, 3);
    assert_eq!(bench.ended(), [], "the first is dead, whatever is said of it");
    bench.acknowledge(&second, Outcome::Committed, 41);
    assert_eq!(bench.ended(), [UpdateResult::Committed(Generation(41))]);
}

/// Servers other than the one that was asked after its health challenge what they are sent: it had cookie 0.
#[test]
fn a_challenged_copy_without_a_cookie_is_dead() {
    let (mut bench, mut sent) = Bench::with_update(3);
    let mut tried = Vec::new();
    for _ in 0..3 {
        if sent.header.cookie == 0 {
            bench.reply(&sent, COOKIE, &Message::Challenge);
            let again = bench.only_sent();
            assert_eq!((again.to, again.header.cookie, &again.update), (sent.to, COOKIE, &sent.update));
            sent = again;
        }
        tried.push(sent.to);
        bench.acknowledge(&sent, Outcome::Elsewhere, 0);
        if tried.len() < 3 {
            sent = bench.only_sent();
        }
    }
    tried.sort_unstable();
    assert_eq!(tried, [server(1), server(2), server(3)], "copies sent again do not count as servers tried");
    bench.wait(BACK_OFF);
    let last = bench.only_sent();
    bench.acknowledge(&last, Outcome::Conflict, 7);
    assert_eq!(bench.ended(), [CONFLICT]);
}

/// The datagram came twice: a server took the first, died, and challenges the second when it is back.
#[test]
fn a_challenged_copy_that_had_a_cookie_may_have_been_taken() {
    let challenged = || {
        let (mut bench, first) = Bench::with_update(1);
        assert_eq!(first.header.cookie, COOKIE, "of the answer to the question after its health");
        bench.reply(&first, COOKIE + 1, &Message::Challenge);
        let again = bench.only_sent();
        assert_eq!((again.header.cookie, &again.update), (COOKIE + 1, &first.update));
        (bench, again)
    };
    for (outcome, result) in [
        (Outcome::Committed, UpdateResult::Committed(Generation(7))),
        (Outcome::Conflict, UpdateResult::Unknown),
        (Outcome::Stale, UpdateResult::Unknown),
    ] {
        let (mut bench, again) = challenged();
        bench.acknowledge(&again, outcome, 7);
        assert_eq!(bench.ended(), [result]);
    }
    let (mut bench, again) = challenged();
    bench.acknowledge(&again, Outcome::Elsewhere, 0);
    bench.writer.handle(bench.now + Duration::from_secs(10), Input::Timer);
    assert_eq!(bench.ended(), [UpdateResult::Unknown]);
}

#[test]
fn a_new_list_of_servers_keeps_what_is_under_way() {
    let (mut bench, first) = Bench::with_update(1);
    bench.writer.handle(bench.now, Input::SetServers(&[server(2)]));
    bench.acknowledge(&first, Outcome::Conflict, 7);
    assert_eq!(bench.ended(), [], "a stranger now");
    bench.wait(Duration::from_secs(2));
    let second = bench.only_sent();
    assert_eq!((second.to, &second.update), (server(2), &first.update));
    bench.acknowledge(&second, Outcome::Conflict, 7);
    assert_eq!(bench.ended(), [UpdateResult::Unknown], "the first copy is not accounted for");
}
