//! Who may resolve whom, and who may change what (VL2, section 4.2.1).

use std::path::PathBuf;

use super::key::{Key, PrincipalId, ServiceId, Value};

/// What a principal is, and so what it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Resolves on behalf of the keys that live on it.
    #[default]
    Host,
    /// Reports misdelivered packets.
    Switch,
    /// Changes mappings; resolves everything.
    Provisioner,
    /// A directory server.
    Server,
    /// May do everything that a client can.
    Admin,
}

/// Why a policy was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// It is not TOML, or not of this form.
    #[error("the policy cannot be read: {0}")]
    Syntax(String),
}

/// An access policy.
#[derive(Clone, Debug)]
pub struct Policy {
    version: u32,
}

impl Policy {
    /// Reads a policy file's text.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let _ = PathBuf::from(text);
        Err(PolicyError::Syntax(text.to_owned()))
    }

    /// The policy without a file: everybody authenticated may resolve everything; these principals have roles, all others are hosts.
    pub fn open(_roles: impl IntoIterator<Item = (PrincipalId, Role)>) -> Self {
        Self { version: 1 }
    }

    /// Its version; agents ignore answers given under an older one than they have seen.
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// What a principal is.
    pub fn role(&self, _principal: PrincipalId) -> Role {
        Role::Host
    }

    /// Whether hosts of service `asker` may resolve addresses of service `target`.
    pub fn may_resolve(&self, _asker: ServiceId, _target: ServiceId) -> bool {
        false
    }

    /// Whether `principal` may make `new` of `key`, which is `old` now.
    pub fn may_update(&self, _principal: PrincipalId, _key: &Key, _old: Option<&Value>, _new: Option<&Value>) -> bool {
        false
    }
}
