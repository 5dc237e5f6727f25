//! What the programs cost a frame that does not go to the agent, by BPF_PROG_RUN, and what they cost the kernel to verify:
//! `WEFT_COST_RUNS=20001 cargo test -p weft-agent --lib netlord_programs -- --nocapture`.

use super::*;
use crate::dataplane::load::Loaded;
use crate::dataplane::testing::{self, REDIRECTED, is_soon_verified};

fn cost(loaded: &Loaded, program: &str, frame: &[u8]) -> u64 {
    testing::cost(loaded, program, frame, |answer| answer == REDIRECTED)
}

#[test]
fn cost_of_the_netlord_programs() {
    let Some((_pins, plane)) = server() else { return };
    let packet = |n| ethernet(vm(n), vm(1), 0x0800, &ip4(6, &[], 0x4000, &udp(40_000, 80, 1000)));
    eprintln!("NetLord, to a VIF on this server: {} ns", cost(plane.loaded(), "netlord_vif", &packet(3)));
    eprintln!("NetLord, encapsulate: {} ns", cost(plane.loaded(), "netlord_vif", &packet(2)));
    eprintln!("NetLord, strip and deliver: {} ns", cost(plane.loaded(), "netlord_uplink", &host::arrived(1, &[1; 1000]).0));
    is_soon_verified(plane.loaded(), &["netlord_vif", "netlord_uplink"]);
    let Some((_pins, plane)) = switch::edge(std::time::Duration::from_secs(300)) else { return };
    eprintln!("NetLord, last hop of a switch: {} ns", cost(plane.loaded(), "netlord_port", &switch::last(4)));
    is_soon_verified(plane.loaded(), &["netlord_port"]);
}
