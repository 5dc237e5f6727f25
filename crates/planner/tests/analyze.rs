//! `weft analyze traffic` from files to printed tables, written folders and scenarios that `weft run` simulates.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use weft_fabric::formats::cdf::{self, CdfOptions, CdfUnits};
use weft_fabric::traffic::SizeSpec;

fn planner(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weft-planner")).args(arguments).current_dir(folder).output().expect("it runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&text(output)).expect("JSON")
}

/// The program `weft` beside this one, which a build of the workspace makes.
fn weft() -> Option<PathBuf> {
    let weft = Path::new(env!("CARGO_BIN_EXE_weft-planner")).with_file_name("weft");
    if !weft.exists() {
        assert!(std::env::var_os("CI").is_none(), "weft is not built: cargo build -p weft-experiment");
        eprintln!("skipped: weft is not built");
        return None;
    }
    Some(weft)
}

/// Pseudo-random numbers from 0 to 1, by a linear congruence.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Flows between 4 racks of 8 hosts: sizes between 1 kB and 100 MB, evenly on a logarithmic scale; half of them stay in the rack.
fn log(flows: u32) -> (String, Vec<f64>) {
    let mut random = Random(7);
    let (mut out, mut sizes) = ("src,dst,start,size,end\n".to_owned(), Vec::new());
    for at in 0..flows {
        let size = (10f64.powf(3.0 + 5.0 * random.next())).round();
        let src = (random.next() * 32.0) as u32;
        let rack = if random.next() < 0.5 { src / 8 } else { (src / 8 + 1 + (random.next() * 3.0) as u32) % 4 };
        let mut dst = rack * 8 + (random.next() * 8.0) as u32;
        dst = if dst == src { rack * 8 + (dst + 1) % 8 } else { dst };
        let start = f64::from(at) * 0.01;
        let _ = writeln!(
            out,
            "10.0.{}.{},10.0.{}.{},{start:.6},{size},{:.6}",
            src / 8,
            src % 8,
            dst / 8,
            dst % 8,
            start + size * 8e-9
        );
        sizes.push(size);
    }
    sizes.sort_unstable_by(f64::total_cmp);
    (out, sizes)
}

