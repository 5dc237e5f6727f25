//! `list` and `watch`, and the filters of both.

use std::net::IpAddr;

use clap::Args;
use ipnet::IpNet;
use weft_control::directory::{Generation, Key, Locator, PrincipalId, ServiceId, Value};
use weft_control::wire::directory::Entry;

use super::connect::ConnectArgs;
use super::error::{Error, Result};
use super::table;
use crate::client::{Client, split};
use crate::daemon::command_line::print_text;
use crate::entry::EntryLine;

/// Examples at the end of `weft directory list --help`.
const LIST: &str = "\
Examples:
  weft directory list
  weft directory list --service web --limit 20
  weft directory list --prefix 10.0.0.0/24 --json";

/// Examples at the end of `weft directory watch --help`.
const WATCH: &str = "\
Examples:
  weft directory watch
  weft directory watch --prefix 10.0.0.0/24 --count 10
  weft directory watch --from 1043 --json";

#[derive(Debug, Args)]
#[command(after_help = LIST)]
pub struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Stop after this number of entries
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Args)]
#[command(after_help = WATCH)]
pub struct WatchArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Start after this revision [default: the current one]
    #[arg(long, value_name = "REVISION")]
    from: Option<u64>,
    /// Stop after this number of changes
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub(super) struct FilterArgs {
    /// Only entries of this tenant
    #[arg(long, value_name = "N", help_heading = "Filters")]
    tenant: Option<u32>,
    /// Only entries of this service
    #[arg(long, value_name = "NAME|ID", help_heading = "Filters")]
    service: Option<String>,
    /// Only entries of the host with this principal
    #[arg(long, value_name = "N", help_heading = "Filters")]
    owner: Option<u32>,
    /// Only entries with this locator
    #[arg(long, value_name = "LOCATOR", help_heading = "Filters")]
    locator: Option<String>,
    /// Only addresses in this prefix: 10.0.0.0/8
    #[arg(long, value_name = "PREFIX", help_heading = "Filters")]
    prefix: Option<String>,
}

/// Lists entries.
pub fn list(args: &ListArgs) -> Result<bool> {
    let filter = Filter::new(&args.filter, &args.connect)?;
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut rows = table::new(&table::ENTRY);
    for part in split(&args.connect.settings()?)? {
        let mut client = Client::new(part.settings.clone())?;
        let (mut after, mut more) = (None, true);
        while more && left > 0 {
            let page = client.page(after, PAGE)?;
            let mut lines = String::new();
            let entries = page.entries.iter().filter(|entry| part.has(&entry.key) && filter.matches(entry));
            for entry in entries.take(left) {
                left -= 1;
                if args.connect.json {
                    lines += &EntryLine::from(entry).text();
                } else {
                    rows.add_row(table::entry(&entry.key, entry.value.as_ref(), "deleted", entry.generation.0));
                }
            }
            print_text(&lines)?;
            after = page.entries.last().map(|entry| entry.key);
            more = page.more && after.is_some();
        }
    }
    if !args.connect.json {
        print_text(&format!("{rows}\n"))?;
    }
    Ok(true)
}

/// Prints changes.
pub fn watch(args: &WatchArgs) -> Result<bool> {
    let filter = Filter::new(&args.filter, &args.connect)?;
    let mut client = args.connect.client_of_one_part()?;
    let mut from = match args.from {
        Some(from) => Generation(from),
        None => client.revision()?,
    };
    let mut left = args.count.unwrap_or(usize::MAX);
    // A server that goes away is followed by another, from where the first one was.
    loop {
        match follow(&mut client, &filter, &mut from, &mut left, args.connect.json)? {
            Ended::Enough => return Ok(true),
            Ended::Forgotten(at) => {
                let text = format!("changes between {} and {} are forgotten: list, then watch again\n", from.0, at.0);
                std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes()).unwrap_or(());
                return Ok(false);
            }
            Ended::Broken => {}
        }
    }
}

enum Ended {
    Enough,
    Forgotten(Generation),
    Broken,
}

