//! Any message of a host is refused, or relayed to a server so that its answer comes back by the port and, if it came by unicast, to the host's address; any message of
//! a server is refused or for a port; any frame is refused or has a message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_control::wire::packet::dhcp::{BOOT_REPLY, COOKIE, COOKIE_AT, OPTIONS_AT, Options};
use weft_control::wire::vl2::dhcp::{Relay, from_frame, to_frame, to_host, to_server};
use weft_fabric::MacAddr;

fuzz_target!(|bytes: &[u8]| {
    let locator = [10, 1, 1, 1].into();
    let mut message = bytes.to_vec();
    // What would seldom be right by chance.
    if message.len() >= OPTIONS_AT {
        message[COOKIE_AT..OPTIONS_AT].copy_from_slice(&COOKIE);
        let relay = if message[0] == BOOT_REPLY { [10, 1, 1, 1] } else { [0; 4] };
        message[24..28].copy_from_slice(&relay);
    }
    let _ = (to_host(&message, locator), from_frame(bytes));
    let relay = Relay { locator, subnet: Some([20, 0, 0, 0].into()), port: "p3" };
    let own = message.get(12..16).and_then(|it| it.first_chunk::<4>()).filter(|it| **it != [0; 4]).map(|it| (*it).into());
    for from in [None, own] {
        if let Ok(mut relayed) = to_server(&message, &relay, from) {
            relayed[0] = BOOT_REPLY;
            let answer = to_host(&relayed, locator).expect("what is relayed can be answered");
            assert_eq!(answer.port, "p3");
            assert!(answer.client.is_none() || answer.client == from);
            assert!(Options::of(&answer.message[OPTIONS_AT..]).eq(Options::of(&message[OPTIONS_AT..])));
        }
    }
    if message.len() <= 2000 {
        let mac = MacAddr([2; 6]);
        let mut frame = to_frame(&message, (mac, locator), (mac, [20, 0, 0, 5].into()));
        // As a host would send it.
        frame[34..38].copy_from_slice(&[0, 68, 0, 67]);
        assert_eq!(from_frame(&frame), Ok((locator, &message[..])));
    }
});
