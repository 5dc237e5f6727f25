//! Tenants that send whatever they like: nothing of one is ever handed to another, and no table learns anything from them.

use proptest::prelude::*;
use weft_fabric::rng::Pcg64;

use rand::RngExt;

use super::super::super::{PROVIDER, PUBLIC};
use super::*;
use crate::wire::netlord::{Here, NlArp, NotHere, Unicast};
use crate::wire::packet::ndp::Neighbor;

const AGENTS: usize = 5;

/// Tenants 7, 8 and 9 have the same MAC spaces, MAC and IP addresses; 7 and 8 have a router each between their spaces.
fn tenants() -> String {
    let mut text = String::from("version = 1\n");
    for (id, name) in [(7, "a"), (8, "b"), (9, "c")] {
        text += &format!("[[tenant]]\nid = {id}\nname = \"{name}\"\nspaces = [1, 2]\n");
    }
    for name in ["a", "b"] {
        text += &format!(
            "[[router]]\ntenant = \"{name}\"\nname = \"r\"\ninterfaces = [\n\
             {{ space = 1, mac = \"02:00:00:00:00:fe\", address = \"10.0.0.254/24\" }},\n\
             {{ space = 2, mac = \"02:00:00:00:00:fe\", address = \"10.0.1.254/24\" }}]\n"
        );
    }
    text
}

#[derive(Clone, Copy, Debug)]
struct Vm {
    vif: Vif,
    ip: IpAddr,
    agent: usize,
}

struct Trial {
    world: World,
    vms: Vec<Vm>,
    rng: Pcg64,
    /// Who sent the frame with this mark.
    marks: Vec<Vif>,
    seen: usize,
}

impl Trial {
    fn new(seed: u64) -> Self {
        let mut world = World::with_nics(1 + (seed % 2) as u8, AGENTS, &tenants());
        let mut vms = Vec::new();
        let mut rng = rng::stream(seed, Stream::Vlb);
        for tenant in [7, 8, 9, PROVIDER.0, PUBLIC.0] {
            for space in if tenant <= PUBLIC.0 { 1..=1 } else { 1..=2 } {
                for n in 1..=3 {
                    let agent = rng.random_range(0..AGENTS);
                    vms.push(Vm { vif: vif(tenant, space, n), ip: ip(space as u8 - 1, n), agent });
                }
            }
        }
        for (id, vm) in vms.iter().enumerate() {
            world.attach(vm.agent, id as u32, vm.vif, &[vm.ip]);
        }
        Self { world, vms, rng, marks: Vec::new(), seen: 0 }
    }

    fn pick(&mut self) -> Vm {
        let at = self.rng.random_range(0..self.vms.len());
        self.vms[at]
    }

    /// Sixteen bytes that name the sender, and that no frame has by chance.
    fn mark(&mut self, sender: Vif) -> Vec<u8> {
        self.marks.push(sender);
        let mut mark = b"weft-mark-".to_vec();
        mark.extend_from_slice(&(self.marks.len() as u32 - 1).to_be_bytes());
        mark.extend_from_slice(&[0x7e; 20]);
        mark
    }

    fn step(&mut self) {
        let at = self.rng.random_range(0..self.vms.len());
        let me = self.vms[at];
        match self.rng.random_range(0..20) {
            0 => self.migrate(at),
            1 => self.world.advance(Duration::from_ms(700)),
            2 if self.world.nics > 1 => self.plug(),
            2 => {
                let deaf = self.rng.random_range(0..AGENTS);
                if !self.world.deaf.insert(deaf) {
                    self.world.deaf.clear();
                }
            }
            _ => {
                let frame = self.frame(me);
                self.world.send(me.agent, at as u32, &frame);
            }
        }
        self.check();
    }

    /// A cable is cut, of at most one interface per server, or all are repaired.
    fn plug(&mut self) {
        let (agent, nic) = (self.rng.random_range(0..AGENTS), self.rng.random_range(0..self.world.nics));
        if self.world.unplugged.iter().all(|(other, _)| *other != agent) {
            self.world.plug(agent, nic, false);
        } else {
            self.plug_all();
        }
    }

    fn plug_all(&mut self) {
        for (agent, nic) in self.world.unplugged.clone() {
            self.world.plug(agent, nic, true);
        }
    }

    fn migrate(&mut self, at: usize) {
        self.world.input(self.vms[at].agent, Input::Detach(VifId(at as u32)));
        self.vms[at].agent = self.rng.random_range(0..AGENTS);
        let vm = self.vms[at];
        self.world.attach(vm.agent, at as u32, vm.vif, &[vm.ip]);
    }

