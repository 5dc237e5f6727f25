//! IPFIX messages (RFC 7011), one after the other, as in a file (RFC 5655).
//!
//! ```text
//!   message: version 10, length, export time, sequence, domain | set 2: template 256 (in the first) | set 256: records
//! ```
//! Second 0 of the run is the start of 1970.

use super::{Flow, address};

/// Information elements and their lengths: source and destination (IPv4), bytes, protocol, start and end in nanoseconds (NTP format).
const FIELDS: [(u16, u16); 6] = [(8, 4), (12, 4), (1, 8), (4, 1), (156, 8), (157, 8)];
const RECORD: usize = 33;
const HEADER: usize = 16;
/// Records of a message: it stays below 1,400 bytes, as in a datagram.
const RECORDS: usize = 40;
const TEMPLATE: u16 = 256;
const TCP: u8 = 6;
/// From 1900, where NTP counts from, to 1970.
const NTP_EPOCH_S: u64 = 2_208_988_800;

/// The whole file; flows in the order in which they ended, as an exporter reports them.
pub fn file(flows: &[Flow]) -> Vec<u8> {
    let mut by_end: Vec<&Flow> = flows.iter().collect();
    by_end.sort_by(|a, b| a.end_s.total_cmp(&b.end_s));
    let mut out = Vec::with_capacity(flows.len() * (RECORD + 1) + 64);
    let mut sequence = 0u32;
    message(&mut out, 0, 0, &template());
    for some in by_end.chunks(RECORDS) {
        let records: Vec<u8> = some.iter().flat_map(|flow| record(flow)).collect();
        let exported_s = some.last().map_or(0, |flow| flow.end_s.ceil() as u32);
        message(&mut out, exported_s, sequence, &set(TEMPLATE, &records));
        sequence = sequence.wrapping_add(some.len() as u32);
    }
    out
}

fn message(out: &mut Vec<u8>, exported_s: u32, sequence: u32, sets: &[u8]) {
    out.extend(10u16.to_be_bytes());
    out.extend(((HEADER + sets.len()) as u16).to_be_bytes());
    for word in [exported_s, sequence, 1] {
        out.extend(word.to_be_bytes());
    }
    out.extend(sets);
}

fn template() -> Vec<u8> {
    let words = [TEMPLATE, FIELDS.len() as u16].into_iter().chain(FIELDS.into_iter().flat_map(|(id, length)| [id, length]));
    set(2, &words.flat_map(u16::to_be_bytes).collect::<Vec<u8>>())
}

fn set(id: u16, content: &[u8]) -> Vec<u8> {
    let words = [id, (4 + content.len()) as u16];
    words.into_iter().flat_map(u16::to_be_bytes).chain(content.iter().copied()).collect()
}

fn record(flow: &Flow) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..4].copy_from_slice(&address(flow.src).octets());
    record[4..8].copy_from_slice(&address(flow.dst).octets());
    record[8..16].copy_from_slice(&flow.bytes.to_be_bytes());
    record[16] = TCP;
    record[17..25].copy_from_slice(&ntp(flow.start_s).to_be_bytes());
    record[25..].copy_from_slice(&ntp(flow.end_s).to_be_bytes());
    record
}

/// Seconds since 1900, and their fraction of 2^32.
fn ntp(seconds: f64) -> u64 {
    let fraction = (seconds.fract() * 4_294_967_296.0) as u64;
    ((NTP_EPOCH_S + seconds as u64) << 32) + fraction.min(u64::from(u32::MAX))
}
