use weft_fabric::rng::{self, Stream};
use weft_fabric::{MacAddr, TenantId};

use super::super::{EdgePort, MacSpace};
use super::*;

fn vif(n: u8) -> Vif {
    Vif { tenant: TenantId(7), space: MacSpace(1), mac: MacAddr([2, 0, 0, 0, 0, n]) }
}

fn place(n: u8) -> Location {
    Location { switch: MacAddr([2, 9, 0, 0, 0, n]), port: EdgePort::new(u16::from(n) + 1).unwrap() }
}

fn ip4(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

fn ip6(n: u8) -> IpAddr {
    IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(n)])
}

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_ms(ms)
}

fn by_ip(ip: IpAddr) -> Query {
    Query::ip(TenantId(7), MacSpace(1), ip)
}

type Reaches = Box<dyn FnMut(usize, &Message) -> bool>;

/// Agents under one clock; messages arrive at once, except those that a test has lost.
struct World {
    agents: Vec<NlArp>,
    now: Instant,
    /// Whether a broadcast reaches this agent.
    reaches: Reaches,
    sought: Vec<(usize, Query, Option<Binding>)>,
    moved: Vec<(usize, Vif, Option<Location>)>,
}

impl World {
    fn new(agents: u8) -> Self {
        let agents = (0..agents).map(|n| NlArp::new(NlArpConfig::default(), rng::stream(u64::from(n), Stream::Traffic)));
        Self {
            agents: agents.collect(),
            now: Instant::ZERO,
            reaches: Box::new(|_, _| true),
            sought: Vec::new(),
            moved: Vec::new(),
        }
    }

    fn input(&mut self, agent: usize, input: LocationInput<'_>) {
        self.agents[agent].handle(self.now, input);
        self.settle();
    }

    fn settle(&mut self) {
        while let Some((from, output)) = (0..self.agents.len()).find_map(|n| Some((n, self.agents[n].poll()?))) {
            match output {
                LocationOutput::Broadcast(message) => {
                    for to in (0..self.agents.len()).filter(|&to| to != from) {
                        if (self.reaches)(to, &message) {
                            let input = LocationInput::Broadcast { from: place(from as u8), message };
                            self.agents[to].handle(self.now, input);
                        }
                    }
                }
                LocationOutput::Unicast { to, message } => {
                    let to = (0..self.agents.len()).find(|&n| place(n as u8) == to).expect("an agent");
                    self.agents[to].handle(self.now, LocationInput::Unicast(message));
                }
                LocationOutput::Sought { query, found } => self.sought.push((from, query, found)),
                LocationOutput::Moved { vif, at } => self.moved.push((from, vif, at)),
                // What agents do then: agent/tests/claims.rs.
                LocationOutput::Claimed { .. } | LocationOutput::Elsewhere { .. } => {}
                LocationOutput::Datagram { .. } => panic!("NL-ARP asks no directory"),
            }
        }
    }

    fn advance(&mut self, to: Instant) {
        while let Some((at, n)) = (0..self.agents.len()).filter_map(|n| Some((self.agents[n].deadline()?, n))).min()
            && at <= to
        {
            self.now = at;
            self.input(n, LocationInput::Timer);
        }
        self.now = to;
    }

    fn start(&mut self, agent: usize, vif: Vif, addresses: &[IpAddr]) {
        self.input(agent, LocationInput::Start { vif, at: place(agent as u8), addresses });
    }

    fn seek(&mut self, agent: usize, query: Query) {
        self.input(agent, LocationInput::Seek { asker: vif(99), query });
    }
}

#[test]
fn a_start_is_known_everywhere_with_all_addresses() {
    let mut world = World::new(3);
    let addresses = [ip4(1), ip6(1), ip6(2)];
    world.start(0, vif(1), &addresses);
    let binding = Some(Binding { vif: vif(1), at: place(0) });
    for agent in &world.agents {
        assert_eq!(agent.find(vif(9), Query::vif(vif(1))), binding);
        for ip in addresses {
            assert_eq!(agent.find(vif(9), by_ip(ip)), binding, "{ip}");
        }
    }
    assert_eq!(world.agents[0].counts().heres_sent, 2, "two addresses of IPv6");
    // It moves.
    world.input(0, LocationInput::Stop(vif(1)));
    world.start(2, vif(1), &addresses);
    assert_eq!(world.agents[1].find(vif(9), by_ip(ip6(2))).map(|it| it.at), Some(place(2)));
    assert_eq!(world.moved, [(0, vif(1), Some(place(2))), (1, vif(1), Some(place(2)))][1..].to_vec());
}

#[test]
fn a_lost_here_is_repaired_by_where_also_if_that_is_lost_at_first() {
    let mut world = World::new(2);
    world.reaches = Box::new(|_, message| !matches!(message, Message::Here(_)));
    world.start(0, vif(1), &[ip4(1), ip6(1)]);
    for (query, lost) in [(Query::vif(vif(1)), 0), (by_ip(ip4(1)), 3), (by_ip(ip6(1)), 5)] {
        // Each time from nothing.
        world.agents[1] = NlArp::new(NlArpConfig::default(), rng::stream(9, Stream::Traffic));
        let mut left = lost;
        world.reaches = Box::new(move |_, message| {
            let lose = matches!(message, Message::Where(_)) && left > 0;
            left -= i32::from(lose);
            !lose
        });
        world.sought.clear();
        let begun = world.now;
        world.seek(1, query);
        world.advance(begun + Duration::from_secs(2));
        let found = Some(Binding { vif: vif(1), at: place(0) });
        assert_eq!(world.sought, [(1, query, found)]);
        assert_eq!(world.agents[1].find(vif(9), query), found);
        assert_eq!(world.agents[1].counts().wheres_sent, lost as u64 + 1);
    }
}

