//! `[placement]`: large flows go where a scheduler places them (Hedera, section 3). Sockets, counters and tables of the machine that decides.
//!
//! ```text
//!   eBPF: elephants, ends, lost windows --+                                 +--> eBPF: placements
//!   scheduler, UDP -------Orders----------+--> PlacementHost --> outputs ---+--> scheduler, UDP: Report
//!   intermediate switches, ICMP: echoes --+                                 +--> intermediate switches: echo requests
//! ```

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::time::SystemTime;

use metrics::{counter, gauge};
use serde_json::{Value, json};
use socket2::{Domain, Protocol, Socket, Type};
use weft_control::time::{Duration, Instant};
use weft_control::vl2::placement::{HostConfig as MachineConfig, HostInput, HostOutput, PlacementHost, SentBytes};
use weft_control::wire::packet::checksum;
use weft_control::wire::vl2::placement::PlacementKey;

use super::apply::Plane;
use super::config::HostConfig;
use crate::dataplane::clock::monotonic_ns;
use crate::directory::{DATAGRAM, bind, send};
use crate::error::{Error, Result};
use crate::vl2::dataplane::Flow;

/// The machine and its sockets.
#[derive(Debug)]
pub(super) struct Placement {
    machine: PlacementHost,
    schedulers: Vec<String>,
    socket: UdpSocket,
    echoes: Socket,
    identifier: u16,
    sequence: u16,
    since: Instant,
}

impl Placement {
    /// Starts it, if the configuration has it, with what an earlier agent left.
    pub fn start(config: &HostConfig, la: Ipv4Addr, now: Instant, plane: &mut Plane) -> Result<Option<Self>> {
        let Some(part) = config.placement.as_ref().map(toml::Spanned::get_ref) else { return Ok(None) };
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        let machine = MachineConfig {
            principal: config.principal(),
            key: PlacementKey::of(&config.principal_key()?),
            schedulers: part.schedulers(),
            sequence: since_1970,
        };
        let echoes = echo_socket(la).map_err(Error::system("open a socket for ICMP", "run it as root"))?;
        let mut placement = Self {
            machine: PlacementHost::new(machine, now),
            schedulers: part.schedulers().iter().map(ToString::to_string).collect(),
            socket: bind(la)?,
            echoes,
            identifier: std::process::id() as u16,
            sequence: 0,
            since: now,
        };
        for (flow, it) in plane.inherited_flows()? {
            placement.input(now, HostInput::Adopted(flow, it), plane);
        }
        Ok(Some(placement))
    }

    /// The UDP port at which the scheduler reaches this host.
    pub fn port(&self) -> u16 {
        self.socket.local_addr().map_or(0, |at| at.port())
    }

    pub fn descriptors(&self) -> [RawFd; 2] {
        [self.socket.as_raw_fd(), self.echoes.as_raw_fd()]
    }

    pub fn deadline(&self) -> Instant {
        self.machine.deadline()
    }

    /// Takes what has come, and does what is due.
    pub fn step(&mut self, now: Instant, plane: &mut Plane) {
        let mut buffer = [0; DATAGRAM];
        while let Ok((length, _)) = self.socket.recv_from(&mut buffer) {
            self.input(now, HostInput::Datagram(&buffer[..length]), plane);
        }
        while let Some(answer) = self.echo() {
            self.input(now, HostInput::Answered(answer), plane);
        }
        if self.machine.deadline() <= now {
            self.input(now, HostInput::Timer, plane);
        }
    }

    pub fn input(&mut self, now: Instant, input: HostInput<'_>, plane: &mut Plane) {
        self.machine.handle(now, input);
        while let Some(output) = self.machine.poll() {
            match output {
                HostOutput::Read => {
                    let counts = self.counts(plane);
                    self.machine.handle(now, HostInput::Counts(&counts));
                }
                HostOutput::Send(to, bytes) => send(&self.socket, to, &bytes),
                HostOutput::Probe(to) => self.probe(to),
                output => plane.apply_placement(output),
            }
        }
    }

    fn counts(&self, plane: &Plane) -> Vec<(Flow, SentBytes)> {
        let now = monotonic_ns().unwrap_or(0);
        let since = |at: u64| Duration::from_ns(now.saturating_sub(at));
        let of = |flow: Flow| {
            let count = plane.count(flow)?;
            Some((flow, SentBytes { bytes: count.bytes, age: since(count.first_ns), idle: since(count.last_ns) }))
        };
        self.machine.flows().filter_map(|(flow, _)| of(flow)).collect()
    }

