//! Any bytes are an error, or a message that is emitted to bytes of the same meaning; and a session survives them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_control::openflow::session::Input;
use weft_control::openflow::{EmitError, Message, Session, Version};
use weft_control::time::Instant;

fuzz_target!(|bytes: &[u8]| {
    for version in Version::ALL {
        check(version, bytes);
        // A header that is right lets the body be reached sooner.
        let [kind, body @ ..] = bytes else { continue };
        let Ok(length) = u16::try_from(body.len() + 8) else { continue };
        let mut whole = vec![version.wire(), *kind];
        whole.extend_from_slice(&length.to_be_bytes());
        whole.extend_from_slice(&[0, 0, 0, 1]);
        whole.extend_from_slice(body);
        check(version, &whole);
        let mut session = Session::new(Instant::ZERO);
        let hello = [version.wire(), 0, 0, 8, 0, 0, 0, 1];
        let mut features = vec![version.wire(), 6, 0, 32, 0, 0, 0, 2];
        features.resize(32, 0);
        for input in [&hello[..], &features, &whole, bytes] {
            session.handle(Instant::ZERO, Input::Received(input));
            while session.poll().is_some() {}
        }
    }
});

fn check(version: Version, bytes: &[u8]) {
    let Ok(message) = Message::parse(version, bytes) else { return };
    let mut emitted = Vec::new();
    match message.emit(version, &mut emitted) {
        Ok(()) => assert_eq!(Message::parse(version, &emitted), Ok(message)),
        // Statistics and properties with padding that was not there.
        Err(EmitError::TooLong { .. }) => assert!(emitted.is_empty()),
        Err(error) => panic!("{error}: {message:?}"),
    }
}
