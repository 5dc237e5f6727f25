//! Any bytes are an error that names a line, or flows that can be written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_fabric::formats::flows::{HostNames, flow_txt};

fuzz_target!(|data: &[u8]| {
    match flow_txt::parse(data, HostNames::numbers(64)) {
        Ok(mut flows) => {
            if let Ok(text) = flow_txt::write(&flows) {
                flows.sort_by_key(|f| f.start);
                assert_eq!(flow_txt::parse(text.as_bytes(), HostNames::numbers(64)), Ok(flows));
            }
        }
        Err(error) => assert!(error.line > 0 && !error.help.is_empty()),
    }
});
