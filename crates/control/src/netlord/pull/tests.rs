use weft_fabric::rng::{self, Stream};
use weft_fabric::{MacAddr, TenantId};

use super::super::MacSpace;
use super::*;
use crate::directory::auth::{Secret, Tagger};
use crate::directory::interest::{key_hash, key_name};
use crate::directory::resolver::ResolverConfig;
use crate::directory::{Generation, GroupId, PrincipalId, ServiceId};
use crate::wire::directory::{AnswerWriter, Finding, Frame, Header, Kind, Message, WithdrawnPage};

const ME: PrincipalId = PrincipalId(40);

fn vif(n: u8) -> Vif {
    Vif { tenant: TenantId(7), space: MacSpace(1), mac: MacAddr([2, 0, 0, 0, 0, n]) }
}

fn place(n: u8) -> Location {
    Location { switch: MacAddr([2, 9, 0, 0, 0, n]), port: EdgePort::new(3).unwrap() }
}

/// A directory server that knows one VIF and its address.
struct Directory {
    tagger: Tagger,
    at: Location,
    generation: Generation,
    asked: usize,
    is_silent: bool,
}

impl Directory {
    fn mapping(&self) -> Value {
        Value::Mapping(Mapping {
            locator: Locator::Edge { switch: self.at.switch, port: u16::from(self.at.port.get()) },
            mac: Some(vif(2).mac),
            group: GroupId(0),
            service: ServiceId(1),
            owner: PrincipalId(41),
            lease_ms: 60_000,
        })
    }

    fn seal(&self, kind: Kind, request: u64, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        Header { kind, principal: ME, cookie: 5, request }.emit(&mut out);
        body(&mut out);
        let tag = self.tagger.tag(&out);
        out.extend_from_slice(&tag);
        out
    }

    fn answer(&mut self, bytes: &[u8]) -> Vec<u8> {
        let frame = Frame::parse(bytes).unwrap();
        match Message::parse(frame.header.kind, frame.body).unwrap() {
            Message::Lookup(lookup) => {
                self.asked += 1;
                assert_eq!(lookup.asker, Some(key(Query::vif(vif(1)))), "on behalf of a VIF of this host");
                let keys: Vec<Key> = lookup.keys().collect();
                self.seal(Kind::Answer, frame.header.request, |out| {
                    let mut writer = AnswerWriter::new(out, 1400, self.generation, 1);
                    for key in keys {
                        let known = key == Key::TenantIp4(TenantId(7), MacSpace(1), [10, 0, 0, 2].into())
                            || key == Key::TenantMac(TenantId(7), MacSpace(1), vif(2).mac);
                        let finding = if known { Finding::Found(self.mapping()) } else { Finding::Unknown };
                        assert!(writer.push(self.generation, &finding));
                    }
                })
            }
            Message::Follow(ask) => {
                let names = [Query::vif(vif(2)), Query::ip(TenantId(7), MacSpace(1), [10, 0, 0, 2].into())]
                    .map(|query| key_name(key_hash(&key(query))));
                let groups = if ask.revision < self.generation { vec![(self.generation, names.to_vec())] } else { Vec::new() };
                let page = WithdrawnPage { revision: self.generation, policy: 1, groups, ..WithdrawnPage::default() };
                self.seal(Kind::Withdrawn, frame.header.request, |out| Message::Withdrawn(page).emit(out))
            }
            other => panic!("{other:?}"),
        }
    }
}

struct Bench {
    pull: Pull,
    directory: Directory,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self::with(ResolverConfig::new(ME))
    }

    fn with(config: ResolverConfig) -> Self {
        let key = Secret::new([3; 32]).key_of(ME);
        let mut pull = Pull::new(Resolver::new(config, &key, rng::stream(1, Stream::Traffic)));
        pull.handle(Instant::ZERO, LocationInput::Servers(&[([10, 9, 0, 1], 5303).into()]));
        pull.handle(Instant::ZERO, LocationInput::Start { vif: vif(1), at: place(1), addresses: &[IpAddr::from([10, 0, 0, 1])] });
        let directory = Directory { tagger: key.tagger(), at: place(2), generation: Generation(5), asked: 0, is_silent: false };
        Self { pull, directory, now: Instant::ZERO }
    }

    fn settle(&mut self) -> Vec<LocationOutput> {
        let mut outputs = Vec::new();
        while let Some(output) = self.pull.poll() {
            match output {
                LocationOutput::Datagram { .. } if self.directory.is_silent => {}
                LocationOutput::Datagram { to, bytes } => {
                    let answer = self.directory.answer(&bytes);
                    self.pull.handle(self.now, LocationInput::Datagram { from: to, bytes: &answer });
                }
                other => outputs.push(other),
            }
        }
        outputs
    }

    fn seek(&mut self, query: Query) -> Option<Binding> {
        self.pull.handle(self.now, LocationInput::Seek { asker: vif(1), query });
        match self.settle()[..] {
            [LocationOutput::Sought { query: about, found }] if about == query => found,
            ref other => panic!("{other:?}"),
        }
    }

    fn advance(&mut self, by: Duration) -> Vec<LocationOutput> {
        let to = self.now + by;
        let mut outputs = Vec::new();
        while let Some(at) = self.pull.deadline()
            && at <= to
        {
            self.now = at;
            self.pull.handle(at, LocationInput::Timer);
            outputs.extend(self.settle());
        }
        self.now = to;
        outputs
    }
}

