//! `init` and `key`: the folder of a directory on one machine, and the keys of hosts.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use weft_control::directory::PrincipalId;
use weft_control::directory::auth::Secret;
use weft_control::wire::vl2::attach::AttachKey;
use weft_control::wire::vl2::placement::PlacementKey;

use super::certificates::{self, Pair};
use super::connect::{DEFAULT_DIR, DEFAULT_LISTEN, Dir};
use super::error::{Error, Result};
use crate::daemon::command_line::{print_json, print_text};

/// Examples at the end of `weft directory init --help`.
const INIT: &str = "\
Examples:
  weft directory init
  weft directory init /etc/weft/directory --listen 10.0.0.1:5303
  weft directory init --listen 10.0.0.1:5303 --name dir1.example.org";

/// Examples at the end of `weft directory key --help`.
const KEY: &str = "\
Examples:
  weft directory key --principal 17           key of host 17
  weft directory key --principal 17 --attach  its key for its ToR
  weft directory key --principal 3 --certificate admin3.pem --days 365";

#[derive(Debug, Args)]
#[command(after_help = INIT)]
pub struct InitArgs {
    /// Folder to create
    #[arg(value_name = "DIR", env = "WEFT_DIRECTORY", default_value = DEFAULT_DIR)]
    dir: PathBuf,
    /// Address at which the server will listen
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_LISTEN)]
    listen: std::net::SocketAddr,
    /// Another name or address of the server, for its certificate; repeatable
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = KEY)]
pub struct KeyArgs {
    /// Principal whose key is printed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    principal: u32,
    /// Print the key with which this host and its ToR authenticate each other, derived from the principal's key
    #[arg(long, conflicts_with = "certificate")]
    attach: bool,
    /// Print the key with which this host and the scheduler of its large flows authenticate each other, derived from the principal's key
    #[arg(long, conflicts_with_all = ["certificate", "attach"])]
    placement: bool,
    /// Also write a certificate of this principal to this file, and its key to the same path with the extension .key
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Make it a server's certificate, for a server with this name or address; repeatable
    #[arg(long, value_name = "NAME", requires = "certificate")]
    name: Vec<String>,
    /// Days until the certificate expires [default: never]
    #[arg(long, value_name = "N", requires = "certificate", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: Option<u32>,
    #[command(flatten)]
    dir: Dir,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The server that `init` makes.
const SERVER: PrincipalId = PrincipalId(1);
/// The administrator that `init` makes.
const ADMIN: PrincipalId = PrincipalId(2);

/// Makes the folder.
pub fn run(args: &InitArgs) -> Result<bool> {
    let dir = &args.dir;
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|e| Error::io("make", dir, e))?;
    let secret_file = dir.join("secret");
    if secret_file.exists() {
        return Err(Error::HasSecret(dir.to_owned()));
    }
    let secret = Secret::new(crate::client::random());
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    names.push(args.listen.ip().to_string());
    names.extend(args.name.iter().cloned());
    names.dedup();
    let signing = Error::Sign;
    let authority = certificates::authority().map_err(signing)?;
    let server = certificates::signed(&authority.key, SERVER, &names, None).map_err(signing)?;
    let admin = certificates::signed(&authority.key, ADMIN, &[], None).map_err(signing)?;
    let client = format!(
        "# Whom the commands of `weft directory` ask, and as whom.\nservers = [\"{0}\"]\nprincipal = {1}\nauth = \"tls\" # or \"mac\", as the servers have it\n\n# Where `weft directory serve` listens with this folder; delete the line on machines that only ask.\nlisten = \"{0}\"\n",
        args.listen, ADMIN.0
    );
    let files = [
        ("secret", secret.to_hex() + "\n", true),
        ("ca.pem", authority.certificate, false),
        ("ca.key", authority.key, true),
        ("server.pem", server.certificate, false),
        ("server.key", server.key, true),
        ("admin.pem", admin.certificate, false),
        ("admin.key", admin.key, true),
        ("policy.toml", POLICY.to_owned(), false),
        ("client.toml", client, false),
    ];
    let paths: Vec<_> = files.iter().map(|(name, text, private)| (dir.join(name), text.as_str(), *private)).collect();
    write_all_new(&paths)?;
    let serve = format!("weft directory serve --dir {}", dir.display());
    if args.json {
        let files = files.iter().map(|(name, ..)| *name).collect();
        let principals = Principals { server: SERVER.0, admin: ADMIN.0 };
        print_json(&InitJson { dir: dir.display().to_string(), serve, principals, files })?;
    } else {
        print_text(&format!("{} has a secret, certificates, policy.toml and client.toml. Now:\n  {serve}\n", dir.display()))?;
    }
    Ok(true)
}

