//! A real Open vSwitch as the other side: one with simulated ports, in a folder of its own. Skipped where it is not installed, unless `CI` is set.
//!
//! ```text
//!   Session <--unix socket--> ovs-vswitchd (bridge br0: dummy ports p1, p2)
//!                                   ^ ovs-appctl netdev-dummy/receive: packets
//! ```

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use weft_control::openflow::multipart::FlowFilter;
use weft_control::openflow::session::{Input, Output};
use weft_control::openflow::{
    Action, Body, FieldId, FlowEntry, FlowFlags, FlowMod, FlowRemovedReason, Instruction, Match, Message, MultipartRequest,
    ReplyBody, Selection, Session, Version,
};
use weft_control::time::Instant;

use crate::flows;

const PROGRAMS: [&str; 4] = ["ovsdb-tool", "ovsdb-server", "ovs-vsctl", "ovs-appctl"];
const SWITCH: &str = "/usr/sbin/ovs-vswitchd";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// An Open vSwitch with a bridge, until it is dropped.
struct Vswitchd {
    folder: PathBuf,
    daemons: Vec<Child>,
}

impl Vswitchd {
    /// None if it is not installed.
    fn start(name: &str, protocols: &str) -> Option<(Self, UnixListener)> {
        let found = |program: &&str| Command::new(program).arg("--version").output().is_ok();
        if !PROGRAMS.iter().all(found) || !Path::new(SWITCH).exists() {
            assert!(std::env::var_os("CI").is_none(), "Open vSwitch is needed");
            eprintln!("skipped: no Open vSwitch");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("weft-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut it = Self { folder, daemons: Vec::new() };
        let at = |name: &str| it.folder.join(name).display().to_string();
        let (db, server, control) = (at("conf.db"), at("db.sock"), at("controller.sock"));
        let listener = UnixListener::bind(&control).expect("a socket");
        it.run("ovsdb-tool", &["create", &db, SCHEMA]);
        it.spawn("ovsdb-server", &[&db, &format!("--remote=punix:{server}"), &format!("--unixctl={}", it.path("db.ctl"))]);
        it.wait_for("db.sock");
        it.run("ovs-vsctl", &[&format!("--db=unix:{server}"), "--no-wait", "init"]);
        let ctl = format!("--unixctl={}", it.path("switch.ctl"));
        it.spawn(SWITCH, &[&format!("unix:{server}"), "--enable-dummy", "--disable-system", &ctl]);
        it.wait_for("switch.ctl");
        let target = format!("unix:{control}");
        let mut arguments = vec!["--timeout=20".to_owned(), format!("--db=unix:{server}")];
        let bridge = format!("add-br br0 -- set bridge br0 datapath_type=dummy fail-mode=secure protocols={protocols}");
        let ports = "-- add-port br0 p1 -- set interface p1 type=dummy ofport_request=3 -- add-port br0 p2 -- set interface p2 type=dummy ofport_request=12";
        arguments.extend(format!("{bridge} {ports} -- set-controller br0 {target}").split(' ').map(str::to_owned));
        it.run("ovs-vsctl", &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        Some((it, listener))
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, &self.folder);
        }
        command.args(arguments).current_dir(&self.folder);
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let output = self.command(program, arguments).output().expect("it runs");
        assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn spawn(&mut self, program: &str, arguments: &[&str]) {
        let child = self.command(program, arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.daemons.push(child.expect("it starts"));
    }

    fn wait_for(&self, name: &str) {
        for _ in 0..500 {
            if self.folder.join(name).exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{name} is not there after 10 s");
    }

    /// Passes a command to the switch.
    fn control(&self, arguments: &[&str]) {
        self.run("ovs-appctl", &[&["-t", &self.path("switch.ctl")], arguments].concat());
    }
}

impl Drop for Vswitchd {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A session and its connection; the session's clock stands.
struct Controller {
    session: Session,
    stream: UnixStream,
}

impl Controller {
    fn accept(listener: &UnixListener) -> Self {
        let (stream, _) = listener.accept().expect("a switch");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        Self { session: Session::new(Instant::ZERO), stream }
    }

    /// The next output that is not bytes to send.
    fn next(&mut self) -> Output {
        let mut bytes = [0; 4096];
        loop {
            match self.session.poll() {
                Some(Output::Send(bytes)) => self.stream.write_all(&bytes).expect("sent"),
                Some(output) => return output,
                None => {
                    let n = self.stream.read(&mut bytes).expect("bytes within 20 s");
                    assert!(n > 0, "the switch closed the connection");
                    self.session.handle(Instant::ZERO, Input::Received(&bytes[..n]));
                }
            }
        }
    }

    /// Sends a request; the answer with its xid. Port status and the like are ignored.
    fn request(&mut self, body: Body) -> Body {
        let xid = self.session.send(body).expect("sent");
        loop {
            match self.next() {
                Output::Message(Message { xid: answer, body }) if answer == xid => return body,
                Output::Message(Message { body: Body::PortStatus(_), .. }) => {}
                other => panic!("not the answer: {other:?}"),
            }
        }
    }

    /// Sends messages that are not answered, and checks that none of them fails.
    fn send(&mut self, bodies: Vec<Body>) {
        for body in bodies {
            self.session.send(body).expect("sent");
        }
        assert_eq!(self.request(Body::BarrierRequest), Body::BarrierReply);
    }

    fn read(&mut self, request: MultipartRequest) -> ReplyBody {
        match self.request(Body::MultipartRequest(request)) {
            Body::MultipartReply(reply) => reply.body,
            other => panic!("not a reply: {other:?}"),
        }
    }

    /// The flows of a table.
    fn flows(&mut self, table: u8) -> Vec<FlowEntry> {
        match self.read(MultipartRequest::Flows(FlowFilter { table, ..FlowFilter::default() })) {
            ReplyBody::Flows(flows) => flows,
            other => panic!("not flows: {other:?}"),
        }
    }
}

fn check_switch(version: Version, protocols: &str) {
    let Some((switch, listener)) = Vswitchd::start(&format!("of{}", version.wire()), protocols) else { return };
    let mut controller = Controller::accept(&listener);
    let Output::Up { version: spoken, features } = controller.next() else { panic!("not up") };
    assert_eq!((spoken, features.tables), (version, 254));
    let selection = (version == Version::V15).then_some(Selection::DpHash { algorithm: 0, basis: 7 });
    let group = flows::uplinks(selection);
    controller.send([vec![Body::GroupMod(group.clone())], flows::all()].concat());

    let ReplyBody::GroupDescriptions(groups) = controller.read(MultipartRequest::GroupDescriptions(None)) else {
        panic!("not groups")
    };
    assert_eq!(groups, [group.group]);
    let ReplyBody::Groups(counts) = controller.read(MultipartRequest::Groups(None)) else { panic!("not counters") };
    assert_eq!((counts[0].id, counts[0].references, counts[0].buckets.len()), (7, 1, 2));
    check_flows(&mut controller);
    check_ports(&mut controller);
    check_learning(&mut controller, &switch);

    // A group that is not there: the error has the xid of the flow.
    let flow = FlowMod::add(2, 1, Match::new(), vec![Instruction::ApplyActions(vec![Action::Group(99)])]);
    let Body::Error(error) = controller.request(Body::FlowMod(flow)) else { panic!("not an error") };
    assert_eq!(error.to_string(), "BAD_ACTION, code 9");
}

/// The flows are as they were sent, but for the names of the fields that `learn` and `move` copy.
fn check_flows(controller: &mut Controller) {
    for sent in [flows::prefix(), flows::placed(), flows::host()] {
        let flows = controller.flows(2);
        let read = flows.iter().find(|flow| flow.priority == sent.priority).expect("the flow");
        assert_eq!((read.cookie, read.flags, read.idle_timeout), (sent.cookie, sent.flags, sent.idle_timeout));
        assert_eq!((&read.matching, &read.instructions), (&sent.matching, &sent.instructions));
        assert_eq!((read.statistics.packets, read.statistics.bytes), (Some(0), Some(0)));
        assert!(read.statistics.duration.is_some());
    }
    let flows = controller.flows(0);
    let [learn, arp] = [flows::learn(), flows::arp_responder()].map(|sent| {
        let read = flows.iter().find(|flow| flow.priority == sent.priority).expect("the flow");
        assert_eq!(read.matching, sent.matching);
        let Instruction::ApplyActions(actions) = &read.instructions[0] else { panic!("{read:?}") };
        actions.clone()
    });
    let [Action::Learn(learn), Action::Resubmit { in_port: None, table: 1 }] = &learn[..] else { panic!("{learn:?}") };
    assert_eq!((learn.table, learn.idle_timeout, learn.flags, learn.specs.len()), (1, 10, FlowFlags::SEND_FLOW_REM, 6));
    assert!(arp.len() == 9 && matches!(arp[0], Action::CopyField { bits: 48, .. }), "{arp:?}");
    let ReplyBody::Aggregate(sum) = controller.read(MultipartRequest::Aggregate(FlowFilter::default())) else {
        panic!("not a sum")
    };
    assert_eq!(sum.flows, Some(5));
}

fn check_ports(controller: &mut Controller) {
    let ReplyBody::PortDescriptions(ports) = controller.read(MultipartRequest::PortDescriptions(None)) else {
        panic!("not ports")
    };
    let mut names: Vec<_> = ports.iter().map(|port| (port.number, port.name.to_string(), port.is_up())).collect();
    names.sort();
    let up = |number: u32, name: &str| (number, name.to_owned(), true);
    assert_eq!(names[..2], [up(3, "p1"), up(12, "p2")]);
    let ReplyBody::Ports(counts) = controller.read(MultipartRequest::Ports(Some(12))) else { panic!("not counters") };
    assert_eq!((counts.len(), counts[0].number, counts[0].tx_packets), (1, 12, Some(0)));
    let ReplyBody::Description(names) = controller.read(MultipartRequest::Description) else { panic!("not a description") };
    assert_eq!(names.hardware.to_string(), "Open vSwitch");
    let ReplyBody::Tables(tables) = controller.read(MultipartRequest::Tables) else { panic!("not tables") };
    assert_eq!((tables.len(), tables[2].flows), (254, 3));
}

/// A packet of a new flow is learned and placed, an ARP request is answered, and the end of the learned flow is reported.
fn check_learning(controller: &mut Controller, switch: &Vswitchd) {
    let tcp = "in_port(3),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),\
               ipv4(src=10.0.1.2,dst=10.1.2.3,proto=6,tos=0,ttl=64,frag=no),tcp(src=40000,dst=5001)";
    let arp = "in_port(3),eth(src=02:00:00:00:00:01,dst=ff:ff:ff:ff:ff:ff),eth_type(0x0806),\
               arp(sip=10.0.1.2,tip=10.0.1.9,op=1,sha=02:00:00:00:00:01,tha=00:00:00:00:00:00)";
    switch.control(&["netdev-dummy/receive", "p1", tcp]);
    switch.control(&["netdev-dummy/receive", "p1", arp]);
    for _ in 0..100 {
        if !controller.flows(1).is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let learned = controller.flows(1);
    assert_eq!((learned.len(), learned[0].cookie), (1, flows::COOKIE));
    let tuple = |matching: &Match| {
        let address = |id| matching.ipv4(id).map(|it| it.to_string());
        (
            address(FieldId::IPV4_SRC),
            address(FieldId::IPV4_DST),
            matching.number(FieldId::TCP_SRC),
            matching.number(FieldId::TCP_DST),
        )
    };
    let expected = (Some("10.0.1.2".to_owned()), Some("10.1.2.3".to_owned()), Some(40_000), Some(5001));
    assert_eq!(tuple(&learned[0].matching), expected);
    let sent = |controller: &mut Controller, port| {
        let ReplyBody::Ports(counts) = controller.read(MultipartRequest::Ports(Some(port))) else { panic!("not counters") };
        counts[0].tx_packets
    };
    // The placed flow's port, and the ARP reply.
    assert_eq!((sent(controller, 12), sent(controller, 3)), (Some(1), Some(1)));
    switch.control(&["time/stop"]);
    switch.control(&["time/warp", "12000"]);
    let mut ended = Vec::new();
    while ended.len() < 2 {
        if let Output::Message(Message { body: Body::FlowRemoved(removed), .. }) = controller.next() {
            assert_eq!((removed.reason, removed.cookie), (FlowRemovedReason::IdleTimeout, flows::COOKIE));
            assert_eq!(tuple(&removed.matching), expected);
            ended.push((removed.table, removed.priority, removed.idle_timeout, removed.statistics.packets));
        }
    }
    ended.sort_unstable();
    // A packet is looked up in the tables as they were when it came: the one that is learned from is not counted.
    assert_eq!(ended, [(1, 1, 10, Some(0)), (2, 1000, 5, Some(1))]);
}

#[test]
fn a_switch_of_openflow_1_3_is_programmed_and_read() {
    check_switch(Version::V13, "OpenFlow13");
}

#[test]
fn a_switch_of_openflow_1_5_is_programmed_and_read() {
    check_switch(Version::V15, "OpenFlow13,OpenFlow15");
}

#[test]
fn a_switch_of_openflow_1_0_is_refused() {
    let Some((_switch, listener)) = Vswitchd::start("of1", "OpenFlow10") else { return };
    match Controller::accept(&listener).next() {
        Output::Closed(reason) => {
            assert_eq!(reason.to_string(), "the switch speaks OpenFlow 1.0 (wire version 1); Weft speaks 1.3 and 1.5");
        }
        other => panic!("not closed: {other:?}"),
    }
}