#[test]
fn quantiles_survive_the_study_and_the_emitted_scenario() {
    let folder = tempfile::tempdir().expect("a folder");
    let (csv, sizes) = log(20_000);
    std::fs::write(folder.path().join("log.csv"), csv).expect("written");
    let report =
        json(&planner(&["analyze", "traffic", "log.csv", "--interval", "10s", "--emit", "mine.toml", "--json"], folder.path()));
    assert_eq!(report["schema"], "weft-traffic/1");
    assert_eq!((report["flows"].as_u64(), report["hosts"].as_u64()), (Some(20_000), report["totals"]["hosts"].as_u64()));
    assert!(number_of(&report["span_s"]) > 0.0 && number_of(&report["bytes"]) > 0.0);
    let fits = report["matrices"]["clusters"].as_array().expect("clusters");
    assert!(
        report["matrices"]["intervals"].as_u64() >= Some(fits.len() as u64)
            && fits[0]["k"] == 1
            && number_of(&fits[0]["error"]) > 0.0
    );
    assert!(number_of(&report["concurrency"]["p50"]) <= number_of(&report["concurrency"]["max"]));
    assert_eq!((report["totals"]["flows"].as_u64(), report["totals"]["groups"].as_u64()), (Some(20_000), Some(4)));
    let cdf = std::fs::read(folder.path().join("mine.cdf.txt")).expect("written");
    let options = CdfOptions { units: Some(CdfUnits::Fraction), ..CdfOptions::default() };
    let cdf = cdf::parse(&cdf, options).expect("a distribution");
    for (name, fraction) in [("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        let exact = sizes[(fraction * sizes.len() as f64) as usize];
        let found = report["sizes"][name].as_f64().expect("a number");
        assert!((found / exact - 1.0).abs() < 0.02, "{name}: {found} {exact}");
        let drawn = cdf.quantile(fraction);
        assert!((drawn / exact - 1.0).abs() < 0.02, "{name}: {drawn} {exact}");
    }
    let same = report["locality"]["flows_same_rack"].as_f64().expect("a number");
    assert!((same - 0.5).abs() < 0.02, "{same}");
    let change = report["matrix"]["change"]["p50"].as_f64().expect("a number");
    assert!(change > 0.0 && change < 0.5, "random pairs of a steady log change little: {change}");
}

/// A simulated run is exported as IPFIX, and its study has the bytes and the matrices of the run.
#[test]
fn a_run_comes_back_as_a_log() {
    let Some(weft) = weft() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = "[fabric]\nkind = \"fat-tree\"\nk = 4\nlink = \"1Gbps\"\n[traffic]\nfile = \"flows.csv\"\n";
    let rows: String =
        (0..200).map(|i| format!("{},{},{}ms,{}kB\n", i % 16, (i * 7 + 1 + i / 16) % 16, 5 * i, 100 + i)).collect();
    let rows: Vec<&str> = rows.lines().filter(|row| row.split(',').next() != row.split(',').nth(1)).collect();
    std::fs::write(folder.path().join("flows.csv"), format!("src,dst,start,size\n{}\n", rows.join("\n"))).expect("written");
    std::fs::write(folder.path().join("s.toml"), scenario).expect("written");
    let run = Command::new(&weft).args(["run", "s.toml", "--out", "run"]).current_dir(folder.path()).output().expect("it runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    text(&planner(&["export", "run", "--ipfix", "log.ipfix", "--hosts", "map.csv"], folder.path()));
    let study = |log: &str| {
        json(&planner(&["analyze", "traffic", log, "--hosts", "map.csv", "--interval", "100ms", "--json"], folder.path()))
    };
    let found = study("log.ipfix");
    assert_eq!((found["files"][0]["format"].as_str(), found["flows"].as_u64()), (Some("IPFIX file"), Some(rows.len() as u64)));
    // The same flows, with the ends of the run, as a table.
    let bytes: f64 = rows
        .iter()
        .map(|row| {
            1e3 * row.split(',').nth(3).and_then(|kb| kb.strip_suffix("kB")).and_then(|kb| kb.parse::<f64>().ok()).expect("kB")
        })
        .sum();
    assert!((number_of(&found["bytes"]) - bytes).abs() < 1.0, "{} {bytes}", found["bytes"]);
    let mut by_racks = vec![vec![0.0; 8]; 8];
    for row in &rows {
        let cells: Vec<&str> = row.split(',').collect();
        let host = |at: usize| cells[at].parse::<usize>().expect("a host");
        by_racks[host(0) / 2][host(1) / 2] += 1e3 * cells[3].strip_suffix("kB").expect("kB").parse::<f64>().expect("a number");
    }
    let groups: Vec<&str> = found["matrix"]["groups"].as_array().expect("groups").iter().filter_map(|g| g.as_str()).collect();
    for (i, from) in groups.iter().enumerate() {
        for (j, to) in groups.iter().enumerate() {
            let rack = |name: &str| name.strip_prefix("edge").and_then(|n| n.parse::<usize>().ok()).expect("a rack");
            let total = number_of(&found["matrix"]["total"][i][j]);
            assert!((total - by_racks[rack(from)][rack(to)]).abs() < 1.0, "{from} {to} {total}");
        }
    }
    // Damaged ones are refused, with the place.
    let whole = std::fs::read(folder.path().join("log.ipfix")).expect("read");
    std::fs::write(folder.path().join("cut.ipfix"), &whole[..whole.len() - 7]).expect("written");
    let cut = planner(&["analyze", "traffic", "cut.ipfix"], folder.path());
    assert_eq!(cut.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&cut.stderr).contains("message 6"), "{}", String::from_utf8_lossy(&cut.stderr));
    let tolerant = json(&planner(&["analyze", "traffic", "cut.ipfix", "--keep-going", "--json"], folder.path()));
    assert_eq!(tolerant["skipped"][0]["reason"], "ends of damaged IPFIX files");
    for (arguments, place) in [(["export", ".", "--ipfix", "x"], "flows.parquet"), (["export", "run", "--ipfix", "no/x"], "no/x")]
    {
        let output = planner(&arguments, folder.path());
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(place), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn weft_simulates_what_is_emitted() {
    let Some(weft) = weft() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (csv, _) = log(500);
    std::fs::write(folder.path().join("log.csv"), csv).expect("written");
    let mut finished = Vec::new();
    for form in ["fitted", "flows", "closed-loop"] {
        let name = format!("{form}.toml");
        text(&planner(&["analyze", "traffic", "log.csv", "--emit", &name, "--emit-as", form], folder.path()));
        let run = Command::new(&weft)
            .args(["run", &name, "--json", "--out", form])
            .current_dir(folder.path())
            .output()
            .expect("it runs");
        assert!(run.status.success(), "{form}: {}", String::from_utf8_lossy(&run.stderr));
        let summary: Value = serde_json::from_slice(&run.stdout).expect("JSON");
        finished.push(summary["runs"][0]["metrics"]["flows_finished"].as_f64().expect("a number"));
    }
    // A Poisson process of 500 flows has 500 within five standard deviations; the flows themselves are exactly those of the log.
    assert!((finished[0] - 500.0).abs() < 112.0 && finished[1] == 500.0, "{finished:?}");
}

/// Three of four flows go from the first rack to the second, the others from the third to the fourth; a host has two at a time. So it is in the
/// scenarios that are emitted, and the matrix of the log is that which `weft optimum` takes.
#[test]
fn the_matrix_of_a_log_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut csv = "src,dst,start,size,duration\n".to_owned();
    for at in 0..4_000u32 {
        let rack = if at % 4 == 3 { 2 } else { 0 };
        let host = at / 4 % 8;
        let start = f64::from(at) * 0.01;
        let _ = writeln!(csv, "10.0.{rack}.{host},10.0.{}.{host},{start:.2},1000000,0.2", rack + 1);
    }
    std::fs::write(folder.path().join("log.csv"), csv).expect("written");
    for form in ["fitted", "closed-loop"] {
        let name = format!("{form}.toml");
        text(&planner(&["analyze", "traffic", "log.csv", "--emit", &name, "--emit-as", form], folder.path()));
        let set = ["--set", "traffic.until=\"40s\"", "--set", "world.duration=\"40s\""];
        let set = if form == "fitted" { &set[..] } else { &["--set", "traffic.flows=4000", "--set", "world.duration=\"40s\""] };
        let study = json(&planner(&[&["analyze", "traffic", &name, "--json"], set].concat(), folder.path()));
        let cells = study["matrix"]["top_pairs"].as_array().expect("pairs");
        let bytes: Vec<f64> = cells.iter().map(|cell| number_of(&cell["bytes"])).collect();
        assert_eq!(bytes.len(), 2, "{form}: {cells:?}");
        let part = bytes[0] / (bytes[0] + bytes[1]);
        // In a closed loop every host of a rack that sends has as many flows as any other.
        let expected = if form == "fitted" { 0.75 } else { 0.5 };
        assert!((part - expected).abs() < 0.05, "{form}: {part}");
    }
    let optimum = |more: &[&str]| {
        let report = json(&planner(&[&["optimum", "fitted.toml", "--json"], more].concat(), folder.path()));
        let run = &report["runs"][0];
        (run["traffic"].as_str().expect("a name").to_owned(), number_of(&run["max_utilisation"]["ecmp"][0]))
    };
    let [of_scenario, of_file] = [optimum(&[]), optimum(&["--matrices", "fitted.matrix.csv"])];
    assert!(of_scenario.0.contains("mean") && of_file.0.contains("fitted.matrix.csv"), "{of_scenario:?}");
    assert!(of_scenario.1 > 0.0 && (of_scenario.1 - of_file.1).abs() < 1e-12, "{of_scenario:?} {of_file:?}");

    let output = planner(&["optimum", "fitted.toml", "--set", "fabric.edges=3"], folder.path());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && message.contains("the fabric has racks 0 to 2"), "{message}");
    // Without ends nothing is known about flows at a time.
    std::fs::write(folder.path().join("short.csv"), "src,dst,start,size\n10.0.0.1,10.0.1.1,0,5\n").expect("written");
    let output = planner(&["analyze", "traffic", "short.csv", "--emit", "s.toml", "--emit-as", "closed-loop"], folder.path());
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Header and rows of a Parquet file, as CSV has them.
fn parquet_rows(path: &std::path::Path) -> Vec<String> {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;
    let reader = SerializedFileReader::new(std::fs::File::open(path).expect("written")).expect("a Parquet file");
    let columns = reader.metadata().file_metadata().schema_descr().columns().to_vec();
    let header = columns.iter().map(|it| it.name().to_owned()).collect::<Vec<_>>().join(",");
    let text = |field: &Field| match field {
        Field::Str(text) => text.clone(),
        Field::Double(value) => value.to_string(),
        Field::UInt(value) => value.to_string(),
        Field::ULong(value) => value.to_string(),
        other => panic!("{other:?}"),
    };
    let rows = reader.get_row_iter(None).expect("rows").map(|row| {
        let row = row.expect("a row");
        row.get_column_iter().map(|(_, field)| text(field)).collect::<Vec<_>>().join(",")
    });
    std::iter::once(header).chain(rows).collect()
}

#[test]
fn the_folder_has_all_forms() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("log.csv"), log(2_000).0).expect("written");
    std::fs::write(folder.path().join("map.csv"), "address,rack,pod,service\n10.0.0.0/23,r0,p0,web\n10.0.2.0/24,r1,p0,db\n")
        .expect("written");
    let table = text(&planner(
        &["analyze", "traffic", "log.csv", "--hosts", "map.csv", "--interval", "1s", "--out", "out"],
        folder.path(),
    ));
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    assert!(table.contains("groups: racks of the host map") && table.contains("fitting error"), "{table}");
    let page = std::fs::read_to_string(folder.path().join("out/traffic.html")).expect("written");
    assert!(page.contains("<svg") && page.contains("light dark") && !page.contains("<script") && !page.contains("http"));
    for name in ["sizes", "concurrency", "matrix", "clusters", "classes", "hosts"] {
        let csv = std::fs::read_to_string(folder.path().join(format!("out/{name}.csv"))).expect("written");
        let rows = parquet_rows(&folder.path().join(format!("out/{name}.parquet")));
        assert!(rows.len() > 1, "{name}");
        assert_eq!(csv.lines().map(str::to_owned).collect::<Vec<_>>(), rows, "{name}");
    }
    let matrix = std::fs::read_to_string(folder.path().join("out/matrix.csv")).expect("written");
    assert!(matrix.contains(",r0,outside,"), "{matrix:.200}");
}

