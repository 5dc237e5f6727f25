//! NetFlow version 5 and 9 (RFC 3954) and IPFIX (RFC 7011), as exporters send them in UDP.
//!
//! ```text
//!   v5     24 B header | flows of 48 B
//!   v9     20 B header | sets: (id, length | template 0, options template 1, or data of template `id`)
//!   IPFIX  16 B header | sets: the same with ids 2 and 3, fields of enterprises, and fields of variable length
//! ```
//! Data that comes before its template waits for it, in bounded memory.

use std::collections::BTreeMap;
use std::io::{BufRead, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::cursor::{Cursor, number};
use super::sequence::{Sequences, Stream};
use super::{Endpoint, FlowRecord, Options, Place, Problem, Sink};

/// Templates of one observation domain.
const MAX_TEMPLATES: usize = 4_096;
/// Bytes of sets that wait for their templates.
const MAX_WAITING: usize = 16 << 20;
/// Observation domains of all exporters.
const MAX_DOMAINS: usize = 65_536;
/// Difference of clocks from which on it is reported.
const SKEW_NS: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;
const HELP: &str =
    "was the capture cut (tcpdump -s 0), or is this another protocol? With --keep-going such messages are counted and left out";

/// Whether a datagram begins as a message does.
pub fn is_message(bytes: &[u8]) -> bool {
    matches!(bytes.first_chunk::<2>(), Some([0, 5 | 9 | 10]))
}

/// Whether a file begins with a message of IPFIX (RFC 5655).
pub fn is_file(begin: &[u8]) -> bool {
    let word = |at: usize| begin.get(at..at + 2).map(number);
    // A header and the header of a set.
    word(0) == Some(10)
        && word(2).is_some_and(|length| length >= 20)
        && word(16).is_some_and(|id| (2..=3).contains(&id) || id >= 256)
}

/// Reads messages of IPFIX, one after the other.
///
/// # Errors
/// A message is damaged or cut short, unless `options` tolerate that.
pub fn read_file(input: &mut dyn BufRead, options: &Options, sink: &mut dyn Sink) -> Result<(), Problem> {
    let exporter = Endpoint::Name(options.file.as_str().into());
    let (mut exporters, mut message) = (Exporters::default(), Vec::new());
    for count in 1.. {
        let place = options.place("message", count);
        message.clear();
        let read = |input: &mut dyn BufRead, bytes: u64, into: &mut Vec<u8>| input.take(bytes).read_to_end(into);
        let header = read(input, 16, &mut message).map_err(|e| Problem::read(place, &e))?;
        if header == 0 {
            break;
        }
        let length = message.get(2..4).map_or(0, number);
        let is_whole = header == 16 && number(&message[..2]) == 10 && length >= 16;
        let rest = if is_whole { read(input, length - 16, &mut message).map_err(|e| Problem::read(place, &e))? } else { 0 };
        if !is_whole || rest as u64 != length - 16 {
            let problem = Problem::at(place, "it is no message of IPFIX, or cut short", HELP);
            // After damage the rest of the file has no meaning.
            options.tolerate(sink, "ends of damaged IPFIX files", place, problem)?;
            break;
        }
        // Nobody captured it: its own clock counts.
        let sent = number(&message[4..8]) as i64 * 1_000_000_000;
        exporters.message(&message, &exporter, sent, place, options, sink)?;
    }
    exporters.finish(options, sink);
    Ok(())
}

/// A field of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    /// Information element; 0 of an enterprise's own.
    id: u16,
    /// 65,535: the length stands before the value.
    length: u16,
}

#[derive(Clone, Debug, Default)]
struct Template {
    fields: Vec<Field>,
    is_options: bool,
}

/// Sets without a template: the time of their message, and their bytes.
type Waiting = Vec<(Clocks, Vec<u8>, u64)>;

#[derive(Clone, Debug, Default)]
struct Domain {
    templates: BTreeMap<u16, Template>,
    waiting: BTreeMap<u16, Waiting>,
    sampling: Option<u32>,
    /// When the exporter started, in milliseconds since 1970, as its options say.
    system_start_ms: Option<i64>,
}

/// Clocks of a message.
#[derive(Clone, Copy, Debug, Default)]
struct Clocks {
    /// When it was sent, in nanoseconds since 1970.
    sent: i64,
    /// Milliseconds since the exporter started.
    uptime_ms: u32,
}