    /// Sends an echo request: identifier and number after its checksum, no data.
    fn probe(&mut self, to: Ipv4Addr) {
        self.sequence = self.sequence.wrapping_add(1);
        let [id0, id1] = self.identifier.to_be_bytes();
        let [n0, n1] = self.sequence.to_be_bytes();
        let mut packet = [ECHO_REQUEST, 0, 0, 0, id0, id1, n0, n1];
        let sum = checksum(0, &packet);
        packet[2..4].copy_from_slice(&sum.to_be_bytes());
        if let Err(error) = self.echoes.send_to(&packet, &SocketAddrV4::new(to, 0).into()) {
            tracing::debug!(%to, %error, "a probe was not sent");
        }
    }

    /// The next intermediate switch that has answered a probe of this agent.
    fn echo(&self) -> Option<Ipv4Addr> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 256];
        loop {
            let (length, from) = self.echoes.recv_from(&mut buffer).ok()?;
            let byte = |at: usize| {
                // SAFETY: the kernel has written `length` bytes.
                (at < length).then(|| unsafe { buffer[at].assume_init() })
            };
            let header = usize::from(byte(0)? & 0x0f) * 4;
            let identifier = byte(header + 4).zip(byte(header + 5)).map(|(a, b)| u16::from_be_bytes([a, b]));
            if byte(header) == Some(ECHO_REPLY) && identifier == Some(self.identifier) {
                return from.as_socket_ipv4().map(|from| *from.ip());
            }
        }
    }

    /// As `weft agent status` has it.
    pub fn status(&self, now: Instant) -> Value {
        let (counts, loops) = (self.machine.counts(), self.machine.loops());
        let scheduler = self.machine.scheduler(now);
        let ms = |length: Duration| length.as_secs_f64() * 1e3;
        let flows: Vec<Value> = self
            .machine
            .flows()
            .take(FLOWS_SHOWN)
            .map(|(flow, it)| {
                json!({ "flow": flow.to_string(), "over": it.map(|it| it.intermediate.to_string()), "entropy": it.map(|it| it.entropy) })
            })
            .collect();
        json!({
            "schedulers": self.schedulers, "generation": scheduler.map(|(generation, _)| generation),
            "heard_s": scheduler.map(|(_, since)| since.as_secs_f64()),
            "elephants": self.machine.flows().len(), "placed": self.machine.flows().filter(|(_, it)| it.is_some()).count(), "flows": flows,
            "unreachable": self.machine.unreachable().map(|it| it.to_string()).collect::<Vec<_>>(),
            "loops": loops.count, "loop_mean_ms": loops.mean().map(ms), "loop_max_ms": ms(loops.max),
            "counts": {
                "reports": counts.reports, "placed": counts.placed, "fallen_back": counts.fallen_back, "over_limit": counts.over_limit,
                "orders_refused": counts.refused, "orders_superseded": counts.superseded, "orders_stale": counts.stale,
            },
        })
    }

    /// What is wrong: no scheduler answers, or an intermediate switch does not.
    pub fn problems(&self, now: Instant) -> Vec<String> {
        let outage = self.machine.scheduler(now).map_or(now.saturating_since(self.since), |(_, since)| since);
        let mut problems = Vec::new();
        if outage >= OUTAGE_MIN {
            problems.push(format!(
                "no scheduler at {} has answered for {:.0} s: placed flows keep their paths, new ones take anycast addresses",
                self.schedulers.join(", "),
                outage.as_secs_f64()
            ));
        }
        problems.extend(self.machine.unreachable().map(|it| format!("the intermediate switch {it} does not answer")));
        problems
    }

    /// Brings metrics up to date.
    pub fn measure(&self) {
        let (counts, loops) = (self.machine.counts(), self.machine.loops());
        gauge!("weft_agent_elephants").set(self.machine.flows().len() as f64);
        gauge!("weft_agent_flows_placed").set(self.machine.flows().filter(|(_, it)| it.is_some()).count() as f64);
        gauge!("weft_agent_intermediates_unreachable").set(self.machine.unreachable().count() as f64);
        counter!("weft_agent_placement_reports_total").absolute(counts.reports);
        counter!("weft_agent_placements_total").absolute(counts.placed);
        counter!("weft_agent_placements_fallen_back_total").absolute(counts.fallen_back);
        counter!("weft_agent_elephants_over_limit_total").absolute(counts.over_limit);
        for (reason, value) in [("refused", counts.refused), ("superseded", counts.superseded), ("stale", counts.stale)] {
            counter!("weft_agent_orders_dropped_total", "reason" => reason).absolute(value);
        }
        counter!("weft_agent_control_loops_total").absolute(loops.count);
        gauge!("weft_agent_control_loop_seconds_total").set(loops.sum.as_secs_f64());
    }
}

/// A socket that sends echo requests from an address of this host and hears the answers.
fn echo_socket(la: Ipv4Addr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
    socket.bind(&SocketAddrV4::new(la, 0).into())?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
/// More are counted only.
const FLOWS_SHOWN: usize = 100;
/// A scheduler that has not answered for so long is a problem.
const OUTAGE_MIN: Duration = Duration::from_secs(5);
