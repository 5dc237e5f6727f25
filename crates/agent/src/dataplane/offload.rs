//! Work that is left to an offloading NIC: for a packet that is released again it stands in a header before the frame.
//!
//! A packet that was made on this machine may not have its checksum yet, and may be several segments in one; it was taken away before the
//! NIC's part of the work.

use std::net::IpAddr;

use super::bytes::array;

/// Bytes of `struct virtio_net_hdr`, in the machine's byte order.
pub(crate) const VNET_HEADER: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const SEGMENTS_TCP4: u8 = 1;
const SEGMENTS_TCP6: u8 = 4;
const SEGMENTS_UDP: u8 = 5;

pub(crate) const TCP: u8 = 6;
const UDP: u8 = 17;
const ETHERNET: usize = 14;

/// The header and the frame, as a packet socket with PACKET_VNET_HDR takes them.
pub(crate) fn with_offloads(frame: &[u8], segment: u16) -> Vec<u8> {
    let mut bytes = vec![0; VNET_HEADER];
    bytes.extend_from_slice(frame);
    let (header, frame) = bytes.split_at_mut(VNET_HEADER);
    if let Some(transport) = Transport::find(frame) {
        transport.fill(header, frame, segment);
    }
    bytes
}

/// Where a frame's TCP or UDP header is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transport {
    pub offset: usize,
    pub end: usize,
    pub protocol: u8,
    source: IpAddr,
    destination: IpAddr,
}

impl Transport {
    /// None for other protocols, fragments, and what is cut short.
    pub fn find(frame: &[u8]) -> Option<Self> {
        let ip = frame.get(ETHERNET..)?;
        let (protocol, header, length, source, destination) = match frame.get(12..14)? {
            [0x08, 0x00] if ip.len() >= 20 && array::<2>(ip, 6)[0] & 0x3f == 0 && ip[7] == 0 => {
                let addresses = (IpAddr::from(array::<4>(ip, 12)), IpAddr::from(array::<4>(ip, 16)));
                (ip[9], usize::from(ip[0] & 15) * 4, usize::from(u16::from_be_bytes(array(ip, 2))), addresses.0, addresses.1)
            }
            [0x86, 0xdd] if ip.len() >= 40 => {
                let length = 40 + usize::from(u16::from_be_bytes(array(ip, 4)));
                (ip[6], 40, length, IpAddr::from(array::<16>(ip, 8)), IpAddr::from(array::<16>(ip, 24)))
            }
            _ => return None,
        };
        let found = Self { offset: ETHERNET + header, end: ETHERNET + length, protocol, source, destination };
        let least = match protocol {
            TCP => 20,
            UDP => 8,
            _ => return None,
        };
        (found.end <= frame.len() && found.offset + least <= found.end).then_some(found)
    }

    /// Where the checksum is.
    pub const fn check(self) -> usize {
        self.offset + if self.protocol == TCP { 16 } else { 6 }
    }

    /// The sum of the pseudo-header: what stands in for the checksum until an offload completes it.
    pub fn pseudo(self) -> u16 {
        let mut sum = u64::from(self.protocol) + (self.end - self.offset) as u64;
        for ip in [self.source, self.destination] {
            sum += match ip {
                IpAddr::V4(v4) => words(&v4.octets()),
                IpAddr::V6(v6) => words(&v6.octets()),
            };
        }
        fold(sum)
    }

    /// Whether the checksum is still to be made.
    pub fn waits(self, frame: &[u8]) -> bool {
        let pseudo = self.pseudo();
        let there = u16::from_be_bytes(array(frame, self.check()));
        let complete = fold(u64::from(pseudo) + words(&frame[self.offset..self.end])) == 0xffff;
        // Checksum 0 of UDP over IPv4: there is none.
        there == pseudo && !complete && !(self.protocol == UDP && there == 0)
    }

    fn fill(self, header: &mut [u8], frame: &mut [u8], segment: u16) {
        let (check, pseudo) = (self.check(), self.pseudo());
        let waits = self.waits(frame);
        if segment == 0 && !waits {
            return;
        }
        frame[check..check + 2].copy_from_slice(&pseudo.to_be_bytes());
        header[0] = NEEDS_CHECKSUM;
        header[6..8].copy_from_slice(&(self.offset as u16).to_ne_bytes());
        header[8..10].copy_from_slice(&((check - self.offset) as u16).to_ne_bytes());
        if segment > 0 {
            let transport = if self.protocol == TCP { usize::from(frame[self.offset + 12] >> 4) * 4 } else { 8 };
            header[1] = match (self.protocol, self.source) {
                (TCP, IpAddr::V4(_)) => SEGMENTS_TCP4,
                (TCP, IpAddr::V6(_)) => SEGMENTS_TCP6,
                _ => SEGMENTS_UDP,
            };
            header[2..4].copy_from_slice(&((self.offset + transport) as u16).to_ne_bytes());
            header[4..6].copy_from_slice(&segment.to_ne_bytes());
        }
    }
}

/// The sum of 16-bit words in network order; an odd last byte counts as the first of two.
pub(crate) fn words(bytes: &[u8]) -> u64 {
    let pairs = bytes.chunks_exact(2);
    let last = pairs.remainder().first().map_or(0, |&b| u64::from(b) << 8);
    pairs.map(|w| u64::from(u16::from_be_bytes([w[0], w[1]]))).sum::<u64>() + last
}

/// The one's complement sum in 16 bits.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP packet of 20.0.0.1 to 20.0.0.2 with its checksum field as given.
    fn udp(check: u16) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, 0x45, 0, 0, 31, 0, 0, 0x40, 0, 64, UDP, 0, 0, 20, 0, 0, 1, 20, 0, 0, 2]);
        frame.extend([0x10, 0, 0x20, 0, 0, 11]);
        frame.extend(check.to_be_bytes());
        frame.extend([1, 2, 3]);
        frame
    }

    #[test]
    fn a_checksum_that_waits_is_left_to_the_kernel_and_another_is_not() {
        let pseudo = Transport::find(&udp(0)).unwrap().pseudo();
        assert_eq!(pseudo, 20 * 256 * 2 + 1 + 2 + 17 + 11);
        let waiting = with_offloads(&udp(pseudo), 0);
        assert_eq!(waiting[..VNET_HEADER], [1, 0, 0, 0, 0, 0, 34, 0, 6, 0]);
        let full = !fold(u64::from(pseudo) + words(&udp(0)[34..]));
        for there in [0, full, full ^ 1] {
            let held = with_offloads(&udp(there), 0);
            assert_eq!(held[..VNET_HEADER], [0; VNET_HEADER], "checksum {there:#x}");
            assert_eq!(held[VNET_HEADER..], udp(there), "the frame is as it was");
        }
    }

    #[test]
    fn what_is_no_transport_goes_as_it_is() {
        for frame in [vec![], vec![0; 13], udp(0)[..40].to_vec(), [&udp(0)[..20], &[0x20, 0], &udp(0)[22..]].concat()] {
            let held = with_offloads(&frame, 1000);
            assert_eq!(held[..VNET_HEADER], [0; VNET_HEADER]);
            assert_eq!(held[VNET_HEADER..], frame);
        }
    }
}
