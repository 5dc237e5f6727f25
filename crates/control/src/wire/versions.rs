//! The version of Weft's protocols: the directory's, and those between hosts, ToR switches and schedulers have one number, which grows for all together.

/// The newest version that this program speaks.
pub const VERSION: u8 = 1;

/// The versions that a program speaks: its newest one and the one before, so that programs of neighbouring versions work together in an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Versions {
    newest: u8,
}

impl Versions {
    /// Those of this program.
    pub const OURS: Self = Self { newest: VERSION };
    /// Those of the program after this one, for tests of upgrades: in its newest version every message has the layout of [`VERSION`].
    pub const NEXT: Self = Self { newest: VERSION + 1 };

    /// What requests begin with.
    pub const fn newest(self) -> u8 {
        self.newest
    }

    /// What is also understood and answered.
    pub const fn oldest(self) -> u8 {
        if self.newest > 1 { self.newest - 1 } else { 1 }
    }

    /// Whether a message of this version is understood.
    pub const fn has(self, version: u8) -> bool {
        self.oldest() <= version && version <= self.newest
    }
}
