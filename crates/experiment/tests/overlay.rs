//! `[overlay]` and `[[service]]` in the simulated worlds: what is refused, and what the headers cost.

#[path = "support/weft.rs"]
mod support;

use support::{folder_with, json, stderr, weft};

/// The small scenario with other tables at its end.
fn with<'a>(tables: &'a str, control: &'a str) -> [(&'static str, String); 2] {
    [("[traffic]", format!("{tables}\n[traffic]")), ("scheduler = \"first-fit\"", control.to_owned())]
}

#[track_caller]
fn refused(tables: &str, control: &str, wanted: &[&str]) {
    let changes = with(tables, control);
    let changes: Vec<(&str, &str)> = changes.iter().map(|(from, to)| (*from, to.as_str())).collect();
    let folder = folder_with(&changes);
    let output = weft(&["run", "s.toml", "--out", "r"], folder.path());
    assert_eq!(output.status.code(), Some(2), "{tables}");
    for part in wanted {
        assert!(stderr(&output).contains(part), "`{part}` is missing in:\n{}", stderr(&output));
    }
}

const VL2: &str = "[overlay]\nkind = \"vl2\"";
const VLB: &str = "routing = \"vlb\"";

#[test]
fn slips_name_the_key_and_the_way_out() {
    let service = |text: &str| format!("{VL2}\n[[service]]\n{text}");
    refused("[overlay]\nkind = \"vl3\"", VLB, &["no overlay `vl3`", "none, vl2"]);
    refused(VL2, "routing = \"ecmp\"", &["bounces flows off", "routing = \"vlb\""]);
    refused("[overlay]\necmp_width = 2", VLB, &["`ecmp_width` belongs to the VL2 overlay", "kind = \"vl2\""]);
    refused(&format!("{VL2}\necmp_width = 0"), VLB, &["no next hop"]);
    refused(&format!("{VL2}\nlocator = \"rack\""), VLB, &["no locator `rack`", "tor, host"]);
    refused(&format!("{VL2}\naddresses = \"leased\""), VLB, &["no addresses `leased`", "static, dhcp"]);
    refused(&format!("{VL2}\naddresses = \"dhcp\"\nlocator = \"host\""), VLB, &["ToRs relay DHCP", "locator = \"tor\""]);
    refused(&format!("{VL2}\nwidth = 2"), VLB, &["unknown key `width`"]);
    refused("[[service]]\nname = \"web\"\nhosts = 0", VLB, &["services need an overlay"]);
    refused(&service("hosts = 0"), VLB, &["service[0].name"]);
    refused(&service("name = \"web\"\nhosts = []"), VLB, &["without hosts"]);
    refused(&service("name = \"*\"\nhosts = 0"), VLB, &["cannot be called `*`"]);
    refused(&service("name = \"others\"\nhosts = 0"), VLB, &["cannot be called `others`"]);
    refused(&service("name = \"web\"\nhosts = 16"), VLB, &["no host 16", "0 to 15"]);
    refused(&service("name = \"web\"\nhosts = 0\nallow = [\"wab\"]"), VLB, &["no service `wab`", "did you mean `web`?"]);
    let twice = "name = \"web\"\nhosts = \"0-3\"\n[[service]]\nname = \"db\"\nhosts = 3";
    refused(&service(twice), VLB, &["host 3 is in `web` and in `db`"]);
    refused(
        &service("name = \"web\"\nhosts = 0\n[[service]]\nname = \"web\"\nhosts = 1"),
        VLB,
        &["two services are called `web`"],
    );
}

