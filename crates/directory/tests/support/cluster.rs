//! Servers as real processes, and a relay that loses datagrams. Everything ends with the test, also when it panics.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::RngExt;
use weft_directory::client::Client;
use weft_fabric::rng::{Stream, stream};

use super::clock::Clock;
use super::etcd::free_ports;
use super::network::Host;
use super::shared::{WRITER, client_of, die_with_parent, write_secret};

/// The servers of one cluster.
pub struct Servers {
    folder: tempfile::TempDir,
    servers: Vec<Server>,
}

struct Server {
    child: Child,
    arguments: Vec<String>,
    address: SocketAddr,
    surroundings: Surroundings,
}

/// What a server has of its own.
#[derive(Default)]
pub struct Surroundings {
    pub host: Option<Host>,
    pub clock: Option<Clock>,
}

impl Servers {
    /// Starts so many servers on a store and waits until they serve.
    pub fn start(count: usize, store: &str) -> Self {
        let places = free_ports(count).into_iter().map(|port| (([127, 0, 0, 1], port).into(), Surroundings::default()));
        Self::start_at(places.collect(), store)
    }

    /// Starts servers with what each has of its own.
    pub fn start_at(places: Vec<(SocketAddr, Surroundings)>, store: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let secret = write_secret(folder.path());
        let addresses: Vec<SocketAddr> = places.iter().map(|(address, _)| *address).collect();
        let one = |(at, (address, surroundings)): (usize, (SocketAddr, Surroundings))| {
            let mut arguments = words("serve --auth mac --policy open --provisioner 7 --metrics off --store-timeout 10s");
            let me = address.to_string();
            let principal = (at + 100).to_string();
            arguments.extend(["--listen", &me, "--store", store, "--principal", &principal, "--secret"].map(str::to_owned));
            arguments.push(secret.to_str().unwrap().to_owned());
            if surroundings.host.is_some() {
                arguments.push("--etcd-plaintext".to_owned());
            }
            for peer in addresses.iter().filter(|peer| **peer != address) {
                arguments.extend(["--peer".to_owned(), peer.to_string()]);
            }
            let child = spawn(&arguments, folder.path(), &surroundings);
            Server { child, arguments, address, surroundings }
        };
        let servers = places.into_iter().enumerate().map(one).collect();
        Self { folder, servers }
    }

    /// The addresses, as clients are given.
    pub fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.address.to_string()).collect()
    }

    /// A client of these addresses.
    pub fn client(addresses: &[String], timeout: Duration) -> Client {
        client_of(WRITER, addresses, timeout)
    }

    /// kill -9.
    pub fn kill(&mut self, at: usize) {
        let server = &mut self.servers[at];
        server.child.kill().unwrap();
        server.child.wait().unwrap();
    }

    /// kill -9, and a new start on the same address.
    pub fn kill_and_restart(&mut self, at: usize, pause: Duration) {
        self.kill(at);
        std::thread::sleep(pause);
        self.restart(at);
    }

    /// Starts a server that has ended.
    pub fn restart(&mut self, at: usize) {
        let server = &mut self.servers[at];
        server.child = spawn(&server.arguments, self.folder.path(), &server.surroundings);
    }

    /// Sets a server's wall clock so many seconds ahead.
    pub fn set_clock(&mut self, at: usize, shift_s: i64) {
        self.servers[at].surroundings.clock.as_mut().expect("the server has a clock of its own").set(shift_s);
    }

    /// SIGTERM; the exit code.
    pub fn terminate(&mut self, at: usize) -> Option<i32> {
        self.signal(at, Signal::SIGTERM);
        self.servers[at].child.wait().unwrap().code()
    }

    /// Sends a signal.
    pub fn signal(&self, at: usize, signal: Signal) {
        kill(Pid::from_raw(self.servers[at].child.id().cast_signed()), signal).unwrap();
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.child.kill();
            let _ = server.child.wait();
        }
    }
}

/// Starts a server and waits until it says that it serves.
fn spawn(arguments: &[String], folder: &Path, surroundings: &Surroundings) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft-directory"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped());
    die_with_parent(&mut command);
    if let Some(host) = &surroundings.host {
        host.namespace.hold(&mut command);
    }
    if let Some(clock) = &surroundings.clock {
        clock.hold(&mut command);
    }
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("READY"), "the server says {line:?}");
    child
}

/// A wire to a store that can be cut: connections break, and none is made.
pub struct CutWire {
    pub address: SocketAddr,
    cut: Arc<AtomicBool>,
}

impl CutWire {
    /// In front of an address.
    pub fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, cut) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let (server, state): (SocketAddr, _) = (server.parse().unwrap(), cut.clone());
        std::thread::spawn(move || {
            for here in listener.incoming().map_while(Result::ok) {
                if let (false, Ok(there)) = (state.load(Ordering::Relaxed), TcpStream::connect(server)) {
                    let backwards = (there.try_clone().unwrap(), here.try_clone().unwrap(), state.clone());
                    let state = state.clone();
                    std::thread::spawn(move || pump(here, there, &state));
                    std::thread::spawn(move || pump(backwards.0, backwards.1, &backwards.2));
                }
            }
        });
        Self { address, cut }
    }

    /// Cuts it, or mends it.
    pub fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::Relaxed);
    }
}

/// Carries bytes one way until the wire is cut or an end is gone.
fn pump(mut from: TcpStream, mut to: TcpStream, cut: &AtomicBool) {
    from.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let mut buffer = [0; 65_536];
    while !cut.load(Ordering::Relaxed) {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) if to.write_all(&buffer[..length]).is_ok() => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            _ => break,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Carries datagrams to a server and back, and loses one in ten each way.
pub struct Relay {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Relay {
    /// In front of a server.
    pub fn to(server: &str, seed: u64) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = front.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (server, stopped): (SocketAddr, _) = (server.parse().unwrap(), stop.clone());
        std::thread::spawn(move || relay(&front, server, seed, &stopped));
        Self { address, stop }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn relay(front: &UdpSocket, server: SocketAddr, seed: u64, stopped: &Arc<AtomicBool>) {
    front.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut rng = stream(seed, Stream::Traffic);
    let mut clients: Vec<(SocketAddr, UdpSocket)> = Vec::new();
    let mut buffer = [0; 2048];
    while !stopped.load(Ordering::Relaxed) {
        let Ok((length, from)) = front.recv_from(&mut buffer) else { continue };
        if !clients.iter().any(|(client, _)| *client == from) {
            let back = UdpSocket::bind("127.0.0.1:0").unwrap();
            back.connect(server).unwrap();
            back.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            clients.push((from, back.try_clone().unwrap()));
            let (front, stopped, seed) = (front.try_clone().unwrap(), stopped.clone(), seed + clients.len() as u64);
            std::thread::spawn(move || answer(&back, &front, from, seed, &stopped));
        }
        let (_, back) = clients.iter().find(|(client, _)| *client == from).unwrap();
        if rng.random::<u32>() % 10 != 0 {
            let _ = back.send(&buffer[..length]);
        }
    }
}

fn answer(back: &UdpSocket, front: &UdpSocket, to: SocketAddr, seed: u64, stopped: &AtomicBool) {
    let mut rng = stream(seed, Stream::HashSeeds);
    let mut buffer = [0; 2048];
    while !stopped.load(Ordering::Relaxed) {
        let Ok(length) = back.recv(&mut buffer) else { continue };
        if rng.random::<u32>() % 10 != 0 {
            let _ = front.send_to(&buffer[..length], to);
        }
    }
}
