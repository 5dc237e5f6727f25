//! VIFs of the tenants' file by their names, without a walk over all of them.

use std::collections::BTreeMap;

use weft_control::netlord::tenants::{Tenants, VifSpec};
use weft_fabric::TenantId;

/// An index of the tenants: four bytes for each VIF.
#[derive(Debug, Default)]
pub(super) struct Names {
    tenants: BTreeMap<String, TenantId>,
    /// Where the tenant's list has its VIFs, by name.
    vifs: BTreeMap<TenantId, Vec<u32>>,
}

impl Names {
    /// Of these tenants.
    pub fn new(tenants: &Tenants) -> Self {
        let all = tenants.tenants.iter();
        let vifs = all.clone().map(|(&id, tenant)| {
            let mut order: Vec<u32> = (0..tenant.vifs.len() as u32).collect();
            order.sort_unstable_by_key(|&at| &tenant.vifs[at as usize].name);
            (id, order)
        });
        Self { vifs: vifs.collect(), tenants: all.map(|(&id, tenant)| (tenant.name.clone(), id)).collect() }
    }

    /// A VIF of the tenants that this is the index of.
    pub fn find<'a>(&self, tenants: &'a Tenants, tenant: &str, name: &str) -> Option<&'a VifSpec> {
        let id = self.tenants.get(tenant)?;
        let (all, order) = (&tenants.tenants.get(id)?.vifs, self.vifs.get(id)?);
        let at = order.binary_search_by_key(&name, |&at| all[at as usize].name.as_str()).ok()?;
        all.get(order[at] as usize)
    }
}

#[test]
fn all_are_found_and_no_others() {
    let mut text = "version = 1\n".to_owned();
    for tenant in ["a", "b"] {
        text += &format!("[[tenant]]\nid = {}\nname = \"{tenant}\"\n", 3 + tenant.as_bytes()[0]);
        for n in [7, 3, 11, 5] {
            text += &format!("[[vif]]\ntenant = \"{tenant}\"\nname = \"{tenant}{n}\"\nmac = \"02:00:00:00:00:{n:02x}\"\n");
        }
    }
    let tenants = Tenants::parse(&text).unwrap();
    let names = Names::new(&tenants);
    for (tenant, spec) in tenants.vifs() {
        assert_eq!(names.find(&tenants, &tenant.name, &spec.name), Some(spec));
    }
    for (tenant, name) in [("a", "b7"), ("c", "a7"), ("a", ""), ("b", "b8")] {
        assert_eq!(names.find(&tenants, tenant, name), None);
    }
}
