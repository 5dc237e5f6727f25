//! Directory servers of an inventory, their stores, and the parts of a divided directory.

use std::ops::Range;

use toml::Spanned;
use weft_control::directory::parts::{MAX_PART_SERVERS, PartMap, PartsError};
use weft_control::prefix::Prefix;

use super::{Check, Once, list};
use crate::cli::connect::Auth;
use crate::cli::deploy::error::Result;
use crate::cli::deploy::inventory::{LocatorMode, SwitchRole};
use crate::cli::deploy::parts::{Part, Tenants};
use crate::daemon::tls::plaintext;

impl Check<'_> {
    pub(super) fn servers(&self) -> Result<()> {
        if self.it.directory.server.is_empty() && self.it.netlord().is_some() && !self.it.has_vl2() {
            return self.without_servers();
        }
        if self.it.directory.server.is_empty() {
            return self.wrong(0..0, "no directory server", "add [[directory.server]] with name, address and principal");
        }
        self.division()?;
        self.etcd_files()?;
        self.authentication()
    }

    /// NetLord's agents can do without a directory, which then has nothing either.
    fn without_servers(&self) -> Result<()> {
        match self.it.directory.part.first() {
            None => Ok(()),
            Some(part) => {
                let message = format!("part `{}` has no servers", part.name.get_ref());
                self.wrong(part.name.span(), &message, "add [[directory.server]] with this `part`, or remove the part")
            }
        }
    }

    /// An undivided directory with one store, or parts.
    fn division(&self) -> Result<()> {
        let directory = &self.it.directory;
        if directory.part.is_empty() {
            if let Some(part) = directory.server.iter().find_map(|it| it.part.as_ref()) {
                let message = format!("there is no part `{}`", part.get_ref());
                let help = "add [[directory.part]] of that name; or remove `part`, if the directory is not divided";
                return self.wrong(part.span(), &message, help);
            }
            return self.store(None);
        }
        if let Some(etcd) = &directory.etcd {
            let help = "write `etcd` in each [[directory.part]], of other members each";
            return self.wrong(etcd.span(), "the directory is divided: each part has a store of its own", help);
        }
        self.names_of_parts()?;
        directory.part.iter().try_for_each(|part| self.store(Some(part)))?;
        self.stores_differ()?;
        self.prefixes_of_parts()?;
        self.map_of_parts()
    }

    /// Each part has its own name, and each server one of them.
    fn names_of_parts(&self) -> Result<()> {
        let mut names = Once::of("the name");
        for Part { name, .. } in &self.it.directory.part {
            self.name(name, "a part")?;
            names.add(self, name, &format!("part `{}`", name.get_ref()))?;
        }
        let known = || list(self.it.directory.part.iter().map(|it| it.name.get_ref()));
        for server in &self.it.directory.server {
            let name = server.name.get_ref();
            let Some(part) = &server.part else {
                let help = format!("the directory is divided: add `part`, one of: {}", known());
                return self.wrong(server.name.span(), &format!("directory server {name} has no part"), &help);
            };
            if self.it.part(part.get_ref()).is_none() {
                let help = format!("add [[directory.part]] of that name, or name one of: {}", known());
                return self.wrong(part.span(), &format!("there is no part `{}`", part.get_ref()), &help);
            }
        }
        Ok(())
    }

    /// The servers of one store, and its place. `part` is none in an undivided directory.
    fn store(&self, part: Option<&Part>) -> Result<()> {
        let servers = self.it.servers_of(part);
        let owner = part.map_or_else(|| "the directory".to_owned(), |it| format!("part `{}`", it.name.get_ref()));
        let section = part.map_or("[directory]", |_| "its [[directory.part]]");
        let Some(first) = servers.first() else {
            let help = "add [[directory.server]] with this `part`, or remove the part";
            return self.wrong(part.map_or(0..0, |it| it.name.span()), &format!("{owner} has no servers"), help);
        };
        if first.replica {
            let help = "remove `replica` of one of them, or add a server without: replicas write nothing, and set up no store";
            return self.wrong(first.name.span(), &format!("{owner} has only replicas"), help);
        }
        if let Some(part) = part.filter(|_| servers.len() > MAX_PART_SERVERS) {
            let message = format!("{owner} has {} servers, more than {MAX_PART_SERVERS}", servers.len());
            return self.wrong(part.name.span(), &message, "remove some, or divide its keys between two parts");
        }
        let Some(etcd) = self.it.etcd_of(part) else {
            let help = format!("list its endpoints: etcd = [\"https://10.1.2.1:2379\", ...] in {section}");
            return match (servers.iter().find(|it| it.replica), servers.get(1)) {
                (Some(replica), _) => {
                    let name = replica.name.get_ref();
                    let message = format!("replica {name} follows etcd, and {owner} has the embedded store");
                    self.wrong(replica.name.span(), &message, &help)
                }
                (None, Some(second)) => self.wrong(second.name.span(), "several directory servers need etcd", &help),
                (None, None) => Ok(()),
            };
        };
        self.endpoints(etcd)
    }

    fn endpoints(&self, etcd: &Spanned<Vec<String>>) -> Result<()> {
        let is_url =
            |it: &String| (it.starts_with("http://") || it.starts_with("https://")) && !it.contains([' ', '"', '\'', ',']);
        if let Some(bad) = etcd.get_ref().iter().find(|it| !is_url(it)) {
            return self.wrong(etcd.span(), &format!("`{bad}` is no endpoint"), "write such as \"https://10.1.2.1:2379\"");
        }
        if let (Some(url), false) = (plaintext(etcd.get_ref()), self.it.directory.etcd_plaintext) {
            let help = "write https:// and etcd_ca; or allow it with etcd_plaintext = true";
            return self.wrong(etcd.span(), &format!("{url} is etcd on another machine without TLS"), help);
        }
        Ok(())
    }

    /// Two parts in one etcd would overwrite each other's keys.
    fn stores_differ(&self) -> Result<()> {
        let mut stores = Once::of("the endpoint");
        for part in &self.it.directory.part {
            let Some(etcd) = &part.etcd else { continue };
            let mut endpoints: Vec<&String> = etcd.get_ref().iter().collect();
            endpoints.sort_unstable();
            endpoints.dedup();
            for endpoint in endpoints {
                let endpoint = Spanned::new(etcd.span(), endpoint.trim_end_matches('/').to_owned());
                stores.add(self, &endpoint, &format!("part `{}`", part.name.get_ref()))?;
            }
        }
        Ok(())
    }

    /// A prefix has one part, and application addresses.
    fn prefixes_of_parts(&self) -> Result<()> {
        let mut once: Once<Prefix> = Once::of("the prefix");
        for part in &self.it.directory.part {
            for prefix in part.prefixes.iter().chain(&part.incoming.prefixes) {
                if !self.it.network.prefixes.get_ref().iter().any(|it| it.overlaps(prefix.get_ref())) {
                    let message = format!("{} has no application addresses", prefix.get_ref());
                    return self.wrong(prefix.span(), &message, "give a prefix inside of `prefixes` of [network]");
                }
            }
            for prefix in &part.prefixes {
                once.add(self, prefix, &format!("part `{}`", part.name.get_ref()))?;
            }
        }
        Ok(())
    }

    /// What else the servers would refuse.
    fn map_of_parts(&self) -> Result<()> {
        let part = |it: &Part| it.with_servers(self.it.addresses_of(Some(it)));
        let parts = self.it.directory.part.iter().map(part).collect::<Result<_, PartsError>>();
        parts.and_then(PartMap::new).map(drop).or_else(|error| {
            let text = error.to_string();
            let (message, help) = text.rsplit_once(": ").unwrap_or((&text, "use fewer"));
            self.wrong(self.place_in_parts(&error), message, help)
        })
    }

    /// Where the parts of the inventory have what is wrong: of what is there twice, the second place.
    fn place_in_parts(&self, error: &PartsError) -> Range<usize> {
        let parts = &self.it.directory.part;
        let tenants = || parts.iter().flat_map(|it| it.tenants.iter().chain(&it.incoming.tenants));
        let found = match error {
            PartsError::Name(name) | PartsError::Twice(name) | PartsError::Servers(name) | PartsError::Empty(name) => {
                self.it.part(name).map(|it| it.name.span())
            }
            PartsError::Tenants { text, .. } => tenants().find(|it| it.get_ref().to_string() == *text).map(Spanned::span),
            PartsError::TenantTwice(tenant) => {
                let has = |part: &Part, it: &Spanned<Tenants>| part.range(it).is_ok_and(|range| range.contains(tenant));
                let of = |part: &Part| part.tenants.iter().rfind(|it| has(part, it)).map(Spanned::span);
                parts.iter().rev().find_map(of)
            }
            PartsError::Default(_) => parts.iter().rfind(|it| it.default).map(|it| it.name.span()),
            PartsError::ServerTwice(_) | PartsError::PrefixTwice(_) | PartsError::Prefix { .. } | PartsError::TooMany => None,
        };
        found.unwrap_or_else(|| parts[0].name.span())
    }

    fn etcd_files(&self) -> Result<()> {
        let directory = &self.it.directory;
        let is_path = |it: &str| it.starts_with('/') && !it.contains([' ', '"', '\'', '\\', '$', '%', '\n']);
        if let Some((_, file)) = directory.etcd_files().find(|(_, file)| !is_path(file.get_ref())) {
            let message = format!("`{}` is no place on a server", file.get_ref());
            return self.wrong(file.span(), &message, "write a path from the root without spaces");
        }
        if let (Some(one), None) | (None, Some(one)) = (&directory.etcd_cert, &directory.etcd_cert_key) {
            return self.wrong(one.span(), "etcd_cert and etcd_cert_key belong together", "write both");
        }
        Ok(())
    }

    fn authentication(&self) -> Result<()> {
        if let Some(auth) = &self.it.directory.auth
            && *auth.get_ref() == Auth::Tls
            && self.it.network.locator == LocatorMode::Tor
            && self.it.agents_of_switches().any(|it| it.role == SwitchRole::Tor)
        {
            return self.wrong(auth.span(), "ToRs bring addresses to themselves by keyed MACs", "write auth = \"mac\"");
        }
        Ok(())
    }
}
