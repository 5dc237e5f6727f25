use proptest::prelude::*;

use super::*;
use crate::time::Duration;
use crate::topology::shapes::{Cabling, Shape};
use crate::topology::{FabricBuilder, Metrics};
use crate::units::BitsPerSec;

const LINK: Cabling = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(1) };
const FAST: Cabling = Cabling { rate: BitsPerSec(10_000_000_000), delay: Duration::from_us(2) };

const TREE: Shape = Shape::Tree {
    tors: 6,
    hosts_per_tor: 3,
    tors_per_pod: Some(2),
    redundancy: 2,
    tor_oversubscription: 1.5,
    top_oversubscription: 7.0,
};

const SHAPES: [Shape; 7] = [
    Shape::FatTree { k: 4 },
    Shape::VL2_TESTBED,
    Shape::Clos { agg_ports: 6, int_ports: 4, hosts_per_tor: 3 },
    Shape::TwoLevel { edges: 6, cores: 4, hosts_per_edge: 3 },
    TREE,
    Shape::Clique { switches: 5, hosts_per_switch: 3 },
    Shape::Switch { hosts: 6 },
];

/// Everything that distinguishes two fabrics but the title.
fn parts(fabric: &Fabric) -> impl PartialEq + std::fmt::Debug + use<> {
    let nodes: Vec<_> = fabric.nodes().iter().map(|n| (n.name.clone(), n.tier, n.pod)).collect();
    let links: Vec<_> = fabric.links().iter().map(|l| (l.from, l.to, l.capacity, l.delay)).collect();
    (fabric.host_count(), nodes, links)
}

fn error(text: &str) -> FormatError {
    let error = read(text.as_bytes()).expect_err("malformed");
    assert!(!error.help.is_empty());
    error
}

#[test]
fn the_native_form_gives_back_the_same_fabric() {
    for shape in SHAPES {
        let fabric = shape.build(LINK, FAST).expect("a fabric");
        let text = write(&fabric, Export::Native).expect("native");
        let back = read(text.as_bytes()).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
        assert_eq!((parts(&back.fabric), back.fabric.title()), (parts(&fabric), fabric.title()));
        assert!(back.notes.is_empty());
        assert_eq!(write(&back.fabric, Export::Native), Ok(text));
    }
}

/// Left unsaid, tiers and pods of the regular fabrics are inferred as they were built.
#[test]
fn tiers_and_pods_are_inferred() {
    for shape in SHAPES {
        let fabric = shape.build(LINK, FAST).expect("a fabric");
        let text = write(&fabric, Export::Native).expect("native");
        let strip = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let keep = if matches!(words[0], "host" | "switch") { 2 } else { words.len() };
            words[..keep].join(" ")
        };
        let bare = text.lines().map(strip).collect::<Vec<_>>().join("\n");
        let back = read(bare.as_bytes()).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
        assert_eq!(parts(&back.fabric), parts(&fabric), "{shape:?}");
    }
}

#[test]
fn hpcc_files_give_back_the_same_network() {
    for shape in SHAPES {
        let fabric = shape.build(LINK, FAST).expect("a fabric");
        let text = write(&fabric, Export::Hpcc).expect("hpcc");
        let back = read(text.as_bytes()).unwrap_or_else(|e| panic!("{shape:?}: {e}")).fabric;
        let unnamed = |f: &Fabric| {
            let nodes: Vec<_> = f.nodes().iter().map(|n| (n.tier, n.pod)).collect();
            (f.host_count(), nodes, f.links().iter().map(|l| (l.from, l.to, l.capacity, l.delay)).collect::<Vec<_>>())
        };
        assert_eq!(unnamed(&back), unnamed(&fabric), "{shape:?}");
        assert_eq!(&*back.nodes()[back.host_count()].name, format!("s{}", back.host_count()).as_str());
    }
}

#[test]
fn htsim_files_give_back_the_same_network() {
    for shape in [Shape::FatTree { k: 4 }, Shape::FatTree { k: 8 }, Shape::TwoLevel { edges: 6, cores: 4, hosts_per_edge: 8 }] {
        let fabric = shape.build(LINK, LINK).expect("a fabric");
        let text = write(&fabric, Export::Htsim).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
        let back = read(text.as_bytes()).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
        assert!(back.notes.is_empty());
        let untitled = |f: &Fabric| Metrics { title: String::new(), ..Metrics::of(f) };
        assert_eq!(untitled(&back.fabric), untitled(&fabric));
        let again = write(&back.fabric, Export::Htsim).expect("htsim");
        assert_eq!(again.lines().skip(1).collect::<Vec<_>>(), text.lines().skip(1).collect::<Vec<_>>());
        if matches!(shape, Shape::TwoLevel { .. }) {
            assert_eq!(parts(&back.fabric), parts(&fabric), "a leaf-spine comes back id for id");
        }
    }
}

