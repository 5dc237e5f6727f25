//! A TCP stream, and ICMP echoes, between nodes of a network.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::fabric::{Network, TIMEOUT};

impl Network {
    /// One node sends to an address of another for so long, as fast as TCP lets it; the bytes received.
    pub fn stream(&self, from: &str, to: &str, address: IpAddr, duration: Duration) -> u64 {
        let listener = self.within(to, || TcpListener::bind((address, 0))).unwrap();
        let target = listener.local_addr().unwrap();
        let mut sender = self.within(from, || TcpStream::connect_timeout(&target, TIMEOUT)).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        receiver.set_read_timeout(Some(TIMEOUT)).unwrap();
        sender.set_write_timeout(Some(TIMEOUT)).unwrap();
        let mut chunk = vec![0; CHUNK];
        let receive = move || {
            let mut bytes = 0;
            loop {
                match receiver.read(&mut chunk).unwrap() {
                    0 => return bytes,
                    read => bytes += read as u64,
                }
            }
        };
        let received = thread::spawn(receive);
        let end = Instant::now() + duration;
        while Instant::now() < end {
            sender.write_all(&[0x57; CHUNK]).unwrap();
        }
        drop(sender);
        received.join().unwrap()
    }

    /// Whether an address answers so many ICMP echoes, one after the other. The first is repeated for ten seconds: it waits for neighbour discovery at
    /// every hop.
    pub fn ping(&self, from: &str, to: IpAddr, echoes: u16) -> bool {
        self.set(from, "ipv4/ping_group_range", "0 0");
        self.within(from, || {
            let (domain, protocol, request) =
                if to.is_ipv4() { (Domain::IPV4, Protocol::ICMPV4, 8) } else { (Domain::IPV6, Protocol::ICMPV6, 128) };
            let mut socket = Socket::new(domain, Type::DGRAM, Some(protocol)).unwrap();
            socket.connect(&SocketAddr::new(to, 0).into()).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            // The kernel fills in identifier and checksum, and hands over answers to this socket alone.
            let mut is_answered = || {
                let mut echo = [0; 56];
                echo[0] = request;
                socket.send(&echo).is_ok() && socket.read(&mut [0; 256]).is_ok()
            };
            (0..10).any(|_| is_answered()) && (1..echoes).all(|_| is_answered())
        })
    }
}

/// Bytes per write and read, at most.
const CHUNK: usize = 128 * 1024;