/// What is known of exporters: templates, sampling, clocks.
#[derive(Debug, Default)]
pub struct Exporters {
    domains: BTreeMap<(Endpoint, u16, u32), Domain>,
    waiting_bytes: usize,
    /// Records of the message that is read; `None` if not known, as a template is missing.
    records: Option<u32>,
    /// Largest difference of an exporter's clock to that of the capture.
    skew: BTreeMap<Endpoint, i64>,
    /// Numbers of messages, of sFlow too.
    pub sequences: Sequences,
}

/// Where a message came from, and how it is read.
struct Context<'a> {
    exporter: &'a Endpoint,
    place: Place<'a>,
    options: &'a Options,
}

impl Context<'_> {
    fn stream(&self, protocol: &'static str, part: u32, unit: &'static str) -> Stream {
        Stream { exporter: self.exporter.clone(), protocol, part, unit }
    }
}

impl Exporters {
    /// Reads a message.
    ///
    /// # Errors
    /// It is damaged, unless `options` tolerate that.
    pub fn message(
        &mut self,
        bytes: &[u8],
        exporter: &Endpoint,
        captured_at: i64,
        place: Place<'_>,
        options: &Options,
        sink: &mut dyn Sink,
    ) -> Result<(), Problem> {
        let context = Context { exporter, place, options };
        let mut cursor = Cursor(bytes);
        let version = cursor.u16().unwrap_or(0);
        let result = match version {
            5 => self.version5(cursor, captured_at, &context, sink),
            9 => self.version9(cursor, captured_at, &context, sink),
            _ => self.ipfix(cursor, captured_at, &context, sink),
        };
        match result? {
            Some(()) => Ok(()),
            None => {
                let name = if version == 10 { "IPFIX".to_owned() } else { format!("NetFlow version {version}") };
                let problem = Problem::at(
                    place,
                    format!("a message of {name} from {} is cut short or damaged", options.shown(exporter)),
                    HELP,
                );
                options.tolerate(sink, "damaged messages of exporters", place, problem)
            }
        }
    }

