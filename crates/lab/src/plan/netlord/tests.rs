use std::collections::BTreeSet;

use weft_fabric::topology::shapes::subways::{SubwaysSpec, SubwaysType, Trunk};
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::{BitsPerSec, Bytes, Duration, Fabric};

use super::*;
use crate::plan::{LabName, Plan, PlanError, PortId, Role, Routing, Settings, Timers};

fn fabric(shape: Shape) -> Fabric {
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO };
    shape.build(link, link).expect("a fabric")
}

fn laid(fabric: &Fabric, spec: &NetlordSpec) -> Result<Plan, PlanError> {
    let settings = Settings {
        name: LabName::default(),
        routing: Routing::Frr,
        timers: Timers::FAST,
        scale: 0.1,
        seed: 1,
        switch_queue: Bytes(102_400),
        nic_queue: Bytes(1_600_000),
    };
    Plan::new(fabric, &settings)?.with_netlord(fabric, spec)
}

fn spec(file: String, placements: &[(&str, &[u32])]) -> NetlordSpec {
    let of = |&(tenant, hosts): &(&str, &[u32])| Placement { tenant: tenant.to_owned(), hosts: hosts.to_vec() };
    NetlordSpec {
        file,
        placements: placements.iter().map(of).collect(),
        spain: SpainConfig::default(),
        fib: Fib { entries: 64, ageing_s: 300, learn_per_second: 0 },
        limits: Vec::new(),
        core: CoreSwitch::Ebpf,
        provider: None,
        chirp_us: None,
    }
}

fn two() -> String {
    alike(&[(17, "acme".to_owned(), 3), (18, "globex".to_owned(), 2)])
}

/// Switches that a VLAN joins to the first one that has it, and the number of its cables.
fn reach(plan: &Plan, netlord: &Netlord, vlan: u16) -> (BTreeSet<usize>, usize) {
    let carries = |node: usize, port: usize| netlord.switch(node).is_some_and(|s| s.ports[port].vlans.contains(&vlan));
    let trunks = || {
        plan.cables().filter(|[a, b]| netlord.switch(a.node).is_some() && netlord.switch(b.node).is_some()).filter(|ends| {
            let [a, b] = ends.map(|end| carries(end.node, end.port));
            assert_eq!(a, b, "both ends of a cable have the same VLANs");
            a
        })
    };
    let mut reached: BTreeSet<usize> = trunks().take(1).map(|[a, _]| a.node).collect();
    loop {
        let more: Vec<usize> = trunks()
            .flat_map(|[a, b]| [(a.node, b.node), (b.node, a.node)])
            .filter(|(from, to)| reached.contains(from) && !reached.contains(to))
            .map(|(_, to)| to)
            .collect();
        if more.is_empty() {
            return (reached, trunks().count());
        }
        reached.extend(more);
    }
}

#[test]
fn each_special_vlan_is_a_tree_that_reaches_all_hosts_and_nobody_else() {
    for shape in [
        Shape::TwoLevel { edges: 5, cores: 3, hosts_per_edge: 2 },
        Shape::FatTree { k: 4 },
        Shape::Clique { switches: 4, hosts_per_switch: 2 },
    ] {
        let fabric = fabric(shape);
        let plan = laid(&fabric, &spec(two(), &[("acme", &[0, 1])])).expect("a plan");
        let netlord = plan.overlay.netlord().expect("NetLord");
        assert_eq!(netlord.special, [4094, 4093]);
        for &special in &netlord.special {
            let (reached, cables) = reach(&plan, netlord, special);
            assert_eq!(reached.len(), cables + 1, "a tree");
            let edges: Vec<usize> = netlord.switches.iter().filter(|s| s.mac.is_some()).map(|s| s.node).collect();
            assert!(edges.iter().all(|edge| reached.contains(edge)));
            for switch in &netlord.switches {
                for (port, of_bridge) in plan.nodes[switch.node].ports.iter().zip(&switch.ports) {
                    let is_host = plan.nodes[port.peer.node].role == Role::Host;
                    assert_eq!(of_bridge.number.is_some(), is_host);
                    assert!(!is_host || of_bridge.vlans.contains(&special));
                }
            }
            let leaves =
                |node: usize| netlord.switch(node).expect("a switch").ports.iter().filter(|p| p.vlans.contains(&special)).count();
            assert!(reached.iter().all(|&node| leaves(node) > 1), "no switch without hosts is at its end");
        }
    }
}