#[test]
fn a_key_hides_names() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("log.csv"), log(200).0).expect("written");
    std::fs::write(folder.path().join("key"), "0123456789abcdef").expect("written");
    let arguments =
        ["analyze", "traffic", "log.csv", "--anonymize", "key", "--emit", "s.toml", "--emit-as", "flows", "--out", "out"];
    let table = text(&planner(&arguments, folder.path()));
    let mut all = table;
    for file in ["s.toml", "s.flows.csv", "out/traffic.json", "out/traffic.html", "out/matrix.csv", "out/hosts.csv"] {
        all += &std::fs::read_to_string(folder.path().join(file)).expect("written");
    }
    assert!(!all.contains("10.0.") && all.contains("host-") && all.contains("group-"));
    std::fs::write(folder.path().join("key"), "short").expect("written");
    assert_eq!(planner(&arguments, folder.path()).status.code(), Some(2));
}

#[test]
fn bad_input_is_named_with_place_and_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("cut.csv", "src,dst,start,size\n0,1,0,5\n0,1,0\n");
    write("self.csv", "src,dst,start,size\n1,1,0,5\n");
    write("mixed.csv", "src,dst,start,size\n0,1,0,5\n0,1,1700000000,5\n");
    write("map.csv", "address,rack\n0,\n");
    for (arguments, messages) in [
        (vec!["cut.csv"], ["cut.csv: line 3", "3 fields where the header has 4"]),
        (vec!["self.csv"], ["flows from a host to itself: 1", "self.csv: line 2"]),
        (vec!["mixed.csv", "--interval", "1s"], ["mixed.csv: line 3", "intervals away"]),
        (vec!["none.csv"], ["none.csv", "check the path"]),
        (vec!["cut.csv", "--hosts", "map.csv"], ["map.csv: line 2", "rack is empty"]),
        (vec!["cut.csv", "--interval", "0s"], ["--interval", "shorter than 1 ms"]),
    ] {
        let output = planner(&[&["analyze", "traffic"], &arguments[..]].concat(), folder.path());
        let error = String::from_utf8_lossy(&output.stderr).replace("\n  │ ", " ");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(messages.iter().all(|message| error.contains(message)), "{arguments:?}: {error}");
    }
    let table = text(&planner(&["analyze", "traffic", "cut.csv", "--keep-going"], folder.path()));
    assert!(table.contains("1 lines that are no flow"), "{table}");
}

