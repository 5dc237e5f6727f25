//! TCP streams during events, and waiting for conditions.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use weft_lab::Stopwatch;

use super::{TIMEOUT, TestLab};

/// Ends the other threads of a test, also when it fails.
pub struct AtEnd<'a>(pub &'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until a condition holds; `what` names it in the message of a timeout.
#[track_caller]
pub fn wait_until(what: &str, mut is_met: impl FnMut() -> bool) {
    let watch = Stopwatch::new();
    while !is_met() {
        assert!(watch.elapsed() < TIMEOUT, "timeout: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The next connection; fails after a timeout if there is none.
pub fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    listener.set_nonblocking(true).expect("a setting");
    let mut accepted = None;
    wait_until("somebody connects", || {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let (stream, peer) = accepted.expect("a connection");
    stream.set_nonblocking(false).expect("a setting");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    (stream, peer)
}

/// Bytes that arrive after the act before the outage is read.
const AFTER: u64 = 4_000_000;

/// The longest outage of a stream from one node to another since something was done. The stream continues after it.
pub fn outage(lab: &TestLab, from: &str, to: &str, address: IpAddr, act: impl FnOnce()) -> Duration {
    let listener = lab.at(to, || TcpListener::bind((address, 0)).expect("a port"));
    let at = listener.local_addr().expect("an address");
    let (done, bytes, longest_us) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _end = AtEnd(&done);
        let (done, bytes, longest_us) = (&done, &bytes, &longest_us);
        scope.spawn(move || {
            lab.at(from, || {
                let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(5)).expect("a connection");
                while !done.load(Ordering::Relaxed) && stream.write_all(&[0; 16_384]).is_ok() {}
            });
        });
        let (mut stream, _) = accept(&listener);
        scope.spawn(move || {
            let (mut buffer, watch, mut last) = (vec![0; 1 << 16], Stopwatch::new(), Duration::ZERO);
            while !done.load(Ordering::Relaxed) {
                let Ok(length @ 1..) = stream.read(&mut buffer) else { break };
                bytes.fetch_add(length as u64, Ordering::Relaxed);
                longest_us.fetch_max((watch.elapsed() - last).as_micros() as u64, Ordering::Relaxed);
                last = watch.elapsed();
            }
        });
        let more = |than: u64, length: u64| wait_until("the stream goes on", || bytes.load(Ordering::Relaxed) > than + length);
        more(0, 1_000_000);
        longest_us.store(0, Ordering::Relaxed);
        act();
        // Packets in queues are far fewer than this.
        more(bytes.load(Ordering::Relaxed), AFTER);
        Duration::from_micros(longest_us.load(Ordering::Relaxed))
    })
}