/// Prints a key.
pub fn key(args: &KeyArgs) -> Result<bool> {
    let principal = PrincipalId(args.principal);
    let key = args.dir.secret(None)?.key_of(principal);
    let key = match (args.attach, args.placement) {
        (true, _) => AttachKey::of(&key).to_hex(),
        (_, true) => PlacementKey::of(&key).to_hex(),
        _ => key.to_hex(),
    };
    if let Some(file) = &args.certificate {
        let authority = args.dir.file("ca.key");
        let authority = std::fs::read_to_string(&authority).map_err(|e| Error::io("read the authority's key", &authority, e))?;
        let Pair { certificate, key } =
            certificates::signed(&authority, principal, &args.name, args.days).map_err(Error::Sign)?;
        write_all_new(&[(file.clone(), certificate.as_str(), false), (file.with_extension("key"), key.as_str(), true)])?;
    }
    if args.json {
        print_json(&KeyJson { principal: principal.0, key })?;
    } else {
        print_text(&format!("{key}\n"))?;
    }
    Ok(true)
}

#[derive(Serialize)]
struct InitJson {
    dir: String,
    serve: String,
    principals: Principals,
    files: Vec<&'static str>,
}

#[derive(Serialize)]
struct Principals {
    server: u32,
    admin: u32,
}

#[derive(Serialize)]
struct KeyJson {
    principal: u32,
    key: String,
}

/// Writes files that are not there yet, with their contents and whether they are for their owner alone: all or none.
fn write_all_new(files: &[(PathBuf, &str, bool)]) -> Result<()> {
    for (at, (file, text, private)) in files.iter().enumerate() {
        let mode = if *private { 0o600 } else { 0o644 };
        let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file);
        let mine = at + usize::from(opened.is_ok());
        let written = opened.and_then(|mut opened| opened.write_all(text.as_bytes()).and_then(|()| opened.sync_all()));
        if let Err(e) = written {
            for (begun, ..) in &files[..mine] {
                let _ = std::fs::remove_file(begun);
            }
            return Err(match e.kind() {
                std::io::ErrorKind::AlreadyExists => Error::Exists(file.clone()),
                _ => Error::io("write", file, e),
            });
        }
    }
    Ok(())
}

const POLICY: &str = r#"# Who may resolve whom, and who is more than a host. docs/directory.md has every key.
# After a change: raise `version`, and send SIGHUP to the servers.
version = 1

# A service is a group of hosts. Its hosts may resolve each other; `allow` names the services whose hosts may resolve them besides, "*" all.
# [[service]]
# name = "web"
# id = 1
# allow = ["*"]
#
# [[service]]
# name = "database"
# id = 2
# allow = ["web"]

[[principal]]
id = 1
role = "server"

[[principal]]
id = 2
role = "admin"

# What puts mappings; with `services` those of these services only.
# [[principal]]
# id = 3
# role = "provisioner"
# services = ["web", "database"]

# A switch may report misdelivered packets. A principal that is not listed is a host.
# [[principal]]
# id = 40
# role = "switch"
"#;