/// Sizes drawn from what VL2 section 3.2 states give back what it states: 99 % of the flows below 100 MB, more than 90 % of the bytes in flows of 100 MB to
/// 1 GB.
#[test]
fn figure_2_of_vl2_from_flows_drawn_from_its_text() {
    let Some(SizeSpec::Empirical(cdf)) = SizeSpec::named("vl2-sizes") else { panic!("the distribution is built in") };
    let folder = tempfile::tempdir().expect("a folder");
    let mut csv = "src,dst,start,size\n".to_owned();
    let mut random = Random(3);
    for at in 0..50_000u32 {
        let size = cdf.quantile((f64::from(at) + random.next()) / 50_000.0).max(1.0);
        let _ = writeln!(csv, "{},{},{},{size:.0}", at % 100, (at + 1 + at / 100 % 99) % 100, f64::from(at % 977) * 0.1);
    }
    std::fs::write(folder.path().join("log.csv"), csv).expect("written");
    let report = json(&planner(&["analyze", "traffic", "log.csv", "--json"], folder.path()));
    let large = &report["elephants"];
    let number = |value: &Value| value.as_f64().expect("a number");
    assert!(number(&large["flows_above_100mb"]) < 0.011, "{large}");
    assert!(number(&large["bytes_above_100mb"]) > 0.9, "{large}");
    let (p10, max) = (number(&report["sizes"]["bytes_p10"]), number(&report["sizes"]["max"]));
    // Flows of more than a few GB are rare.
    assert!(p10 > 0.9e8 && max < 3e9, "{p10} {max}");
    assert!(number(&report["sizes"]["p50"]) < 1e4, "most flows are a few kB");
}

