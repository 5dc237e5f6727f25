//! Any messages to a DHCP client, cut from the input: it does not panic, does not spin, and has an address only after an answer that names this very exchange.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_control::netlord::dhcp::{Client, ClientConfig, Input, Output};
use weft_control::time::{Duration, Instant};
use weft_control::wire::netlord::dhcp::is_reply;
use weft_control::wire::packet::checksum;
use weft_control::wire::packet::ethernet::{EtherType, Ethernet};
use weft_fabric::MacAddr;
use weft_fabric::rng::{self, Stream};

const ME: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);

fuzz_target!(|bytes: &[u8]| {
    let mut client = Client::new(ClientConfig::new(ME), rng::stream(1, Stream::Traffic));
    let mut now = Instant::ZERO + Duration::from_secs(1);
    client.handle(now, Input::Start(None));
    let (mut xid, mut rest) = (0, bytes);
    while let [how, high, low, after @ ..] = rest {
        while let Some(output) = client.poll() {
            if let Output::Send(request) = output {
                xid = request.xid;
            }
        }
        let (part, after) = after.split_at(after.len().min(usize::from(u16::from_be_bytes([*high, *low]) % 600)));
        rest = after;
        let mut message = part.to_vec();
        // What would seldom be right by chance.
        if how & 1 == 1 && message.len() >= 240 {
            message[..4].copy_from_slice(&[2, 1, 6, 0]);
            message[4..8].copy_from_slice(&xid.to_be_bytes());
            message[28..34].copy_from_slice(&ME.0);
            message[236..240].copy_from_slice(&[99, 130, 83, 99]);
        }
        let bound = client.lease();
        let frame = frame(&message);
        assert!(is_reply(&frame));
        client.handle(now, Input::Frame(&frame));
        assert!(how & 1 == 1 || client.lease().is_none_or(|lease| Some(lease) == bound) || message[4..8] == xid.to_be_bytes());
        now = client.deadline().filter(|_| how & 2 == 2).unwrap_or(now).max(now);
        client.handle(now, Input::Timer);
        assert!(client.deadline().is_some_and(|at| at > now), "it spins");
    }
});

fn frame(message: &[u8]) -> Vec<u8> {
    let length = 8 + message.len() as u16;
    let mut header = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 1, 255, 255, 255, 255];
    header[2..4].copy_from_slice(&(20 + length).to_be_bytes());
    let sum = checksum(0, &header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let [high, low] = length.to_be_bytes();
    let payload = [&header[..], &[0, 67, 0, 68, high, low, 0, 0], message].concat();
    let mut out = Vec::new();
    let src = MacAddr([2, 0, 0, 0, 1, 1]);
    Ethernet { dst: ME, src, tag: None, ethertype: EtherType::IPV4, payload: &payload }.emit(&mut out);
    out
}
