//! Any text is an error or a distribution with a mean, from which one can draw.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_fabric::rng::{Stream, stream};
use weft_fabric::traffic::{Concurrency, Size, SizeSpec};

fuzz_target!(|text: &str| {
    if let Ok(spec) = text.parse::<SizeSpec>() {
        assert_eq!(spec.mean().is_none(), spec == SizeSpec::Infinite);
        let mut rng = stream(1, Stream::Traffic);
        for _ in 0..4 {
            assert!(!matches!(spec.sample(&mut rng), Size::Finite(bytes) if bytes.0 == 0));
        }
    }
    if let Ok(concurrency) = text.parse::<Concurrency>() {
        assert!(concurrency.sample(&mut stream(1, Stream::Traffic)) > 0);
    }
});
