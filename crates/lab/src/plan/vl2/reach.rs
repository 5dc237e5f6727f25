//! Which hosts reach each other: those of services that may resolve each other's addresses (VL2 section 4.4).

use super::Vl2;

impl Vl2 {
    /// Whether hosts of two services may communicate: each may resolve the other's addresses.
    pub fn may_talk(&self, a: u32, b: u32) -> bool {
        self.may_resolve(a, b) && self.may_resolve(b, a)
    }

    /// Whether hosts of one service may resolve the addresses of another.
    pub fn may_resolve(&self, asker: u32, target: u32) -> bool {
        let of = |id: u32| self.services.iter().find(|s| s.id == id);
        let (Some(asker), Some(target)) = (of(asker), of(target)) else { return false };
        asker.id == target.id || target.allow.iter().any(|name| name == "*" || *name == asker.name)
    }
}
