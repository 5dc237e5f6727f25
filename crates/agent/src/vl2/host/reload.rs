//! The configuration is reloaded (SIGHUP) while packets flow: another locator, other servers, other addresses. Programs and known flows go on.

use toml::Spanned;

use super::Host;
use super::config::{HostConfig, LocatorMode, PlacementPart};
use super::link::Link;
use super::setup::{find_gateway, settings};
use crate::directory::bind;
use crate::error::{Error, Result};

impl Host {
    /// Applies a configuration. Keys that cannot change while the agent runs must be as before. On error nothing has changed.
    pub(super) fn apply_config(&mut self, config: HostConfig) -> Result<()> {
        self.check_fixed(&config)?;
        let link = Link::find(config.device.get_ref())?;
        let la = config.locator(&link)?;
        let (directory, tor) = (bind(la)?, bind(la)?);
        let gateway = link.gateway(config.towards());
        let mac = config.gateway_mac.or_else(|| gateway.and_then(|gateway| find_gateway(gateway, &link)));
        let settings = settings(&config, &link, la, mac)?;
        self.plane.apply_config(la, mac, &settings)?;
        (self.link, self.la, self.directory, self.tor, self.gateway) = (link, la, directory, tor, gateway);
        self.config = config;
        drop(self.narrow_routes());
        self.renew()
    }

    fn check_fixed(&self, new: &HostConfig) -> Result<()> {
        let old = &self.config;
        let is_same = |a: Option<&Spanned<PlacementPart>>, b: Option<&Spanned<PlacementPart>>| match (a, b) {
            (Some(a), Some(b)) => a.get_ref().is(b.get_ref()),
            (a, b) => a.is_none() && b.is_none(),
        };
        let changed = [
            ("device", old.device.get_ref() != new.device.get_ref()),
            ("socket", old.socket != new.socket),
            ("pins", old.pins() != new.pins()),
            ("metrics", old.metrics != new.metrics),
            ("locator", old.locator != new.locator || new.locator == LocatorMode::Host),
            ("placement", !is_same(old.placement.as_ref(), new.placement.as_ref())),
            ("limits", old.limits.peers != new.limits.peers || old.limits.flows != new.limits.flows),
        ];
        match changed.iter().find(|(_, is_changed)| *is_changed) {
            None => Ok(()),
            Some(("locator", _)) if old.locator == new.locator => Err(Error::NoReload("a host that is its own locator")),
            Some((key, _)) => Err(Error::Fixed(key)),
        }
    }
}
