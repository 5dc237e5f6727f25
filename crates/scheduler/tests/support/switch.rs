//! A stand-in for a switch: it answers what the scheduler asks, and keeps the rules that it gets.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use weft_control::openflow::port::Text;
use weft_control::openflow::{
    Action, Body, Features, Field, FlowEntry, FlowFlags, FlowMod, Framer, Hello, Instruction, Match, Message, MultipartReply,
    MultipartRequest, Port, ReplyBody, Statistics, Version,
};
use weft_control::time::Duration;
use weft_fabric::MacAddr;

use super::{DATAPATHS, Scheduler};

/// How a switch is.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub datapath: u64,
    pub version: Version,
    /// Which of its connections this is.
    pub auxiliary: u8,
    pub counters: Counters,
    /// The port to which a scheduler before this one has placed web-1:5000-db-1:80.
    pub placed: Option<u32>,
    /// Its list of groups cannot be read.
    pub malformed_groups: bool,
}

/// What it answers when it is asked for the counters of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counters {
    Empty,
    /// web-1:5000-db-1:80, at the rate of its NIC.
    Large,
    /// Bytes that cannot be read.
    Malformed,
    /// No answer.
    None,
}

/// A connected switch.
pub struct Switch {
    stream: UnixStream,
    thread: JoinHandle<()>,
    rules: Arc<Mutex<Vec<FlowMod>>>,
}

impl Kind {
    pub const fn of(datapath: u64) -> Self {
        Self { datapath, version: Version::V15, auxiliary: 0, counters: Counters::Empty, placed: None, malformed_groups: false }
    }
}

impl Switch {
    pub fn connect(scheduler: &Scheduler, kind: Kind) -> Self {
        let stream = scheduler.connect();
        stream.set_read_timeout(None).unwrap();
        let rules = Arc::default();
        let (mut reader, kept) = (stream.try_clone().unwrap(), Arc::clone(&rules));
        let thread = std::thread::spawn(move || answer(&mut reader, kind, &kept));
        Self { stream, thread, rules }
    }

    /// All switches of the fabric, as they usually are.
    pub fn all(scheduler: &Scheduler) -> Vec<Self> {
        DATAPATHS.iter().map(|&datapath| Self::connect(scheduler, Kind::of(datapath))).collect()
    }

    /// The rules that it has got.
    pub fn rules(&self) -> Vec<FlowMod> {
        self.rules.lock().unwrap().clone()
    }

    /// Sends bytes, beside its answers.
    pub fn send(&self, bytes: &[u8]) -> std::io::Result<()> {
        (&self.stream).write_all(bytes)
    }

