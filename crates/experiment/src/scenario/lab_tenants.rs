//! `[overlay] kind = "netlord"` and `[[tenant]]` as a lab takes them: whose VMs there are, and on which hosts.

use std::path::Path;

use weft_fabric::{BitsPerSec, Duration, Fabric};
use weft_lab::plan::netlord::{ALIKE_MAX, CoreSwitch, Fib, NetlordSpec, Placement, ProviderSpec, TenantLimit, alike};
use weft_lab::plan::{Net, Store};

use crate::bundle;
use crate::error::{KeyError, Problem};
use crate::scenario::control;
use crate::scenario::directory::{Serving, ServingStore};
use crate::scenario::keys::{Keys, Numbers};
use crate::scenario::tenants::{NETLORD, read_switches};

/// One `[[tenant]]`.
struct Table {
    id: Option<u32>,
    name: Option<String>,
    count: u32,
    hosts: Vec<u32>,
    vms_per_host: u32,
    /// What the fabric lets it send: a rate, or nothing.
    limit: Option<Option<String>>,
}

/// Reads them; `None` if the overlay is another one, or none.
///
/// # Errors
/// What is wrong with them.
pub fn read(root: &Keys<'_>, folder: &Path, fabric: &Fabric) -> Result<Option<NetlordSpec>, KeyError> {
    let overlay = root.table("overlay")?;
    if overlay.raw().get("kind").and_then(toml::Value::as_str) != Some(NETLORD) {
        return Ok(None);
    }
    overlay.has("kind");
    if root.has("service") {
        let help = "leave it out, or write kind = \"vl2\" in [overlay]";
        return Err(root.error("service", "a lab of tenants has no services", help));
    }
    let file: Option<String> = overlay.opt("tenants")?;
    let provider = provider(root, &overlay, fabric)?;
    overlay.done()?;
    let keys = root.tables("tenant")?;
    if keys.is_empty() {
        return Err(root.error("tenant", "there are no tenants", "add `[[tenant]]` with hosts = \"0-3\""));
    }
    let tables = keys.iter().map(|k| Table::read(k, fabric, file.is_some())).collect::<Result<Vec<_>, _>>()?;
    let (file, placements, limits) = match file {
        Some(path) => named(&overlay, &tables, &bundle::resolve(folder, &path))?,
        None => generated(root, &tables)?,
    };
    let control = root.table("control")?;
    let spain = control::read_spain(&control)?;
    let chirp_us = read_chirp(&control)?;
    let seed = root.table("world")?.or("seed", spain.seed)?;
    let switches = root.table("switches")?;
    let fib = read_switches(&switches)?;
    if fib.ways.is_some() {
        return Err(switches.error(
            "fib_ways",
            "the tables of a lab's switches are Linux's, which have no buckets",
            "leave it out",
        ));
    }
    if !(1..=FIB_MOST).contains(&fib.entries) {
        let message = format!("switches of a lab have tables of 1 to {FIB_MOST} entries");
        return Err(switches.error("fib_entries", message, "write such as fib_entries = 4096"));
    }
    let fib = Fib {
        entries: fib.entries,
        ageing_s: (fib.ageing.as_ps() / 1_000_000_000_000).max(1),
        learn_per_second: fib.learn_rate.unwrap_or(0),
    };
    let spain = weft_fabric::routing::spain::SpainConfig { seed, ..spain };
    let core = [("ebpf", CoreSwitch::Ebpf), ("ovs", CoreSwitch::Ovs)];
    let core = root.table("switches")?.word("core", &core, CoreSwitch::Ebpf)?;
    Ok(Some(NetlordSpec { file, placements, spain, fib, limits, core, provider, chirp_us }))
}

