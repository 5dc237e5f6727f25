//! What flows during the soak: a stream from each host of a rack to one of the same service in another, requests to an address that moves, and datagrams to hosts of both services.

use std::fmt;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weft_lab::Stopwatch;

use crate::support::TestLab;
use crate::support::overlay::{host, overlay};
use crate::support::streams::accept;

/// Between two turns, in each of which every stream sends a record.
const TURN: Duration = Duration::from_millis(10);
const RECORD: [u8; 100] = [7; 100];
/// The port of datagrams, and of the address that moves.
const PORT: u16 = 7200;
/// An address of the first service that moves from host to host.
pub const MOVING: Ipv4Addr = Ipv4Addr::new(20, 0, 200, 1);

/// How a stream goes on.
struct Stream {
    /// The hosts at its ends, by their numbers.
    ends: Vec<usize>,
    kind: Kind,
    /// When it last made progress, by the clock of the turns.
    last: Duration,
    /// A host at its end is not alive.
    is_cut: bool,
    /// One was not, and the stream has not made progress since: this pause does not count.
    excused: bool,
    moved_once: bool,
    has_ended: bool,
}

enum Kind {
    /// Records from one end to the other.
    Tcp { writer: TcpStream, reader: TcpStream },
    /// Requests to the address that moves; each host that may have it answers.
    Requests { client: UdpSocket, servers: Vec<UdpSocket> },
}

/// The longest pause, and what was faulty then.
#[derive(Clone, Debug, Default)]
pub struct Pauses {
    pub length: Duration,
    during: String,
}

impl fmt::Display for Pauses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2?}, during {}", self.length, self.during)
    }
}

pub struct Traffic {
    state: Mutex<State>,
    datagrams: Vec<Datagrams>,
}

#[derive(Default)]
struct State {
    streams: Vec<Stream>,
    /// What is faulty now.
    faulty: String,
    outcome: Outcome,
}

/// A host's socket, the number of its service, and whom it sends to: a host of its own service and one of the other.
struct Datagrams {
    socket: UdpSocket,
    service: u8,
    to: [Ipv4Addr; 2],
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Streams that ended.
    pub failed: Vec<String>,
    /// The longest pause of a stream.
    pub longest: Pauses,
    /// And that of requests to the address that moves.
    pub unanswered: Pauses,
    /// Datagrams sent to hosts of the other service, and those of them that arrived.
    pub sent_across: u64,
    pub crossed: u64,
    /// Datagrams that arrived from hosts of the same service.
    pub within: u64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "longest pause of a stream: {}", self.longest)?;
        writeln!(f, "longest time without an answer of the address that moves: {}", self.unanswered)?;
        writeln!(
            f,
            "datagrams to the other service: {}, arrived: {}; within a service arrived: {}",
            self.sent_across, self.crossed, self.within
        )
    }
}

impl Stream {
    fn tcp(lab: &TestLab, from: usize, to: usize) -> Self {
        let name = |at: usize| lab.plan().nodes[host(lab, at).node].name.clone();
        let listener = lab.at(&name(to), || TcpListener::bind((host(lab, to).aa4, 0)).expect("a port"));
        let address = listener.local_addr().expect("an address");
        let writer = lab.at(&name(from), || TcpStream::connect_timeout(&address, Duration::from_secs(10)).expect("a connection"));
        let (reader, _) = accept(&listener);
        for end in [&writer, &reader] {
            end.set_nonblocking(true).expect("a setting");
        }
        writer.set_nodelay(true).expect("a setting");
        Self::new(vec![from, to], Kind::Tcp { writer, reader })
    }

    fn requests(lab: &TestLab, at: usize, servers: &[usize]) -> Self {
        let bind = |at: usize, address: Ipv4Addr, port: u16| {
            let socket = lab.at(&lab.plan().nodes[host(lab, at).node].name, || UdpSocket::bind((address, port)).expect("a port"));
            socket.set_nonblocking(true).expect("a setting");
            socket
        };
        for &at in servers {
            lab.shell(&lab.plan().nodes[host(lab, at).node].name, "echo 1 > /proc/sys/net/ipv4/ip_nonlocal_bind");
        }
        let socket = bind(at, host(lab, at).aa4, 0);
        let servers_at = servers.iter().map(|&at| bind(at, MOVING, PORT + 1)).collect();
        Self::new(vec![at], Kind::Requests { client: socket, servers: servers_at })
    }

    fn new(ends: Vec<usize>, kind: Kind) -> Self {
        Self { ends, kind, last: Duration::ZERO, is_cut: false, excused: false, moved_once: false, has_ended: false }
    }

    /// It has made progress: was that its longest pause?
    fn progress(&mut self, clock: Duration, faulty: &str, outcome: &mut Outcome) {
        let pause = clock - self.last;
        let longest = if matches!(self.kind, Kind::Tcp { .. }) { &mut outcome.longest } else { &mut outcome.unanswered };
        if self.moved_once && !self.excused && pause > longest.length {
            *longest = Pauses { length: pause, during: format!("{faulty} ({:?})", self.ends) };
        }
        (self.last, self.excused, self.moved_once) = (clock, self.is_cut, true);
    }

