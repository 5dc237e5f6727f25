//! Any bytes are an error that names a line, or a fabric that reads back as it was written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_fabric::formats::topology::{Export, Format, read_as, write};

fuzz_target!(|data: &[u8]| {
    match read_as(Format::Hpcc, data) {
        Ok(imported) if imported.fabric.links().len() < 10_000 => {
            let text = write(&imported.fabric, Export::Hpcc);
            let text = text.expect("what was read can be written");
            let again = read_as(Format::Hpcc, text.as_bytes()).expect("our own text").fabric;
            assert_eq!(again.links().len(), imported.fabric.links().len());
            assert_eq!(again.host_count(), imported.fabric.host_count());
        }
        Ok(_) => {}
        Err(error) => assert!(error.line > 0 && !error.help.is_empty()),
    }
});