/// The agents' addresses in tenant 1.
fn provider(root: &Keys<'_>, overlay: &Keys<'_>, fabric: &Fabric) -> Result<Option<ProviderSpec>, KeyError> {
    let is_pull = overlay.word("locations", &[("nl-arp", false), ("directory", true)], false)?;
    if !is_pull && root.has("directory") {
        let help = "write locations = \"directory\" in [overlay], or leave it out";
        return Err(root.error("directory", "the directory would be unused: agents announce VMs to each other by NL-ARP", help));
    }
    let serving = if is_pull { Some(Serving::read(&root.table("directory")?)?) } else { None };
    let directory = serving.map(|it| (it.servers, store(it.store)));
    let text = overlay.opt::<String>("provider")?.or_else(|| is_pull.then(|| PROVIDER.to_owned()));
    let Some(text) = text else { return Ok(None) };
    let subnet = Net::try_from(text.clone()).map_err(|why| overlay.error("provider", why, "write such as \"10.1.0.0/16\""))?;
    if !text.contains('/') {
        return Err(overlay.error("provider", format!("`{text}` is one address"), "write a subnet such as \"10.1.0.0/16\""));
    }
    let spec = ProviderSpec { subnet, directory };
    spec.check(fabric.host_count())
        .map_err(|why| overlay.error("provider", why.to_string(), "each host has an address, and the DHCP server"))?;
    Ok(Some(spec))
}

/// Where a lab's directory servers keep mappings.
pub const fn store(of: ServingStore) -> Store {
    match of {
        ServingStore::Embedded => Store::Embedded,
        ServingStore::Etcd => Store::Etcd,
    }
}

/// How often agents chirp, in microseconds.
fn read_chirp(keys: &Keys<'_>) -> Result<Option<u64>, KeyError> {
    let Some(period) = keys.opt::<Duration>("chirp_period")? else { return Ok(None) };
    let us = period.as_ps() / PS_PER_US;
    if us < CHIRP_LEAST_US {
        return Err(keys.error("chirp_period", format!("agents cannot chirp each {period}"), "write 10ms or more"));
    }
    Ok(Some(us))
}

impl Table {
    fn read(keys: &Keys<'_>, fabric: &Fabric, has_file: bool) -> Result<Self, KeyError> {
        let last = fabric.host_count() as u32 - 1;
        let hosts = keys.opt::<Numbers>("hosts")?.map_or_else(|| (0..=last).collect(), |n| n.0);
        let table = Self {
            id: keys.opt("id")?,
            name: keys.opt("name")?,
            count: keys.or("count", 1)?,
            hosts,
            vms_per_host: keys.or("vms_per_host", 1)?,
            limit: keys.opt::<String>("limit")?.map(|text| limit(keys, text)).transpose()?,
        };
        keys.done()?;
        if let Some(&host) = table.hosts.iter().find(|&&h| h > last) {
            return Err(keys.problem("hosts", Problem::NoHost { host, hosts: fabric.host_count() }));
        }
        if table.count == 0 || table.vms_per_host == 0 || table.hosts.is_empty() {
            return Err(keys.error("count", "nobody is there", "write 1 or more, of hosts and VMs too"));
        }
        if has_file && table.name.is_none() {
            let help = "write `name` and `hosts`: its VIFs are on these hosts in turn";
            return Err(keys.error("name", "with a tenants' file each `[[tenant]]` names one of its tenants", help));
        }
        if let Some(key) = ["id", "count", "vms_per_host"].into_iter().find(|key| has_file && keys.has(key)) {
            let message = "the tenants' file has their ids and VMs";
            return Err(keys.error(key, message, "leave it out, or leave `tenants` of [overlay] out"));
        }
        let vms = u64::from(table.count) * table.hosts.len() as u64 * u64::from(table.vms_per_host);
        if vms > VMS_MOST {
            let message = format!("{vms} VMs: a lab has at most {VMS_MOST}, each a namespace");
            return Err(keys.error("count", message, "write fewer tenants, hosts or VMs"));
        }
        if table.hosts.len() * table.vms_per_host as usize > ALIKE_MAX {
            return Err(keys.error("vms_per_host", format!("a subnet has {ALIKE_MAX} VMs or fewer"), "write fewer"));
        }
        if table.id.is_some_and(|id| !(3..=0xff_ffff - table.count).contains(&id)) {
            return Err(keys.error("id", "tenants are numbered from 3 to 16777215", "1 is the provider, 2 the public space"));
        }
        Ok(table)
    }
}

