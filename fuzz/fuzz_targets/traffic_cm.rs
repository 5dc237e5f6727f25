//! Any bytes are an error that names a line, or a matrix whose flows begin at most once, whatever ends when.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_fabric::formats::flows::{HostNames, cm};
use weft_fabric::{FlowId, Instant};

fuzz_target!(|data: &[u8]| {
    match cm::parse(data, HostNames::numbers(64)) {
        Ok(matrix) => {
            let mut workload = matrix.workload();
            let (mut taken, mut now) = (0, Instant::ZERO);
            while let Some(flow) = workload.next_flow() {
                assert!(flow.start >= now && flow.src != flow.dst);
                now = flow.start;
                workload.flow_ended(FlowId(taken), &flow, now);
                taken += 1;
            }
            assert!(taken as usize <= matrix.connections.len());
        }
        Err(error) => assert!(error.line > 0 && !error.help.is_empty()),
    }
});
