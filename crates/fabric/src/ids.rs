//! Names of parts: dense indices from 0, each of a type of its own.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into a dense array.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<usize> for $name {
            /// # Panics
            /// If the index exceeds `u32::MAX`: no fabric is that large.
            fn from(index: usize) -> Self {
                Self(u32::try_from(index).expect("ids are 32 bits wide"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A host, contiguous by rack and then by pod.
    HostId, "h"
);
id!(
    /// A switch, in the order in which the topology adds them: edge layer first.
    SwitchId, "s"
);
id!(
    /// A host or a switch: hosts are `0..hosts`, switches follow.
    NodeId, "n"
);
id!(
    /// A directed link. The cable `c` is the links `2c` and `2c + 1`.
    LinkId, "l"
);
id!(
    /// A cable: two directed links.
    CableId, "c"
);
id!(
    /// A group of hosts that attach to the same switches.
    RackId, "r"
);
id!(
    /// A flow, numbered from 0 in order of arrival (its line, for a file).
    FlowId, "f"
);

impl LinkId {
    /// The same cable in the other direction.
    #[inline]
    pub const fn reverse(self) -> Self {
        Self(self.0 ^ 1)
    }

    /// The cable that this link is one direction of.
    #[inline]
    pub const fn cable(self) -> CableId {
        CableId(self.0 >> 1)
    }
}

impl CableId {
    /// Both directions.
    #[inline]
    pub const fn links(self) -> [LinkId; 2] {
        [LinkId(self.0 << 1), LinkId(self.0 << 1 | 1)]
    }
}

impl HostId {
    /// The host as a node of the graph.
    #[inline]
    pub const fn node(self) -> NodeId {
        NodeId(self.0)
    }
}

/// A tenant: 24 bits (NetLord, section 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TenantId(pub u32);

impl TenantId {
    /// A tenant's id, if it fits into 24 bits.
    pub const fn new(id: u32) -> Option<Self> {
        if id < 1 << 24 { Some(Self(id)) } else { None }
    }
}