fn limit(keys: &Keys<'_>, text: String) -> Result<Option<String>, KeyError> {
    if text == "deny" {
        return Ok(None);
    }
    match text.parse::<BitsPerSec>() {
        Ok(rate) if rate.0 < 8 => {
            Err(keys.error("limit", "less than a byte a second", "write \"deny\" for a tenant that may send nothing"))
        }
        Ok(_) => Ok(Some(text)),
        Err(e) => Err(keys.error("limit", format!("`{text}` is no rate: {e}"), "write such as \"5Mbps\", or \"deny\"")),
    }
}

type Laid = (String, Vec<Placement>, Vec<TenantLimit>);

/// Tenants of a file; who they are is its to say.
fn named(overlay: &Keys<'_>, tables: &[Table], path: &Path) -> Result<Laid, KeyError> {
    let text = bundle::read_to_string(path).map_err(|e| {
        overlay.error("tenants", format!("cannot read {}: {e}", path.display()), "`weft tenant create --file FILE` makes one")
    })?;
    let tenants = weft_control::netlord::tenants::Tenants::parse(&text)
        .map_err(|e| overlay.error("tenants", format!("{}: {e}", path.display()), "docs/tenants.md has the file's schema"))?;
    let (mut placements, mut limits) = (Vec::new(), Vec::new());
    for table in tables {
        let name = table.name.clone().unwrap_or_default();
        let Some(tenant) = tenants.by_name(&name) else {
            let names: Vec<&str> = tenants.tenants.values().map(|t| t.name.as_str()).collect();
            return Err(overlay.error(
                "tenants",
                format!("the file has no tenant `{name}`"),
                format!("it has: {}", names.join(", ")),
            ));
        };
        limits.extend(table.limit.clone().map(|rate| TenantLimit { tenant: tenant.id.0, rate }));
        placements.push(Placement { tenant: name, hosts: table.hosts.clone() });
    }
    Ok((text, placements, limits))
}

/// Tenants that are made here, all with the same addresses.
fn generated(root: &Keys<'_>, tables: &[Table]) -> Result<Laid, KeyError> {
    let (mut all, mut placements, mut limits) = (Vec::new(), Vec::new(), Vec::new());
    let mut next = FIRST_ID;
    for table in tables {
        let first = table.id.unwrap_or(next);
        for id in first..first + table.count {
            let name = match (&table.name, table.count) {
                (Some(name), 1) => name.clone(),
                (Some(name), _) => format!("{name}{}", id - first + 1),
                (None, _) => format!("tenant{id}"),
            };
            if all.iter().any(|(other, taken, _)| *other == id || *taken == name) {
                let help = "give each `[[tenant]]` an `id` and a `name` of its own";
                return Err(root.error("tenant", format!("two tenants have the id {id} or the name `{name}`"), help));
            }
            limits.extend(table.limit.clone().map(|rate| TenantLimit { tenant: id, rate }));
            placements.push(Placement { tenant: name.clone(), hosts: table.hosts.clone() });
            all.push((id, name, table.hosts.len() * table.vms_per_host as usize));
        }
        next = next.max(first + table.count);
    }
    Ok((alike(&all), placements, limits))
}

/// VMs of a lab.
const VMS_MOST: u64 = 2000;
/// Entries of a lab's switch.
const FIB_MOST: u32 = 65_536;
/// Of a lab whose agents need addresses, and that does not set any.
const PROVIDER: &str = "10.1.0.0/16";
/// An agent looks at its clock no more often.
const CHIRP_LEAST_US: u64 = 10_000;
const PS_PER_US: u64 = 1_000_000;
/// Of tenants without an `id`.
const FIRST_ID: u32 = 17;
