use std::net::UdpSocket;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_control::directory::auth::Secret;
use weft_control::directory::{Key, PrincipalId};
use weft_control::wire::directory::{Frame, Header, Outcome, State, Vitals};

use super::*;
use crate::client::Settings;

const ME: PrincipalId = PrincipalId(7);

fn secret() -> Secret {
    Secret::new([3; 32])
}

/// What a server does with an attempt of an update.
#[derive(Clone, Copy)]
enum Does {
    Says(Outcome),
    Nothing,
    /// It takes the attempt, dies, and comes back with other cookies; the network delivers the attempt once more.
    Restarts,
    /// It answers this attempt with the next one.
    SaysLate(Outcome),
}

/// A server that does with one attempt after the other what its script says, and with further ones what it says last.
struct Scripted {
    address: String,
    /// The attempts that it took.
    taken: Arc<Mutex<Vec<Update>>>,
}

impl Scripted {
    fn new(script: &[Does]) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap().to_string();
        let taken = Arc::new(Mutex::new(Vec::new()));
        let (kept, script) = (taken.clone(), script.to_vec());
        std::thread::spawn(move || serve(&socket, &script, &kept));
        Self { address, taken }
    }

    fn attempts(&self) -> Vec<Update> {
        self.taken.lock().clone()
    }
}

fn serve(socket: &UdpSocket, script: &[Does], taken: &Mutex<Vec<Update>>) {
    let tagger = secret().key_of(ME).tagger();
    let (mut cookie, mut revision, mut late, mut buffer) = (100, 40, None, [0; 2048]);
    loop {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { return };
        let frame = Frame::parse(&buffer[..length]).unwrap();
        assert!(tagger.verify(frame.covered, frame.tag));
        let answer = |request: u64, cookie: u64, message: &Message<'_>| {
            let mut bytes = Vec::new();
            Header { kind: message.kind(), principal: ME, cookie, request }.emit(&mut bytes);
            message.emit(&mut bytes);
            tagger.seal(&mut bytes, 0);
            socket.send_to(&bytes, from).unwrap();
        };
        let request = frame.header.request;
        if frame.header.cookie != cookie {
            answer(request, cookie, &Message::Challenge);
            continue;
        }
        let Message::Update(update) = Message::parse(frame.header.kind, frame.body).unwrap() else {
            revision += 1;
            let vitals = Vitals { state: State::Serving, revision: Generation(revision), policy: 1, entries: 0, hash: 0 };
            answer(request, cookie, &Message::Vitals(vitals));
            continue;
        };
        let number = update.number;
        let mut taken = taken.lock();
        taken.push(update);
        let ack = |outcome| Message::Acknowledgement(Acknowledgement { number, outcome, at: 0, generation: Generation(7) });
        if let Some((request, outcome)) = late.take() {
            answer(request, cookie, &ack(outcome));
        }
        match script[(taken.len() - 1).min(script.len() - 1)] {
            Does::Says(outcome) => answer(request, cookie, &ack(outcome)),
            Does::Nothing => {}
            Does::Restarts => {
                cookie += 1;
                answer(request, cookie, &Message::Challenge);
            }
            Does::SaysLate(outcome) => late = Some((request, outcome)),
        }
    }
}

fn client(servers: &[&Scripted], timeout_ms: u64) -> Client {
    let settings = Settings {
        servers: servers.iter().map(|server| server.address.clone()).collect(),
        principal: ME,
        key: Some(secret().key_of(ME)),
        auth: Auth::Mac,
        timeout: Duration::from_millis(timeout_ms),
        only: false,
    };
    Client::new(settings).unwrap()
}

fn ops() -> Vec<Op> {
    vec![Op { key: Key::App4([10, 0, 0, 7].into()), expect: None, value: None }]
}

/// How an update ends if the servers do this, each with the attempts that come to it.
fn ends(scripts: &[&[Does]]) -> UpdateResult {
    let servers: Vec<Scripted> = scripts.iter().map(|script| Scripted::new(script)).collect();
    let updated = client(&servers.iter().collect::<Vec<_>>(), 10_000).update(ops(), None).unwrap();
    let numbers: Vec<u64> = servers.iter().flat_map(Scripted::attempts).map(|attempt| attempt.number).collect();
    assert!(numbers.iter().all(|&number| number == updated.number), "all attempts are of one update");
    updated.result
}

