//! Any bytes are an error, or a message whose bytes are given back when it is emitted; and so are bodies that begin with their kind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_control::wire::directory::{Frame, HEADER, Message, emit_map, parse_map};

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // A header that is right lets the body be reached sooner.
    let mut whole = b"WD\x01".to_vec();
    whole.extend_from_slice(bytes);
    check(&whole);
    if let Ok(map) = parse_map(bytes) {
        let mut emitted = Vec::new();
        emit_map(&map, &mut emitted);
        assert_eq!(emitted, bytes, "{map:?}");
    }
});

fn check(bytes: &[u8]) {
    let Ok(frame) = Frame::parse(bytes) else { return };
    assert_eq!(frame.covered.len(), HEADER + frame.body.len());
    let Ok(message) = Message::parse(frame.header.kind, frame.body) else { return };
    assert_eq!(message.kind(), frame.header.kind);
    let mut emitted = Vec::new();
    frame.header.emit(&mut emitted);
    message.emit(&mut emitted);
    assert_eq!(emitted, frame.covered, "{message:?}");
    match message {
        Message::Lookup(it) => assert_eq!(it.keys().count(), it.count),
        Message::Answer(it) => assert_eq!(it.results().count(), it.count),
        _ => {}
    }
}
