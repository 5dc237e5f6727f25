//! Changes of a tenants' file, as text: a table is appended, the version counts up, and all else stays as it is. The caller parses the result before it
//! is written.

use std::fmt::Write as _;

/// `[[tenant]]`.
#[derive(Clone, Debug)]
pub struct NewTenant<'a> {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: &'a str,
    /// Its MAC spaces; none: the default.
    pub spaces: &'a [u32],
}

/// `[[vif]]`.
#[derive(Clone, Debug)]
pub struct NewVif<'a> {
    /// Whose.
    pub tenant: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its MAC space, a number or `public`; none: the only one.
    pub space: Option<&'a str>,
    /// Its MAC address.
    pub mac: String,
    /// Its addresses.
    pub addresses: Vec<String>,
}

/// `[[router]]`; of each interface the MAC space, the MAC address, and the address with its prefix length.
#[derive(Clone, Debug)]
pub struct NewRouter<'a> {
    /// Whose.
    pub tenant: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its interfaces.
    pub interfaces: Vec<(u32, String, String)>,
}

/// `[[route]]`.
#[derive(Clone, Debug)]
pub struct NewRoute<'a> {
    /// Whose.
    pub tenant: &'a str,
    /// Of which router.
    pub router: &'a str,
    /// To where.
    pub to: &'a str,
    /// By whom.
    pub via: &'a str,
}

/// `[[rule]]`.
#[derive(Clone, Debug)]
pub struct NewRule<'a> {
    /// Whose.
    pub tenant: &'a str,
    /// Of which router.
    pub router: &'a str,
    /// Pairs of keys and values, in the file's words; numbers as numbers.
    pub keys: Vec<(&'a str, String)>,
}

/// The file with one more tenant; from nothing, a new file.
pub fn append_tenant(text: &str, new: &NewTenant<'_>) -> String {
    let mut out = next_version(if text.trim().is_empty() { "version = 0\n" } else { text });
    let _ = write!(out, "\n[[tenant]]\nid = {}\nname = {}\n", new.id, quoted(new.name));
    if !new.spaces.is_empty() {
        let _ = writeln!(out, "spaces = {:?}", new.spaces);
    }
    out
}

/// The file with one more VIF.
pub fn append_vif(text: &str, new: &NewVif<'_>) -> String {
    let mut out = next_version(text);
    let _ = write!(out, "\n[[vif]]\ntenant = {}\nname = {}\n", quoted(new.tenant), quoted(new.name));
    if let Some(space) = new.space {
        let _ = writeln!(out, "space = {}", number_or_quoted(space));
    }
    let _ = writeln!(out, "mac = {}", quoted(&new.mac));
    if !new.addresses.is_empty() {
        let all: Vec<_> = new.addresses.iter().map(|ip| quoted(ip)).collect();
        let _ = writeln!(out, "addresses = [{}]", all.join(", "));
    }
    out
}

/// The file with one more virtual router.
pub fn append_router(text: &str, new: &NewRouter<'_>) -> String {
    let mut out = next_version(text);
    let _ = write!(out, "\n[[router]]\ntenant = {}\nname = {}\ninterfaces = [\n", quoted(new.tenant), quoted(new.name));
    for (space, mac, address) in &new.interfaces {
        let _ = writeln!(out, "  {{ space = {space}, mac = {}, address = {} }},", quoted(mac), quoted(address));
    }
    out.push_str("]\n");
    out
}

/// The file with one more route.
pub fn append_route(text: &str, new: &NewRoute<'_>) -> String {
    let mut out = next_version(text);
    let _ = write!(out, "\n[[route]]\ntenant = {}\nrouter = {}\n", quoted(new.tenant), quoted(new.router));
    let _ = write!(out, "to = {}\nvia = {}\n", quoted(new.to), quoted(new.via));
    out
}

/// The file with one more rule.
pub fn append_rule(text: &str, new: &NewRule<'_>) -> String {
    let mut out = next_version(text);
    let _ = write!(out, "\n[[rule]]\ntenant = {}\nrouter = {}\n", quoted(new.tenant), quoted(new.router));
    for (key, value) in &new.keys {
        let _ = writeln!(out, "{key} = {}", number_or_quoted(value));
    }
    out
}

/// The text with the first `version` counted up, ending in a newline.
fn next_version(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 256);
    let mut done = false;
    for line in text.lines() {
        let number = if done { None } else { version(line) };
        match number {
            Some((before, number, after)) => {
                let _ = writeln!(out, "{before}{}{after}", number + 1);
                done = true;
            }
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}

/// What stands before, in and after the number of a line `version = N`.
fn version(line: &str) -> Option<(&str, u64, &str)> {
    let rest = line.trim_start().strip_prefix("version")?.trim_start().strip_prefix('=')?.trim_start();
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let before = line.len() - rest.len();
    Some((&line[..before], rest[..digits].parse().ok()?, &rest[digits..]))
}

fn number_or_quoted(text: &str) -> String {
    if text.parse::<u32>().is_ok() { text.to_owned() } else { quoted(text) }
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