const CONFLICT: UpdateResult = UpdateResult::Conflict { at: 0, generation: Generation(7) };

#[test]
fn of_the_only_attempt_and_after_dead_ones_every_outcome_holds() {
    assert_eq!(ends(&[&[Does::Says(Outcome::Conflict)]]), CONFLICT);
    assert_eq!(ends(&[&[Does::Says(Outcome::Elsewhere)], &[Does::Says(Outcome::Conflict)]]), CONFLICT);
    assert_eq!(ends(&[&[Does::Says(Outcome::Elsewhere)], &[Does::Says(Outcome::Refused)]]), UpdateResult::Refused(0));
}

#[test]
fn with_a_copy_that_nobody_answered_only_committed_holds() {
    let committed = UpdateResult::Committed(Generation(7));
    assert_eq!(ends(&[&[Does::Nothing], &[Does::Says(Outcome::Conflict)]]), UpdateResult::Unknown);
    assert_eq!(ends(&[&[Does::Nothing], &[Does::Says(Outcome::Stale)]]), UpdateResult::Unknown);
    assert_eq!(ends(&[&[Does::Nothing], &[Does::Says(Outcome::Committed)]]), committed);
    assert_eq!(ends(&[&[Does::Nothing], &[Does::Says(Outcome::Elsewhere), Does::Says(Outcome::Committed)]]), committed);
}

#[test]
fn a_copy_that_a_server_took_before_it_restarted_is_in_doubt() {
    assert_eq!(ends(&[&[Does::Restarts, Does::Says(Outcome::Conflict)]]), UpdateResult::Unknown);
    assert_eq!(ends(&[&[Does::Restarts, Does::Says(Outcome::Committed)]]), UpdateResult::Committed(Generation(7)));
}

#[test]
fn an_answer_to_an_earlier_copy_counts() {
    let result = ends(&[&[Does::SaysLate(Outcome::Committed), Does::Nothing]]);
    assert_eq!(result, UpdateResult::Committed(Generation(7)));
}

#[test]
fn stale_restarts() {
    let server = Scripted::new(&[Does::Says(Outcome::Stale), Does::Says(Outcome::Committed)]);
    let updated = client(&[&server], 10_000).update(ops(), None).unwrap();
    let attempts = server.attempts();
    assert_eq!(updated.result, UpdateResult::Committed(Generation(7)));
    assert!(attempts[0].number != attempts[1].number && attempts[0].known < attempts[1].known, "{attempts:?}");
}

#[test]
fn at_the_end_of_its_time_it_is_in_doubt_and_the_same_again_finds_out() {
    let server = Scripted::new(&[Does::Nothing, Does::Says(Outcome::Committed)]);
    let mut client = client(&[&server], 2_000);
    let Err(ClientError::InDoubt { number, known, .. }) = client.update(ops(), None) else { panic!("it is in doubt") };
    let updated = client.update(ops(), Some(RetryToken { number, known })).unwrap();
    assert_eq!((updated.result, updated.number), (UpdateResult::Committed(Generation(7)), number));
    let attempts = server.attempts();
    assert_eq!(attempts[0], attempts[1]);
    // What is sent again is in doubt from the beginning.
    let other = Scripted::new(&[Does::Says(Outcome::Conflict)]);
    let updated = self::client(&[&other], 5_000).update(ops(), Some(RetryToken { number, known })).unwrap();
    assert_eq!(updated.result, UpdateResult::Unknown);
}

#[test]
fn if_no_server_takes_it_it_was_not_applied() {
    let (first, second) = (Scripted::new(&[Does::Says(Outcome::Elsewhere)]), Scripted::new(&[Does::Says(Outcome::Elsewhere)]));
    let updated = client(&[&first, &second], 2_000).update(ops(), None).unwrap();
    assert_eq!(updated.result, UpdateResult::NotApplied);
    assert!(first.attempts().len() > 1 && second.attempts().len() > 1, "round and round");
}
