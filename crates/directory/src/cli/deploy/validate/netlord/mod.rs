//! NetLord in an inventory: what its machines, cables and tenants are, together.

mod hosts;
mod switches;
mod tenants;

use std::collections::BTreeMap;

use toml::Spanned;
use weft_control::netlord::tenants::Tenants;
use weft_fabric::routing::spain::SpainError;
use weft_fabric::topology::FabricError;

use super::{Check, Once, is_interface, list};
use crate::cli::deploy::error::Result;
use crate::cli::deploy::netlord::inventory::{Netlord, Switch};
use crate::cli::deploy::netlord::layout::Layout;
use crate::cli::deploy::netlord::spain::{LayoutError, layout};

/// Interfaces of switches that something is plugged into.
type Ports = Once<String>;

impl Check<'_> {
    /// The VLANs and the tenants of `[netlord]`, if all of it is right.
    pub(super) fn netlord(&self) -> Result<Option<(Layout, Tenants)>> {
        let Some(netlord) = self.it.netlord() else { return Ok(None) };
        self.one_overlay(netlord)?;
        let mut ports = Ports::of("the port");
        self.bridges(netlord, &mut ports)?;
        self.cables(netlord, &mut ports)?;
        self.netlord_hosts(netlord, &mut ports)?;
        self.plugged(netlord)?;
        self.locations(netlord)?;
        self.tenant_limits(netlord)?;
        let tenants = self.tenants(netlord)?;
        self.vifs(netlord)?;
        Ok(Some((self.layout(netlord)?, tenants)))
    }

    /// A machine runs one agent.
    fn one_overlay(&self, netlord: &Netlord) -> Result<()> {
        let hosts = self.it.host.iter().map(|it| (&it.name, "[[host]]"));
        let vl2 = self.it.switch.iter().map(|it| (&it.name, "[[switch]]")).chain(hosts);
        let vl2: BTreeMap<&str, _> = vl2.map(|it| (it.0.get_ref().as_str(), it)).collect();
        let names = netlord.switch.iter().map(|it| &it.name).chain(netlord.host.iter().map(|it| &it.name));
        for name in names {
            if let Some((first, table)) = vl2.get(name.get_ref().as_str()) {
                let line = self.place.line(first.span());
                let message =
                    format!("{} is in {table} (line {line}) too: a machine runs the agent of one overlay", name.get_ref());
                return self.wrong(name.span(), &message, "remove one of the two, or give the machines different names");
            }
        }
        Ok(())
    }

    /// An interface of a switch, written as `switch:interface`, that nothing else is plugged into.
    fn plug<'a>(&self, netlord: &'a Netlord, end: &Spanned<String>, owner: &str, ports: &mut Ports) -> Result<&'a Switch> {
        let found = end.get_ref().split_once(':').filter(|(_, interface)| is_interface(interface));
        let Some((name, _)) = found else {
            let message = format!("`{}` is no interface of a switch", end.get_ref());
            return self.wrong(end.span(), &message, "write the switch and its interface, such as \"edge1:swp1\"");
        };
        let switch = self.bridge(netlord, name, end)?;
        ports.add(self, end, owner)?;
        Ok(switch)
    }

    fn bridge<'a>(&self, netlord: &'a Netlord, name: &str, at: &Spanned<String>) -> Result<&'a Switch> {
        if let Some(switch) = netlord.switch.iter().find(|it| it.name.get_ref() == name) {
            return Ok(switch);
        }
        let known = list(netlord.switch.iter().map(|it| it.name.get_ref()));
        if self.it.switch.iter().any(|it| it.name.get_ref() == name) {
            let message = format!("switch {name} is VL2's, which routes: NetLord's servers need a bridge");
            return self.wrong(at.span(), &message, &format!("name one of [[netlord.switch]]: {known}"));
        }
        let help = format!("add [[netlord.switch]] of that name, or name one of: {known}");
        self.wrong(at.span(), &format!("there is no switch `{name}`"), &help)
    }

    /// The VLANs. What is left to go wrong is a fabric in parts, and SPAIN's numbers.
    fn layout(&self, netlord: &Netlord) -> Result<Layout> {
        layout(netlord).or_else(|error| {
            let text = error.to_string();
            match error {
                LayoutError::Spain(SpainError::Trees(_)) => {
                    self.wrong(netlord.trees.span(), &text, "leave `trees` out: two survive the failure of one cable")
                }
                LayoutError::Spain(_) => {
                    self.wrong(netlord.paths.span(), &text, "leave `paths` out for at most 16, or write fewer")
                }
                LayoutError::Fabric(FabricError::Disconnected { to, .. }) => {
                    let names = netlord.switch.iter().map(|it| &it.name).chain(netlord.host.iter().map(|it| &it.name));
                    let at = names.into_iter().find(|it| *it.get_ref() == to).map_or(0..0, Spanned::span);
                    self.wrong(
                        at,
                        &text,
                        "add [[netlord.cable]] between the parts; or describe each part in an inventory of its own",
                    )
                }
                LayoutError::Fabric(_) => self.wrong(self.it.place_of_netlord(), &text, "see docs/deploying.md"),
            }
        })
    }
}
