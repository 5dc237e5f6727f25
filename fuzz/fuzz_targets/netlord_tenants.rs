//! Any text is an error, or tenants whose packets all find an end; and what is appended to it keeps the rest.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_control::netlord::tenants::{NewTenant, Tenants, append_tenant};
use weft_control::wire::netlord::{IpPacket, Ports};

fuzz_target!(|text: &str| {
    let Ok(all) = Tenants::parse(text) else { return };
    for tenant in all.tenants.values() {
        for router in 0..tenant.routers.len() {
            for dst in tenant.routers.iter().flat_map(|it| &it.routes).flat_map(|it| [it.to.address(), it.via]) {
                let packet = IpPacket { src: dst, dst, protocol: 6, ports: Ports::Known(1, 2), ttl: 9, payload: &[] };
                let _ = tenant.route(router, &packet);
            }
        }
    }
    let more = append_tenant(text, &NewTenant { id: 16_777_215, name: "one-more", spaces: &[] });
    if let Ok(after) = Tenants::parse(&more) {
        assert_eq!(after.tenants.len(), all.tenants.len() + 1);
    }
});
