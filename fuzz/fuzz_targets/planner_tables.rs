//! Any text as a price list, a log of failures or a map of hosts: an error that names a line, or what it describes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_planner::analyze::HostMap;
use weft_planner::{cost, failures};

fuzz_target!(|text: &str| {
    if let Err(error) = cost::parse(text) {
        assert!(error.line > 0 && !error.help.is_empty());
    }
    if let Err((line, message, _)) = failures::parse(text) {
        assert!(line > 0 && !message.is_empty());
    }
    if let Err((line, message, _)) = HostMap::parse(text) {
        assert!(line > 0 && !message.is_empty());
    }
});
