//! What a NIC would still have to do for a packet that was made on this machine: its checksum, and cutting it into segments. The agent takes such packets away before
//! any NIC sees them.

use crate::dataplane::bytes::array;
use crate::dataplane::offload::{TCP, Transport, fold, words};

const ETHERNET: usize = 14;
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// The frames as they would have been on a wire. `segment`: bytes of payload of each, 0 if the packet is one.
pub fn finish(mut frame: Vec<u8>, segment: u16) -> Vec<Vec<u8>> {
    let Some(transport) = Transport::find(&frame) else { return vec![frame] };
    if segment == 0 {
        if transport.waits(&frame) {
            complete(&mut frame);
        }
        return vec![frame];
    }
    let is_tcp = transport.protocol == TCP;
    let head = transport.offset + if is_tcp { usize::from(frame[transport.offset + 12] >> 4) * 4 } else { 8 };
    let Some(payload) = frame.get(head..transport.end) else { return vec![frame] };
    let count = payload.len().div_ceil(usize::from(segment)).max(1);
    let of = |n: usize| {
        let from = n * usize::from(segment);
        let part = &payload[from..payload.len().min(from + usize::from(segment))];
        let mut one = [&frame[..head], part].concat();
        number(&mut one, n);
        if is_tcp {
            let sequence = u32::from_be_bytes(array(&frame, transport.offset + 4)).wrapping_add(from as u32);
            one[transport.offset + 4..transport.offset + 8].copy_from_slice(&sequence.to_be_bytes());
            let flags = &mut one[transport.offset + 13];
            *flags &= if n + 1 < count { !FIN_PSH } else { 0xff };
            *flags &= if n > 0 { !CWR } else { 0xff };
        } else {
            let length = (8 + part.len()) as u16;
            one[transport.offset + 4..transport.offset + 6].copy_from_slice(&length.to_be_bytes());
        }
        complete(&mut one);
        one
    };
    (0..count).map(of).collect()
}

/// Writes the lengths of a segment's IP header, and its number.
fn number(frame: &mut [u8], n: usize) {
    let length = frame.len() - ETHERNET;
    let ip = &mut frame[ETHERNET..];
    if ip[0] >> 4 == 6 {
        ip[4..6].copy_from_slice(&((length - 40) as u16).to_be_bytes());
        return;
    }
    let id = u16::from_be_bytes(array(ip, 4)).wrapping_add(n as u16);
    ip[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    ip[4..6].copy_from_slice(&id.to_be_bytes());
    ip[10..12].fill(0);
    let header = usize::from(ip[0] & 15) * 4;
    let sum = !fold(words(&ip[..header]));
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Makes the checksum of TCP or UDP.
fn complete(frame: &mut [u8]) {
    let Some(transport) = Transport::find(frame) else { return };
    let at = transport.check();
    frame[at..at + 2].fill(0);
    let sum = !fold(u64::from(transport.pseudo()) + words(&frame[transport.offset..transport.end]));
    // 0 would say that there is none.
    let sum = if sum == 0 { 0xffff } else { sum };
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TCP packet of IPv4 with so many bytes of payload, whose checksum waits.
    fn tcp(payload: usize) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([0x08, 0x00, 0x45, 0, 0, 0, 0x12, 0xff, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame[16..18].copy_from_slice(&((40 + payload) as u16).to_be_bytes());
        frame.extend([0x10, 0, 0x20, 0, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 0, 0x50, 0x19 | CWR, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend((0..payload).map(|n| n as u8));
        let transport = Transport::find(&frame).unwrap();
        let (at, pseudo) = (transport.check(), transport.pseudo());
        frame[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        frame
    }

    fn is_right(frame: &[u8]) -> bool {
        let transport = Transport::find(frame).unwrap();
        let header = usize::from(frame[ETHERNET] & 15) * 4;
        transport.end == frame.len()
            && fold(u64::from(transport.pseudo()) + words(&frame[transport.offset..])) == 0xffff
            && fold(words(&frame[ETHERNET..ETHERNET + header])) == 0xffff
    }

    #[test]
    fn a_checksum_that_waits_is_made() {
        let mut frame = tcp(100);
        number(&mut frame, 0);
        let finished = finish(frame.clone(), 0);
        assert_eq!(finished.len(), 1);
        assert!(is_right(&finished[0]) && !is_right(&frame));
        assert_eq!(finish(finished[0].clone(), 0), finished, "what is finished stays as it is");
    }

    #[test]
    fn a_packet_of_several_segments_is_cut() {
        let frames = finish(tcp(2500), 1000);
        assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [1054, 1054, 554]);
        assert!(frames.iter().all(|it| is_right(it)));
        let flags: Vec<u8> = frames.iter().map(|it| it[ETHERNET + 20 + 13]).collect();
        assert_eq!(flags, [0x10 | CWR, 0x10, 0x19]);
        let sequence: Vec<u32> = frames.iter().map(|it| u32::from_be_bytes(array(it, ETHERNET + 24))).collect();
        assert_eq!(sequence, [0xffff_fff0, 984, 1984]);
        let payload: Vec<u8> = frames.iter().flat_map(|it| it[ETHERNET + 40..].to_vec()).collect();
        assert_eq!(payload, tcp(2500)[ETHERNET + 40..]);
    }

    #[test]
    fn what_is_no_transport_stays() {
        for frame in [vec![], vec![0; 14], tcp(10)[..50].to_vec()] {
            assert_eq!(finish(frame.clone(), 100), [frame]);
        }
    }
}
