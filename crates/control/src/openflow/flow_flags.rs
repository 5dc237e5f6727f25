//! Flags of flows: OFPFF of OpenFlow.

use std::ops::BitOr;

/// How a flow behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowFlags(pub u16);

impl FlowFlags {
    /// None.
    pub const NONE: Self = Self(0);
    /// The switch reports the flow's end.
    pub const SEND_FLOW_REM: Self = Self(1);
    /// The switch refuses a flow that overlaps another of its priority.
    pub const CHECK_OVERLAP: Self = Self(2);
    /// An added flow that was there starts to count from 0.
    pub const RESET_COUNTS: Self = Self(4);

    /// Whether all these are set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for FlowFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