#[test]
fn a_search_for_nobody_ends_and_is_not_repeated_at_once() {
    let mut world = World::new(2);
    world.seek(1, by_ip(ip4(9)));
    world.advance(ms(1259));
    assert_eq!(world.sought, []);
    world.advance(ms(1261));
    assert_eq!(world.sought, [(1, by_ip(ip4(9)), None)]);
    world.seek(1, by_ip(ip4(9)));
    assert_eq!((world.sought.len(), world.agents[1].counts().wheres_sent), (2, 6));
    world.advance(ms(1800));
    world.seek(1, by_ip(ip4(9)));
    assert_eq!(world.agents[1].counts().wheres_sent, 7);
    // A start ends it before its time.
    world.start(0, vif(1), &[ip4(9)]);
    assert_eq!(world.sought.last(), Some(&(1, by_ip(ip4(9)), Some(Binding { vif: vif(1), at: place(0) }))));
}

#[test]
fn a_stale_entry_is_deleted_and_the_vif_found_again() {
    let mut world = World::new(3);
    world.start(0, vif(1), &[]);
    world.start(1, vif(2), &[]);
    world.reaches = Box::new(|to, message| !(to == 1 && matches!(message, Message::Here(_))));
    world.input(0, LocationInput::Stop(vif(1)));
    world.start(2, vif(1), &[]);
    assert_eq!(world.agents[1].find(vif(2), Query::vif(vif(1))).map(|it| it.at), Some(place(0)), "stale");
    world.input(0, LocationInput::Misdelivered { vif: vif(1), here: place(0), sender: Query::vif(vif(2)) });
    assert_eq!(world.agents[1].find(vif(2), Query::vif(vif(1))).map(|it| it.at), Some(place(2)));
    assert_eq!(world.agents[1].counts().stale, 1);
    // NOTHERE of a place where the entry is not any more changes nothing.
    world.input(1, LocationInput::Unicast(Unicast::NotHere { vif: vif(1), at: place(0) }));
    assert_eq!(world.agents[1].find(vif(2), Query::vif(vif(1))).map(|it| it.at), Some(place(2)));
}

#[test]
fn who_sent_a_stray_is_found_by_where_if_unknown() {
    let mut world = World::new(3);
    world.start(0, vif(1), &[]);
    world.reaches = Box::new(|to, message| !(to == 0 && matches!(message, Message::Here(_))));
    world.start(1, vif(2), &[]);
    world.reaches = Box::new(|to, message| !(to == 1 && matches!(message, Message::Here(_))));
    world.input(0, LocationInput::Stop(vif(1)));
    world.start(2, vif(1), &[]);
    assert_eq!(world.agents[0].find(vif(1), Query::vif(vif(2))), None);
    world.input(0, LocationInput::Misdelivered { vif: vif(1), here: place(0), sender: Query::vif(vif(2)) });
    assert_eq!(world.agents[1].find(vif(2), Query::vif(vif(1))).map(|it| it.at), Some(place(2)));
}

#[test]
fn what_is_repeated_in_vain_is_confirmed() {
    let mut world = World::new(3);
    world.start(0, vif(1), &[ip4(1)]);
    // Server 0 dies, and the HERE from server 2 is lost for agent 1.
    world.agents[0] = NlArp::new(NlArpConfig::default(), rng::stream(9, Stream::Traffic));
    world.reaches = Box::new(|_, message| !matches!(message, Message::Here(_)));
    world.start(2, vif(1), &[ip4(1)]);
    assert_eq!(world.agents[1].find(vif(9), by_ip(ip4(1))).map(|it| it.at), Some(place(0)));
    world.input(1, LocationInput::Confirm(by_ip(ip4(1))));
    assert_eq!(world.agents[1].find(vif(9), by_ip(ip4(1))).map(|it| it.at), Some(place(2)));
}

#[test]
fn searches_and_corrections_are_limited() {
    let config = NlArpConfig { searches_max: 3, repairs_per_s: 4, ..NlArpConfig::default() };
    let mut machine = NlArp::new(config, rng::stream(1, Stream::Traffic));
    for n in 0..10 {
        machine.handle(Instant::ZERO, LocationInput::Seek { asker: vif(99), query: Query::vif(vif(n)) });
    }
    assert_eq!((machine.counts().wheres_sent, machine.counts().limited), (3, 7));
    for n in 0..10 {
        let sender = Query::vif(vif(50));
        machine.handle(Instant::ZERO, LocationInput::Misdelivered { vif: vif(n), here: place(0), sender });
    }
    assert_eq!(machine.counts().limited, 7 + 10);
    assert_eq!(std::iter::from_fn(|| machine.poll()).count(), 3 + 7);
}

#[test]
fn a_correction_reaches_a_sender_that_has_moved_itself() {
    let mut world = World::new(4);
    world.start(0, vif(1), &[]);
    world.start(1, vif(2), &[]);
    // Both move; nobody who should hears it.
    world.reaches = Box::new(|_, message| !matches!(message, Message::Here(_)));
    world.input(0, LocationInput::Stop(vif(1)));
    world.start(2, vif(1), &[]);
    world.input(1, LocationInput::Stop(vif(2)));
    world.start(3, vif(2), &[]);
    for place_now in [place(0), place(2)] {
        world.input(0, LocationInput::Misdelivered { vif: vif(1), here: place(0), sender: Query::vif(vif(2)) });
        assert_eq!(world.agents[3].find(vif(2), Query::vif(vif(1))).map(|it| it.at), Some(place_now));
    }
}