    /// Sends, and takes what has come; whether there was anything.
    fn turn(&mut self) -> std::io::Result<bool> {
        let mut buffer = [0; 4096];
        match &mut self.kind {
            Kind::Tcp { writer, reader } => {
                ignore_full(writer.write(&RECORD))?;
                match ignore_full(reader.read(&mut buffer))? {
                    Some(0) => Err(ErrorKind::UnexpectedEof.into()),
                    got => Ok(got.is_some()),
                }
            }
            Kind::Requests { client, servers } => {
                // The "unreachable" of an earlier datagram may be reported at any call.
                let _ = client.send_to(&RECORD, (MOVING, PORT + 1));
                for server in servers {
                    while let Ok((length, from)) = server.recv_from(&mut buffer) {
                        let _ = server.send_to(&buffer[..length], from);
                    }
                }
                let mut answered = false;
                while client.recv_from(&mut buffer).is_ok() {
                    answered = true;
                }
                Ok(answered)
            }
        }
    }
}

/// Nothing, where a socket's queue has no room or no bytes.
fn ignore_full(result: std::io::Result<usize>) -> std::io::Result<Option<usize>> {
    match result {
        Ok(length) => Ok(Some(length)),
        Err(cause) if matches!(cause.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(cause) => Err(cause),
    }
}

impl Traffic {
    pub fn begin(lab: &TestLab) -> Self {
        let hosts = overlay(lab).hosts.len();
        let half = hosts / 2;
        // Hosts of the first half to those of the second, of the same service and never of the same rack.
        let streams: Vec<Stream> = (0..half).map(|from| Stream::tcp(lab, from, from + half)).collect();
        let datagrams = (0..hosts).map(|at| {
            let own = host(lab, at);
            let socket = lab.at(&lab.plan().nodes[own.node].name, || UdpSocket::bind(("0.0.0.0", PORT)).expect("a port"));
            socket.set_nonblocking(true).expect("a setting");
            let to = [2, 1].map(|further| host(lab, (at + half + further) % hosts).aa4);
            Datagrams { socket, service: own.service as u8, to }
        });
        Self { state: Mutex::new(State { streams, ..State::default() }), datagrams: datagrams.collect() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the requests to the address that moves.
    pub fn request(&self, lab: &TestLab, client: usize, servers: &[usize]) {
        self.state().streams.push(Stream::requests(lab, client, servers));
    }

    /// Says what is faulty from now on.
    pub fn set_faulty(&self, what: &str) {
        what.clone_into(&mut self.state().faulty);
    }

    /// A host, which may have the address that moves, is not alive, or is again: the pauses of its streams do not count until they go on after that.
    pub fn cut(&self, host: usize, has_moving: bool, is_cut: bool) {
        let concerned = |it: &&mut Stream| it.ends.contains(&host) || has_moving && matches!(it.kind, Kind::Requests { .. });
        for stream in self.state().streams.iter_mut().filter(concerned) {
            stream.is_cut = is_cut;
            stream.excused = true;
        }
    }

    /// Whether a stream has ended.
    pub fn has_failed(&self) -> bool {
        !self.state().outcome.failed.is_empty()
    }

    /// Whether all streams that have not ended have begun, and none is excused.
    pub fn all_flow(&self) -> bool {
        self.state().streams.iter().filter(|it| !it.has_ended).all(|it| it.moved_once && !it.excused)
    }

    /// Exchanges records until it is done. The clock of pauses stands still while this thread has no processor.
    pub fn run(&self, done: &AtomicBool) {
        let (watch, mut clock, mut before, mut turns) = (Stopwatch::new(), Duration::ZERO, Duration::ZERO, 0_usize);
        while !done.load(Ordering::Relaxed) {
            let now = watch.elapsed();
            clock += (now - before).min(10 * TURN);
            before = now;
            let mut state = self.state();
            let State { streams, faulty, outcome } = &mut *state;
            for stream in streams.iter_mut().filter(|stream| !stream.has_ended) {
                match stream.turn() {
                    Ok(true) => stream.progress(clock, faulty, outcome),
                    Ok(false) => {}
                    Err(cause) => {
                        stream.has_ended = true;
                        outcome.failed.push(format!("{:?} during {faulty}: {cause}", stream.ends));
                    }
                }
            }
            self.exchange_datagrams(turns, outcome);
            drop(state);
            turns += 1;
            std::thread::sleep(TURN);
        }
        let mut state = self.state();
        let State { streams, faulty, outcome } = &mut *state;
        streams.iter_mut().filter(|it| !it.has_ended).for_each(|stream| stream.progress(clock, faulty, outcome));
    }

    /// One host after another sends to both services.
    fn exchange_datagrams(&self, turn: usize, outcome: &mut Outcome) {
        let sender = &self.datagrams[turn % self.datagrams.len()];
        for to in sender.to {
            let _ = sender.socket.send_to(&[sender.service; 16], SocketAddr::from((to, PORT)));
        }
        outcome.sent_across += 1;
        let mut buffer = [0; 64];
        for receiver in &self.datagrams {
            while let Ok(length) = receiver.socket.recv(&mut buffer) {
                let count = if buffer[..length] == [receiver.service; 16] { &mut outcome.within } else { &mut outcome.crossed };
                *count += 1;
            }
        }
    }

    pub fn outcome(&self) -> Outcome {
        self.state().outcome.clone()
    }
}
