//! Changes of a tenants' file, as text: a table is appended or taken out, the version counts up, and all else stays as it is. The caller parses the result
//! before it is written.

use std::fmt::Write as _;

use super::raw;
use crate::prefix::Prefix;

/// `[[tenant]]`.
#[derive(Clone, Debug)]
pub struct NewTenant<'a> {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: &'a str,
    /// Its MAC spaces; none: the default.
    pub spaces: &'a [u32],
    /// The agents that may read its records; `None`: all.
    pub readers: Option<&'a [u32]>,
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
    if let Some(readers) = new.readers {
        let _ = writeln!(out, "readers = {readers:?}");
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

/// A table of the file, as far as it says what it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table<'a> {
    /// A tenant.
    Tenant(&'a str),
    /// A VIF: tenant, name.
    Vif(&'a str, &'a str),
    /// A virtual router: tenant, name.
    Router(&'a str, &'a str),
    /// A route of a virtual router: tenant, router, to where.
    Route(&'a str, &'a str, Option<Prefix>),
    /// A rule of a virtual router: tenant, router.
    Rule(&'a str, &'a str),
}

impl Table<'_> {
    /// Whose it is.
    pub const fn tenant(&self) -> &str {
        match self {
            Self::Tenant(tenant)
            | Self::Vif(tenant, _)
            | Self::Router(tenant, _)
            | Self::Route(tenant, ..)
            | Self::Rule(tenant, _) => tenant,
        }
    }
}

/// The file without some of its tables, which are looked at in order. Comments stay.
pub fn without(text: &str, mut is_doomed: impl FnMut(Table<'_>) -> bool) -> String {
    let kept = blocks(text).into_iter().map(|block| {
        if !of_table(block, &mut is_doomed) {
            return block;
        }
        // A comment before the next table is that one's.
        let own = block.lines().rev().skip_while(|line| line.trim().is_empty() || line.trim_start().starts_with('#')).count();
        let end: usize = block.split_inclusive('\n').take(own).map(str::len).sum();
        &block[end..]
    });
    next_version(&kept.collect::<String>())
}

/// The file with other readers of a tenant; `None`: all may read it.
pub fn with_readers(text: &str, tenant: &str, readers: Option<&[u32]>) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    for block in blocks(text) {
        if !of_table(block, &mut |table| table == Table::Tenant(tenant)) {
            out.push_str(block);
            continue;
        }
        let mut lines = block.split_inclusive('\n');
        out.push_str(lines.next().unwrap_or_default());
        if let Some(readers) = readers {
            let _ = writeln!(out, "readers = {readers:?}");
        }
        lines.filter(|line| !line.trim_start().starts_with("readers")).for_each(|line| out.push_str(line));
    }
    next_version(&out)
}

/// The text in pieces, each of which begins with a table's heading; but the first.
pub(super) fn blocks(text: &str) -> Vec<&str> {
    let mut blocks = Vec::new();
    let (mut begin, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        if at > begin && line.trim_start().starts_with("[[") {
            blocks.push(&text[begin..at]);
            begin = at;
        }
        at += line.len();
    }
    blocks.push(&text[begin..]);
    blocks
}

/// What `decide` says of the one table of a piece of text.
fn of_table(block: &str, decide: &mut impl FnMut(Table<'_>) -> bool) -> bool {
    if !block.trim_start().starts_with("[[") {
        return false;
    }
    let Ok(raw::File { tenant, vif, router, route, rule, .. }) = toml::from_str(&format!("version = 1\n{block}")) else {
        return false;
    };
    let tenants = tenant.iter().map(|it| Table::Tenant(&it.name));
    let vifs = vif.iter().map(|it| Table::Vif(&it.tenant, &it.name));
    let routers = router.iter().map(|it| Table::Router(&it.tenant, &it.name));
    let routes = route.iter().map(|it| Table::Route(&it.tenant, &it.router, it.to.parse().ok()));
    let rules = rule.iter().map(|it| Table::Rule(&it.tenant, &it.router));
    tenants.chain(vifs).chain(routers).chain(routes).chain(rules).next().is_some_and(decide)
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
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
