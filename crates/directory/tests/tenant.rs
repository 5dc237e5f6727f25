//! `weft tenant` (`weft-directory tenant`): the file, its errors, and the bindings in a real directory.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

struct Site {
    folder: TempDir,
    server: Option<Child>,
}

impl Site {
    fn new() -> Self {
        Self { folder: TempDir::new().expect("a folder"), server: None }
    }

    /// With a directory server.
    fn serving() -> Self {
        let mut site = Self::new();
        let dir = site.folder.path().to_str().expect("UTF-8").to_owned() + "/directory";
        let init = Command::new(env!("CARGO_BIN_EXE_weft-directory")).args(["init", &dir]).output().expect("it runs");
        assert!(init.status.success(), "{init:?}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft-directory"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--metrics", "off", "--json", "--auth", "mac", "--dir", &dir]);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let ready: Value = serde_json::from_str(&line).expect("JSON");
        let address = ready["listen"].as_str().expect("an address");
        let client = format!("servers = [\"{address}\"]\nprincipal = 2\nauth = \"mac\"\n");
        std::fs::write(format!("{dir}/client.toml"), client).expect("written");
        site.server = Some(process);
        site
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("tenants.toml")
    }

    fn run(&self, command: &str) -> Output {
        let mut words: Vec<String> = Vec::new();
        for (at, part) in command.split('"').enumerate() {
            if at % 2 == 1 {
                words.push(part.to_owned());
            } else {
                words.extend(part.split_whitespace().map(str::to_owned));
            }
        }
        let mut program = Command::new(env!("CARGO_BIN_EXE_weft-directory"));
        program.args(words).env("WEFT_TENANTS", self.file()).env("WEFT_DIRECTORY", self.folder.path().join("directory"));
        program.output().expect("it runs")
    }

    fn json(&self, command: &str) -> Value {
        let output = self.run(&format!("{command} --json"));
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn fails(&self, command: &str, said: &str) {
        let before = std::fs::read(self.file()).ok();
        let output = self.run(command);
        let error = String::from_utf8_lossy(&output.stderr).replace("\n  │ ", " ").replace('\n', " ");
        assert_eq!(output.status.code(), Some(2), "{command}: {error}");
        assert!(error.contains(said), "{command}: {error}");
        assert_eq!(std::fs::read(self.file()).ok(), before, "nothing is written");
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

#[test]
fn tenants_are_made_listed_and_shown() {
    let site = Site::new();
    site.fails("tenant list", "weft tenant create");
    let made = site.json("tenant create acme --id 17");
    assert_eq!((&made["version"], &made["tenant"]), (&Value::from(1), &Value::from("acme")));
    site.json("tenant create globex --id 18 --spaces 1,2");
    site.json("tenant add-vm acme web1 --mac 02:00:00:00:00:01 --address 10.0.0.1,fd00::1");
    site.json("tenant add-vm acme web1-public --space public --mac 02:00:00:00:00:01 --address 203.0.113.7");
    let vif = site.json("tenant add-vm globex app --space 1 --mac 02:00:00:00:00:01 --address 10.0.0.1");
    assert_eq!(vif["vif"], "tenant:18/1/02:00:00:00:00:01");
    site.json("tenant add-vm globex db --space 2 --mac 02:00:00:00:00:01 --address 10.0.1.1");
    site.json(
        "tenant route globex core --interface 1,02:00:00:00:00:fe,10.0.0.254/24 --interface 2,02:00:00:00:00:fe,10.0.1.254/24",
    );
    let rule = "deny tcp from 10.0.0.0/24 to 10.0.1.0/24 port 22";
    let routed = site.json(&format!("tenant route globex core --to 192.168.0.0/16 --via 10.0.0.1 --rule \"{rule}\""));
    assert_eq!(routed["router"], "core");
    let list = site.json("tenant list");
    let expected = r#"[{"id":17,"name":"acme","spaces":[1],"vifs":2,"routers":0,"routes":0,"rules":0},
        {"id":18,"name":"globex","spaces":[1,2],"vifs":2,"routers":1,"routes":1,"rules":1}]"#;
    assert_eq!(list["tenants"], serde_json::from_str::<Value>(expected).expect("JSON"));
    let shown = site.json("tenant show globex");
    assert_eq!(shown["routers"][0]["rules"][0], rule);
    assert_eq!(shown["routers"][0]["routes"][0]["via"], "10.0.0.1");
    assert_eq!(shown["vifs"][1]["addresses"][0], "10.0.1.1");
    let text = String::from_utf8(site.run("tenant show globex").stdout).expect("UTF-8");
    assert!(text.contains("to 192.168.0.0/16 via 10.0.0.1") && text.contains("tenant:18/2/02:00:00:00:00:01"), "{text}");
}

#[test]
fn bad_input_is_named_and_nothing_is_written() {
    let site = Site::new();
    site.json("tenant create acme --id 17 --spaces 1,2");
    site.json("tenant add-vm acme a --space 1 --mac 02:00:00:00:00:01 --address 10.0.0.1");
    site.json("tenant route acme r --interface 1,02:00:00:00:00:fe,10.0.0.254/24");
    for (command, said) in [
        ("tenant create big --id 16777216", "more than 24 bits"),
        ("tenant create big --id 2", "reserved"),
        ("tenant create big --id 99999999999", "a whole number, 3 to 16777215"),
        ("tenant create big --id -1", "a whole number, 3 to 16777215"),
        ("tenant create acme --id 18", "the name is tenant 17's already"),
        ("tenant add-vm acme b --space 1 --mac 02:00:00:00:00:01", "02:00:00:00:00:01 is vif `a` of `acme`'s already"),
        ("tenant add-vm acme b --space 1 --mac 02:00:00:00:00:02 --address 10.0.0.1", "10.0.0.1 is vif `a`"),
        ("tenant add-vm acme a --space 1 --mac 02:00:00:00:00:02", "has an interface `a` already"),
        ("tenant add-vm acme b --at edge:02:00:00:00:00:09/1", "needs `--mac`"),
        ("tenant add-vm initech b --mac 02:00:00:00:00:02", "there is no tenant `initech`"),
        ("tenant add-vm acme a --at edge:02:00:00:00:00:09/127", "port 127 is not 1 to 126"),
        ("tenant add-vm acme a --at 10.0.0.1", "is no edge switch's port"),
        ("tenant route acme r --to 10.9.0.0/16 --via 10.7.0.1", "10.7.0.1 lies in no subnet"),
        ("tenant route acme r --to 10.9.0.0/16 --via 10.0.0.254", "is the router itself"),
        ("tenant route acme r --rule \"deny tcp nach 10.0.0.0/24\"", "`nach` in the rule"),
        ("tenant route acme r --rule \"deny port 22\"", "a port needs protocol"),
        ("tenant route acme r", "nothing is to be added"),
        ("tenant route acme r --interface 2,02:00:00:00:00:fe,10.0.1.254/24", "already"),
        ("tenant show initech", "it has: acme"),
    ] {
        site.fails(command, said);
    }
    site.json("tenant route acme s --interface 1,02:00:00:00:00:fd,10.0.0.253/24 --to 10.9.0.0/16 --via 10.0.0.254");
    site.fails("tenant route acme r --to 10.9.0.0/17 --via 10.0.0.253", "would go round");
    std::fs::write(site.file(), "version = 1\n[[tenant]]\nid = 17\nnam = \"a\"\n").expect("written");
    site.fails("tenant list", "nam");
}

#[test]
fn a_file_keeps_its_mode_and_its_link() {
    use std::os::unix::fs::PermissionsExt as _;
    let site = Site::new();
    let real = site.folder.path().join("real.toml");
    std::fs::write(&real, "version = 1\n").expect("written");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).expect("a mode");
    std::os::unix::fs::symlink(&real, site.file()).expect("a link");
    site.json("tenant create acme --id 17");
    assert!(site.file().is_symlink() && std::fs::read_to_string(&real).expect("read").contains("acme"));
    assert_eq!(real.metadata().expect("it is there").permissions().mode() & 0o777, 0o640);
}

#[test]
fn where_a_vif_is_stands_in_the_directory() {
    let site = Site::serving();
    site.json("tenant create acme --id 17");
    let added = site.json(
        "tenant add-vm acme web --mac 02:00:00:00:00:01 --address 10.0.0.1,fd00::1 --at edge:02:00:00:00:00:09/12 --owner 40",
    );
    assert_eq!(added["bindings"], 3);
    let got = site.json("get tenant:17/1/10.0.0.1 tenant:17/1/fd00::1 tenant:17/1/02:00:00:00:00:01");
    for finding in got["findings"].as_array().expect("findings") {
        assert_eq!((&finding["locator"], &finding["owner"]), (&"edge:02:00:00:00:00:09/12".into(), &Value::from(40)));
    }
    assert_eq!((&got["findings"][0]["mac"], &got["findings"][2]["mac"]), (&"02:00:00:00:00:01".into(), &Value::Null));
    site.json("tenant add-vm acme idle --mac 02:00:00:00:00:02");
    let moved = site.json("tenant add-vm acme web --at edge:02:00:00:00:00:0a/1 --owner 41");
    assert_eq!(moved["version"], 3, "the file is as it was");
    let shown = site.json("tenant show acme --locations");
    assert_eq!((&shown["vifs"][0]["at"], &shown["vifs"][1]["at"]), (&"edge:02:00:00:00:00:0a/1".into(), &Value::Null));
}

#[test]
fn the_file_goes_into_the_store_and_comes_back() {
    let site = Site::serving();
    let none = site.run("tenant fetch");
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("the store has no tenants' file"), "{none:?}");
    site.json("tenant create acme --id 17");
    let first = site.json("tenant publish");
    assert_eq!((&first["version"], &first["changed"]), (&1.into(), &true.into()));
    assert_eq!(site.json("tenant publish")["changed"], false, "the same again is no change");
    site.json("tenant add-vm acme web1 --mac 02:00:00:00:00:01 --address 10.0.0.1");
    assert_eq!(site.json("tenant publish")["version"], 2);
    let text = std::fs::read_to_string(site.file()).expect("the file");

    // Another machine's.
    std::fs::remove_file(site.file()).expect("gone");
    assert_eq!(site.json("tenant fetch")["changed"], true);
    assert_eq!(std::fs::read_to_string(site.file()).expect("the file"), text);
    assert_eq!(site.json("tenant fetch")["changed"], false);

    // Two that have gone on from one version.
    std::fs::write(site.file(), text.replace("web1", "web2")).expect("written");
    let other = site.run("tenant publish");
    assert_eq!(other.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&other.stderr).contains("the store has another version 2"), "{other:?}");
    std::fs::write(site.file(), text.replace("version = 2", "version = 9")).expect("written");
    let newer = site.run("tenant fetch");
    assert_eq!(newer.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&newer.stderr).contains("is version 9, newer than the store's 2"), "{newer:?}");

    // Any text.
    let file = site.folder.path().join("notes");
    std::fs::write(&file, "a").expect("written");
    let file = file.to_str().expect("UTF-8").to_owned();
    assert_eq!(site.json(&format!("publish notes {file}"))["version"], 1);
    assert_eq!(site.json(&format!("publish notes {file} --version 7"))["version"], 7);
    assert_eq!(site.run("fetch notes").stdout, b"a");
    assert_eq!(site.run("fetch nothing").status.code(), Some(1), "the answer is no");
    for (command, said) in [
        (format!("publish notes {file} --version 6"), "6 is not greater"),
        (format!("publish ../x {file}"), "a document's name is"),
        (format!("publish spain {file}"), "the paths cannot be read"),
        (format!("publish tenants {} --version 3", site.file().display()), "declares version 9"),
        (format!("publish notes {file}.not"), "cannot read"),
    ] {
        let output = site.run(&command);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{command}: {output:?}");
    }
}