#[test]
fn what_the_directory_says_is_used_until_it_is_withdrawn() {
    let mut bench = Bench::new();
    let by_ip = Query::ip(TenantId(7), MacSpace(1), IpAddr::from([10, 0, 0, 2]));
    let there = Some(Binding { vif: vif(2), at: place(2) });
    assert_eq!(bench.pull.find(vif(1), by_ip), None);
    assert_eq!(bench.seek(by_ip), there);
    assert_eq!(bench.pull.find(vif(1), by_ip), there);
    assert_eq!(bench.seek(Query::vif(vif(3))), None);
    assert_eq!(bench.seek(Query::vif(vif(2))), there);
    assert_eq!(bench.seek(Query::vif(vif(1))).map(|it| it.at), Some(place(1)), "its own");
    let asked = bench.directory.asked;
    // It moves; sync withdraws what was known.
    bench.directory.at = place(3);
    bench.directory.generation = Generation(6);
    let outputs = bench.advance(Duration::from_secs(1));
    assert!(outputs.contains(&LocationOutput::Moved { vif: vif(2), at: None }), "{outputs:?}");
    assert_eq!(bench.pull.find(vif(1), by_ip), None);
    assert_eq!(bench.seek(by_ip), Some(Binding { vif: vif(2), at: place(3) }));
    assert!(bench.directory.asked > asked);
}

#[test]
fn a_place_that_says_no_is_not_believed_for_a_while() {
    let mut bench = Bench::new();
    let query = Query::vif(vif(2));
    assert!(bench.seek(query).is_some());
    bench.pull.handle(bench.now, LocationInput::Unicast(Unicast::NotHere { vif: vif(2), at: place(2) }));
    assert_eq!(bench.settle(), [LocationOutput::Moved { vif: vif(2), at: None }]);
    assert_eq!(bench.pull.find(vif(1), query), None);
    assert_eq!(bench.seek(query), None);
    bench.advance(Duration::from_ms(1100));
    assert!(bench.seek(query).is_some());
    // Of another place it is nothing.
    bench.pull.handle(bench.now, LocationInput::Unicast(Unicast::NotHere { vif: vif(2), at: place(9) }));
    assert_eq!(bench.settle(), []);
    assert!(bench.pull.find(vif(1), query).is_some());
}

/// An agent starts again with places that the kernel has, and the directory is away.
#[test]
fn adopted_places_are_used_until_the_directory_answers() {
    let mut bench = Bench::new();
    bench.directory.is_silent = true;
    let gone = vif(9);
    for (vif, at) in [(vif(2), place(2)), (gone, place(4))] {
        bench.pull.handle(bench.now, LocationInput::Adopt { vif, at });
    }
    assert_eq!(bench.advance(Duration::from_secs(3600)), []);
    assert_eq!(bench.pull.find(vif(1), Query::vif(gone)).map(|it| it.at), Some(place(4)));
    assert!(bench.pull.deadline().is_some());
    bench.directory.is_silent = false;
    assert_eq!(bench.advance(Duration::from_secs(8)), [LocationOutput::Moved { vif: gone, at: None }]);
    let there = Some(Binding { vif: vif(2), at: place(2) });
    assert_eq!((bench.pull.find(vif(1), Query::vif(gone)), bench.pull.find(vif(1), Query::vif(vif(2)))), (None, there));
    // Confirmed, it is withdrawn as all others are.
    bench.directory.at = place(3);
    bench.directory.generation = Generation(6);
    assert!(bench.advance(Duration::from_secs(1)).contains(&LocationOutput::Moved { vif: vif(2), at: None }));
}

#[test]
fn an_adopted_place_is_corrected_denied_or_ends() {
    let mut bench = Bench::new();
    bench.pull.handle(bench.now, LocationInput::Adopt { vif: vif(2), at: place(8) });
    assert_eq!(bench.settle(), [LocationOutput::Moved { vif: vif(2), at: Some(place(2)) }]);
    bench.directory.is_silent = true;
    bench.pull.handle(bench.now, LocationInput::Adopt { vif: vif(7), at: place(8) });
    bench.pull.handle(bench.now, LocationInput::Unicast(Unicast::NotHere { vif: vif(7), at: place(8) }));
    assert_eq!(bench.settle(), [LocationOutput::Moved { vif: vif(7), at: None }]);
    // A time is set for what nobody confirms; a minute is the least.
    let mut bench = Bench::with(ResolverConfig { fail_static: Duration::from_secs(90), ..ResolverConfig::new(ME) });
    bench.directory.is_silent = true;
    bench.pull.handle(bench.now, LocationInput::Adopt { vif: vif(2), at: place(8) });
    assert_eq!(bench.advance(Duration::from_secs(89)), []);
    assert_eq!(bench.advance(Duration::from_secs(2)), [LocationOutput::Moved { vif: vif(2), at: None }]);
    // Of a space in which no VIF is here nobody can be asked.
    let other = Vif { space: MacSpace(5), ..vif(2) };
    let mut bench = Bench::new();
    bench.pull.handle(bench.now, LocationInput::Adopt { vif: other, at: place(8) });
    assert_eq!(bench.advance(Duration::from_secs(3600)), []);
}
