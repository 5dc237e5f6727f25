//! What the programs cost a packet that they let pass, by BPF_PROG_RUN, and what they cost the kernel to verify:
//! `WEFT_COST_RUNS=20001 cargo test -p weft-agent --lib cost_of -- --nocapture`.

use super::super::{HostSettings, LocatorKind, layout};
use super::packets::*;
use super::switch::switch;
use crate::dataplane::load::Loaded;
use crate::dataplane::testing::{self, DROPPED, PinDir, is_soon_verified};

fn cost(loaded: &Loaded, program: &str, frame: &[u8]) -> u64 {
    testing::cost(loaded, program, frame, |answer| answer != DROPPED)
}

#[test]
fn cost_of_the_programs() {
    let (Some(pins), Some(own), Some(switch_pins)) = (PinDir::new(), PinDir::new(), PinDir::new()) else { return };
    let far = "10.200.9.7".parse().unwrap();
    let inner = ip4(FAR, OWN, 6, &tcp(1000));
    let loaded = host(&pins, &settings());
    eprintln!("host, send with two headers: {} ns", cost(&loaded, "vl2_out", &from_stack(&ip4(OWN, FAR, 6, &tcp(1000)))));
    eprintln!(
        "host, neither from nor to an application address: {} ns",
        cost(&loaded, "vl2_out", &from_stack(&ip4(LA, EXTERNAL, 6, &tcp(1000))))
    );
    eprintln!("host, receive: {} ns", cost(&loaded, "vl2_in", &from_wire(&inner)));
    eprintln!("host, receive at a locator: {} ns", cost(&loaded, "vl2_in", &from_wire(&ip4(EXTERNAL, LA, 6, &tcp(1000)))));
    is_soon_verified(&loaded, &["vl2_out", "vl2_in"]);
    let loaded = host(&own, &HostSettings { locator: LocatorKind::Host, ..settings() });
    eprintln!("host, strip and receive: {} ns", cost(&loaded, "vl2_in", &from_wire(&outer(far, LA, &inner))));
    let loaded = switch(&switch_pins);
    let tunnel = outer(far, TOR, &inner);
    eprintln!("ToR, strip and deliver: {} ns", cost(&loaded, "vl2_port", &from_wire(&tunnel)));
    eprintln!(
        "intermediate switch, strip: {} ns",
        cost(&loaded, "vl2_port", &from_wire(&outer(far, ANYCAST[0], &outer(far, FAR_TOR, &inner))))
    );
    let out = outer(far, ANYCAST[1], &outer(far, FAR_TOR, &ip4(OWN, FAR, 6, &tcp(1000))));
    eprintln!("switch, forward: {} ns", cost(&loaded, "vl2_port", &from_wire(&out)));
    loaded.table(&layout::HOST_PORTS).set(&1, &1).unwrap();
    loaded.table(&layout::SOURCES).set(&layout::source("10.200.9.0/24".parse().unwrap()), &1).unwrap();
    eprintln!("ToR, forward from a host: {} ns", cost(&loaded, "vl2_port", &from_wire(&out)));
    is_soon_verified(&loaded, &["vl2_port"]);
}