/// The parameters of the examples that htsim ships: bundles, over-subscription, speeds that grow upwards.
#[test]
fn htsim_parameters() {
    let bundles = "Nodes 8\nTiers 3\nPodsize 4\n\nTier 0\nDownlink_speed_Gbps 200\nRadix_Down 2\nRadix_Up 2\nDownlink_Latency_ns 1000\n\
                   Tier 1\nDownlink_speed_Gbps 200\nRadix_Down 2\nRadix_Up 4\nDownlink_Latency_ns 1000\nBundle 1\n\
                   # cores\nTier 2\nDownlink_speed_Gbps 100\nRadix_Down 4\nDownlink_Latency_ns 500\nBundle 2\nSwitch_Latency_ns 300\n";
    let Imported { fabric, notes } = read(bundles.as_bytes()).expect("htsim");
    assert_eq!((fabric.host_count(), fabric.switch_count(), fabric.links().len() / 2), (8, 4 + 4 + 4, 8 + 8 + 16));
    assert_eq!(notes, ["line 22: Switch_Latency_ns has no place in a fabric, and is left out"]);
    let metrics = Metrics::of(&fabric);
    assert_eq!((metrics.bisection.fraction, metrics.paths.shortest.map(|s| s.max)), (1.0, Some(2 * 2 * 2 * 2)));
    // Position 1 of a pod reaches cores 1 and 3, each over two cables.
    let agg3 = fabric.node_by_name("agg3").unwrap();
    let cores: Vec<_> = fabric.out(agg3).iter().map(|&l| fabric.link(l).to).filter(|&n| fabric.node(n).tier == 3).collect();
    assert_eq!(cores.iter().map(|&n| &*fabric.node(n).name).collect::<Vec<_>>(), ["core1", "core1", "core3", "core3"]);
    assert!(write(&fabric, Export::Hpcc).unwrap_err().reason.contains("`agg0-core0`"));
    let native = write(&fabric, Export::Native).expect("native");
    assert_eq!(parts(&read(native.as_bytes()).expect("parallel cables").fabric), parts(&fabric));
    let spine = "nodes 32\ntiers 2\npodsize 32\ntier 0\ndownlink_speed_gbps 100\nradix_down 8\nradix_up 2\ndownlink_latency_ns 1000\n\
                 oversubscribed 4\ntier 1\ndownlink_speed_gbps 100\nradix_down 4\ndownlink_latency_ns 1000";
    let metrics = Metrics::of(&read(spine.as_bytes()).expect("htsim").fabric);
    assert_eq!((metrics.switches, metrics.pods, metrics.bisection.fraction), (6, 4, 0.25));
}

#[test]
fn rates_that_no_link_has_name_the_line() {
    let error = |text: &str| read(text.as_bytes()).expect_err(text);
    let hpcc = error("3 1 2\n2\n0 2 1Gbps 1us 0\n1 2 9000000Tb/s 1us 0\n");
    assert!(hpcc.line == 4 && hpcc.message.contains("at most 1000Tbps"), "{hpcc}");
    let htsim = error(
        "nodes 32\ntiers 2\npodsize 32\ntier 0\ndownlink_speed_gbps 1000001\nradix_down 8\nradix_up 8\ndownlink_latency_ns 1\n\
         tier 1\ndownlink_speed_gbps 1000001\nradix_down 4\ndownlink_latency_ns 1",
    );
    assert!(htsim.line == 5 && htsim.message.contains("at most 1000000"), "{htsim}");
}

#[test]
fn small_exports_read_well() {
    let small = Shape::TwoLevel { edges: 2, cores: 1, hosts_per_edge: 2 }.build(LINK, FAST).expect("a fabric");
    insta::assert_snapshot!("dot", write(&small, Export::Dot).unwrap());
    insta::assert_snapshot!("graphml", write(&small, Export::GraphMl).unwrap());
    insta::assert_snapshot!("containerlab", write(&small, Export::Containerlab).unwrap());
    insta::assert_snapshot!("hpcc", write(&small, Export::Hpcc).unwrap());
    insta::assert_snapshot!("native", write(&small, Export::Native).unwrap());
    let tree = Shape::FatTree { k: 4 }.build(LINK, LINK).expect("a fabric");
    insta::assert_snapshot!("htsim", write(&tree, Export::Htsim).unwrap());
}

