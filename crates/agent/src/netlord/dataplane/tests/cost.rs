//! What the programs cost a frame that does not go to the agent, by BPF_PROG_RUN: `WEFT_COST_RUNS=20001 cargo test -p weft-agent --lib netlord_programs -- --nocapture`.

use libbpf_rs::ProgramInput;

use super::*;
use crate::dataplane::load::Loaded;
use crate::dataplane::testing::REDIRECTED;

/// The median time of a program on a frame that it sends on, in nanoseconds.
fn cost(loaded: &Loaded, program: &str, frame: &[u8]) -> u64 {
    let program = loaded.program(program);
    let runs = std::env::var("WEFT_COST_RUNS").map_or(FEW, |text| text.parse().expect("a number of runs"));
    let mut times: Vec<u64> = (0..runs)
        .map(|_| {
            let mut out = vec![0; frame.len() + 256];
            let input = ProgramInput { data_in: Some(frame), data_out: Some(&mut out), ..Default::default() };
            let run = program.test_run(input).unwrap();
            assert_eq!(run.return_value as i32, REDIRECTED, "the frame is sent on");
            run.duration.as_nanos() as u64
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn cost_of_the_netlord_programs() {
    let Some((_pins, plane)) = server() else { return };
    let packet = |n| ethernet(vm(n), vm(1), 0x0800, &ip4(6, &[], 0x4000, &udp(40_000, 80, 1000)));
    eprintln!("NetLord, to a VIF on this server: {} ns", cost(plane.loaded(), "netlord_vif", &packet(3)));
    eprintln!("NetLord, encapsulate: {} ns", cost(plane.loaded(), "netlord_vif", &packet(2)));
    eprintln!("NetLord, strip and deliver: {} ns", cost(plane.loaded(), "netlord_uplink", &host::arrived(1, &[1; 1000]).0));
    let Some((_pins, plane)) = switch::edge(std::time::Duration::from_secs(300)) else { return };
    eprintln!("NetLord, last hop of a switch: {} ns", cost(plane.loaded(), "netlord_port", &switch::last(4)));
}

/// Enough to show that the frames pass.
const FEW: usize = 11;