#[test]
fn records_are_changed_as_the_file_is() {
    let site = Site::serving();
    site.fails("tenant list --store", "no records of tenants");
    let made = site.json("tenant create acme --id 17 --spaces 1,2 --readers 40,41 --store");
    assert!(made["revision"].as_u64().is_some_and(|it| it > 0) && made.get("file").is_none(), "{made}");
    site.json("tenant create globex --id 18 --store");
    let vif = site
        .json("tenant add-vm acme a --space 1 --mac 02:00:00:00:00:01 --address 10.0.0.1 --at edge:02:00:00:00:00:09/12 --store");
    assert_eq!((&vif["vif"], &vif["bindings"]), (&"tenant:17/1/02:00:00:00:00:01".into(), &Value::from(2)));
    site.json("tenant route acme r --interface 1,02:00:00:00:00:fe,10.0.0.254/24 --to 10.9.0.0/16 --via 10.0.0.1 --rule \"deny icmp\" --store");
    site.json("tenant route acme r --rule \"allow tcp port 22\" --to 10.8.0.0/16 --via 10.0.0.1 --store");
    site.json("tenant route acme s --interface 1,02:00:00:00:00:fd,10.0.0.253/24 --to 10.7.0.0/16 --via 10.0.0.254 --store");
    for (command, said) in [
        ("tenant create acme --id 19 --store", "the name is tenant"),
        ("tenant create x --id 17 --store", "tenant `x`: id 17 is `acme`'s already"),
        ("tenant add-vm acme a --space 1 --mac 02:00:00:00:00:02 --store", "has an interface `a` already"),
        (
            "tenant add-vm acme b --space 1 --mac 02:00:00:00:00:01 --store",
            "vif `b` of `acme`: MAC address 02:00:00:00:00:01 is vif `a` of `acme`'s already in MAC space 1",
        ),
        (
            "tenant add-vm acme b --space 1 --mac 02:00:00:00:00:02 --address 10.0.0.254 --store",
            "is router `r` of `acme`'s already",
        ),
        ("tenant add-vm initech b --mac 02:00:00:00:00:02 --store", "there is no tenant `initech`"),
        ("tenant route acme r --to 10.7.0.0/16 --via 10.0.0.253 --store", "would go round"),
        ("tenant unroute acme r --to 10.1.0.0/16 --store", "`acme` has no route to 10.1.0.0/16 in `r`"),
        ("tenant unroute acme r --rule \"deny udp\" --store", "has no rule"),
        ("tenant unroute acme none --store", "has no virtual router `none`"),
        ("tenant remove-vm acme b --store", "`acme` has no interface `b`"),
        ("tenant remove initech --store", "the directory has no tenant `initech`"),
        ("tenant show initech --store", "the directory has no tenant `initech`"),
        ("tenant readers acme --store", "--principals"),
        ("tenant list --store --principal 99", "does not let this principal"),
    ] {
        site.fails(command, said);
    }
    let shown = site.json("tenant show acme --store --locations");
    assert_eq!((&shown["readers"], &shown["vifs"][0]["at"]), (&serde_json::json!([40, 41]), &"edge:02:00:00:00:00:09/12".into()));
    assert_eq!(shown["routers"][0]["rules"], serde_json::json!(["deny icmp", "allow tcp port 22"]));
    let list = site.json("tenant list --store");
    assert_eq!(
        (&list["tenants"][0]["vifs"], &list["tenants"][0]["routes"], &list["tenants"][0]["rules"]),
        (&1.into(), &3.into(), &2.into())
    );
    they_turn_into_a_file_and_come_back(&site);
    site.json("tenant remove-vm acme a --store");
    site.json("tenant remove acme --store");
    assert_eq!(site.json("tenant list --store")["tenants"].as_array().map(Vec::len), Some(1));
    let gone = site.json("tenant create again --id 17 --store");
    assert_eq!(gone["tenant"], "again", "its id is free");
}

