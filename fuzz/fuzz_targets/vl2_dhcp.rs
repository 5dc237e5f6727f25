//! Any message of a host is refused, or carried to a server so that its answer comes back by the port; any message of a server is refused or for a port.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_control::wire::packet::dhcp::{BOOT_REPLY, COOKIE, COOKIE_AT, OPTIONS_AT, Options};
use weft_control::wire::vl2::dhcp::{to_host, to_server};

fuzz_target!(|bytes: &[u8]| {
    let locator = [10, 1, 1, 1].into();
    let mut message = bytes.to_vec();
    // What would seldom be right by chance.
    if message.len() >= OPTIONS_AT {
        message[COOKIE_AT..OPTIONS_AT].copy_from_slice(&COOKIE);
        let relay = if message[0] == BOOT_REPLY { [10, 1, 1, 1] } else { [0; 4] };
        message[24..28].copy_from_slice(&relay);
    }
    let _ = to_host(&message, locator);
    if let Ok(mut carried) = to_server(&message, locator, Some([20, 0, 0, 0].into()), "p3") {
        carried[0] = BOOT_REPLY;
        let (port, answer) = to_host(&carried, locator).expect("what is carried can be answered");
        assert_eq!(port, "p3");
        assert!(Options::of(&answer[OPTIONS_AT..]).eq(Options::of(&message[OPTIONS_AT..])));
    }
});