#[test]
fn switches_have_no_addresses_and_every_edge_switch_the_vlans_to_all_others() {
    let fabric = fabric(Shape::TwoLevel { edges: 3, cores: 2, hosts_per_edge: 2 });
    let plan = laid(&fabric, &spec(two(), &[("acme", &[0, 3, 1]), ("globex", &[0, 4])])).expect("a plan");
    let netlord = plan.overlay.netlord().expect("NetLord");
    assert_eq!(plan.routing, Routing::Static, "nobody routes");
    assert!(plan.nodes.iter().all(|n| n.fabric.is_empty() && n.local.is_empty() && n.ports.iter().all(|p| p.address.is_none())));
    let macs: BTreeSet<&String> = netlord.switches.iter().filter_map(|s| s.mac.as_ref()).collect();
    assert_eq!((macs.len(), netlord.vlans), (3, 2));
    for edge in netlord.switches.iter().filter(|s| s.mac.is_some()) {
        assert_eq!(edge.ports.iter().filter_map(|p| p.number).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(edge.paths.len(), 2);
        assert!(edge.paths.iter().all(|(to, vlans)| macs.contains(to) && vlans.len() == 2 && Some(to) != edge.mac.as_ref()));
    }
}

#[test]
fn vms_are_nodes_behind_their_hosts() {
    let fabric = fabric(Shape::TwoLevel { edges: 3, cores: 2, hosts_per_edge: 2 });
    let plan = laid(&fabric, &spec(two(), &[("acme", &[0, 3]), ("globex", &[0])])).expect("a plan");
    let netlord = plan.overlay.netlord().expect("NetLord");
    let places: Vec<(String, String, String)> = netlord
        .vms
        .iter()
        .map(|vm| {
            (plan.nodes[vm.node].name.clone(), plan.nodes[vm.host].name.clone(), plan.nodes[vm.host].ports[vm.port].name.clone())
        })
        .collect();
    let place = |vm: &str, host: &str, port: &str| (vm.to_owned(), host.to_owned(), port.to_owned());
    let expected = [
        place("acme-vm1", "h0", "vif1"),
        place("acme-vm2", "h3", "vif1"),
        place("acme-vm3", "h0", "vif2"),
        place("globex-vm1", "h0", "vif3"),
        place("globex-vm2", "h0", "vif4"),
    ];
    assert_eq!(places, expected);
    assert_eq!(netlord.vms[0].addresses, netlord.vms[3].addresses, "tenants have the same addresses");
    for vm in &netlord.vms {
        let there = plan.nodes[vm.node].ports[0].peer;
        assert_eq!((there.node, there.port), (vm.host, vm.port));
        assert_eq!(plan.port(there).peer.node, vm.node);
    }
    assert!(netlord.is_apart(&netlord.vms[0], &netlord.vms[3]) && netlord.is_joined(&netlord.vms[0], &netlord.vms[1]));
}

#[test]
fn what_cannot_be_laid_says_why() {
    let small = fabric(Shape::TwoLevel { edges: 2, cores: 1, hosts_per_edge: 1 });
    let why = |fabric: &Fabric, spec: &NetlordSpec| laid(fabric, spec).expect_err("it is refused").to_string();
    assert!(why(&small, &spec(two(), &[("initech", &[0])])).contains("no tenant `initech`"));
    assert!(why(&small, &spec(two(), &[("acme", &[7])])).contains("they are 0 to 1"));
    assert!(why(&small, &spec(two() + "[[vif]]\n", &[("acme", &[0])])).contains("missing field"));
    let wide = fabric(Shape::TwoLevel { edges: 1, cores: 1, hosts_per_edge: 127 });
    assert!(why(&wide, &spec(two(), &[("acme", &[0])])).contains("126"));
}

#[test]
fn the_providers_addresses() {
    let fabric = fabric(Shape::TwoLevel { edges: 3, cores: 2, hosts_per_edge: 2 });
    let with = |net: &str| {
        let subnet = Net::try_from(net.to_owned()).expect("a subnet");
        let provider = Some(ProviderSpec { subnet, directory: Some((2, crate::plan::Store::Etcd)) });
        laid(&fabric, &NetlordSpec { provider, ..spec(two(), &[("acme", &[0, 3]), ("globex", &[0, 4])]) })
    };
    let plan = with("10.1.0.9/16").expect("a plan");
    let netlord = plan.overlay.netlord().expect("NetLord");
    let provider = netlord.provider.as_ref().expect("a provider");
    assert_eq!(provider.subnet.to_string(), "10.1.0.0/16");
    let leased: Vec<String> = provider.leases.iter().map(|it| format!("{} {}", it.mac, it.address)).collect();
    assert_eq!((leased.len(), &*leased[0], &*leased[5]), (6, "02:4e:48:00:00:01 10.1.0.2", "02:4e:48:00:00:06 10.1.0.7"));
    // The last hosts of two racks.
    let serving = provider.directory.as_ref().expect("a directory");
    let names: Vec<&str> = serving.hosts.iter().map(|&node| plan.nodes[node].name.as_str()).collect();
    assert_eq!(names, ["h5", "h3"]);
    // Its port is of the VLAN of all agents alone.
    let server = &plan.nodes[provider.server];
    let at = server.ports[0].peer;
    let port = &netlord.switch(at.node).expect("a switch").ports[at.port];
    assert_eq!(
        (plan.nodes[at.node].name.as_str(), port.native, port.number, port.vlans.len()),
        ("edge0", netlord.special.first().copied(), None, 0)
    );
    assert_eq!(plan.port(at).peer, PortId { node: provider.server, port: 0 });
    // Six hosts, the server, the subnet's own and that of all.
    assert!(with("10.1.0.0/28").is_ok());
    for (net, says) in [("10.1.0.0/29", "for 5 hosts"), ("10.1.0.0/31", "from /8 to /30"), ("127.0.0.0/8", "from /8 to /30")] {
        let error = with(net).expect_err("it cannot be had").to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn vms_reach_each_other_in_their_subnet_or_by_a_virtual_router_that_lets_pass() {
    let file = |rule: &str| {
        format!(
            r#"{}
[[tenant]]
id = 30
name = "routed"
spaces = [1, 2, 3]
[[vif]]
tenant = "routed"
name = "a"
space = 1
mac = "02:00:00:00:00:01"
addresses = ["10.0.0.1"]
[[vif]]
tenant = "routed"
name = "b"
space = 2
mac = "02:00:00:00:00:01"
addresses = ["10.0.1.1"]
[[vif]]
tenant = "routed"
name = "c"
space = 3
mac = "02:00:00:00:00:01"
addresses = ["10.0.2.1"]
[[vif]]
tenant = "routed"
name = "mute"
space = 1
mac = "02:00:00:00:00:02"
[[router]]
tenant = "routed"
name = "core"
interfaces = [
  {{ space = 1, mac = "02:00:00:00:00:fe", address = "10.0.0.254/24" }},
  {{ space = 2, mac = "02:00:00:00:00:fe", address = "10.0.1.254/24" }},
]
{rule}"#,
            two()
        )
    };
    let reach = |rule: &str, from: &str, to: &str, what: Exchange| {
        let fabric = fabric(Shape::TwoLevel { edges: 2, cores: 1, hosts_per_edge: 1 });
        let plan = laid(&fabric, &spec(file(rule), &[("acme", &[0, 1]), ("globex", &[0]), ("routed", &[0, 1])])).expect("a plan");
        let netlord = plan.overlay.netlord().expect("NetLord");
        let vm = |name: &str| netlord.vms.iter().find(|vm| plan.nodes[vm.node].name == name).expect("a VM");
        Reach::of(netlord).has(vm(from), vm(to), what)
    };
    let tcp = Exchange::Tcp(10_000, 80);
    assert!(reach("", "acme-vm1", "acme-vm2", Exchange::Echo) && reach("", "acme-vm1", "acme-vm2", tcp));
    assert!(!reach("", "acme-vm1", "globex-vm2", tcp), "another tenant's");
    assert!(reach("", "routed-a", "routed-b", Exchange::Echo) && reach("", "routed-b", "routed-a", tcp));
    assert!(!reach("", "routed-a", "routed-c", Exchange::Echo), "no router joins them");
    assert!(!reach("", "routed-a", "routed-mute", tcp), "it has no address");
    let deny = |what: &str| format!("[[rule]]\ntenant = \"routed\"\nrouter = \"core\"\naction = \"deny\"\n{what}\n");
    let icmp = deny("protocol = \"icmp\"\nto = \"10.0.0.0/24\"");
    assert!(!reach(&icmp, "routed-a", "routed-b", Exchange::Echo), "its answer is denied");
    assert!(reach(&icmp, "routed-a", "routed-b", tcp));
    let port = deny("protocol = \"tcp\"\nport = 80");
    assert!(!reach(&port, "routed-a", "routed-b", tcp) && reach(&port, "routed-a", "routed-b", Exchange::Tcp(10_000, 81)));
}

#[test]
fn a_vm_that_has_moved_is_behind_another_host() {
    let fabric = fabric(Shape::TwoLevel { edges: 3, cores: 2, hosts_per_edge: 2 });
    let mut plan = laid(&fabric, &spec(two(), &[("acme", &[0, 3]), ("globex", &[0])])).expect("a plan");
    let before = plan.clone();
    for to in [5, 0] {
        plan.move_vm(1, to);
        let vm = &plan.overlay.netlord().expect("NetLord").vms[1];
        let there = plan.nodes[vm.node].ports[0].peer;
        assert_eq!((vm.host, there.node, there.port), (to, to, vm.port));
        assert_eq!(plan.port(there).peer.node, vm.node);
    }
    assert_eq!(plan.nodes[0].ports[..4], before.nodes[0].ports[..4], "the others stay where they are");
    assert_eq!(plan.overlay.netlord().expect("NetLord").tenant_sizes(), [3, 2]);
}

/// Each NIC of a host has a place, at switches of which each has paths to all others; the special VLANs are trees that reach every NIC.
#[test]
fn hosts_with_several_nics_have_a_place_for_each() {
    for (kind, edges) in [(SubwaysType::Type0, 1), (SubwaysType::Type1, 2), (SubwaysType::McLag, 2)] {
        let fabric = fabric(Shape::Subways(SubwaysSpec { trunk: Trunk::Flow, ..SubwaysSpec::testbed(kind) }));
        let plan = laid(&fabric, &spec(two(), &[("acme", &[0, 5]), ("globex", &[0])])).expect("a plan");
        let netlord = plan.overlay.netlord().expect("NetLord");
        let mut places = BTreeSet::new();
        for (host, _) in plan.nodes.iter().enumerate().filter(|(_, node)| node.role == Role::Host) {
            assert_eq!((plan.nics(host).count(), plan.edges_of(host).len()), (2, edges), "{kind}");
            for nic in plan.nics(host) {
                let switch = netlord.switch(nic.peer.node).expect("a switch");
                let port = &switch.ports[nic.peer.port];
                assert!(places.insert((switch.mac.clone().expect("it has hosts"), port.number.expect("a number"))), "{kind}");
                assert!(netlord.special.iter().all(|special| port.vlans.contains(special)), "{kind}");
                assert_eq!(switch.paths.len(), 3, "{kind}: to all other ToRs");
                assert!(switch.paths.iter().all(|(_, vlans)| !vlans.is_empty()), "{kind}");
            }
        }
        for &special in &netlord.special {
            let (reached, cables) = reach(&plan, netlord, special);
            assert_eq!(reached.len(), cables + 1, "{kind}: a tree");
        }
        let pull = ProviderSpec {
            subnet: Net { address: Ipv4Addr::new(10, 1, 0, 0), len: 16 },
            directory: Some((2, crate::plan::Store::Embedded)),
        };
        let spec = NetlordSpec { provider: Some(pull), ..spec(two(), &[("acme", &[0])]) };
        assert!(matches!(laid(&fabric, &spec), Err(PlanError::SeveralPlaces { .. })));
    }
}
