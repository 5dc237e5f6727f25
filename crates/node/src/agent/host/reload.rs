//! A configuration that is read anew (SIGHUP) while packets flow: another place, other servers, other addresses. The programs go on, and so do known flows.

use super::Host;
use super::config::{HostConfig, LocatorMode};
use super::link::Link;
use super::setup;
use crate::cli::{Error, Result};

impl Host {
    /// Takes over a configuration. What an agent cannot change while it runs must be as it was; then nothing is changed on error.
    pub(super) fn take_over(&mut self, config: HostConfig) -> Result<()> {
        self.check_fixed(&config)?;
        let link = Link::find(config.device.get_ref())?;
        let la = setup::own_la(&config, &link)?;
        let (directory, tor) = (setup::bind(la)?, setup::bind(la)?);
        let gateway = link.gateway(setup::towards(&config));
        let mac = config.gateway_mac.or_else(|| gateway.and_then(|gateway| setup::find_gateway(gateway, &link)));
        let settings = setup::settings(&config, &link, la, mac)?;
        self.plane.take_over(la, mac, &settings)?;
        (self.link, self.la, self.directory, self.tor, self.gateway) = (link, la, directory, tor, gateway);
        self.config = config;
        self.narrow_routes();
        setup::renew(self)
    }

    fn check_fixed(&self, new: &HostConfig) -> Result<()> {
        let old = &self.config;
        let changed = [
            ("device", old.device.get_ref() != new.device.get_ref()),
            ("socket", old.socket != new.socket),
            ("pins", old.pins() != new.pins()),
            ("metrics", old.metrics != new.metrics),
            ("locator", old.locator != new.locator || new.locator == LocatorMode::Host),
            ("limits", old.limits.peers != new.limits.peers || old.limits.flows != new.limits.flows),
        ];
        match changed.iter().find(|(_, is_changed)| *is_changed) {
            None => Ok(()),
            Some(("locator", _)) if old.locator == new.locator => Err(Error::new(
                "a host that is its own locator does not read its configuration anew",
                "restart the agent; with on_exit = \"keep\" known flows go on",
            )),
            Some((key, _)) => Err(Error::new(
                format!("`{key}` cannot change while the agent runs"),
                "restart the agent; with on_exit = \"keep\" known flows go on",
            )),
        }
    }
}
