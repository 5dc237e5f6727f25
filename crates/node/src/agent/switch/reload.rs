//! A configuration that is read anew (SIGHUP) while packets flow: hosts and ports that come and go, other directory servers.

use super::config::{IntermediatePart, SwitchConfig};
use super::tor::TorPart;
use super::{Switch, relay};
use crate::cli::{Error, Result};

impl Switch {
    /// Takes over a configuration. What an agent cannot change while it runs must be as it was; then nothing is changed on error.
    pub(super) fn take_over(&mut self, config: SwitchConfig) -> Result<()> {
        self.check_fixed(&config)?;
        for port in config.ports.iter().filter(|port| !self.config.ports.contains(port)) {
            self.plane.add_port(port.get_ref())?;
        }
        if let (Some(tor), Some(part)) = (&mut self.tor, &config.tor) {
            tor.take_over(self.clock.now(), &config, part)?;
        }
        // Its port is the same: the old one goes first.
        self.relay = None;
        self.relay = relay(&config)?;
        self.config = config;
        self.step()
    }

    fn check_fixed(&self, new: &SwitchConfig) -> Result<()> {
        let old = &self.config;
        let groups = |part: &Option<IntermediatePart>| {
            part.as_ref().map(|it| (it.switches.get_ref().clone(), it.anycast.get_ref().clone(), it.ecmp_width))
        };
        let changed = [
            ("la", old.la != new.la),
            ("principal", old.principal() != new.principal()),
            ("socket", old.socket != new.socket),
            ("pins", old.pins() != new.pins()),
            ("metrics", old.metrics != new.metrics),
            ("prefixes", old.prefixes != new.prefixes),
            ("tor", old.tor.is_some() != new.tor.is_some()),
            ("intermediate", groups(&old.intermediate) != groups(&new.intermediate)),
        ];
        match changed.iter().find(|(_, is_changed)| *is_changed) {
            None => Ok(()),
            Some((key, _)) => Err(Error::new(
                format!("`{key}` cannot change while the agent runs"),
                "restart the agent; with on_exit = \"keep\" flows go on",
            )),
        }
    }
}

impl TorPart {
    /// Other hosts, ports and servers. The table keeps what is of hosts that stay.
    fn take_over(&mut self, now: weft_fabric::Instant, config: &SwitchConfig, part: &super::config::TorConfigPart) -> Result<()> {
        self.listen(config.la, part)?;
        self.tell(now, config, part);
        Ok(())
    }
}