fn follow(client: &mut Client, filter: &Filter, from: &mut Generation, left: &mut usize, json: bool) -> Result<Ended> {
    let mut watching = client.watch(*from)?;
    while *left > 0 {
        let Ok(Some(change)) = watching.next(None) else { return Ok(Ended::Broken) };
        if change.from > *from {
            return Ok(Ended::Forgotten(change.from));
        }
        for entry in change.entries.iter().filter(|entry| entry.generation > *from && filter.matches(entry)).take(*left) {
            *left -= 1;
            print_text(&if json { EntryLine::from(entry).text() } else { line(entry) })?;
        }
        *from = change.revision.max(*from);
    }
    Ok(Ended::Enough)
}

/// A change as a line for people: a table cannot grow.
fn line(entry: &Entry) -> String {
    let [key, at, group, service, owner, lease, generation] =
        table::entry(&entry.key, entry.value.as_ref(), "deleted", entry.generation.0);
    if entry.value.is_none() {
        return format!("{generation}  {key}  deleted\n");
    }
    let mut text = format!("{generation}  {key}  {at}");
    for (name, value) in [("group", group), ("service", service), ("owner", owner), ("lease", lease)] {
        if value != "-" {
            text += &format!("  {name} {value}");
        }
    }
    text + "\n"
}

/// What is to be seen.
pub(super) struct Filter {
    tenant: Option<u32>,
    service: Option<ServiceId>,
    owner: Option<PrincipalId>,
    locator: Option<Locator>,
    prefix: Option<IpNet>,
}

impl Filter {
    pub(super) fn new(args: &FilterArgs, connect: &ConnectArgs) -> Result<Self> {
        Ok(Self {
            tenant: args.tenant,
            service: args.service.as_deref().map(|service| connect.service(service, true)).transpose()?,
            owner: args.owner.map(PrincipalId),
            locator: args.locator.as_deref().map(str::parse).transpose()?,
            prefix: args.prefix.as_deref().map(prefix).transpose()?,
        })
    }

    pub(super) fn matches(&self, entry: &Entry) -> bool {
        let of_key = self.tenant.is_none_or(|tenant| entry.key.tenant().is_some_and(|it| it.0 == tenant))
            && self.prefix.is_none_or(|prefix| address(&entry.key).is_some_and(|ip| prefix.contains(&ip)));
        let of_value = match &entry.value {
            // Nobody knows whose it was.
            None => true,
            Some(Value::Mapping(it)) => {
                self.service.is_none_or(|service| it.service == service)
                    && self.owner.is_none_or(|owner| it.owner == owner)
                    && self.locator.is_none_or(|locator| it.locator == locator)
            }
            Some(Value::Group(_)) => self.service.is_none() && self.owner.is_none() && self.locator.is_none(),
        };
        of_key && of_value
    }
}

fn address(key: &Key) -> Option<IpAddr> {
    match *key {
        Key::App4(ip) | Key::TenantIp4(_, _, ip) => Some(ip.into()),
        Key::App6(ip) | Key::TenantIp6(_, _, ip) => Some(ip.into()),
        Key::TenantMac(..) | Key::Group(_) => None,
    }
}

fn prefix(text: &str) -> Result<IpNet> {
    text.parse().map_err(|_| Error::Prefix(text.to_owned()))
}

/// Entries asked for at once.
pub const PAGE: u16 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_contain_what_they_should() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.0.0.7/32", "10.0.0.7", "10.0.0.6"),
            ("0.0.0.0/0", "1.2.3.4", "::1"),
            ("2001:db8::/32", "2001:db8:1::", "2001:db9::"),
        ] {
            let prefix = prefix(text).unwrap();
            assert!(prefix.contains(&ip(inside)) && !prefix.contains(&ip(outside)), "{text}");
        }
        for text in ["10.0.0.0", "10.0.0.0/33", "x/8", "::/129"] {
            assert!(prefix(text).is_err(), "{text}");
        }
    }
}
