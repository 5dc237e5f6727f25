//! What may arrive for the host's locators, in the kernel.

use std::collections::BTreeSet;

use super::super::layout::{self, RULES};
use super::super::{HostSettings, LocatorRule};
use super::HostPlane;
use crate::dataplane::bytes::Plain as _;
use crate::dataplane::{PlaneError, Result};

impl HostPlane {
    /// Lets datagrams come to ports of this host's own, such as the agent's sockets, besides what the rules allow.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn allow(&mut self, rules: impl IntoIterator<Item = LocatorRule>) -> Result<()> {
        let Some(there) = &self.settings.locator_rules else { return Ok(()) };
        let locator_rules = Some(there.iter().copied().chain(rules).collect());
        let settings = HostSettings { locator_rules, ..self.settings.clone() };
        self.set_settings(&settings)
    }

    /// Makes the table that of the settings; whether it was another.
    pub(super) fn write_rules(&self, settings: &HostSettings) -> Result<bool> {
        let none = BTreeSet::new();
        let rules = settings.locator_rules.as_ref().unwrap_or(&none);
        if rules.len() > LocatorRule::MAX {
            return Err(PlaneError::Setting(format!(
                "{} rules for locators: at most {} are possible",
                rules.len(),
                LocatorRule::MAX
            )));
        }
        let (table, wanted) = (self.table(&RULES), rules.iter().map(|rule| layout::rule(*rule)).collect::<Vec<_>>());
        let mut is_changed = table.remove_all(|there, _| !wanted.iter().any(|it| it.bytes() == there.bytes()))? > 0;
        for rule in wanted {
            is_changed |= table.restore(&rule, &0)?;
        }
        Ok(is_changed)
    }
}