    /// Waits until the scheduler has closed the connection.
    pub fn wait_until_closed(&self) {
        let start = Instant::now();
        while !self.thread.is_finished() {
            assert!(start.elapsed() < super::TIMEOUT, "the connection stays open");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    pub fn is_closed(&self) -> bool {
        self.thread.is_finished()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// A message's bytes.
pub fn bytes(version: Version, xid: u32, body: Body) -> Vec<u8> {
    let mut bytes = Vec::new();
    Message { xid, body }.emit(version, &mut bytes).unwrap();
    bytes
}

/// A multipart reply of a type whose body is three bytes.
pub fn malformed_reply(version: Version, xid: u32, kind: u8) -> Vec<u8> {
    let xid = xid.to_be_bytes();
    [&[version.wire(), 19, 0, 19], &xid[..], &[0, kind, 0, 0, 0, 0, 0, 0], &[1, 2, 3]].concat()
}

/// The first two messages of a switch.
pub fn handshake(kind: Kind) -> Vec<u8> {
    let features = Features { datapath: kind.datapath, buffers: 0, tables: 254, auxiliary: kind.auxiliary, capabilities: 0 };
    let hello = bytes(kind.version, 1, Body::Hello(Hello::of(&[kind.version])));
    [hello, bytes(kind.version, 2, Body::FeaturesReply(features))].concat()
}

fn answer(stream: &mut UnixStream, kind: Kind, rules: &Mutex<Vec<FlowMod>>) {
    let (mut framer, mut buffer, start) = (Framer::new(), vec![0; 64 << 10], Instant::now());
    if stream.write_all(&handshake(kind)).is_err() {
        return;
    }
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        framer.push(&buffer[..length]);
        while let Some(message) = framer.pop().unwrap() {
            let message = Message::parse(kind.version, message).unwrap();
            let answer = match message.body {
                Body::FlowMod(flow) => {
                    rules.lock().unwrap().push(flow);
                    continue;
                }
                body => reply(kind, start, message.xid, body),
            };
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    }
}

/// The bytes of the answer; none if there is none.
fn reply(kind: Kind, start: Instant, xid: u32, body: Body) -> Vec<u8> {
    let parts = match body {
        Body::EchoRequest(data) => return bytes(kind.version, xid, Body::EchoReply(data)),
        Body::BarrierRequest => return bytes(kind.version, xid, Body::BarrierReply),
        Body::RoleRequest(role) => return bytes(kind.version, xid, Body::RoleReply(role)),
        Body::MultipartRequest(MultipartRequest::PortDescriptions(_)) => ReplyBody::PortDescriptions((1..=4).map(port).collect()),
        Body::MultipartRequest(MultipartRequest::GroupDescriptions(_)) if kind.malformed_groups => {
            return malformed_reply(kind.version, xid, 7);
        }
        Body::MultipartRequest(MultipartRequest::GroupDescriptions(_)) => ReplyBody::GroupDescriptions(Vec::new()),
        Body::MultipartRequest(MultipartRequest::Flows(filter)) if filter.table == COUNTERS => match kind.counters {
            Counters::Empty => ReplyBody::Flows(Vec::new()),
            Counters::Large => ReplyBody::Flows(vec![large(start)]),
            Counters::Malformed => return malformed_reply(kind.version, xid, 1),
            Counters::None => return Vec::new(),
        },
        Body::MultipartRequest(MultipartRequest::Flows(_)) => ReplyBody::Flows(kind.placed.map(placed).into_iter().collect()),
        _ => return Vec::new(),
    };
    bytes(kind.version, xid, Body::MultipartReply(MultipartReply::whole(parts)))
}

fn port(number: u32) -> Port {
    let (mac, name) = (MacAddr([2, 0, 0, 1, 0, number as u8]), Text::new(&format!("p{number}")));
    Port { number, mac, name, config: 0, state: 0, ethernet: None, other: Vec::new() }
}

/// The counter of web-1:5000-db-1:80.
fn large(start: Instant) -> FlowEntry {
    let age = Duration::from_ns(start.elapsed().as_nanos() as u64);
    let sent = (age.as_secs_f64() * 1e9 / 8.0) as u64;
    let statistics = Statistics { duration: Some(age), bytes: Some(sent), packets: Some(sent / 1500), ..Statistics::default() };
    FlowEntry { statistics, ..entry(COUNTERS, 1, Vec::new()) }
}

/// The rule that sends web-1:5000-db-1:80 out of a port.
fn placed(port: u32) -> FlowEntry {
    let out = Instruction::ApplyActions(vec![Action::output(port)]);
    FlowEntry { cookie: PLACED, ..entry(FORWARDING, 100, vec![out]) }
}

/// An entry for web-1:5000-db-1:80.
fn entry(table: u8, priority: u16, instructions: Vec<Instruction>) -> FlowEntry {
    let [src, dst] = [1, 3].map(|n| Ipv4Addr::new(10, 0, 0, n));
    let fields = [Field::eth_type(0x0800), Field::ip_proto(6), Field::ipv4_src(src), Field::ipv4_dst(dst)];
    let ports = [Field::tcp_src(5000), Field::tcp_dst(80)];
    FlowEntry {
        table,
        priority,
        idle_timeout: 10,
        hard_timeout: 0,
        flags: FlowFlags::default(),
        importance: 0,
        cookie: 0,
        statistics: Statistics::default(),
        matching: Match::of(fields.into_iter().chain(ports)),
        instructions,
    }
}

/// The table of connections' counters.
const COUNTERS: u8 = 1;
/// The table of rules by which packets are forwarded.
const FORWARDING: u8 = 2;
/// The cookie of rules of placed flows.
const PLACED: u64 = 0x5745_4654 << 32 | 3;
