//! Whatever stands in a scenario file, reading it gives runs or an error with a place, and never a panic.

use std::path::PathBuf;

use proptest::prelude::*;
use weft_experiment::Error;
use weft_experiment::scenario::source::Overrides;
use weft_experiment::study::Study;

const WORDS: &[&str] = &[
    "[fabric]",
    "[traffic]",
    "[control]",
    "[world]",
    "[sweep]",
    "[[event]]",
    "[[expect]]",
    "[search]",
    "[[tenant]]",
    "[switches]",
    "[overlay]",
    "\"tenants\"",
    "\"spain\"",
    "\"packet\"",
    "routing",
    "count",
    "fib_entries",
    "trials",
    "key",
    "at_most",
    "from",
    "to",
    "racks",
    "\"0-3\"",
    "place",
    "\"contiguous\"",
    "first_rack",
    "\"many-to-many\"",
    "senders",
    "receiver_racks",
    "\"memcache\"",
    "requests_per_s",
    "[quick]",
    "[full]",
    "title",
    "kind",
    "=",
    "k",
    "\"fat-tree\"",
    "\"clos\"",
    "\"tree\"",
    "\"file\"",
    "path",
    "\"../../nowhere\"",
    "4",
    "-1",
    "0",
    "18446744073709551615",
    "1e999",
    "nan",
    "link",
    "\"1Gbps\"",
    "\"0bps\"",
    "\"99999999999Tbps\"",
    "pattern",
    "\"random\"",
    "\"shuffle\"",
    "\"closed-loop\"",
    "size",
    "\"inf\"",
    "\"1B\"",
    "duration",
    "\"1s\"",
    "\"5000000000s\"",
    "\"0s\"",
    "warmup",
    "rates",
    "\"aimd\"",
    "\"slots\"",
    "\"control.scheduler\"",
    "[1, 2]",
    "[]",
    "{}",
    "{ a = 1 }",
    "\"fabric.k\"",
    "metric",
    "\"goodput_bps\"",
    "value",
    "within",
    "\"x%\"",
    "over",
    "where",
    "at",
    "fail",
    "\"link a-b\"",
    "\n",
    "\n",
    "\n",
    "true",
    "seed",
    "flows_per_host",
    "stride",
    "concurrency",
    "arrivals",
    "\"poisson\"",
    "load",
    "0.5",
    "\u{2028}",
    "é",
    "\"",
];

fn read(text: String) -> Result<Study, Error> {
    Study::from_text("any.toml", text, PathBuf::from("."), &Overrides::default())
}

fn check(text: String) {
    if let Err(error) = read(text) {
        assert!(!error.to_string().is_empty());
        let _ = format!("{:?}", miette::Report::new(error));
    }
}

proptest! {
    #[test]
    fn words_in_any_order(words in prop::collection::vec(prop::sample::select(WORDS), 0..60)) {
        check(words.join(" "));
    }

    #[test]
    fn a_good_scenario_with_bytes_changed(at in 0usize..600, byte in any::<u8>(), cut in 0usize..800) {
        let mut bytes = include_bytes!("../templates/basic.toml").to_vec();
        let place = at % bytes.len();
        bytes[place] = byte;
        bytes.truncate(bytes.len().saturating_sub(cut % 50));
        check(String::from_utf8_lossy(&bytes).into_owned());
    }
}