/// The file and the records turn into each other, and a backup has them.
fn they_turn_into_a_file_and_come_back(site: &Site) {
    let copy = site.folder.path().join("copy.toml").display().to_string();
    site.json(&format!("tenant export {copy}"));
    let same = site.json(&format!("tenant import {copy} --exact"));
    assert_eq!((&same["written"], &same["deleted"], &same["records"]), (&0.into(), &0.into(), &6.into()));
    let backup = site.folder.path().join("all.backup").display().to_string();
    assert_eq!(site.json(&format!("backup {backup}"))["records"], 6);
    site.json("tenant unroute acme r --rule \"deny icmp\" --store");
    site.json("tenant unroute acme r --to 10.9.0.0/16 --store");
    site.json("tenant unroute acme s --store");
    site.json("tenant readers acme --all --store");
    site.json("tenant create late --id 20 --store");
    site.json("tenant add-vm late v --mac 02:00:00:00:00:07 --store");
    let shown = site.json("tenant show acme --store");
    assert_eq!(
        (&shown["routers"][0]["rules"], shown["routers"].as_array().map(Vec::len)),
        (&serde_json::json!(["allow tcp port 22"]), Some(1))
    );
    let dry = site.json(&format!("restore {backup} --exact --dry-run"));
    assert_eq!((&dry["records"]["written"], &dry["records"]["deleted"]), (&3.into(), &2.into()));
    site.json(&format!("restore {backup} --exact"));
    let again = site.folder.path().join("again.toml").display().to_string();
    site.json(&format!("tenant export {again} --version 7"));
    let body = |path: &str| std::fs::read_to_string(path).expect("read").lines().skip(1).collect::<Vec<_>>().join("\n");
    assert_eq!(body(&again), body(&copy));
    let text = std::fs::read_to_string(&backup).expect("read");
    let forged = text.replace("10.0.0.1\\\"", "10.0.0.254\\\"");
    std::fs::write(&backup, forged).expect("written");
    site.fails(&format!("restore {backup}"), "the records of tenants");
}

