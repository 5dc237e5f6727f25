//! Batches for `ip` and `tc`, executed without them: commands of the lab become rtnetlink messages on one socket in the namespace, many in each system call.
//!
//! ```text
//!   "addr add 10.1.1.2/32 dev eth0" --parse--> Command --encode--> RTM_NEWADDR --+
//!   "link set eth0 up"              --parse--> Command --encode--> RTM_NEWLINK --+--> one send, one acknowledgement of the last, errors by number of the line
//! ```
//! A program such as `ip` takes a millisecond to start, which a lab of a thousand hosts would pay several thousand times. The commands stay text that a person can
//! read, compare with a snapshot and run by hand; those that are not known here are left to the programs.

mod encode;
mod parse;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;

use nix::net::if_::if_nametoindex;
use socket2::{Domain, Protocol, Socket, Type};

use crate::netlink::{Request, acknowledgements};
use crate::netns;
use parse::Command;

/// Why a batch failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The number of the line, from 0; `None`: none in particular.
    pub line: Option<usize>,
    /// The kernel's reason.
    pub cause: std::io::Error,
}

/// Executes a batch of `ip` or `tc` in the namespace that the thread is in; `None` if it has commands that are not known here, and nothing was done.
pub(crate) fn run(program: &str, batch: &str) -> Option<Result<(), Failure>> {
    let commands: Option<Vec<Command<'_>>> = batch.lines().map(|line| parse::command(program, line)).collect();
    Some(execute(&commands?))
}

/// Executes messages that have no text, in the namespace that the thread is in. An error names the number of the message.
pub(crate) fn send(requests: Vec<Request>) -> Result<(), Failure> {
    let mut kernel = Kernel::open().map_err(|cause| Failure { line: None, cause })?;
    for (number, request) in requests.into_iter().enumerate() {
        kernel.push(number, request)?;
    }
    kernel.flush()
}

fn execute(commands: &[Command<'_>]) -> Result<(), Failure> {
    let mut kernel = Kernel::open().map_err(|cause| Failure { line: None, cause })?;
    for (line, command) in commands.iter().enumerate() {
        // A device has an index once its message was executed.
        for device in command.devices() {
            kernel.find(device, line)?;
        }
        let request = encode::request(command, &mut kernel).map_err(|cause| Failure { line: Some(line), cause })?;
        kernel.push(line, request)?;
    }
    kernel.flush()
}

/// A socket, and messages that are about to be sent.
struct Kernel {
    socket: Socket,
    pending: Vec<u8>,
    /// Where the last pending message begins.
    last: usize,
    indices: BTreeMap<String, u32>,
    /// Namespaces that pending messages name by descriptor.
    namespaces: BTreeMap<String, File>,
}

impl Kernel {
    fn open() -> std::io::Result<Self> {
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(Protocol::from(libc::NETLINK_ROUTE)))?;
        let (indices, namespaces) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { socket, pending: Vec::with_capacity(CHUNK), last: 0, indices, namespaces })
    }

    /// Looks up the index of a device, whose message may be pending.
    fn find(&mut self, device: &str, line: usize) -> Result<(), Failure> {
        if self.indices.contains_key(device) {
            return Ok(());
        }
        let found = match if_nametoindex(device) {
            Err(_) if !self.pending.is_empty() => {
                self.flush()?;
                if_nametoindex(device)
            }
            found => found,
        };
        let index = found.map_err(|e| Failure { line: Some(line), cause: e.into() })?;
        self.indices.insert(device.to_owned(), index);
        Ok(())
    }

    fn index(&self, device: &str) -> u32 {
        self.indices.get(device).copied().unwrap_or(0)
    }

    /// A descriptor of a namespace, valid until the messages are sent.
    fn namespace(&mut self, name: &str) -> std::io::Result<u32> {
        if let Some(file) = self.namespaces.get(name) {
            return Ok(file.as_raw_fd() as u32);
        }
        let file = File::open(netns::path(name))?;
        let descriptor = file.as_raw_fd() as u32;
        self.namespaces.insert(name.to_owned(), file);
        Ok(descriptor)
    }

    fn push(&mut self, line: usize, request: Request) -> Result<(), Failure> {
        self.last = self.pending.len();
        self.pending.extend_from_slice(&request.finish(line as u32));
        if self.pending.len() > CHUNK || self.namespaces.len() > NAMESPACES { self.flush() } else { Ok(()) }
    }

    /// Sends what is pending, and waits until the kernel has executed it.
    fn flush(&mut self) -> Result<(), Failure> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let last = Request::acknowledge(&mut self.pending[self.last..]);
        let general = |cause| Failure { line: None, cause };
        (&self.socket).write_all(&self.pending).map_err(general)?;
        self.pending.clear();
        let mut failure: Option<Failure> = None;
        let mut buffer = vec![0; CHUNK];
        loop {
            let len = (&self.socket).read(&mut buffer).map_err(general)?;
            let mut done = false;
            for (number, result) in acknowledgements(&buffer[..len]) {
                if let Err(cause) = result {
                    failure.get_or_insert(Failure { line: Some(number as usize), cause });
                }
                done |= number == last;
            }
            if done {
                break;
            }
        }
        // The messages have been executed: no descriptor is needed any more.
        if self.namespaces.len() > NAMESPACES {
            self.namespaces.clear();
        }
        failure.map_or(Ok(()), Err)
    }
}

/// Bytes of a send, from which on it is not extended.
const CHUNK: usize = 32 * 1024;
/// Descriptors of namespaces held at a time.
const NAMESPACES: usize = 256;
