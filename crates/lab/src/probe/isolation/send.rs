//! How an adversary sends: by the host's stack, by a packet socket, or past the host's hooks.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use weft_fabric::MacAddr;

use super::attacks::{Attack, OWN, Via};
use super::forge;
use crate::clock::Deadline;
use crate::frames;

/// Sends each packet of an attack several times by a device of the thread's namespace. How many were sent.
pub(super) fn packets(device: &str, attack: &Attack) -> io::Result<u64> {
    match attack.via {
        Via::Stack => by_stack(attack),
        Via::Frames { ethertype, is_past_hooks } => by_frames(device, attack, ethertype, is_past_hooks),
    }
}

fn by_stack(attack: &Attack) -> io::Result<u64> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW)))?;
    each(attack, |packet| {
        let to = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
        socket.send_to(packet, &SockAddr::from(SocketAddrV4::new(to, 0))).map(drop)
    })
}

fn by_frames(device: &str, attack: &Attack, ethertype: u16, is_past_hooks: bool) -> io::Result<u64> {
    let mut socket = frames::socket(device, ethertype)?;
    if is_past_hooks {
        bypass(&socket)?;
    }
    let header = |kind: u16| [&attack.next_hop.0[..], &OWN.0, &kind.to_be_bytes()].concat();
    each(attack, |packet| {
        let kind = match packet[0] >> 4 {
            4 => libc::ETH_P_IP,
            6 => libc::ETH_P_IPV6,
            _ => libc::ETH_P_ARP,
        };
        socket.write_all(&[header(kind as u16), packet.to_vec()].concat())
    })
}

fn each(attack: &Attack, mut send: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<u64> {
    let mut sent = 0;
    for _ in 0..attack.rounds {
        for packet in &attack.packets {
            match send(packet) {
                // A program on the interface has dropped it; its counter says so.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                done => done?,
            }
            sent += 1;
        }
        std::thread::sleep(forge::BETWEEN);
    }
    Ok(sent)
}

/// `PACKET_QDISC_BYPASS`: frames go to the driver without queueing discipline, and without its eBPF programs.
fn bypass(socket: &Socket) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option's value is an int, which outlives the call.
    let failed = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, (&raw const on).cast(), length)
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The MAC address of a next hop, as the kernel of the thread's namespace resolves it.
pub(super) fn next_hop(address: Ipv4Addr) -> io::Result<MacAddr> {
    let deadline = Deadline::after(RESOLVED);
    loop {
        let table = std::fs::read_to_string("/proc/thread-self/net/arp")?;
        let line = table.lines().find(|line| line.split_whitespace().next() == Some(&address.to_string()));
        let mac = line.and_then(|line| line.split_whitespace().nth(3)?.parse::<MacAddr>().ok());
        if let Some(mac) = mac.filter(|mac| *mac != MacAddr([0; 6])) {
            return Ok(mac);
        }
        if deadline.has_passed() {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{address} does not answer ARP")));
        }
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let _ = socket.send_to(&[], (address, 9));
        std::thread::sleep(forge::BETWEEN);
    }
}

const RESOLVED: Duration = Duration::from_secs(5);
