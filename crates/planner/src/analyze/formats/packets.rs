//! The packets of a capture: flow records of exporters where they carry such, and flows assembled from all others.
//!
//! ```text
//!   Captured --link header--> IP --UDP to a port of exporters--> netflow | sflow
//!                              `--all others--> assemble: flows by five-tuple
//! ```
//! A datagram is a message of an exporter if it is UDP, goes to one of the ports in use for these, and begins as one.

use std::io::BufRead;

use weft_control::wire::packet::ip::{Packet, UDP};

use super::assemble::{Assembler, Seen};
use super::capture::{Capture, Captured};
use super::link_layer::network_header;
use super::netflow::{self, Exporters};
use super::sflow;
use super::{Endpoint, Options, Place, Problem, Sink};

/// Ports of NetFlow and IPFIX collectors.
const NETFLOW_PORTS: [u16; 6] = [2055, 2056, 4432, 4739, 9995, 9996];
const SFLOW_PORT: u16 = 6343;

/// Reads all flows of a capture.
pub fn read(input: &mut dyn BufRead, options: &Options, sink: &mut dyn Sink) -> Result<(), Problem> {
    let mut capture = Capture::new(input, options)?;
    let mut assembler = Assembler::new(options);
    let mut exporters = Exporters::default();
    loop {
        let number = capture.number;
        let place = options.place("packet", number);
        match capture.next(options) {
            Ok(None) => break,
            Ok(Some(packet)) => one(&packet, place, options, &mut assembler, &mut exporters, sink)?,
            Err(problem) => {
                // After damage the rest of the file has no meaning.
                options.tolerate(sink, "ends of damaged captures", place, problem)?;
                break;
            }
        }
    }
    exporters.finish(options, sink);
    assembler.finish(sink, options)
}

fn one(
    packet: &Captured<'_>,
    place: Place<'_>,
    options: &Options,
    assembler: &mut Assembler,
    exporters: &mut Exporters,
    sink: &mut dyn Sink,
) -> Result<(), Problem> {
    let Some(ip_at) = network_header(packet.link_type, packet.bytes) else {
        let reason = if [1, 12, 14, 101, 113, 228, 229, 276].contains(&packet.link_type) {
            "packets that are not IP"
        } else {
            "packets of a link type that is not known"
        };
        sink.tally().leave_out(reason, u64::from(packet.length), || place.in_file());
        return Ok(());
    };
    let Ok(ip) = Packet::cut(&packet.bytes[ip_at..]) else {
        sink.tally().leave_out("packets with a damaged IP header", u64::from(packet.length), || place.in_file());
        return Ok(());
    };
    if ip.protocol() == UDP
        && !ip.is_later_fragment()
        && let Some(payload) = ip.payload().get(8..)
    {
        let port = ip.flow().destination_port;
        let exporter = Endpoint::Ip(ip.source());
        if NETFLOW_PORTS.contains(&port) && netflow::is_message(payload) {
            return exporters.message(payload, &exporter, packet.at, place, options, sink);
        }
        if port == SFLOW_PORT && sflow::is_datagram(payload) {
            return sflow::datagram(payload, packet.at, place, options, (assembler, &mut exporters.sequences), sink);
        }
    }
    let length = u64::from(packet.length).saturating_sub(ip_at as u64);
    let seen = Seen { flow: ip.flow(), at: packet.at, bytes: length, sampling: 1, exporter: None };
    assembler.packet(&seen, place, sink)
}
