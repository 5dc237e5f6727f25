//! What an agent digests with a million VMs in its table: NLA-HERE (NetLord section 4.2: 164,000 a second are 1 % of 10 Gbps), and frames of its VMs that its data
//! plane hands to it. Run: `cargo bench -p weft-control --bench netlord`. The rates are of one core, without the system calls of a socket.

use std::net::Ipv4Addr;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use weft_control::netlord::agent::{Agent, AgentConfig, Input, VifId};
use weft_control::netlord::nl_arp::{NlArp as Push, NlArpConfig};
use weft_control::netlord::paths::OneVlan;
use weft_control::netlord::{EdgePort, Location, MacSpace, UplinkId, Vif};
use weft_control::time::Instant;
use weft_control::wire::netlord::{Here, Lldp, NlArp};
use weft_control::wire::packet::ethernet::{EtherType, Ethernet, VlanId};
use weft_fabric::rng::{self, Stream, mix};
use weft_fabric::{MacAddr, TenantId};

const VMS: u32 = 1_000_000;
const BATCH: u32 = 4096;
const UPLINK: UplinkId = UplinkId(0);

fn vif(n: u32) -> Vif {
    let [_, a, b, c] = n.to_be_bytes();
    Vif { tenant: TenantId(3 + n / 100), space: MacSpace(1), mac: MacAddr([2, 0, 0, a, b, c]) }
}

fn place(n: u32) -> Location {
    let port = EdgePort::new(1 + (n % 48) as u16).expect("a port");
    Location { switch: MacAddr([2, 9, 0, 0, 0, (n / 48 % 200) as u8]), port }
}

fn here(n: u32, at: u32, special: VlanId) -> Vec<u8> {
    let mut frame = Vec::new();
    let ip4 = Some(Ipv4Addr::from(0x0a00_0000 | n));
    NlArp::Here(Here { vif: vif(n), ip4, ip6: None }).emit(place(at), special, &mut frame);
    frame
}

fn bench(c: &mut Criterion) {
    let special = VlanId::new(4094).expect("a VLAN");
    let locations = Push::new(NlArpConfig::default(), rng::stream(1, Stream::Traffic));
    let mut agent = Agent::new(AgentConfig::new(vec![special]), locations, OneVlan(special));
    let now = Instant::ZERO;
    agent.handle(now, Input::Uplink { uplink: UPLINK, up: Some((MacAddr([2; 6]), 9000)) });
    let mut lldp = Vec::new();
    Lldp { location: place(9_599), ttl_s: 60_000 }.emit(place(9_599).switch, "p48", &mut lldp);
    agent.handle(now, Input::FromFabric { uplink: UPLINK, frame: &lldp });
    agent.handle(now, Input::Attach { id: VifId(1), vif: Vif { mac: MacAddr([4; 6]), ..vif(0) }, addresses: vec![] });
    for n in 0..VMS {
        agent.handle(now, Input::FromFabric { uplink: UPLINK, frame: &here(n, n, special) });
    }
    while agent.poll().is_some() {}
    assert_eq!(agent.locations().table().len(), VMS as usize);

    let mut group = c.benchmark_group("netlord-agent");
    group.throughput(Throughput::Elements(u64::from(BATCH)));
    let mut round = 0;
    group.bench_function("here-moved", |b| {
        b.iter_batched(
            || {
                round += 1;
                let any = |n: u32| (mix(u64::from(round * BATCH + n)) % u64::from(VMS)) as u32;
                (0..BATCH).map(|n| here(any(n), any(n) + round, special)).collect::<Vec<_>>()
            },
            |frames| {
                for frame in &frames {
                    agent.handle(now, Input::FromFabric { uplink: UPLINK, frame });
                    while agent.poll().is_some() {}
                }
            },
            criterion::BatchSize::LargeInput,
        );
    });
    let mut frames = Vec::new();
    for n in 0..BATCH {
        let mut frame = Vec::new();
        let (dst, src) = (vif(n % 100).mac, MacAddr([4; 6]));
        Ethernet { dst, src, tag: None, ethertype: EtherType(0x8892), payload: &[7; 1400] }.emit(&mut frame);
        frames.push(frame);
    }
    group.bench_function("frame-encapsulated", |b| {
        b.iter(|| {
            for frame in &frames {
                agent.handle(now, Input::FromVif { id: VifId(1), frame });
                while agent.poll().is_some() {}
            }
        });
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
