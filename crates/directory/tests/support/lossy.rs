//! A network of the test's own, in which datagrams are lost by an eBPF program (`loss.c`) on tc.
//!
//! ```text
//!   a thread --unshare--> network namespace: lo, with clsact; its ingress filter drops UDP at random; TCP (etcd) goes through
//!      '-- threads and processes that it starts are in there too
//! ```
//! Nothing has to be removed: the namespace, its device and the program end with the last process in it, however that ends.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};

/// Runs `body` where so many of 1000 UDP datagrams are lost. None, with a word on stderr, where that is not possible: without root, or in a
/// container that may not. In CI a user who may must also have the tools.
pub fn run<T: Send>(per_mille: u32, body: impl FnOnce() -> T + Send) -> Option<T> {
    let result = std::thread::scope(|scope| scope.spawn(|| enter(per_mille).map(|()| body())).join());
    match result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
        Ok(value) => Some(value),
        Err(why) => {
            eprintln!("no loss by eBPF: {why}");
            None
        }
    }
}

/// Takes this thread into a new network with loss.
fn enter(per_mille: u32) -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("no network namespace ({error}); run the test as root"))?;
    for program in ["clang", "ip", "tc"] {
        if Command::new(program).arg(if program == "clang" { "--version" } else { "-V" }).output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "no {program}: run scripts/setup-bpf.sh");
            return Err(format!("there is no {program}; scripts/setup-bpf.sh gets it"));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("loss.o");
    let object = object.to_str().unwrap();
    compile(per_mille, object);
    must("ip link set lo up")?;
    must("tc qdisc add dev lo clsact")?;
    must(&format!("tc filter add dev lo ingress bpf direct-action object-file {object} section classifier"))?;
    let lost = lost_of(4000);
    let expected = f64::from(per_mille) * 4.0;
    assert!((lost - expected).abs() < 5.0 * expected.sqrt(), "{lost} of 4000 datagrams were lost");
    eprintln!("eBPF: {lost} of 4000 datagrams were lost");
    Ok(())
}

fn compile(per_mille: u32, object: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/loss.c");
    let mut clang = Command::new("clang");
    clang.args(["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", &format!("-DLOSS={per_mille}"), "-c"]).arg(source);
    // Where Debian has the kernel's headers of this machine's kind (asm/types.h).
    clang.arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH)).args(["-o", object]);
    let out = clang.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

fn must(command: &str) -> Result<(), String> {
    let mut words = command.split(' ');
    let out = Command::new(words.next().unwrap()).args(words).output().map_err(|error| format!("{command}: {error}"))?;
    if out.status.success() { Ok(()) } else { Err(format!("{command}: {}", String::from_utf8_lossy(&out.stderr))) }
}

/// How many of some datagrams do not arrive.
fn lost_of(count: u32) -> f64 {
    let (from, to) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    to.set_nonblocking(true).unwrap();
    let mut arrived = 0;
    for _ in 0..count {
        from.send_to(&[1], to.local_addr().unwrap()).unwrap();
        arrived += u32::from(to.recv(&mut [0; 8]).is_ok());
    }
    std::thread::sleep(Duration::from_millis(1));
    while to.recv(&mut [0; 8]).is_ok() {
        arrived += 1;
    }
    f64::from(count - arrived)
}
