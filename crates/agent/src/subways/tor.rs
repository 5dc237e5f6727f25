//! The agent of a ToR: it reports what its ports count. It changes nothing in the kernel.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::Path;
use std::time::{Duration, Instant as WallInstant, SystemTime};

use metrics::counter;
use serde_json::{Value, json};
use weft_control::subways::agents::{TorConfig, TorReporter};
use weft_control::time::{Duration as Span, Instant};
use weft_control::wire::subways::PortCounter;

use super::config::Access;
use crate::config::Place;
use crate::daemon::{Daemon, Run, RunOptions};
use crate::dataplane::nic::Nic;
use crate::directory::{DATAGRAM, send};
use crate::error::{Error, Result};
use crate::exporter;
use crate::problems::ProblemLog;
use crate::socket::ControlSocket;
use crate::watch::KernelWatch;

/// The configuration of a ToR.
#[derive(Debug)]
pub struct AccessTorConfig {
    access: Access,
}

/// A running agent.
struct Tor {
    config: AccessTorConfig,
    machine: TorReporter,
    socket: UdpSocket,
    watch: KernelWatch,
    started: WallInstant,
    measured: WallInstant,
    ports: Vec<PortCounter>,
    problem_log: ProblemLog,
    error: Option<String>,
}

impl AccessTorConfig {
    /// Reads a configuration with `overlay = "none"` and `role = "switch"`.
    ///
    /// # Errors
    /// [`Error`] with file, line and remedy.
    pub fn read(place: &Place<'_>) -> Result<Self> {
        let access = Access::read(place)?;
        if access.is_host() {
            let help = "write role = \"host\", or the name of a ToR";
            return Err(place.error(access.keys.access.get_ref().name.span(), "this is a host of the fabric", help));
        }
        if access.schedulers.is_empty() {
            let help = "add `scheduler`, `principal` and `key`";
            return Err(place.error(access.keys.access.span(), "the agent of a ToR reports to a scheduler", help));
        }
        Ok(Self { access })
    }

    /// Checks that this machine has the devices and the key.
    ///
    /// # Errors
    /// [`Error`] with file and line.
    pub fn check_here(&self, place: &Place<'_>) -> Result<()> {
        self.access.check_here(place)
    }
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(config: AccessTorConfig, file: &Path, options: RunOptions) -> Result<bool> {
    let (socket, on_exit) = (config.access.keys.socket.clone(), config.access.keys.on_exit);
    Run { socket: &socket, on_exit, file, options }.run_until_signal(|| Tor::start(config))
}

impl Daemon for Tor {
    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.socket.as_raw_fd(), self.watch.descriptor()]
    }

    fn timeout(&self) -> Duration {
        self.machine.deadline().saturating_since(self.now()).to_std().min(LOOK_AGAIN)
    }

    fn run_once(&mut self, control: &mut ControlSocket) -> Result<()> {
        control.answer_status(|| self.status(), "this is the agent of a ToR without an overlay");
        self.step();
        Ok(())
    }

    fn reload(&mut self, _: &Path) -> Result<()> {
        Err(Error::NoReload("an agent without an overlay"))
    }

    fn ready(&self) -> (String, Value) {
        let line = self.line();
        let json = json!({ "ready": line, "overlay": "none", "role": "switch" });
        (line, json)
    }

    fn end(self) -> Result<()> {
        Ok(())
    }
}

impl Tor {
    fn start(config: AccessTorConfig) -> Result<Self> {
        exporter::serve(config.access.keys.metrics)?;
        let Some((principal, key)) = config.access.identity()? else { unreachable!("it has a scheduler, and so a key") };
        let socket = UdpSocket::bind(SocketAddr::from(([0, 0, 0, 0], 0)));
        let socket = socket.and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        let machine = TorConfig { principal, key, schedulers: config.access.schedulers.clone(), sequence: since_1970 };
        let started = WallInstant::now();
        let mut tor = Self {
            machine: TorReporter::new(machine, Instant::ZERO),
            socket: socket.map_err(Error::system("open a socket", ""))?,
            watch: KernelWatch::open(libc::RTMGRP_LINK).map_err(Error::system("listen to link changes", ""))?,
            started,
            measured: started,
            ports: Vec::new(),
            problem_log: ProblemLog::default(),
            error: None,
            config,
        };
        tor.step();
        Ok(tor)
    }

    fn now(&self) -> Instant {
        Instant::ZERO.saturating_add(self.started.elapsed().into())
    }

