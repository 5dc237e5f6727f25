//! sFlow version 5 (sflow.org/sflow_version_5.txt): headers of sampled packets, which become flows as the packets of a capture do.
//!
//! ```text
//!   version, agent, counters | samples: (format, length | rate, ... | records: (format, length | header of a packet))
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_control::wire::packet::ip::{Flow, Packet};

use super::assemble::{Assembler, Seen};
use super::cursor::Cursor;
use super::link_layer::network_header;
use super::sequence::{Sequences, Stream};
use super::{Endpoint, Options, Place, Problem, Sink};

const HELP: &str =
    "was the capture cut (tcpdump -s 0), or is this another protocol? With --keep-going such datagrams are counted and left out";

/// Whether a datagram begins as one of version 5 does.
pub fn is_datagram(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0, 0, 0, 5])
}

/// A sampled packet: its flow, its bytes of IP.
type Sampled = (Flow, u64);

/// Reads a datagram that was captured at a time.
///
/// # Errors
/// It is damaged, unless `options` tolerate that.
pub fn datagram(
    bytes: &[u8],
    at: i64,
    place: Place<'_>,
    options: &Options,
    (assembler, sequences): (&mut Assembler, &mut Sequences),
    sink: &mut dyn Sink,
) -> Result<(), Problem> {
    match samples(bytes, at, place, (assembler, sequences), sink)? {
        Some(()) => Ok(()),
        None => {
            let problem = Problem::at(place, "a datagram of sFlow is cut short or damaged", HELP);
            options.tolerate(sink, "damaged datagrams of sFlow", place, problem)
        }
    }
}

fn samples(
    bytes: &[u8],
    at: i64,
    place: Place<'_>,
    (assembler, sequences): (&mut Assembler, &mut Sequences),
    sink: &mut dyn Sink,
) -> Result<Option<()>, Problem> {
    let mut cursor = Cursor(bytes);
    let Some((agent, [part, sequence], count)) = header(&mut cursor) else { return Ok(None) };
    let stream = Stream { exporter: Endpoint::Ip(agent), protocol: "sFlow", part, unit: "datagrams" };
    sequences.message(stream, sequence, Some(1));
    for _ in 0..count {
        let Some((format, body)) = record(&mut cursor) else { return Ok(None) };
        // 1 and 3 are samples of packets, 2 and 4 of counters, which describe no flow.
        if !matches!(format, 1 | 3) {
            sink.tally().leave_out("sFlow samples that are not of packets", 0, || place.in_file());
            continue;
        }
        let Some((sampling, records)) = flow_sample(body, format == 3) else { return Ok(None) };
        let mut records = Cursor(records.0);
        let mut found = None;
        while !records.is_empty() {
            let Some((format, body)) = record(&mut records) else { return Ok(None) };
            found = found.or_else(|| sampled(format, body));
        }
        match found {
            Some((flow, bytes)) => {
                let seen = Seen { flow, at, bytes, sampling: sampling.max(1), exporter: Some(agent) };
                assembler.packet(&seen, place, sink)?;
            }
            None => sink.tally().leave_out("sFlow samples without an IP header", 0, || place.in_file()),
        }
    }
    Ok(Some(()))
}

/// Agent; sub-agent and number of the datagram; number of samples.
fn header(cursor: &mut Cursor<'_>) -> Option<(IpAddr, [u32; 2], u32)> {
    cursor.u32()?;
    let agent = match cursor.u32()? {
        1 => IpAddr::V4(Ipv4Addr::from(cursor.array::<4>()?)),
        2 => IpAddr::V6(Ipv6Addr::from(cursor.array::<16>()?)),
        _ => return None,
    };
    let numbers = [cursor.u32()?, cursor.u32()?];
    cursor.u32()?;
    Some((agent, numbers, cursor.u32()?))
}

/// Format and body of a sample or record.
fn record<'a>(cursor: &mut Cursor<'a>) -> Option<(u32, &'a [u8])> {
    let (format, length) = (cursor.u32()?, cursor.u32()?);
    Some((format, cursor.take(length as usize)?))
}

/// Sampling rate, and records.
fn flow_sample(body: &[u8], is_expanded: bool) -> Option<(u32, Cursor<'_>)> {
    let mut cursor = Cursor(body);
    cursor.take(if is_expanded { 12 } else { 8 })?;
    let sampling = cursor.u32()?;
    cursor.take(if is_expanded { 24 } else { 16 })?;
    cursor.u32()?;
    Some((sampling, cursor))
}

fn sampled(format: u32, body: &[u8]) -> Option<Sampled> {
    let mut cursor = Cursor(body);
    match format {
        1 => {
            let (protocol, length) = (cursor.u32()?, cursor.u32()?);
            cursor.u32()?;
            let kept = cursor.u32()? as usize;
            let bytes = cursor.take(kept)?;
            let at = match protocol {
                1 => network_header(1, bytes)?,
                11 | 12 => 0,
                _ => return None,
            };
            let ip = Packet::cut(bytes.get(at..)?).ok()?;
            // The header says how long the packet is; the frame has padding and a checksum too.
            let said = ip.said_length() as u64;
            let bytes = if said >= 20 { said } else { u64::from(length).saturating_sub(at as u64) };
            Some((ip.flow(), bytes))
        }
        3 | 4 => {
            let (length, protocol) = (cursor.u32()?, cursor.u32()?);
            let mut address = || {
                Some(if format == 3 {
                    IpAddr::V4(Ipv4Addr::from(cursor.array::<4>()?))
                } else {
                    IpAddr::V6(Ipv6Addr::from(cursor.array::<16>()?))
                })
            };
            let (source, destination) = (address()?, address()?);
            let (source_port, destination_port) = (cursor.u32()? as u16, cursor.u32()? as u16);
            let protocol = u8::try_from(protocol).ok()?;
            Some((Flow { source, destination, protocol, source_port, destination_port }, u64::from(length)))
        }
        _ => None,
    }
}
