//! What edge switches report to each other, to hold tenants' rates together ([`limits`](crate::netlord::limits)).
//!
//! ```text
//!   to all edge switches: Ethernet (03:4e:4c:00:00:01, the switch, special VLAN, 88b6) and
//!    0         1        2             each claim: 0        3       4                   12
//!   +---------+--------+---------+                +--------+-------+-------------------+
//!   | version | claims | claims  |                | tenant | flags | bytes per second  |
//!   +---------+--------+---------+                +--------+-------+-------------------+
//! ```

use weft_fabric::{MacAddr, TenantId};

use crate::netlord::is_unicast;
use crate::wire::packet::PacketError;
use crate::wire::packet::ethernet::{EtherType, Ethernet, VlanId, VlanTag};

/// To all edge switches. A switch's program (bpf/netlord/switch.bpf.c) has it, too. The address distinguishes reports from NL-ARP, whose EtherType, the IEEE's second for local
/// experiments, they have as well.
pub const EDGE_SWITCHES: MacAddr = MacAddr([3, 0x4e, 0x4c, 0, 0, 1]);
/// So many fit a frame of 1,500 bytes.
pub const MAX_CLAIMS: usize = 120;

const VERSION: u8 = 1;
const CLAIM: usize = 12;
const WANTS_MORE: u8 = 1;

/// What a tenant sends over the last hop at an edge switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose packets.
    pub tenant: TenantId,
    /// What passed.
    pub bytes_per_second: u64,
    /// Packets were dropped: it would send more.
    pub wants_more: bool,
}

/// Reads a frame: the switch, and its claims.
///
/// # Errors
/// [`PacketError::Kind`] if it is no report, else what is wrong with it.
pub fn parse_claims(frame: &[u8]) -> Result<(MacAddr, Vec<Claim>), PacketError> {
    let frame = Ethernet::parse(frame)?;
    if frame.dst != EDGE_SWITCHES || frame.ethertype != EtherType::NL_ARP_NOT_HERE {
        return Err(PacketError::Kind("a report of limits"));
    }
    if !is_unicast(frame.src) {
        return Err(PacketError::Field("switch"));
    }
    let &[version, count, ref body @ ..] = frame.payload else { return Err(PacketError::Truncated) };
    if version != VERSION {
        return Err(PacketError::Version(version));
    }
    if usize::from(count) > MAX_CLAIMS {
        return Err(PacketError::Field("claims"));
    }
    let body = body.get(..usize::from(count) * CLAIM).ok_or(PacketError::Truncated)?;
    let claims = body.as_chunks::<CLAIM>().0.iter().map(parse_claim).collect::<Result<_, _>>()?;
    Ok((frame.src, claims))
}

fn parse_claim(bytes: &[u8; CLAIM]) -> Result<Claim, PacketError> {
    let &[a, b, c, flags, ref rate @ ..] = bytes;
    if flags & !WANTS_MORE != 0 {
        return Err(PacketError::Field("reserved bits"));
    }
    let tenant = TenantId(u32::from_be_bytes([0, a, b, c]));
    if tenant.0 == 0 {
        return Err(PacketError::Field("tenant"));
    }
    Ok(Claim { tenant, bytes_per_second: u64::from_be_bytes(*rate), wants_more: flags != 0 })
}

/// Appends the frame of a switch; without a tag where the VLAN has none.
///
/// # Panics
/// If there are more than [`MAX_CLAIMS`].
pub fn emit_claims(from: MacAddr, tag: Option<VlanId>, claims: &[Claim], out: &mut Vec<u8>) {
    assert!(claims.len() <= MAX_CLAIMS, "{} claims in a frame", claims.len());
    let mut payload = vec![VERSION, claims.len() as u8];
    for claim in claims {
        payload.extend_from_slice(&claim.tenant.0.to_be_bytes()[1..]);
        payload.push(if claim.wants_more { WANTS_MORE } else { 0 });
        payload.extend_from_slice(&claim.bytes_per_second.to_be_bytes());
    }
    let tag = tag.map(|vlan| VlanTag(vlan.get()));
    Ethernet { dst: EDGE_SWITCHES, src: from, tag, ethertype: EtherType::NL_ARP_NOT_HERE, payload: &payload }.emit(out);
}