#[test]
fn what_a_format_cannot_express_is_refused() {
    let reason = |shape: Shape, host, fabric| {
        let fabric = shape.build(host, fabric).expect("a fabric");
        write(&fabric, Export::Htsim).expect_err("irregular").reason
    };
    assert!(reason(Shape::VL2_TESTBED, LINK, LINK).contains("aggregation switches of their pod"));
    let clos = Shape::Clos { agg_ports: 8, int_ports: 4, hosts_per_tor: 2 };
    assert!(reason(clos, LINK, LINK).contains("exactly one aggregation switch"));
    assert!(reason(Shape::Switch { hosts: 4 }, LINK, LINK).contains("1 tiers"));
    assert!(reason(Shape::FatTree { k: 4 }, LINK, FAST).contains("Oversubscribed"));
    let slow = Cabling { rate: BitsPerSec(100_000_000), ..LINK };
    assert!(reason(Shape::FatTree { k: 4 }, slow, slow).contains("no whole Gbps"));
    let instant = Cabling { delay: Duration::ZERO, ..LINK };
    assert!(reason(Shape::FatTree { k: 4 }, instant, instant).contains("no whole ns"));
    let mut b = FabricBuilder::new("odd names");
    let (host, switch) = (b.host("a host", None), b.switch("-s\"<", 1, None));
    b.cable(host, switch, LINK.rate, LINK.delay);
    let odd = b.build().unwrap();
    assert!(write(&odd, Export::Native).unwrap_err().reason.contains("`a host`"));
    assert!(write(&odd, Export::Containerlab).unwrap_err().reason.contains("`a host`"));
    assert!(write(&odd, Export::Dot).unwrap().contains(r#""-s\"<""#));
    assert!(write(&odd, Export::GraphMl).unwrap().contains("-s&quot;&lt;"));
}

#[test]
fn native_errors_name_the_line() {
    let good = "weft-fabric 1\nhost a\nhost b\nswitch s\ncable a s 1Gbps 1us\ncable b s 1Gbps 1us\n";
    assert!(read(good.as_bytes()).is_ok());
    for (text, line, words) in [
        (good.replace("fabric 1", "fabric 2"), 1, "version 1"),
        (good.replace("host b", "host a"), 3, "declared on line 2"),
        (good.replace("cable b s", "cable c s"), 6, "no node called `c`"),
        (good.replace("cable b s 1Gbps 1us", "cable b s 1Gb 1us"), 6, "not a rate"),
        (good.replace("cable b s 1Gbps 1us", "cable b s 9000000Tbps 1us"), 6, "at most 1000Tbps"),
        (good.replace("cable b s 1Gbps 1us", "cable b s 1Gbps -1us"), 6, "`-1us`"),
        (good.replace("cable b s 1Gbps", "cable b s 0Gbps"), 6, "no capacity"),
        (good.replace("cable b s 1Gbps 1us\n", ""), 3, "`b` has no cable"),
        (good.replace("cable b s", "cable s s"), 6, "linked to itself"),
        (good.replace("cable b s", "cable b a"), 6, "host `b` is linked to host `a`"),
        (good.replace("cable b s", "cable s a"), 6, "linked on line 5 already"),
        (good.replace("1us\n", "1us parallel\n"), 5, "the first cable"),
        (good.replace("host b", "hots b"), 3, "says nothing"),
        (good.replace("host b", "host b tier 1"), 3, "no tier"),
        (good.replace("switch s", "switch s tier 0"), 4, "tier 0"),
        (good.replace("switch s", "switch s tier 300"), 4, "`tier 300`"),
        (good.replace("switch s", "switch s pod 1"), 4, "no tiers"),
        (good.replace("host b", "host b pod"), 3, "`pod`"),
        (good.replace("host b", "title x\ntitle y\nhost b"), 4, "second title"),
        (format!("{good}switch t tier 1\ncable s t 1Gbps 1us"), 4, "`s` has no tier"),
        (format!("{good}host c\nswitch t\ncable c t 1Gbps 1us"), 7, "disconnected: `s` cannot reach `c`"),
        ("weft-fabric 1\nswitch s".to_owned(), 2, "no hosts"),
        (String::new(), 1, "empty"),
        ("hello".to_owned(), 1, "`hello` begins no known"),
    ] {
        let error = error(&text);
        assert_eq!(error.line, line, "{error}");
        assert!(error.message.contains(words), "{error}");
    }
    // Two parts that only a host joins, which does not forward: others are in one of them alone.
    let bridged = "weft-fabric 1\nhost a\nhost b\nhost c\nswitch s\nswitch t\ncable a s 1Gbps 1us\ncable a t 1Gbps 1us\ncable b s 1Gbps 1us\n\
                   cable c t 1Gbps 1us";
    assert!(error(bridged).message.contains("`s` cannot reach `c`"), "{}", error(bridged).message);
    // Networks side by side, and every host is on both; but not a switch without hosts beside them.
    let parallel = bridged.replace("cable c t", "cable b t 1Gbps 1us\ncable c s 1Gbps 1us\ncable c t");
    assert_eq!(read(parallel.as_bytes()).unwrap().fabric.host_count(), 3);
    let apart = format!("{parallel}\nswitch u\nswitch v\ncable u v 1Gbps 1us");
    assert!(error(&apart).message.contains("disconnected"));
    assert_eq!(read(b"weft-fabric 1\nhost \xff\n").unwrap_err().line, 2);
}

#[test]
fn hpcc_errors_name_the_line() {
    let good = "4 1 3\n3\n0 3 25Gbps 1000ns 0.000000\n1 3 25Gbps 0.001ms 0\n2 3 100Mb/s 1us 0\n";
    let fabric = read(good.as_bytes()).expect("hpcc").fabric;
    assert_eq!(fabric.link(crate::LinkId(4)).capacity, BitsPerSec(100_000_000));
    assert_eq!(fabric.link(crate::LinkId(2)).delay, Duration::from_us(1));
    for (text, line, words) in [
        (good.replace("2 3 100Mb/s 1us 0\n", ""), 4, "ends where a link should be, number 3 of 3"),
        (good.replace("1us 0\n", "1us"), 5, "ends where a link"),
        (good.replace("4 1 3", "4 5 3"), 1, "5 of 4 nodes"),
        (good.replace("4 1 3", "4 1"), 1, "begins no known"),
        (good.replace("4 1 3", "4000000000 1 3"), 1, "3999999999 hosts"),
        (good.replace("4 1 3", "4 2 3"), 3, "`25Gbps` is not a number"),
        (good.replace("\n3\n", "\n4\n"), 2, "no node 4"),
        (good.replace("1 3 25", "1 9 25"), 4, "no node 9"),
        (good.replace("1 3 25", "1 0 25"), 4, "linked to host"),
        (good.replace("1 3 25", "0 3 25"), 4, "linked on line 3 already"),
        (good.replace("25Gbps 0.001ms", "0Gbps 0.001ms"), 4, "no capacity"),
        (good.replace("25Gbps 0.001ms", "25 0.001ms"), 4, "not a rate"),
        (good.replace("0.001ms", "0.001"), 4, "0.001"),
        (good.replace("1us 0\n", "1us 1.5\n"), 5, "error rate"),
        ("2 2 1\n0 1\n0 1 1Gbps 1us 0".to_owned(), 3, "no hosts"),
        ("2 2 1\n0 0\n0 1 1Gbps 1us 0".to_owned(), 2, "twice"),
    ] {
        let error = error(&text);
        assert_eq!(error.line, line, "{error}");
        assert!(error.message.contains(words), "{error}");
    }
    let notes = read(format!("{}3 3 more\n", good.replace("1us 0\n", "1us 0.25\n")).as_bytes()).expect("hpcc").notes;
    assert_eq!(
        notes,
        ["1 links have an error rate: Weft leaves it out", "line 6 and what follows is left out: the first line says 3 links"]
    );
    // Hosts between switches keep their numbers as names, and their order.
    let mixed = read(b"4 2 3\n0 2\n1 0 1Gbps 1us 0\n3 2 1Gbps 1us 0\n0 2 1Gbps 1us 0").expect("hpcc").fabric;
    assert_eq!(mixed.nodes().iter().map(|n| &*n.name).collect::<Vec<_>>(), ["h1", "h3", "s0", "s2"]);
}

#[test]
fn htsim_errors_name_the_line() {
    let good = write(&Shape::FatTree { k: 4 }.build(LINK, LINK).unwrap(), Export::Htsim).unwrap();
    let tier1 = good.lines().position(|l| l == "Tier 1").unwrap() + 1;
    for (text, line, words) in [
        (good.replace("Nodes 16\n", ""), 1, "`Nodes` is missing"),
        (good.replace("Nodes 16", "Nodes 15"), 4, "no whole pods"),
        (good.replace("Nodes 16", "Nodes 0"), 2, "is 0"),
        (good.replace("Nodes 16", "Nodes 2000000"), 2, "2000000 hosts"),
        (good.replace("Nodes 16", "Nodes x"), 2, "`x` is not a whole number"),
        (good.replace("Nodes 16", "Nodes"), 2, "begins no known"),
        (good.replace("Tiers 3", "Tiers 4"), 3, "4 tiers"),
        (good.replace("Tiers 3", "Tiers 2"), good.lines().position(|l| l == "Tier 2").unwrap() + 1, "above the 2"),
        (good.replace("Podsize 4", "Podsize 8"), tier1, "Radix_Down of 4"),
        (good.replace("Tier 1", "Tier 3"), tier1, "no tier 3"),
        (good.replace("Tier 1", "Tier 0"), tier1, "tier 0 begins on line 6"),
        (good.replace("Radix_Up 2", "Radix_Upp 2"), 9, "`Radix_Upp` is not known here"),
        (good.replace("Oversubscribed 1", "Oversubscribed 2"), 6, "Oversubscribed 2 but"),
        (good.replace("Radix_Up 2", "Radix_Up 2\nRadix_Up 2"), 10, "given twice"),
        (good.split("Tier 2").next().unwrap().to_owned(), 20, "tier 2 is missing"),
        (good.replace("Bundle 1", "Bundle 3"), tier1, "bundles of 3"),
        (good.replace("Downlink_Latency_ns 1000", "Downlink_Latency_ns 0"), 11, "is 0"),
        (good.replace("Downlink_Latency_ns 1000", ""), 6, "has no `Downlink_Latency_ns`"),
    ] {
        let error = error(&text);
        assert!(error.message.contains(words), "{words}: {error}");
        assert_eq!(error.line, line, "{error}");
    }
    let huge = good.replace("Radix_Up 2", "Radix_Up 4294967295").replace("Oversubscribed 1", "Oversubscribed 4294967295");
    assert!(error(&huge).message.contains("Oversubscribed"));
}

#[test]
fn order_that_is_not_by_rack_is_noted() {
    let text = "weft-fabric 1\nhost a\nhost b\nhost c\nswitch s\nswitch t\ncable a s 1Gbps 1us\ncable b t 1Gbps 1us\ncable c s 1Gbps 1us\n\
                cable s t 1Gbps 1us\n";
    assert!(read(text.as_bytes()).unwrap().notes[0].contains("not contiguous"));
}

/// Text that is nearly one of the formats: the export of a small fabric with a few bytes changed, cut or repeated.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let files: Vec<String> = [Export::Native, Export::Htsim, Export::Hpcc]
        .into_iter()
        .map(|e| write(&Shape::FatTree { k: 2 }.build(LINK, LINK).unwrap(), e).unwrap())
        .collect();
    let edit = (any::<prop::sample::Index>(), 0usize..4, prop::sample::select(b"0123456789 \n-.abGns#\xff".to_vec()));
    (prop::sample::select(files), prop::collection::vec(edit, 0..6)).prop_map(|(text, edits)| {
        let mut bytes = text.into_bytes();
        for (place, kind, byte) in edits {
            let at = place.index(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
            match kind {
                _ if bytes.is_empty() => bytes.push(byte),
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.remove(at)),
                _ => bytes.truncate(at),
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 2_000 / 256))]

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in ".{0,200}") {
        for format in [Format::Native, Format::Htsim, Format::Hpcc] {
            let _ = read_as(format, &bytes);
            let _ = read_as(format, text.as_bytes());
        }
        let _ = read(&bytes);
    }

    #[test]
    fn nearly_right_files_are_read_or_refused_with_a_line(bytes in nearly()) {
        match read(&bytes) {
            Ok(imported) => {
                // What can be read can be written and read again.
                let text = write(&imported.fabric, Export::Native).expect("names come from words");
                let back = read(text.as_bytes()).expect("our own text");
                prop_assert_eq!(parts(&back.fabric), parts(&imported.fabric));
            }
            Err(error) => {
                prop_assert!(error.line >= 1 && error.line <= bytes.iter().filter(|&&b| b == b'\n').count() + 1, "{}", error);
                prop_assert!(!error.help.is_empty());
            }
        }
    }
}