#[test]
fn headers_cost_what_they_weigh_in_a_world_of_packets() {
    let services = format!("{VL2}\nlookup = \"0s\"\n[[service]]\nname = \"web\"\nhosts = \"0-15\"");
    let completion = |tables: &str, world: &str| {
        let changes = with(tables, VLB);
        let mut changes: Vec<(&str, &str)> = changes.iter().map(|(from, to)| (*from, to.as_str())).collect();
        // Two hosts, so that nothing but headers is in the way.
        changes.push(("stride = 4\nsize = \"125MB\"", "stride = 1\nsize = \"10MB\"\nhosts = [0, 4]"));
        let folder = folder_with(&changes);
        let set = format!("world.kind={world}");
        // A window that no queue overflows by: what is lost, and when, is chance.
        let window = "transport.max_window=64KB";
        let run = json(&weft(&["run", "s.toml", "--json", "--set", &set, "--set", window], folder.path()));
        run["runs"][0]["metrics"]["completion_s"].as_f64().expect("it ends")
    };
    // 1460 bytes of payload in packets of 1500, and of 1540; acknowledgements of the other flow of 40, and of 80.
    let ratio = completion(&services, "packet") / completion("", "packet");
    assert!((1540.0 / 1500.0 - 0.004..1620.0 / 1540.0 + 0.004).contains(&ratio), "{ratio}");
    assert!((completion(&services, "flow") - completion("", "flow")).abs() < 1e-9, "the flow world has no headers");
}

/// Flows of four services' worth of hosts: those between services that may not communicate do not start, and all others wait for two lookups.
#[test]
fn refused_flows_do_not_start_and_others_wait_for_lookups() {
    let services = "[[service]]\nname = \"web\"\nhosts = \"0-7\"\nallow = [\"data\"]\n[[service]]\nname = \"data\"\nhosts = \"8-11\"\nallow = [\"web\"]";
    for world in ["flow", "packet"] {
        let metrics = |lookup: &str| {
            let tables = format!("{VL2}\nlookup = \"{lookup}\"\n{services}");
            let changes = with(&tables, VLB);
            let mut changes: Vec<(&str, &str)> = changes.iter().map(|(from, to)| (*from, to.as_str())).collect();
            changes.push(("size = \"125MB\"", "size = \"1MB\""));
            let folder = folder_with(&changes);
            let run = json(&weft(&["run", "s.toml", "--json", "--set", &format!("world.kind={world}")], folder.path()));
            run["runs"][0]["metrics"].clone()
        };
        let without = metrics("0s");
        // Hosts 8 to 11 send to 12 to 15, which are in no service, and these to 0 to 3.
        assert_eq!(
            (&without["flows"], &without["flows_finished"], &without["flows_refused"]),
            (&16.into(), &8.into(), &8.into()),
            "{world}"
        );
        assert!(without["completion_s"].as_f64().is_some(), "those that started have finished");
        let delay = metrics("5ms")["fct_p50_s"].as_f64().unwrap() - without["fct_p50_s"].as_f64().unwrap();
        assert!((delay - 0.010).abs() < 0.002, "{world}: {delay}");
    }
}

/// A source whose next flow waits for the end of the one before goes on when that is refused.
#[test]
fn a_shuffle_goes_on_after_refusals() {
    let services = "[[service]]\nname = \"web\"\nhosts = \"0-7\"\nallow = [\"data\"]\n[[service]]\nname = \"data\"\nhosts = \"8-11\"\nallow = [\"web\"]";
    for world in ["flow", "packet"] {
        let changes = with(&format!("{VL2}\n{services}"), VLB);
        let mut changes: Vec<(&str, &str)> = changes.iter().map(|(from, to)| (*from, to.as_str())).collect();
        changes.push(("pattern = \"stride\"\nstride = 4\nsize = \"125MB\"", "pattern = \"shuffle\"\nsize = \"100kB\""));
        let folder = folder_with(&changes);
        let run = json(&weft(&["run", "s.toml", "--json", "--set", &format!("world.kind={world}")], folder.path()));
        let metrics = &run["runs"][0]["metrics"];
        // The four hosts of no service and the twelve others may not communicate.
        let counts = ["flows", "flows_refused", "flows_finished"].map(|name| metrics[name].as_u64());
        assert_eq!(counts, [Some(16 * 15), Some(2 * 4 * 12), Some(16 * 15 - 2 * 4 * 12)], "{world}");
    }
}
