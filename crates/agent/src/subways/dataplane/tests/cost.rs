//! What the programs cost a packet, by BPF_PROG_RUN: `WEFT_COST_RUNS=20001 cargo test -p weft-agent --lib cost_of_the_subways -- --nocapture`.

use super::detours::{ARRIVING, FOREVER, LEAVING, SERVERS, with_outer};
use super::*;
use crate::dataplane::testing::cost;

#[test]
fn cost_of_the_subways_programs() {
    let Some(sender) = Plane::sender(FOREVER) else { return };
    let server = Plane::server(SERVERS[0]).unwrap();
    server.permit(OWN[0], (0, 1), false, (u32::MAX, FOREVER));
    let passes = |answer| answer == REDIRECTED;
    let (detoured, _) = sender.detoured(0);
    let direct = (1000..1100).find(|&sport| run(&sender.loaded, "subways_out", &of(sport, 1448), 0).1.len() == 1502);
    eprintln!("Subways, send: {} ns", cost(&sender.loaded, "subways_out", &of(direct.unwrap(), 1448), passes));
    eprintln!("Subways, send with three headers: {} ns", cost(&sender.loaded, "subways_out", &of(detoured, 1448), passes));
    let received = frame(PEER[1], OWN[1], [80, 1000], 7, ACK, &[0; 1448]);
    eprintln!("Subways, receive: {} ns", cost(&sender.loaded, "subways_in", &received, |answer| answer == OK));
    for payload in [0, 400, 1448] {
        for hops in [&LEAVING[..1], &[LEAVING[0], LEAVING[1], ARRIVING[0]]] {
            let packet = with_outer(OWN[1], hops, &frame(OWN[1], PEER[0], [1, 80], 7, ACK, &vec![0; payload]));
            let (bytes, ns) = (packet.len(), cost(&server.loaded, "subways_in", &packet, passes));
            let (packets, gbps) = (1e3 / ns.max(1) as f64, 8.0 * bytes as f64 / ns.max(1) as f64);
            eprintln!(
                "Subways, forward {bytes} bytes: {ns} ns, {packets:.2} million packets/s or {gbps:.1} Gbps of one core in the program"
            );
        }
    }
}

fn of(sport: u16, payload: usize) -> Vec<u8> {
    frame(OWN[0], PEER[0], [sport, 80], 7, ACK, &vec![0; payload])
}
