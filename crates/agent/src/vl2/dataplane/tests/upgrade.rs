//! Another build of the programs, whose tables have other fields: what this one's tables hold is carried over to it, and back.

use std::path::Path;
use std::process::Command;

use libbpf_rs::{MapCore as _, MapFlags};
use weft_control::directory::key::ServiceId;

use super::super::{Counter, Counters, PeerKey, PeerState, Refusal, layout};
use super::packets::*;
use crate::dataplane::load::Loaded;
use crate::dataplane::maps::sums;
use crate::dataplane::testing::{OK, PinDir, run};

/// What the other build has in place of parts of this one's sources: fields in front of others, a number of another width, a counter more, a map more.
const CHANGES: [(&str, &str, &str); 7] = [
    ("vl2/layout.h", "struct vl2_peer {", "struct vl2_peer {\n__u32 next;"),
    ("vl2/layout.h", "struct vl2_settings {", "struct vl2_settings {\n__u64 next;"),
    ("vl2/layout.h", "struct vl2_group {", "struct vl2_group {\n__u64 next;"),
    ("vl2/layout.h", "struct vl2_local {", "struct vl2_local {\n__u16 next[2];"),
    ("vl2/layout.h", "__u32 salt;", "__u64 salt;"),
    ("vl2/layout.h", "enum vl2_counter {", "enum vl2_counter { VL2_NEXT,"),
    (
        "vl2/host.h",
        "#endif",
        "struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, __u32); } next SEC(\".maps\");\n#endif",
    ),
];

/// The programs of a host, compiled with these changes.
fn other_build(folder: &Path) -> Vec<u8> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let mut found = 0;
    for part in ["", "vl2"] {
        std::fs::create_dir_all(folder.join(part)).unwrap();
        for file in std::fs::read_dir(sources.join(part)).unwrap().flatten().filter(|it| it.path().is_file()) {
            let name = file.path().strip_prefix(&sources).unwrap().to_owned();
            let mut text = std::fs::read_to_string(file.path()).unwrap();
            for (_, from, to) in CHANGES.iter().filter(|(at, ..)| Path::new(at) == name) {
                assert!(text.contains(from), "{from}");
                let at = text.rfind(from).unwrap();
                text.replace_range(at..at + from.len(), to);
                found += 1;
            }
            std::fs::write(folder.join(name), text).unwrap();
        }
    }
    assert_eq!(found, CHANGES.len());
    let object = folder.join("host.o");
    let mut clang = Command::new("clang");
    clang.args([
        "-g",
        "-O2",
        "-target",
        "bpf",
        "-mcpu=v3",
        &format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH),
        "-c",
    ]);
    assert!(clang.arg(folder.join("vl2/host.bpf.c")).arg("-o").arg(&object).status().unwrap().success());
    std::fs::read(object).unwrap()
}

/// What a build makes of packets to a peer over intermediates, one behind the own ToR, and one that is forbidden.
fn forwards(loaded: &Loaded) {
    for peer in [FAR, NEAR] {
        let packet = ip4(OWN, peer, 6, &tcp(100));
        assert_eq!(run(loaded, "vl2_out", &from_stack(&packet), 0), (OK, pushed(&packet, 0)));
    }
    assert_eq!(run(loaded, "vl2_out", &from_stack(&ip4(OWN, FORBIDDEN, 6, &tcp(100))), 0).0, 2);
}

#[test]
fn tables_and_counters_are_carried_over_to_another_build_and_back() {
    let Some(pins) = PinDir::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let other = other_build(folder.path());
    let count = |counters: &Counters| [Counter::PushedTwo, Counter::PushedOne, Counter::OutForbidden].map(|it| counters.get(it));

    let ours = host(&pins, &settings());
    forwards(&ours);
    assert_eq!(count(&Counters::read(&ours).unwrap()), [1, 1, 1]);
    let peers = ours.table(&layout::PEERS).all().unwrap();
    drop(ours);

    let theirs = Loaded::load(&other, &[("peers", 64), ("flows", 1024), ("events", 1 << 16)], &pins.0).unwrap();
    assert!(theirs.adopted);
    forwards(&theirs);
    let value = theirs.map("peers").lookup(&theirs.map("peers").keys().next().unwrap(), MapFlags::ANY).unwrap().unwrap();
    assert_eq!((value.len(), &value[..4]), (20, &[0; 4][..]), "the field that is new is 0");
    // With the numbers of that build, whose first counter is another.
    let number = Counter::PushedTwo as usize + 1;
    assert_eq!(theirs.counters(number + 1).unwrap()[number], 2);
    assert_eq!(sums(theirs.map("counters"), number + 1).unwrap()[number], 1, "its own");
    assert!(pins.0.join("next").exists());
    drop(theirs);

    let ours = super::super::host::load(&settings(), &pins.0).unwrap();
    assert!(ours.adopted);
    forwards(&ours);
    assert_eq!(count(&Counters::read(&ours).unwrap()), [3, 3, 3]);
    assert_eq!(ours.table(&layout::PEERS).all().unwrap().len(), peers.len());
    let left = |name: &str| pins.0.join(name).exists();
    assert!(!left("next") && !left("next-peers") && left("peers"), "pins of the other build are gone");
}

#[test]
fn what_the_replaced_programs_still_count_is_not_lost() {
    let Some(pins) = PinDir::new() else { return };
    let old = host(&pins, &settings());
    let folder = tempfile::tempdir().unwrap();
    let other = other_build(folder.path());
    let mut new = Loaded::load(&other, &[("peers", 64), ("flows", 1024), ("events", 1 << 16)], &pins.0).unwrap();
    let number = Counter::PushedTwo as usize + 1;
    // Its programs are on the hooks until the new one's are.
    forwards(&old);
    forwards(&new);
    new.reconcile().unwrap();
    assert_eq!(new.counters(number + 1).unwrap()[number], 2);
}

#[test]
fn other_limits_have_tables_of_that_size() {
    let Some(pins) = PinDir::new() else { return };
    let first = host(&pins, &settings());
    let all = first.table(&layout::PEERS).len();
    assert!(all > 2);
    drop(first);
    let mut other = settings();
    for (limit, kept) in [(128, all), (2, 2), (64, 2)] {
        other.limits.peers = limit;
        let loaded = super::super::host::load(&other, &pins.0).unwrap();
        assert_eq!((loaded.map("peers").max_entries(), loaded.table(&layout::PEERS).len()), (limit, kept));
        assert!(loaded.adopted);
    }
}

#[test]
fn a_build_that_cannot_be_loaded_leaves_everything_as_it_was() {
    let Some(pins) = PinDir::new() else { return };
    let ours = host(&pins, &settings());
    let key = layout::peer_key(PeerKey { service: ServiceId(1), address: [7, 7, 7, 7].into() });
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(&pins.0).unwrap().map(|it| it.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    // More entries than the kernel has memory for.
    let mut other = settings();
    other.limits.flows = u32::MAX;
    assert!(super::super::host::load(&other, &pins.0).is_err());
    assert_eq!(names(), before);
    ours.table(&layout::PEERS).set(&key, &layout::peer(&PeerState::Refused(Refusal::Unknown), false)).unwrap();
    drop(ours);
    let again = super::super::host::load(&settings(), &pins.0).unwrap();
    assert!(again.table(&layout::PEERS).get(&key).unwrap().is_some(), "the map is the same");
}
