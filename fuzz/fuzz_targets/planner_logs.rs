//! Any bytes as a flow log, also behind the beginning of each format, and as messages of exporters inside a capture: an error with a remedy, or flows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_planner::analyze::Tally;
use weft_planner::analyze::formats::{FlowRecord, Options, Place, Problem, Sink, read};

#[derive(Default)]
struct Nothing(Tally);

impl Sink for Nothing {
    fn flow(&mut self, _: FlowRecord, _: Place<'_>) -> Result<(), Problem> {
        Ok(())
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.0
    }
}

fn try_read(bytes: &[u8]) {
    for keep_going in [false, true] {
        let options = Options { file: "log".to_owned(), idle_ns: 1_000_000_000, sampling: None, keep_going, key: None };
        if let Err(problem) = read(&mut &*bytes, &options, &mut Nothing::default()) {
            assert!(!problem.message.is_empty() && !problem.help.is_empty());
        }
    }
}

/// A pcap file of UDP datagrams to a port.
fn capture(port: u16, payloads: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 101] {
        out.extend(word.to_le_bytes());
    }
    for payload in payloads {
        let length = 28 + payload.len();
        for word in [7, 0, length as u32, length as u32] {
            out.extend(word.to_le_bytes());
        }
        out.extend([0x45, 0, (length >> 8) as u8, length as u8, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 9]);
        out.extend(port.to_be_bytes());
        out.extend([0, 0, 0, 0]);
        out.extend(*payload);
    }
    out
}

fuzz_target!(|bytes: &[u8]| {
    try_read(bytes);
    for head in [
        &b"src,dst,start,size,end\n"[..],
        b"#separator \\x09\n#fields\tts\tid.orig_h\tid.resp_h\torig_bytes\tresp_bytes\n",
        b"{\"id.orig_h\":\"\",",
        &[0xd4, 0xc3, 0xb2, 0xa1],
        &[0x0a, 0x0d, 0x0d, 0x0a],
        &[0, 10, 0, 32, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 16],
    ] {
        try_read(&[head, bytes].concat());
    }
    if bytes.len() < 60_000 {
        let halves = bytes.split_at(bytes.len() / 2);
        for port in [2055, 4739, 6343] {
            try_read(&capture(port, &[bytes, halves.0, halves.1]));
        }
    }
});
