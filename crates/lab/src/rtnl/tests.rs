//! The state of the kernel after a batch is the same with these messages and with iproute2.

use std::collections::BTreeSet;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;
use proptest::prelude::*;

use super::parse::{Command, command};
use crate::batch::batch_by_program;
use crate::{netns, sysctl};

const DEVICES: &str = "link set lo up
link add eth0 mtu 1600 numtxqueues 1 numrxqueues 1 type veth peer name p0 mtu 1600 numtxqueues 1 numrxqueues 1
link add rack type veth peer name rack-end
link set eth0 address 02:00:0a:01:01:02
addr add 10.1.1.1/32 dev lo
addr add 10.1.1.2/32 dev eth0
addr add 172.16.0.0/31 dev p0
addr add 172.16.0.2/31 dev eth0
addr add 10.1.1.1/24 dev rack noprefixroute
addr add 10.1.1.1 peer 10.1.1.9 dev p0 noprefixroute
link set rack up
link set rack-end mtu 1400 up
link set eth0 up
link set p0 up
";
const QUEUES: &str = "qdisc add dev eth0 root tbf rate 10000000bit burst 8000 limit 1600000
qdisc add dev p0 root tbf rate 40000000000bit burst 20000000 limit 102400
";
const ROUTES: &str = "route add default via 10.1.1.254 dev eth0 onlink src 10.1.1.2 mtu 1500
route add default via 10.1.1.254 dev eth0 onlink src 10.1.1.2 mtu 1500 table 100
route add default via 10.1.1.254 dev eth0 onlink src 10.1.1.2 table 1000
rule add from 10.1.1.2 lookup 100
rule add from 10.1.1.0/24 lookup 1000
route add 10.1.1.7/32 dev p0 src 10.1.1.1
route add unreachable 10.1.1.0/24
route add 10.2.1.0/24 src 10.1.1.1 nexthop via 172.16.0.1 dev p0 nexthop via 172.16.0.3 dev eth0
route add 10.0.0.1/32 src 10.1.1.1 nexthop via 172.16.0.1 dev p0
route add 10.9.0.0/16 via 172.16.0.1 dev p0 onlink
";

/// What the kernel reports of a new namespace in which the batches were executed.
fn state_after(execute: fn(&'static str, &str)) -> Vec<String> {
    let work = move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("root");
        sysctl::set(&[("net/ipv6/conf/default/disable_ipv6", "1".to_owned())], "a test namespace").expect("a setting");
        execute("ip", DEVICES);
        execute("tc", QUEUES);
        execute("ip", ROUTES);
        let show = |program, words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            netns::output(program, &words, "a test namespace").expect("output")
        };
        let links = ["ip -o -d link show", "ip -o addr show"].map(|line| {
            let text = show("ip", &line[3..]);
            // Addresses of the devices that have none from the batch are random, and times differ.
            text.split_ascii_whitespace()
                .filter(|word| word.len() != 17 || word.starts_with("02:00"))
                .collect::<Vec<_>>()
                .join(" ")
        });
        let mut all = links.to_vec();
        all.push(show("ip", "-d route show table all"));
        all.push(show("ip", "-d rule show"));
        all.push(show("tc", "-d qdisc show").lines().map(without_handle).collect::<Vec<_>>().join("\n"));
        all
    };
    std::thread::spawn(work).join().expect("no panic")
}

/// Handles count up in the whole system.
fn without_handle(line: &str) -> String {
    line.split(' ').filter(|word| !word.ends_with(':')).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_kernel_is_as_after_iproute2() {
    if !geteuid().is_root() {
        eprintln!("skipped: namespaces need root");
        return;
    }
    let own = state_after(|program, batch| super::run(program, batch).expect("all commands are known").expect("executed"));
    let iproute2 = state_after(|program, batch| batch_by_program(program, batch, "a test namespace").expect("executed"));
    assert!(own.iter().all(|text| !text.is_empty()), "{own:#?}");
    for (own, iproute2) in own.iter().zip(&iproute2) {
        assert_eq!(own, iproute2);
    }
}

#[test]
fn an_error_names_the_line() {
    if !geteuid().is_root() {
        eprintln!("skipped: namespaces need root");
        return;
    }
    let work = || {
        unshare(CloneFlags::CLONE_NEWNET).expect("root");
        let of = |batch: &str| super::run("ip", batch).expect("known").expect_err("refused");
        let failure =
            of("link set lo up\nlink set lo up\naddr add 10.0.0.1/32 dev lo\naddr add 10.0.0.1/32 dev lo\nlink set lo up\n");
        assert_eq!((failure.line, failure.cause.raw_os_error()), (Some(3), Some(libc::EEXIST)), "{failure:?}");
        let failure = of("link set lo up\nroute add 10.1.0.0/16 dev none\n");
        assert_eq!((failure.line, failure.cause.raw_os_error()), (Some(1), Some(libc::ENODEV)), "{failure:?}");
        let failure = of("link add a netns weft-none-such type veth peer name b\n");
        assert_eq!((failure.line, failure.cause.raw_os_error()), (Some(0), Some(libc::ENOENT)), "{failure:?}");
    };
    std::thread::spawn(work).join().expect("no panic");
}

#[test]
fn what_is_not_known_is_left_to_the_programs() {
    let lines = [
        "link add vx type vxlan id 1",
        "link set eth0 gso_max_segs 1",
        "addr add fd00::1/64 dev eth0",
        "addr add 10.0.0.1/32",
        "route replace default via 10.0.0.1",
        "route add default via",
        "route add 10.0.0.0/8 nexthop dev p0 via 10.0.0.1",
        "rule add iif p0 lookup 200 pref 100",
        "neigh flush dev eth0",
        "",
    ];
    for line in lines {
        assert_eq!(command("ip", line), None, "{line}");
    }
    assert_eq!(command("tc", "qdisc add dev eth0 root netem delay 1ms"), None);
    assert_eq!(command("tc", "link set eth0 up"), None);
    let up = Command::SetLink { name: "eth0", up: Some(true), address: None, mtu: None };
    assert_eq!(command("ip", "link set eth0 up"), Some(up));
}

#[test]
fn all_test_commands_are_known() {
    let of = |program, batch: &'static str| batch.lines().filter(move |line| command(program, line).is_none());
    let unknown: BTreeSet<&str> = of("ip", DEVICES).chain(of("ip", ROUTES)).chain(of("tc", QUEUES)).collect();
    assert_eq!(unknown, BTreeSet::new());
}

proptest! {
    #[test]
    fn arbitrary_words_never_panic(words in proptest::collection::vec("(link|addr|route|rule|qdisc|add|set|dev|via|nexthop|type|veth|peer|name|root|tbf|rate|[0-9./:a-z]{1,9})", 0..12)) {
        let line = words.join(" ");
        for program in ["ip", "tc"] {
            let _ = command(program, &line);
        }
    }
}
