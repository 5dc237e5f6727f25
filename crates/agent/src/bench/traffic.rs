//! One TCP stream, and echoes.

use std::io::{ErrorKind, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::error::{BenchError, Result};
use super::path::{Node, Path};

/// What a stream did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stream {
    /// Bytes that the receiver read.
    pub bytes: u64,
    /// How long that took.
    pub duration: Duration,
    /// CPU time of this process.
    pub cpu: Duration,
}

impl Stream {
    /// Useful bits a second.
    pub fn goodput_bps(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.duration.as_secs_f64()
    }

    /// Seconds of CPU for a billion useful bits.
    pub fn cpu_per_gbit(&self) -> f64 {
        self.cpu.as_secs_f64() / (self.bytes as f64 * 8.0 / 1e9)
    }
}

/// The first host sends to an address of the second for so long, as fast as TCP lets it.
///
/// # Errors
/// [`BenchError::System`] if they cannot connect.
pub fn stream(path: &Path, to: IpAddr, duration: Duration) -> Result<Stream> {
    let fail = BenchError::system;
    let listener = path.within(Node::Host2, || TcpListener::bind((to, 0)))?.map_err(fail("listen"))?;
    let target = listener.local_addr().map_err(fail("listen"))?;
    thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&listener));
        let connect = || TcpStream::connect_timeout(&target, Duration::from_secs(5));
        // A sender that cannot connect must not leave the receiver waiting.
        let connected = path.within(Node::Host1, connect)?;
        let sender = match connected {
            Ok(sender) => sender,
            Err(e) => {
                let _ = path.within(Node::Host2, || TcpStream::connect(target));
                return Err(fail("connect across the path")(e));
            }
        };
        send(sender, duration).map_err(fail("send across the path"))?;
        let received = receiver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        received.map_err(fail("receive across the path"))
    })
}

/// Bytes per write and read, at most.
const CHUNK: usize = 128 * 1024;

fn send(mut sender: TcpStream, duration: Duration) -> std::io::Result<()> {
    sender.set_write_timeout(Some(Duration::from_secs(10)))?;
    let chunk = vec![0x57; CHUNK];
    let end = Instant::now() + duration;
    while Instant::now() < end {
        sender.write_all(&chunk)?;
    }
    Ok(())
}

/// Everything from the first byte to the end of the stream.
fn receive(listener: &TcpListener) -> std::io::Result<Stream> {
    let (mut connection, _) = listener.accept()?;
    connection.set_read_timeout(Some(Duration::from_secs(10)))?;
    let (start, cpu) = (Instant::now(), cpu_time()?);
    let mut chunk = vec![0; CHUNK];
    let mut bytes = 0;
    loop {
        match connection.read(&mut chunk)? {
            0 => return Ok(Stream { bytes, duration: start.elapsed(), cpu: cpu_time()?.saturating_sub(cpu) }),
            read => bytes += read as u64,
        }
    }
}

/// CPU time of this process, in and for it.
fn cpu_time() -> std::io::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let time = |t: TimeVal| Duration::from_secs(t.tv_sec() as u64) + Duration::from_micros(t.tv_usec() as u64);
    Ok(time(usage.user_time()) + time(usage.system_time()))
}

/// The median of so many round trips of ICMP echoes from the first host, one after the other, once the path answers.
///
/// # Errors
/// [`BenchError::NoAnswer`] if the path does not answer within [`READY`], or an echo later not within [`ANSWER`].
pub fn ping(path: &Path, to: IpAddr, echoes: u32) -> Result<Duration> {
    path.within(Node::Host1, || {
        let socket = echo_socket(to).map_err(BenchError::system("open an ICMP socket"))?;
        wait_until_answered(&socket, to)?;
        let mut trips = (1..=echoes)
            .map(|number| echo(&socket, to, number as u16, ANSWER)?.ok_or(BenchError::NoAnswer { to, after: ANSWER }))
            .collect::<Result<Vec<_>>>()?;
        trips.sort_unstable();
        Ok(trips[trips.len() / 2])
    })?
}

/// The first packets wait for neighbour discovery at every hop; the kernel repeats a lost solicitation after a second.
fn wait_until_answered(socket: &Socket, to: IpAddr) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < READY {
        if echo(socket, to, 0, Duration::from_millis(500))?.is_some() {
            return Ok(());
        }
    }
    Err(BenchError::NoAnswer { to, after: READY })
}

/// How long a path may take until it answers.
const READY: Duration = Duration::from_secs(10);
/// How long an answer may take on a path that has answered.
const ANSWER: Duration = Duration::from_secs(1);

fn echo_socket(to: IpAddr) -> std::io::Result<Socket> {
    let (domain, protocol) = if to.is_ipv4() { (Domain::IPV4, Protocol::ICMPV4) } else { (Domain::IPV6, Protocol::ICMPV6) };
    Socket::new(domain, Type::RAW, Some(protocol))
}

/// The round trip of one echo; none if it is not answered in time.
fn echo(socket: &Socket, to: IpAddr, number: u16, timeout: Duration) -> Result<Option<Duration>> {
    let fail = BenchError::system;
    let [request, reply] = if to.is_ipv4() { [8, 0] } else { [128, 129] };
    let identity = (std::process::id() as u16).to_be_bytes();
    let mut message = vec![request, 0, 0, 0];
    message.extend(identity);
    message.extend(number.to_be_bytes());
    message.extend([0; 48]);
    if to.is_ipv4() {
        // The kernel does this for IPv6.
        let sum: u32 = message.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    let start = Instant::now();
    socket.send_to(&message, &SockAddr::from(SocketAddr::new(to, 0))).map_err(fail("send an ICMP echo"))?;
    let mut buffer = [MaybeUninit::<u8>::uninit(); 256];
    loop {
        let left = timeout.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        socket.set_read_timeout(Some(left)).map_err(fail("set a socket's timeout"))?;
        let length = match socket.recv(&mut buffer) {
            Ok(length) => length,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {
                continue;
            }
            Err(error) => return Err(fail("receive an ICMP echo")(error)),
        };
        // SAFETY: so many bytes were received.
        let answer: Vec<u8> = buffer[..length].iter().map(|b| unsafe { b.assume_init() }).collect();
        let header = if to.is_ipv4() { 20 } else { 0 };
        let right = |a: &[u8]| a[0] == reply && a[4..6] == identity && a[6..8] == number.to_be_bytes();
        if answer.get(header..).is_some_and(|a| a.len() >= 8 && right(a)) {
            return Ok(Some(start.elapsed()));
        }
    }
}
