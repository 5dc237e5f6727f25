//! Any bytes are an error that names a line, or a distribution from which one can draw.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_fabric::Bytes;
use weft_fabric::formats::cdf::{CdfOptions, CdfUnits, parse, write};

fuzz_target!(|data: &[u8]| {
    for units in [None, Some(CdfUnits::Percent), Some(CdfUnits::Fraction)] {
        for scale in [None, Some(Bytes(1460))] {
            match parse(data, CdfOptions { units, scale }) {
                Ok(cdf) => {
                    assert!(cdf.mean() > 0.0 && cdf.mean().is_finite());
                    for u in [0.0, 0.3, 1.0] {
                        let value = cdf.quantile(u);
                        assert!(value >= 0.0 && value.is_finite());
                    }
                    let again = CdfOptions { units: Some(CdfUnits::Fraction), scale: None };
                    assert_eq!(parse(write(&cdf, CdfUnits::Fraction).as_bytes(), again).as_ref(), Ok(&cdf));
                }
                Err(error) => assert!(error.line > 0 && !error.help.is_empty()),
            }
        }
    }
});