#[test]
fn a_document_and_records_do_not_mix_unawares() {
    let site = Site::serving();
    site.json("tenant create acme --id 17");
    site.json("tenant publish");
    site.fails("tenant create globex --id 18 --store", "the store's tenants are the document `tenants`");
    let file = site.file().display().to_string();
    assert_eq!(site.json(&format!("tenant import {file}"))["written"], 2);
    site.json("tenant create globex --id 18 --store");
    site.json("tenant create initech --id 19");
    site.fails("tenant publish", "the store's tenants are records");
    site.fails("tenant fetch", "the store's tenants are records");
}

#[test]
fn what_is_in_the_file_can_be_removed() {
    let site = Site::new();
    site.json("tenant create acme --id 17");
    site.json("tenant create globex --id 18 --readers 7");
    for tenant in ["acme", "globex"] {
        site.json(&format!("tenant add-vm {tenant} a --mac 02:00:00:00:00:01 --address 10.0.0.1"));
        site.json(&format!("tenant route {tenant} r --interface 1,02:00:00:00:00:fe,10.0.0.254/24 --to 10.9.0.0/16 --via 10.0.0.1 --rule \"deny icmp\""));
    }
    let text = std::fs::read_to_string(site.file()).expect("read");
    std::fs::write(site.file(), text.replace("[[vif]]", "# mine\n[[vif]]")).expect("written");
    site.fails("tenant remove-vm acme b", "`acme` has no interface `b`");
    site.fails("tenant unroute acme r --to 10.8.0.0/16", "has no route to 10.8.0.0/16");
    site.json("tenant unroute acme r --to 10.9.0.0/16");
    site.json("tenant unroute acme r --rule \"deny  icmp\"");
    site.json("tenant remove-vm acme a");
    let shown = site.json("tenant show acme");
    assert_eq!(
        (&shown["vifs"], &shown["routers"][0]["rules"], &shown["routers"][0]["routes"]),
        (&serde_json::json!([]), &serde_json::json!([]), &serde_json::json!([]))
    );
    site.json("tenant unroute acme r");
    site.json("tenant readers globex --principals 8,9");
    let globex = site.json("tenant show globex");
    assert_eq!((&globex["readers"], globex["vifs"].as_array().map(Vec::len)), (&serde_json::json!([8, 9]), Some(1)));
    let removed = site.json("tenant remove acme");
    assert_eq!(removed["version"], 16);
    let text = std::fs::read_to_string(site.file()).expect("read");
    assert!(text.matches("# mine").count() == 2 && !text.contains("acme"), "{text}");
}