    fn step(&mut self) {
        let now = self.now();
        let mut buffer = [0; DATAGRAM];
        while let Ok((length, _)) = self.socket.recv_from(&mut buffer) {
            self.machine.datagram(now, &buffer[..length]);
        }
        if self.watch.has_changed() {
            self.machine.hurry(now);
        }
        if self.machine.deadline() <= now {
            match read_ports(&self.config.access.devices) {
                Ok(ports) => (self.ports, self.error) = (ports, None),
                Err(error) => self.error = Some(format!("cannot read the ports' counters: {error}")),
            }
            self.machine.ports(now, &self.ports);
        }
        while let Some((to, bytes)) = self.machine.poll() {
            send(&self.socket, to, &bytes);
        }
        if self.measured.elapsed() >= LOOK_AGAIN {
            self.measured = WallInstant::now();
            let problems = self.problems();
            let all = problems.len();
            self.problem_log.update(problems, all);
            counter!("weft_agent_access_reports_total").absolute(self.machine.reports());
            counter!("weft_agent_orders_dropped_total", "reason" => "refused").absolute(self.machine.refused());
        }
    }

    fn line(&self) -> String {
        format!("{} on {} ports", self.config.access.name(), self.config.access.devices.iter().flatten().count())
    }

    fn problems(&self) -> Vec<String> {
        let now = self.now();
        let silence = self.machine.scheduler(now).map_or(now.saturating_since(Instant::ZERO), |(_, since)| since);
        let all: Vec<String> = self.config.access.schedulers.iter().map(ToString::to_string).collect();
        let silent = (silence >= SILENT).then(|| format!("no scheduler at {} answers", all.join(", ")));
        let is_down = |port: &&PortCounter| !port.is_up;
        let device = |port: &PortCounter| self.config.access.devices[usize::from(port.port)].clone().unwrap_or_default();
        let down = self.ports.iter().filter(is_down).map(|port| format!("{} is down", device(port)));
        down.chain(silent).chain(self.error.clone()).collect()
    }

    fn status(&self) -> Value {
        let problems = self.problems();
        let verdict = if problems.is_empty() { "ok" } else { "not ok" };
        let scheduler = self.machine.scheduler(self.now());
        let ports: Vec<Value> = self
            .ports
            .iter()
            .map(|port| {
                let device = self.config.access.devices[usize::from(port.port)].as_deref();
                json!({ "device": device, "up": port.is_up, "sent": port.sent, "received": port.received })
            })
            .collect();
        json!({
            "verdict": verdict, "summary": self.line(), "problems": problems, "overlay": "none", "role": "switch",
            "version": env!("CARGO_PKG_VERSION"), "uptime_s": self.started.elapsed().as_secs(), "ports": ports,
            "scheduler": {
                "addresses": self.config.access.schedulers, "generation": scheduler.map(|(generation, _)| generation),
                "heard_s": scheduler.map(|(_, since)| since.as_secs_f64()), "reports": self.machine.reports(), "refused": self.machine.refused(),
            },
        })
    }
}

/// What the ports count: from the thread's own namespace, which /sys may not be of.
fn read_ports(devices: &[Option<String>]) -> std::io::Result<Vec<PortCounter>> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    let counters = parse(&text);
    let ports = (0..).zip(devices).filter_map(|(port, device)| {
        let device = device.as_deref()?;
        let &(received, sent) = counters.get(device)?;
        let is_up = Nic::mtu_if_up(device).is_ok_and(|mtu| mtu.is_some());
        Some(PortCounter { port, is_up, sent, received })
    });
    Ok(ports.collect())
}

/// Bytes received and sent by each device.
fn parse<'a>(text: &'a str) -> BTreeMap<&'a str, (u64, u64)> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let of = |(device, numbers): (&'a str, &str)| -> Option<(&'a str, (u64, u64))> {
        let mut numbers = numbers.split_whitespace().map(str::parse);
        Some((device.trim(), (numbers.next()?.ok()?, numbers.nth(7)?.ok()?)))
    };
    lines.filter_map(of).collect()
}

/// Everything is looked at after so long, whatever woke the loop.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A scheduler that has not answered for so long is a problem.
const SILENT: Span = Span::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_devices_are_read() {
        let text = "Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    1240      12    0    0    0     0          0         0     1240      12    0    0    0     0       0          0
  p0: 99 1 0 0 0 0 0 0 18446744073709551615 7 0 0 0 0 0 0\n";
        assert_eq!(parse(text)["p0"], (99, u64::MAX));
        assert_eq!(parse(text)["lo"], (1240, 1240));
        assert!(parse("p0: 1 2").is_empty());
        let here = read_ports(&[Some("lo".to_owned()), None, Some("no-such-port".to_owned())]).unwrap();
        assert_eq!(here.iter().map(|port| (port.port, port.is_up)).collect::<Vec<_>>(), [(0, true)]);
    }
}