/// Two switches export the same flow by NetFlow 5, sampled 1 in 10: it counts once, ten times as large.
#[test]
fn exporters_are_merged_and_sampling_is_undone() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut capture = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 101] {
        capture.extend(word.to_le_bytes());
    }
    for exporter in [1u8, 2] {
        let mut message = vec![0, 5, 0, 1];
        [10_000u32, 1_000, 0, 1].iter().for_each(|word| message.extend(word.to_be_bytes()));
        message.extend([0, 0, 0, 10, 20, 0, 0, 1, 20, 0, 1, 2, 0, 0, 0, 0, 0, 1, 0, 2]);
        [7u32, 9_000, 7_000, 9_000].iter().for_each(|word| message.extend(word.to_be_bytes()));
        message.extend([0x0f, 0xa0, 0, 80, 0, 0, 6, 0, 0, 0, 0, 0, 24, 24, 0, 0]);
        let length = 28 + message.len() as u32;
        [1_000, 0, length, length].iter().for_each(|word: &u32| capture.extend(word.to_le_bytes()));
        capture.extend([
            0x45,
            0,
            0,
            length as u8,
            0,
            0,
            0,
            0,
            64,
            17,
            0,
            0,
            10,
            0,
            0,
            exporter,
            10,
            0,
            0,
            9,
            0,
            9,
            8,
            7,
            0,
            0,
            0,
            0,
        ]);
        capture.extend(message);
    }
    std::fs::write(folder.path().join("netflow.pcap"), capture).expect("written");
    let report = json(&planner(&["analyze", "traffic", "netflow.pcap", "--json"], folder.path()));
    let totals = &report["totals"];
    assert_eq!(
        (totals["flows"].as_u64(), totals["bytes"].as_f64(), totals["packets"].as_u64()),
        (Some(1), Some(90_000.0), Some(70))
    );
    assert_eq!(totals["sampling_max"], 10);
    assert_eq!(report["skipped"][0]["reason"], "duplicates that another exporter reported");
    assert_eq!(report["files"][0]["format"], "packet capture");
}

