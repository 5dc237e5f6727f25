//! The configuration is reloaded (SIGHUP) while packets flow: hosts and ports are added and removed, directory servers change.

use super::config::{IntermediatePart, SwitchConfig};
use super::tor::TorPart;
use super::{Switch, relay, settings};
use crate::error::{Error, Result};

impl Switch {
    /// Applies a configuration. Keys that cannot change while the agent runs must be as before. On error nothing has changed.
    pub(super) fn apply_config(&mut self, config: SwitchConfig) -> Result<()> {
        self.check_fixed(&config)?;
        for port in config.ports.iter().filter(|port| !self.config.ports.contains(port)) {
            self.plane.add_port(port.get_ref())?;
        }
        if let (Some(tor), Some(part)) = (&mut self.tor, &config.tor) {
            tor.apply_config(self.clock.now(), &config, part)?;
            tor.check_sources(part, &mut self.plane)?;
        }
        // Its port is the same: the old one goes first.
        self.relay = None;
        self.relay = relay(&config)?;
        self.plane.set_settings(&settings(&config))?;
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
            Some((key, _)) => Err(Error::Fixed(key)),
        }
    }
}

impl TorPart {
    /// Other hosts, ports and servers. The table keeps what is of hosts that stay.
    fn apply_config(
        &mut self,
        now: weft_control::time::Instant,
        config: &SwitchConfig,
        part: &super::config::TorConfigPart,
    ) -> Result<()> {
        self.listen(config.la, part)?;
        self.configure(now, config, part);
        Ok(())
    }
}
