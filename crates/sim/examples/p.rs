use std::sync::Arc;
use weft_fabric::routing::{Router, Routing};
use weft_fabric::topology::shapes::{Cabling, fat_tree};
use weft_fabric::traffic::*;
use weft_fabric::*;
use weft_sim::packet::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let k: u32 = a[1].parse().unwrap();
    let size: u64 = a[2].parse().unwrap();
    let per: u64 = a[3].parse().unwrap();
    let spread: u64 = a[4].parse().unwrap();
    let fabric = Arc::new(fat_tree(k, Cabling { rate: BitsPerSec(10_000_000_000), delay: Duration::from_us(1) }).unwrap());
    let mut flows = vec![];
    use rand::RngExt;
    let mut rng = weft_fabric::rng::stream(1, weft_fabric::rng::Stream::Traffic);
    let n = fabric.host_count() as u32;
    for _ in 0..per {
        let mut perm: Vec<u32> = (0..n).collect();
        for i in (1..n as usize).rev() {
            let j = rng.random_range(0..i);
            perm.swap(i, j);
        }
        for (i, &d) in perm.iter().enumerate() {
            let start = if spread > 0 { rng.random_range(0..spread) } else { 0 };
            flows.push(FlowSpec {
                src: HostId(i as u32),
                dst: HostId(d),
                start: Instant::from_ps(start),
                size: Size::Finite(Bytes(size)),
            });
        }
    }
    let t0 = std::time::Instant::now();
    let world = PacketWorld {
        router: Router::new(Arc::clone(&fabric), Routing::default(), 1),
        fabric,
        controller: None,
        workload: Box::new(StaticWorkload::new(flows)),
        events: vec![],
        config: PacketConfig {
            switch_queue: Some(Bytes(150_000)),
            nic_queue: Some(Bytes(1_500_000)),
            link_samples: 0,
            threads: std::env::args().nth(5).map_or(1, |t| t.parse().unwrap()),
            ..PacketConfig::default()
        },
    };
    let o = world.run(&mut |_| {}).unwrap();
    let s = t0.elapsed().as_secs_f64();
    let hops = o.packets.as_ref().unwrap().hops;
    let rss = std::fs::read_to_string("/proc/self/status").unwrap().lines().find(|l| l.starts_with("VmHWM")).unwrap().to_owned();
    println!(
        "hops {hops} events {} wall {s:.3} -> {:.2} Mhop/s, ended {} {rss}",
        o.events,
        hops as f64 / s / 1e6,
        o.ended.as_secs_f64()
    );
}
