//! Any bytes are an error, or a record or key whose bytes are given back when it is emitted: two encodings of one key would be two keys.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_control::directory::Key;
use weft_control::wire::directory::{emit_key, emit_record, parse_key, parse_record};

fuzz_target!(|bytes: &[u8]| {
    let mut emitted = Vec::new();
    if let Ok(record) = parse_record(bytes) {
        emit_record(&record, &mut emitted);
        assert_eq!(emitted, bytes, "{record:?}");
    }
    emitted.clear();
    if let Ok(key) = parse_key(bytes) {
        emit_key(&key, &mut emitted);
        assert_eq!(emitted, bytes, "{key:?}");
        assert_eq!(key.to_string().parse::<Key>().as_ref(), Ok(&key), "the text form reads back");
    }
    if let Ok(Ok(key)) = std::str::from_utf8(bytes).map(str::parse::<Key>) {
        emitted.clear();
        emit_key(&key, &mut emitted);
        assert_eq!(parse_key(&emitted), Ok(key));
    }
});