    fn frame(&mut self, me: Vm) -> Vec<u8> {
        let other = self.pick();
        let mark = self.mark(me.vif);
        let from = if self.rng.random_range(0..8) == 0 { other.vif.mac } else { me.vif.mac };
        let to = match self.rng.random_range(0..6) {
            0 => BROADCAST,
            1 => mac(0xfe),
            2 => switch_of(other.agent),
            _ => other.vif.mac,
        };
        match self.rng.random_range(0..12) {
            0 => {
                let mut junk: Vec<u8> = (0..self.rng.random_range(0..80)).map(|_| self.rng.random()).collect();
                if junk.len() > 12 {
                    junk[6..12].copy_from_slice(&from.0);
                }
                junk
            }
            1 | 2 => plain(from, to, 0x8892, &mark),
            3 | 4 => udp(from, to, me.ip, other.ip, 80, &mark),
            5 => udp(from, to, other.ip, self.pick().ip, 80, &mark),
            6 => arp_request(from, if self.rng.random() { me.ip } else { other.ip }, self.pick().ip),
            7 => {
                let v6 = |ip: IpAddr| match ip {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                if self.rng.random() {
                    solicit(v6(me.ip), from, v6(other.ip))
                } else {
                    Neighbor::advertisement(v6(other.ip), from, v6(me.ip)).frame(to, from)
                }
            }
            8 => self.forged_encapsulation(me, other, &mark),
            9 => self.forged_message(from, other),
            10 => self.forged_unicast(from, to, other),
            _ => {
                let mut out = Vec::new();
                Lldp { location: place(other.agent), ttl_s: 9 }.emit(from, "swp1", &mut out);
                out
            }
        }
    }

    /// As an agent would send it, with another tenant's id: bare, as an IPv4 packet of the VM's, and inside a frame.
    fn forged_encapsulation(&mut self, me: Vm, other: Vm, mark: &[u8]) -> Vec<u8> {
        let inner = plain(me.vif.mac, other.vif.mac, 0x8892, mark);
        let at = place(other.agent);
        let to = if self.rng.random() { Recipient::Port(at.port) } else { Recipient::Group };
        let vlan = if self.rng.random() { VlanId::new(SPECIAL) } else { None };
        let overlay = Overlay { to, tenant: other.vif.tenant, space: other.vif.space, vlan };
        let dst = match (to, self.rng.random()) {
            (Recipient::Group, _) => crate::wire::netlord::group_mac(other.vif.tenant),
            (_, true) => at.switch,
            _ => hardware(other.agent),
        };
        let mut out = Vec::new();
        Encapsulation { dst, src: me.vif.mac, tag: vlan, overlay, inner: &inner }.emit(&mut out);
        if self.rng.random() { plain(me.vif.mac, other.vif.mac, 0x0800, &out[14..]) } else { out }
    }

    fn forged_message(&mut self, from: MacAddr, other: Vm) -> Vec<u8> {
        let message = if self.rng.random() {
            NlArp::Here(Here { vif: other.vif, ip4: None, ip6: None })
        } else {
            NlArp::NotHere(NotHere { vif: other.vif })
        };
        let mut out = Vec::new();
        message.emit(Location { switch: from, port: place(0).port }, VlanId::new(SPECIAL).unwrap(), &mut out);
        out
    }

    fn forged_unicast(&mut self, from: MacAddr, to: MacAddr, other: Vm) -> Vec<u8> {
        let at = place(self.rng.random_range(0..AGENTS));
        let vif = other.vif;
        let message =
            if self.rng.random() { Unicast::Here { vif, at, ip4: None, answers: None } } else { Unicast::NotHere { vif, at } };
        let mut inner = message.emit().to_vec();
        inner[..6].copy_from_slice(&to.0);
        inner[6..12].copy_from_slice(&from.0);
        inner
    }

    fn check(&mut self) {
        for at in self.seen..self.world.delivered.len() {
            let (agent, id, frame) = &self.world.delivered[at];
            let vm = self.vms[id.0 as usize];
            assert_eq!(vm.agent, *agent);
            if let Some(mark) = frame.windows(10).position(|part| part == b"weft-mark-") {
                let number = u32::from_be_bytes(frame[mark + 10..mark + 14].try_into().unwrap());
                let sender = self.marks[number as usize];
                assert_eq!(sender.tenant, vm.vif.tenant, "a frame has crossed");
                let routed = Ethernet::parse(frame).unwrap().src == mac(0xfe);
                assert!(sender.space == vm.vif.space || routed, "from one MAC space to another without a router");
            }
            if let Some((ip, mac)) = replied(frame) {
                let gateway = mac == super::mac(0xfe) && [7, 8].contains(&vm.vif.tenant.0);
                let owner = self.vms.iter().find(|it| it.vif == Vif { mac, ..vm.vif });
                let honest = owner.is_some_and(|it| it.ip == ip);
                // A VM of the same MAC space may lie: that is its tenant's affair.
                assert!(gateway || honest || owner.is_some(), "{ip} is at {mac}, somebody says");
            }
        }
        self.seen = self.world.delivered.len();
    }

    /// Tables hold what agents have said, of servers on which the VIF was: never what a VM said.
    fn check_tables(&self) {
        for agent in &self.world.agents {
            let table = agent.locations().table();
            assert!(table.len() <= self.vms.len());
            for vm in &self.vms {
                if let Some(at) = table.find(vm.vif) {
                    let mut all = (0..AGENTS).flat_map(|n| [place_of(n, 0), place_of(n, 1)]);
                    assert!(all.any(|place| place == at), "{at} is no server");
                }
            }
        }
    }

    /// Afterwards everybody reaches everybody of his own, once.
    fn check_reachable(&mut self) {
        self.world.deaf.clear();
        self.plug_all();
        self.world.advance(Duration::from_secs(10));
        for from in 0..self.vms.len() {
            for to in 0..self.vms.len() {
                let (a, b) = (self.vms[from], self.vms[to]);
                if from == to || a.vif.tenant != b.vif.tenant || a.vif.space != b.vif.space {
                    continue;
                }
                let mark = self.mark(a.vif);
                let frame = udp(a.vif.mac, b.vif.mac, a.ip, b.ip, 80, &mark);
                let mut got = 0;
                // The first may be lost to a stale entry, and repairs it; or, if where the sender is was stale as well, the second.
                for _ in 0..3 {
                    self.world.delivered.clear();
                    self.world.send(a.agent, from as u32, &frame);
                    self.world.advance(Duration::from_secs(3));
                    got = self.world.take().iter().filter(|it| it.1 as usize == to && it.2 == frame).count();
                    if got > 0 {
                        break;
                    }
                }
                assert_eq!(got, 1, "{a:?} to {b:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 24 / 256))]
    #[test]
    fn nothing_crosses(seed in any::<u64>()) {
        let mut trial = Trial::new(seed);
        for _ in 0..600 {
            trial.step();
        }
        trial.check_tables();
        trial.check_reachable();
        let delivered: u64 = trial.world.agents.iter().flat_map(|it| it.counts().tenants.values()).map(|it| it.delivered).sum();
        prop_assert!(delivered > 100, "the trial tried something");
        for reason in [Drop::SpoofedMac, Drop::Control, Drop::SpoofedIp, Drop::SpoofedGateway] {
            let counted: u64 = trial.world.agents.iter().map(|it| it.counts().dropped(reason)).sum();
            prop_assert!(counted > 0 || reason == Drop::SpoofedGateway, "{:?} was counted", reason);
        }
    }

    /// From the fabric, any bytes and any inner frame: only VIFs of the tenant and MAC space of the header get it, and every frame is delivered or counted.
    #[test]
    fn any_frame_from_the_fabric_is_for_its_tenant_or_counted(
        tenant in 1u32..12, space in 1u32..4, port in 1u16..4, group in any::<bool>(), n in 0u8..5,
        tail in prop::collection::vec(any::<u8>(), 0..60), flip in 0usize..100, bit in 0u8..8,
    ) {
        let mut trial = Trial::new(1);
        for agent in 0..AGENTS {
            let to = if group { Recipient::Group } else { Recipient::Port(EdgePort::new(port).unwrap()) };
            let overlay = Overlay { to, tenant: TenantId(tenant), space: MacSpace(space), vlan: None };
            let inner = plain(mac(9), if group { BROADCAST } else { mac(n) }, 0x8892, &tail);
            let dst = if group { crate::wire::netlord::group_mac(TenantId(tenant)) } else { hardware(agent) };
            let mut frame = Vec::new();
            Encapsulation { dst, src: switch_of(agent), tag: None, overlay, inner: &inner }.emit(&mut frame);
            let is_whole = flip >= 14 + 20;
            if let Some(byte) = frame.get_mut(flip).filter(|_| !is_whole) {
                *byte ^= 1 << bit;
            }
            trial.world.delivered.clear();
            let before = trial.world.agents[agent].counts().all_dropped();
            trial.world.input(agent, Input::FromFabric { uplink: UPLINK, frame: &frame });
            let got = trial.world.take();
            for (at, id, _) in &got {
                let vm = trial.vms[*id as usize];
                prop_assert_eq!((*at, vm.vif.tenant.0, vm.vif.space.0), (agent, tenant, space));
            }
            let dropped = trial.world.agents[agent].counts().all_dropped() - before;
            prop_assert!(group || (got.len() as u64 + dropped) == 1, "{} and {}", got.len(), dropped);
        }
    }
}
