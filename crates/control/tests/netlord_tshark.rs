//! NetLord's frames as an independent witness reads them: tshark, on what the emitters made. Skipped where there is no tshark, unless `CI` is set.

use std::net::Ipv4Addr;
use std::process::Command;

use weft_control::netlord::{EdgePort, Location, MacSpace, PROVIDER, Vif};
use weft_control::wire::netlord::{Encapsulation, Here, Lldp, NlArp, Overlay, Recipient, Unicast, group_mac};
use weft_control::wire::packet::ethernet::VlanId;
use weft_control::wire::packet::ndp::{self, Neighbor};
use weft_fabric::{MacAddr, TenantId};

const FIELDS: [&str; 11] = [
    "frame.len",
    "frame.protocols",
    "vlan.id",
    "eth.dst",
    "ip.src",
    "ip.dst",
    "ip.id",
    "ip.flags.df",
    "ip.proto",
    "ip.checksum.status",
    "lldp.chassis.id.mac",
];

fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

fn frames() -> Vec<Vec<u8>> {
    let vlan = VlanId::new(1001);
    let port = EdgePort::new(7).expect("a port");
    let to = Recipient::Port(port);
    let (tenant, space) = (TenantId(0x0a_0b0c), MacSpace(3));
    let overlay = Overlay { to, tenant, space, vlan };
    let question = Neighbor::question([0xfd00, 0, 0, 0, 0, 0, 0, 1].into(), mac(1), [0xfd00, 0, 0, 0, 0, 0, 0, 2].into());
    let inner = question.frame(ndp::group_mac(question.destination), mac(1));
    let at = Location { switch: mac(0x11), port };
    let vif = Vif { tenant, space, mac: mac(1) };
    let message = Unicast::Here { vif, at, ip4: Some(Ipv4Addr::new(10, 0, 0, 1)), answers: None };
    let agents = Overlay { tenant: PROVIDER, ..overlay };
    let group = Overlay { to: Recipient::Group, ..overlay };
    let mut all = vec![Vec::new(); 6];
    Encapsulation { dst: mac(0x22), src: mac(0x11), tag: vlan, overlay, inner: &inner }.emit(&mut all[0]);
    let same_switch = Overlay { vlan: None, ..overlay };
    Encapsulation { dst: mac(0x22), src: mac(9), tag: None, overlay: same_switch, inner: &inner }.emit(&mut all[1]);
    Encapsulation { dst: group_mac(tenant), src: mac(0x11), tag: vlan, overlay: group, inner: &inner }.emit(&mut all[2]);
    Encapsulation { dst: mac(0x22), src: mac(0x11), tag: vlan, overlay: agents, inner: &message.emit() }.emit(&mut all[3]);
    NlArp::Here(Here { vif, ip4: None, ip6: None }).emit(at, VlanId::new(4094).expect("a VLAN"), &mut all[4]);
    Lldp { location: at, ttl_s: 120 }.emit(mac(0x33), "swp7", &mut all[5]);
    all
}

/// A capture file of these frames.
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4u32, 2 | 4 << 16, 0, 0, 65_535, 1] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    for frame in frames {
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(frame);
    }
    out
}

#[test]
fn tshark_reads_what_is_meant() {
    let file = std::env::temp_dir().join(format!("weft-netlord-{}.pcap", std::process::id()));
    std::fs::write(&file, pcap(&frames())).expect("written");
    let mut command = Command::new("tshark");
    command.arg("-r").arg(&file).args(["-o", "ip.check_checksum:TRUE", "-T", "fields"]);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let output = command.output();
    let _ = std::fs::remove_file(&file);
    let output = match output {
        Ok(output) => output,
        Err(why) => {
            assert!(std::env::var_os("CI").is_none(), "tshark is needed: {why}");
            return eprintln!("skipped: no tshark ({why})");
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let v6 = "02:00:00:00:00:22,33:33:ff:00:00:02";
    let inside = "ip:eth:ethertype:ipv6:icmpv6";
    let expected = [
        format!("124\teth:ethertype:vlan:ethertype:{inside}\t1001\t{v6}\t0.0.0.3\t7.10.11.12\t0x03e9\t1\t143\t1\t"),
        format!("120\teth:ethertype:{inside}\t\t{v6}\t0.0.0.3\t7.10.11.12\t0x0000\t1\t143\t1\t"),
        format!(
            "124\teth:ethertype:vlan:ethertype:{inside}\t1001\t01:00:5e:0a:0b:0c,33:33:ff:00:00:02\t0.0.0.3\t239.10.11.12\t0x03e9\t1\t143\t1\t"
        ),
        "60\teth:ethertype:vlan:ethertype:ip:eth:ethertype:data\t1001\t02:00:00:00:00:22,02:00:00:00:00:01\t0.0.0.3\t7.0.0.1\t0x03e9\t1\t143\t1\t".to_owned(),
        "60\teth:ethertype:vlan:ethertype:data\t4094\tff:ff:ff:ff:ff:ff\t\t\t\t\t\t\t".to_owned(),
        "36\teth:ethertype:lldp\t\t01:80:c2:00:00:0e\t\t\t\t\t\t\t02:00:00:00:00:11".to_owned(),
    ];
    assert_eq!(lines.len(), expected.len(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    for (line, expected) in lines.iter().zip(&expected) {
        assert_eq!(line, expected);
    }
}
