//! An agent as a host has it: the resolver, with adaptive retries, on a socket; lookups at a constant rate.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime};

use nix::poll::{PollFd, PollFlags, ppoll};
use weft_control::directory::Key;
use weft_control::directory::resolver::{Input, Output, Resolution, Resolver, ResolverConfig, ResolverCounts};
use weft_fabric::rng::Pcg64;

use super::shared::{WRITER, secret};

/// What the agent saw.
#[derive(Debug)]
pub struct Seen {
    /// Lookups that did not find their key.
    pub failed: usize,
    /// From when it was due to its answer, of each lookup, in order of length.
    pub latencies: Vec<Duration>,
    /// What the resolver counted.
    pub counts: ResolverCounts,
}

impl Seen {
    pub fn quantile(&self, quantile: f64) -> Duration {
        self.latencies[((self.latencies.len() - 1) as f64 * quantile) as usize]
    }
}

/// Looks keys up in turn, one every `interval`, so many in all. Nothing is cached: each lookup goes to the servers.
pub fn look_up(servers: &[String], keys: &[Key], count: usize, interval: Duration, seed: u128) -> Seen {
    let servers: Vec<SocketAddr> = servers.iter().map(|server| server.parse().unwrap()).collect();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let config = ResolverConfig { capacity: 0, first_request: since_1970, ..ResolverConfig::new(WRITER) };
    let mut resolver = Resolver::new(config, &secret().key_of(WRITER), Pcg64::new(seed, 1));
    let begun = Instant::now();
    let now = || weft_control::time::Instant::from_ns(1_000).saturating_add(begun.elapsed().into());
    resolver.handle(now(), Input::SetServers(&servers));
    let due = |token: usize| interval * token as u32;
    let mut seen = Seen { failed: 0, latencies: Vec::with_capacity(count), counts: ResolverCounts::default() };
    let (mut asked, mut buffer) = (0, [0; 2048]);
    while seen.latencies.len() + seen.failed < count {
        while asked < count && due(asked) <= begun.elapsed() {
            resolver.handle(now(), Input::Resolve { key: keys[asked % keys.len()], asker: None, token: asked as u64 });
            asked += 1;
        }
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            resolver.handle(now(), Input::Datagram { from, bytes: &buffer[..length] });
        }
        resolver.handle(now(), Input::Timer);
        while let Some(output) = resolver.poll() {
            match output {
                Output::Send { to, bytes } => drop(socket.send_to(&bytes, to)),
                Output::Resolved { token, resolution: Resolution::Found(..), .. } => {
                    seen.latencies.push(begun.elapsed().saturating_sub(due(token as usize)));
                }
                Output::Resolved { .. } => seen.failed += 1,
                Output::Invalidated { .. } => {}
            }
        }
        let deadline = resolver.deadline().map_or(Duration::MAX, |at| at.saturating_since(now()).to_std());
        let next = if asked < count { due(asked).saturating_sub(begun.elapsed()) } else { Duration::MAX };
        wait(&socket, deadline.min(next).min(Duration::from_millis(50)));
    }
    seen.latencies.sort_unstable();
    seen.counts = resolver.counts();
    seen
}

/// Until something comes or the time is over, to the microsecond: a socket's own time-out is as coarse as the kernel's tick.
fn wait(socket: &UdpSocket, time: Duration) {
    let mut descriptor = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    let _ = ppoll(&mut descriptor, Some(time.into()), None);
}
