//! Switches over TLS: a real Open vSwitch, skipped where it is not installed unless `CI` is set, and those who should not come in.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use support::ovs::Vswitchd;
use support::{CONFIG, Scheduler, TIMEOUT, free_port};

/// A scheduler with the certificates `ca`, `scheduler`, `switch`, and of another authority `other-ca`, `other-switch`: each a PEM file, and `.key`.
fn start(port: u16) -> Scheduler {
    let listen = format!("listen = [\"unix:switches.sock\", \"tls:127.0.0.1:{port}\"]");
    let config = CONFIG.replace("listen = [\"unix:switches.sock\"]", &listen);
    let tls = "[tls]\ncert = \"scheduler.pem\"\ncert_key = \"scheduler.pem.key\"\nca = \"ca.pem\"\n[scheduler]";
    let mut scheduler = Scheduler::with(&config.replace("[scheduler]", tls));
    make_certificates(scheduler.folder.path(), "", &["scheduler", "switch"]);
    make_certificates(scheduler.folder.path(), "other-", &["switch"]);
    scheduler.run();
    scheduler
}

fn make_certificates(folder: &Path, prefix: &str, names: &[&str]) {
    let write = |name: &str, certificate: String, key: &KeyPair| {
        std::fs::write(folder.join(format!("{prefix}{name}.pem")), certificate).unwrap();
        std::fs::write(folder.join(format!("{prefix}{name}.pem.key")), key.serialize_pem()).unwrap();
    };
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, format!("{prefix}ca"));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate().unwrap();
    write("ca", params.self_signed(&key).unwrap().pem(), &key);
    let issuer = Issuer::new(params, key);
    for name in names {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, *name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        write(name, params.signed_by(&key, &issuer).unwrap().pem(), &key);
    }
}

/// What somebody with this certificate, or none, reads first: `None` if nothing comes.
fn first_bytes(scheduler: &Scheduler, port: u16, certificate: Option<&str>) -> Option<[u8; 8]> {
    let path = |name: &str| scheduler.folder.path().join(name);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(path("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let config = match certificate {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let chain = vec![CertificateDer::from_pem_file(path(&format!("{name}.pem"))).unwrap()];
            let key = PrivateKeyDer::from_pem_file(path(&format!("{name}.pem.key"))).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let connection = ClientConnection::new(Arc::new(config), "127.0.0.1".try_into().unwrap()).unwrap();
    let mut bytes = [0; 8];
    StreamOwned::new(connection, stream).read_exact(&mut bytes).is_ok().then_some(bytes)
}

#[test]
fn only_certificates_of_the_authority_come_in() {
    let port = free_port();
    let scheduler = start(port);
    // A client that says nothing holds nobody up.
    let mut silent = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let since = Instant::now();
    assert_eq!(first_bytes(&scheduler, port, Some("other-switch")), None);
    assert_eq!(first_bytes(&scheduler, port, None), None);
    let mut plain = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    plain.write_all(&[6, 0, 0, 8, 0, 0, 0, 1]).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(answer.len() <= 7, "an alert of TLS at most: {answer:?}");
    let hello = first_bytes(&scheduler, port, Some("switch")).expect("an OpenFlow hello");
    assert_eq!((hello[0], hello[1]), (6, 0));
    assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
    silent.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(silent.read(&mut [0; 8]).unwrap(), 0, "it is closed");
    assert!((9..15).contains(&since.elapsed().as_secs()), "{:?}", since.elapsed());
    scheduler.wait_for_log("a connection was refused");
}

#[test]
fn open_vswitch_connects_over_tls() {
    let port = free_port();
    let scheduler = start(port);
    let file = |name: &str| scheduler.path(name).display().to_string();
    let with = |name: &str| {
        let files = [file(&format!("{name}.pem.key")), file(&format!("{name}.pem")), file("ca.pem")];
        Vswitchd::start(
            &scheduler.path(&format!("{name}-ovs")),
            &format!("set-ssl {}", files.join(" ")),
            &format!("ssl:127.0.0.1:{port}"),
        )
    };
    let Some(right) = with("switch") else { return };
    let status = scheduler.wait_for("it has its rules", |status| status["installed"] == 1);
    assert_eq!(status["sessions"][0]["datapath"], "0000000000000001");
    assert!(status["sessions"][0]["peer"].as_str().is_some_and(|peer| peer.ends_with(", TLS")), "{status:#}");
    drop(right);
    scheduler.wait_for("it has gone", |status| status["connected"] == 0);
    let _other = with("other-switch");
    scheduler.wait_for_log("TLS: ");
    assert_eq!(scheduler.status().0["connected"], 0);
}

#[test]
fn certificates_that_cannot_be_used() {
    let listen = "listen = [\"tls:127.0.0.1:6653\"]";
    let keys = |tls: &str| {
        CONFIG.replace("listen = [\"unix:switches.sock\"]", listen).replace("[scheduler]", &format!("{tls}[scheduler]"))
    };
    let refused = |config: &str, reason: &str| {
        let scheduler = Scheduler::with(config);
        make_certificates(scheduler.folder.path(), "", &["scheduler", "switch"]);
        std::fs::write(scheduler.path("empty.pem"), "").unwrap();
        let answer = scheduler.command_output(&["run", "--check"]);
        let text = answer.stderr.replace("  │ ", "").split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(answer.code, Some(2), "{reason}: {}", answer.stdout);
        assert!(text.contains(reason) && text.contains("help:") && text.contains("scheduler.toml:"), "{reason}: {text}");
    };
    let files =
        |cert: &str, key: &str, ca: &str| keys(&format!("[tls]\ncert = \"{cert}\"\ncert_key = \"{key}\"\nca = \"{ca}\"\n"));
    refused(&keys(""), "an address with `tls:` needs certificates");
    refused(&keys("[tls]\ncert = \"a\"\n"), "missing field `cert_key`");
    refused(&files("scheduler.pem", "scheduler.pem.key", "none.pem"), "none.pem` cannot be used for TLS");
    refused(&files("empty.pem", "scheduler.pem.key", "ca.pem"), "there is no certificate in it");
    refused(&files("scheduler.pem", "empty.pem", "ca.pem"), "empty.pem` cannot be used for TLS");
    refused(&files("scheduler.pem", "switch.pem.key", "ca.pem"), "scheduler.pem` cannot be used for TLS");
    let plain = CONFIG.replace("[scheduler]", "[tls]\ncert = \"a\"\ncert_key = \"b\"\nca = \"c\"\n[scheduler]");
    refused(&plain, "no address has TLS");
}