/// The whole walk of `docs/planning.md` after the study: failures on the emitted fabric, and its price.
#[test]
fn failures_and_prices_of_the_emitted_fabric() {
    if weft().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("log.csv"), log(300).0).expect("written");
    text(&planner(&["analyze", "traffic", "log.csv", "--emit", "mine.toml"], folder.path()));
    std::fs::write(
        folder.path().join("failures.csv"),
        "start,end,device,kind,cause\n0,600,edge0,tor,power\n700,800,core0,core,power\n",
    )
    .expect("written");
    let report = json(&planner(&["analyze", "failures", "failures.csv", "--fabric", "mine.toml", "--json"], folder.path()));
    assert_eq!((report["count"].as_u64(), report["hidden"]["hidden"].as_u64()), (Some(2), Some(1)));
    assert_eq!(report["hidden"]["most_hosts_cut_off"], 8);
    let table = text(&planner(&["analyze", "failures", "failures.csv", "--fabric", "mine.toml"], folder.path()));
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let prices = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/data/prices-illustrative.toml");
    let prices = prices.to_str().expect("UTF-8");
    let bill = json(&planner(&["cost", "mine.toml", "--prices", prices, "--json"], folder.path()));
    assert_eq!(bill["servers"], 32);
    let all = number_of(&bill["total"]);
    let bare = json(&planner(&["cost", "mine.toml", "--prices", prices, "--without-edge-and-cables", "--json"], folder.path()));
    assert!(all > number_of(&bare["total"]) && number_of(&bare["total"]) > 0.0);
    std::fs::write(folder.path().join("bad.toml"), "currency = \"USD\"\n[[switch]]\nname = \"a\"\nprice = 7\n").expect("written");
    let output = planner(&["cost", "mine.toml", "--prices", "bad.toml"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("bad.toml: line 2"));
}

fn number_of(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// Public logs of Zeek, as they were published: `tests/data/zeek/README.md` has their origin and licence. Sums by hand of their columns.
#[test]
fn public_logs_are_read_unchanged() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/zeek");
    let text = |name: &str| std::fs::read_to_string(data.join(name)).expect("read");
    // Bytes with headers of each direction: fields 16 and 18 of a line.
    let lines = text("conn.log");
    let directions = lines.lines().filter(|line| !line.starts_with('#')).flat_map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        [16, 18].map(|at| fields[at].parse::<u64>().unwrap_or(0))
    });
    let of_tsv: Vec<u64> = directions.filter(|&bytes| bytes > 0).collect();
    let lines = text("conn.json.log");
    let directions = lines.lines().flat_map(|line| {
        let record: Value = serde_json::from_str(line).expect("JSON");
        ["orig_ip_bytes", "resp_ip_bytes"].map(|key| record[key].as_u64().unwrap_or(0))
    });
    let of_json: Vec<u64> = directions.filter(|&bytes| bytes > 0).collect();
    for (name, expected) in [("conn.log", of_tsv), ("conn.json.log", of_json)] {
        let study = json(&planner(&["analyze", "traffic", name, "--json"], &data));
        let bytes: u64 = expected.iter().sum();
        assert_eq!(
            (study["flows"].as_u64(), study["bytes"].as_f64()),
            (Some(expected.len() as u64), Some(bytes as f64)),
            "{name}"
        );
        assert_eq!(study["skipped"], serde_json::json!([]), "{name}");
    }
}