    fn version5(
        &mut self,
        mut cursor: Cursor<'_>,
        captured_at: i64,
        context: &Context<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Option<()>, Problem> {
        let mut header = || -> Option<(u16, Clocks, [u32; 2], u16)> {
            let count = cursor.u16()?;
            let uptime_ms = cursor.u32()?;
            let sent = i64::from(cursor.u32()?) * 1_000_000_000 + i64::from(cursor.u32()?);
            let numbers = [cursor.u32()?, u32::from(cursor.u16()?)];
            Some((count, Clocks { sent, uptime_ms }, numbers, cursor.u16()? & 0x3fff))
        };
        let Some((count, clocks, [sequence, engine], interval)) = header() else { return Ok(None) };
        self.sequences.message(context.stream("NetFlow 5", engine, "flows"), sequence, Some(u32::from(count)));
        self.note_skew(context.exporter, clocks.sent, captured_at);
        let sampling = if interval > 1 { u32::from(interval) } else { context.options.sampling.unwrap_or(1) };
        for _ in 0..count {
            let Some(record) = cursor.take(48) else { return Ok(None) };
            let at = |from: usize, to: usize| number(&record[from..to]);
            let address = |from: usize| Endpoint::Ip(IpAddr::V4(Ipv4Addr::from_bits(at(from, from + 4) as u32)));
            let flow = FlowRecord {
                src: address(0),
                dst: address(4),
                src_port: at(32, 34) as u16,
                dst_port: at(34, 36) as u16,
                protocol: record[38],
                start: clocks.at_uptime(at(24, 28) as u32),
                end: Some(clocks.at_uptime(at(28, 32) as u32)),
                bytes: at(20, 24),
                packets: at(16, 20),
                sampling,
                exporter: Some(context.exporter.clone()),
            };
            sink.flow(flow, context.place)?;
        }
        Ok(Some(()))
    }

    fn version9(
        &mut self,
        mut cursor: Cursor<'_>,
        captured_at: i64,
        context: &Context<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Option<()>, Problem> {
        let mut header = || -> Option<(Clocks, u32, u32)> {
            cursor.u16()?;
            let uptime_ms = cursor.u32()?;
            let sent = i64::from(cursor.u32()?) * 1_000_000_000;
            Some((Clocks { sent, uptime_ms }, cursor.u32()?, cursor.u32()?))
        };
        let Some((clocks, sequence, domain)) = header() else { return Ok(None) };
        self.note_skew(context.exporter, clocks.sent, captured_at);
        self.sequences.message(context.stream("NetFlow 9", domain, "messages"), sequence, Some(1));
        self.sets(cursor, 9, domain, clocks, context, sink)
    }

    fn ipfix(
        &mut self,
        mut cursor: Cursor<'_>,
        captured_at: i64,
        context: &Context<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Option<()>, Problem> {
        let mut header = || -> Option<(Clocks, u32, u32)> {
            let length = usize::from(cursor.u16()?);
            cursor.0 = cursor.0.get(..length.checked_sub(4)?)?;
            let sent = i64::from(cursor.u32()?) * 1_000_000_000;
            Some((Clocks { sent, uptime_ms: 0 }, cursor.u32()?, cursor.u32()?))
        };
        let Some((clocks, sequence, domain)) = header() else { return Ok(None) };
        self.note_skew(context.exporter, clocks.sent, captured_at);
        self.records = Some(0);
        let result = self.sets(cursor, 10, domain, clocks, context, sink)?;
        self.sequences.message(context.stream("IPFIX", domain, "records"), sequence, self.records.filter(|_| result.is_some()));
        Ok(result)
    }

    fn sets(
        &mut self,
        mut cursor: Cursor<'_>,
        version: u16,
        domain: u32,
        clocks: Clocks,
        context: &Context<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Option<()>, Problem> {
        let key = (context.exporter.clone(), version, domain);
        if self.domains.len() >= MAX_DOMAINS && !self.domains.contains_key(&key) {
            return Ok(None);
        }
        while cursor.0.len() >= 4 {
            let header = (cursor.u16(), cursor.u16());
            let (Some(id), Some(length)) = header else { return Ok(None) };
            let Some(body) = usize::from(length).checked_sub(4).and_then(|it| cursor.take(it)) else { return Ok(None) };
            let domain = self.domains.entry(key.clone()).or_default();
            match (id, version) {
                (0, 9) | (2, 10) => {
                    let Some(new) = domain.add_templates(body, version, false) else { return Ok(None) };
                    self.replay(&key, &new, context, sink)?;
                }
                (1, 9) | (3, 10) => {
                    let Some(new) = domain.add_templates(body, version, true) else { return Ok(None) };
                    self.replay(&key, &new, context, sink)?;
                }
                (256.., _) => {
                    if !domain.templates.contains_key(&id) {
                        self.records = None;
                        self.waiting_bytes += body.len();
                        if self.waiting_bytes > MAX_WAITING {
                            sink.tally().leave_out("sets of data without a template", 0, || context.place.in_file());
                        } else {
                            domain.waiting.entry(id).or_default().push((clocks, body.to_vec(), context.place.number));
                        }
                    } else {
                        let Some(records) = domain.data(id, body, clocks, context, sink)? else { return Ok(None) };
                        self.records = self.records.map(|sum| sum + records);
                    }
                }
                _ => sink.tally().leave_out("sets with reserved ids", 0, || context.place.in_file()),
            }
        }
        Ok(Some(()))
    }

    /// Reads what waited for templates.
    fn replay(
        &mut self,
        key: &(Endpoint, u16, u32),
        new: &[u16],
        context: &Context<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), Problem> {
        let Some(domain) = self.domains.get_mut(key) else { return Ok(()) };
        for id in new {
            for (clocks, body, number) in domain.waiting.remove(id).unwrap_or_default() {
                self.waiting_bytes = self.waiting_bytes.saturating_sub(body.len());
                let place = Place { number, ..context.place };
                if domain.data(*id, &body, clocks, &Context { place, ..*context }, sink)?.is_none() {
                    sink.tally().leave_out("sets of data that do not fit their template", 0, || place.in_file());
                }
            }
        }
        Ok(())
    }

    fn note_skew(&mut self, exporter: &Endpoint, sent: i64, captured_at: i64) {
        let skew = sent.saturating_sub(captured_at);
        if skew.abs() > SKEW_NS && (self.skew.len() < MAX_DOMAINS || self.skew.contains_key(exporter)) {
            let largest = self.skew.entry(exporter.clone()).or_default();
            if skew.abs() > largest.abs() {
                *largest = skew;
            }
        }
    }

    /// Reports what waits for a template that never came, what never arrived, and clocks that differ.
    pub fn finish(&self, options: &Options, sink: &mut dyn Sink) {
        self.sequences.finish(options, sink.tally());
        for (clock, skew) in &self.skew {
            let note = format!(
                "{}: the clock of exporter {} differs from that of the capture by up to {:.1} s",
                options.file,
                options.shown(clock),
                *skew as f64 / 1e9
            );
            sink.tally().note(note);
        }
        for waiting in self.domains.values().flat_map(|domain| domain.waiting.values()).flatten() {
            let place = options.place("packet", waiting.2);
            sink.tally().leave_out("sets of data without a template", 0, || place.in_file());
        }
    }
}

impl Domain {
    /// Reads templates; gives the ids of those that are new.
    fn add_templates(&mut self, body: &[u8], version: u16, is_options: bool) -> Option<Vec<u16>> {
        let mut cursor = Cursor(body);
        let mut new = Vec::new();
        // What is shorter is padding.
        while cursor.0.len() >= 4 && cursor.0.iter().any(|&byte| byte != 0) {
            let id = cursor.u16()?;
            let count = match (is_options, version) {
                (true, 9) => usize::from(cursor.u16()? / 4) + usize::from(cursor.u16()? / 4),
                (true, _) => {
                    let count = usize::from(cursor.u16()?);
                    // A withdrawal has no scope.
                    if count > 0 {
                        cursor.u16()?;
                    }
                    count
                }
                (false, _) => usize::from(cursor.u16()?),
            };
            let mut fields = Vec::new();
            for _ in 0..count {
                let (element, length) = (cursor.u16()?, cursor.u16()?);
                let is_own = version == 10 && element & 0x8000 != 0;
                if is_own {
                    cursor.u32()?;
                }
                fields.push(Field { id: if is_own { 0 } else { element }, length });
            }
            if fields.is_empty() {
                self.templates.remove(&id);
            } else if id >= 256 && (self.templates.len() < MAX_TEMPLATES || self.templates.contains_key(&id)) {
                self.templates.insert(id, Template { fields, is_options });
                new.push(id);
            }
        }
        Some(new)
    }

    /// Reads records of a template; gives their number.
    fn data(
        &mut self,
        id: u16,
        body: &[u8],
        clocks: Clocks,
        context: &Context<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Option<u32>, Problem> {
        let Some(template) = self.templates.get(&id) else { return Ok(None) };
        let shortest: usize = template.fields.iter().map(|f| if f.length == 65_535 { 1 } else { usize::from(f.length) }).sum();
        let mut cursor = Cursor(body);
        let (mut sampling, mut system_start_ms) = (self.sampling, self.system_start_ms);
        let mut records = 0;
        // What is shorter than a record is padding.
        while shortest > 0 && cursor.0.len() >= shortest {
            let Some(values) = Values::read(&template.fields, &mut cursor) else { return Ok(None) };
            records += 1;
            if let Some(rate) = values.sampling {
                if sampling.is_some_and(|before| before != rate) {
                    let note = format!(
                        "{}: exporter {} changes its sampling rate",
                        context.place.file,
                        context.options.shown(context.exporter)
                    );
                    sink.tally().note(note);
                }
                sampling = Some(rate);
            }
            if template.is_options {
                system_start_ms = values.system_start_ms.or(system_start_ms);
                continue;
            }
            let values = Values { system_start_ms: values.system_start_ms.or(system_start_ms), ..values };
            let rate = sampling.or(context.options.sampling).unwrap_or(1);
            match values.flow(clocks, rate, context.exporter) {
                Some(flow) => sink.flow(flow, context.place)?,
                None => {
                    sink.tally().leave_out("records without addresses, times or bytes", first(values.bytes).unwrap_or(0), || {
                        context.place.in_file()
                    })
                }
            }
        }
        (self.sampling, self.system_start_ms) = (sampling, system_start_ms);
        Ok(Some(records))
    }
}

impl Clocks {
    /// The time at which the exporter had been up for so long: its counter begins again after 49 days.
    fn at_uptime(self, uptime_ms: u32) -> i64 {
        let ago = i64::from(self.uptime_ms.wrapping_sub(uptime_ms).cast_signed());
        self.sent.saturating_sub(ago * MS)
    }
}

/// What a record says.
#[derive(Clone, Copy, Debug, Default)]
struct Values {
    src: Option<IpAddr>,
    dst: Option<IpAddr>,
    ports: [u16; 2],
    protocol: u8,
    /// Since the record before of the same flow, and since the flow began.
    bytes: [Option<u64>; 2],
    packets: [Option<u64>; 2],
    /// Whether it was observed where packets leave the exporter.
    is_egress: bool,
    /// Since the exporter's start.
    uptime_ms: [Option<u32>; 2],
    /// Since 1970.
    time_ns: [Option<i64>; 2],
    /// Before the message was sent.
    ago_us: [Option<u32>; 2],
    /// When the exporter started, in milliseconds since 1970.
    system_start_ms: Option<i64>,
    sampling: Option<u32>,
    sampled_of: [Option<u32>; 2],
}

impl Values {
    fn read(fields: &[Field], cursor: &mut Cursor<'_>) -> Option<Self> {
        let mut values = Self::default();
        for field in fields {
            let length = match field.length {
                65_535 => match cursor.u8()? {
                    255 => usize::from(cursor.u16()?),
                    length => usize::from(length),
                },
                length => usize::from(length),
            };
            values.set(field.id, cursor.take(length)?);
        }
        // One sampled, so many not (RFC 5477).
        if let [Some(interval), Some(space)] = values.sampled_of
            && interval > 0
        {
            values.sampling = Some(interval.saturating_add(space).div_ceil(interval));
        }
        Some(values)
    }

    fn set(&mut self, id: u16, bytes: &[u8]) {
        let value = number(bytes);
        let ms = || i64::try_from(value).ok().and_then(|it| it.checked_mul(MS));
        match id {
            1 | 85 => self.bytes[usize::from(id == 85)] = Some(value),
            2 | 86 => self.packets[usize::from(id == 86)] = Some(value),
            61 => self.is_egress = value == 1,
            4 => self.protocol = value as u8,
            7 => self.ports[0] = value as u16,
            11 => self.ports[1] = value as u16,
            8 => self.src = self.src.or(v4(bytes)),
            12 => self.dst = self.dst.or(v4(bytes)),
            27 => self.src = v6(bytes).or(self.src),
            28 => self.dst = v6(bytes).or(self.dst),
            22 => self.uptime_ms[0] = Some(value as u32),
            21 => self.uptime_ms[1] = Some(value as u32),
            150 | 151 => self.time_ns[usize::from(id - 150)] = i64::try_from(value).ok().and_then(|s| s.checked_mul(1_000 * MS)),
            152 | 153 => self.time_ns[usize::from(id - 152)] = ms(),
            154..=157 => self.time_ns[usize::from(id % 2)] = Some(of_ntp(value)),
            158 | 159 => self.ago_us[usize::from(id - 158)] = Some(value as u32),
            160 => self.system_start_ms = i64::try_from(value).ok(),
            34 | 50 => self.sampling = u32::try_from(value).ok().filter(|&it| it > 0),
            305 => self.sampled_of[0] = u32::try_from(value).ok(),
            306 => self.sampled_of[1] = u32::try_from(value).ok(),
            _ => {}
        }
    }

    fn flow(&self, clocks: Clocks, sampling: u32, exporter: &Endpoint) -> Option<FlowRecord> {
        let time = |which: usize| {
            let of_start = || self.system_start_ms?.checked_add(i64::from(self.uptime_ms[which]?))?.checked_mul(MS);
            let of_uptime = || Some(clocks.at_uptime(self.uptime_ms[which]?));
            let ago = || Some(clocks.sent - i64::from(self.ago_us[which]?) * 1_000);
            self.time_ns[which].or_else(of_start).or_else(of_uptime).or_else(ago)
        };
        let end = time(1);
        Some(FlowRecord {
            src: Endpoint::Ip(self.src?),
            dst: Endpoint::Ip(self.dst?),
            src_port: self.ports[0],
            dst_port: self.ports[1],
            protocol: self.protocol,
            start: time(0).or(end)?,
            end,
            bytes: first(self.bytes).filter(|&it| it > 0)?,
            packets: first(self.packets).unwrap_or(0),
            sampling,
            // What enters and leaves an exporter is reported twice, as if by two.
            exporter: Some(if self.is_egress { Endpoint::Name(format!("{exporter}, egress").into()) } else { exporter.clone() }),
        })
    }
}

/// The first that a record has: differences, or else totals.
fn first(counts: [Option<u64>; 2]) -> Option<u64> {
    counts[0].or(counts[1])
}

fn v4(bytes: &[u8]) -> Option<IpAddr> {
    let raw: [u8; 4] = bytes.try_into().ok()?;
    Some(Ipv4Addr::from(raw)).filter(|it| !it.is_unspecified()).map(IpAddr::V4)
}

fn v6(bytes: &[u8]) -> Option<IpAddr> {
    let raw: [u8; 16] = bytes.try_into().ok()?;
    Some(Ipv6Addr::from(raw)).filter(|it| !it.is_unspecified()).map(IpAddr::V6)
}

/// Seconds since 1900 and their fraction of 2^32, in nanoseconds since 1970.
const fn of_ntp(value: u64) -> i64 {
    let (seconds, fraction) = ((value >> 32) as i64 - 2_208_988_800, value & 0xffff_ffff);
    seconds * 1_000_000_000 + ((fraction * 1_000_000_000) >> 32) as i64
}
