//! Any bytes are an error that names a line, or flows that read back as they were written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_fabric::formats::flows::{HostNames, csv, demand, matrix};

fuzz_target!(|data: &[u8]| {
    match csv::parse(data, HostNames::numbers(64)) {
        Ok(flows) => assert_eq!(csv::parse(csv::write(&flows).as_bytes(), HostNames::numbers(64)), Ok(flows)),
        Err(error) => assert!(error.line > 0 && !error.help.is_empty()),
    }
    let _ = matrix::parse(data);
    match demand::parse(data) {
        Ok(pairs) => assert!(pairs.iter().all(|(src, dst)| src != dst)),
        Err(error) => assert!(error.line > 0 && !error.help.is_empty()),
    }
});
