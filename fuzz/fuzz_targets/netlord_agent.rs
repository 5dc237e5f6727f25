//! Any frames of VMs and of the fabric, cut from the input: an agent does not panic, hands nothing of one tenant to the other, and sends the fabric nothing but
//! encapsulations and messages of its own.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use weft_control::netlord::agent::{Agent, AgentConfig, Input, Output, VifId};
use weft_control::netlord::nl_arp::{NlArp, NlArpConfig};
use weft_control::netlord::paths::OneVlan;
use weft_control::netlord::tenants::Tenants;
use weft_control::netlord::{EdgePort, Location, MacSpace, UplinkId, Vif};
use weft_control::time::{Duration, Instant};
use weft_control::wire::netlord::{Encapsulation, Lldp};
use weft_control::wire::packet::ethernet::{EtherType, Ethernet, VlanId};
use weft_fabric::rng::{self, Stream};
use weft_fabric::{MacAddr, TenantId};

const TENANTS: &str = "version = 1\n[[tenant]]\nid = 7\nname = \"a\"\n[[tenant]]\nid = 8\nname = \"b\"\n[[router]]\ntenant = \"a\"\nname = \"r\"\n\
    interfaces = [{ space = 1, mac = \"02:00:00:00:00:fe\", address = \"10.0.0.254/24\" }]\n";

fuzz_target!(|bytes: &[u8]| {
    let vlan = VlanId::new(9).expect("a VLAN");
    let locations = NlArp::new(NlArpConfig::default(), rng::stream(1, Stream::Traffic));
    let mut agent = Agent::new(AgentConfig::new(vec![vlan]), locations, OneVlan(vlan));
    let mut now = Instant::ZERO;
    let uplink = UplinkId(0);
    let hardware = MacAddr([2, 9, 9, 9, 9, 9]);
    agent.handle(now, Input::Configure(Arc::new(Tenants::parse(TENANTS).expect("tenants"))));
    agent.handle(now, Input::Uplink { uplink, up: Some((hardware, 1600)) });
    let location = Location { switch: MacAddr([2, 8, 8, 8, 8, 8]), port: EdgePort::new(3).expect("a port") };
    let mut lldp = Vec::new();
    Lldp { location, ttl_s: 60_000 }.emit(location.switch, "p3", &mut lldp);
    agent.handle(now, Input::FromFabric { uplink, frame: &lldp });
    for (id, tenant, n) in [(0, 7, 1), (1, 7, 2), (2, 8, 1), (3, 8, 2)] {
        let vif = Vif { tenant: TenantId(tenant), space: MacSpace(1), mac: MacAddr([2, 0, 0, 0, 0, n]) };
        agent.handle(now, Input::Attach { id: VifId(id), vif, addresses: vec![[10, 0, 0, n].into()] });
    }
    while agent.poll().is_some() {}
    let mut rest = bytes;
    while let [who, length, after @ ..] = rest {
        let (part, after) = after.split_at(after.len().min(usize::from(*length)));
        rest = after;
        let mut frame = part.to_vec();
        let from_vif = who & 8 != 0;
        if frame.len() >= 14 {
            let src = if from_vif { [2, 0, 0, 0, 0, 1 + (who & 1)] } else { location.switch.0 };
            frame[6..12].copy_from_slice(&src);
            if !from_vif && who & 16 != 0 {
                frame[..6].copy_from_slice(&hardware.0);
            }
        }
        now += Duration::from_ms(u64::from(who >> 5) * 10);
        let id = VifId(u32::from(who & 3));
        if from_vif {
            agent.handle(now, Input::FromVif { id, frame: &frame });
        } else {
            agent.handle(now, Input::FromFabric { uplink, frame: &frame });
        }
        while let Some(output) = agent.poll() {
            match output {
                Output::ToVif { id: to, .. } => assert!(!from_vif || (to.0 < 2) == (id.0 < 2), "it has crossed"),
                Output::ToFabric { frame, .. } => {
                    let ethernet = Ethernet::parse(&frame).expect("a frame");
                    assert!([location.switch, hardware].contains(&ethernet.src));
                    assert!(ethernet.ethertype != EtherType::IPV4 || Encapsulation::parse(&frame).is_ok());
                }
                _ => {}
            }
        }
    }
});
