//! Any text is an error, or tenants whose packets all find an end; what is appended to it keeps the rest; its records are the same tenants. And any text is a
//! record's body or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_control::netlord::tenants::records::{Amendment, Entries, Name, Op, Step, StoreAnswer, records_of, tenants_of};
use weft_control::netlord::tenants::{NewTenant, Tenants, append_tenant};
use weft_control::wire::netlord::{IpPacket, Ports};

fuzz_target!(|text: &str| {
    let name = |of: &str| of.parse::<Name>().expect("a name");
    for of in ["site", "t/acme", "r/acme/core", "v/acme/web1"] {
        let ops = ["t/acme", of].map(|of| Op { name: name(of), expect: None, body: Some(text.to_owned()) });
        let mut amendment = Amendment::new(ops[usize::from(of == "t/acme")..].to_vec());
        let mut step = amendment.begin();
        for _ in 0..8 {
            step = match step {
                Step::Read(_) => amendment.next(StoreAnswer::Entries(Entries::default())),
                Step::Commit(_) | Step::Done(_) => break,
            };
        }
        assert!(!matches!(step, Step::Read(_)), "it reads for ever");
    }
    let _ = text.parse::<Name>();
    let Ok(all) = Tenants::parse(text) else { return };
    let records = records_of(&all);
    let again = tenants_of(all.version, records.iter().map(|(name, body)| (name, body.as_str()))).expect("they are right");
    assert_eq!(records_of(&again), records);
    for tenant in all.tenants.values() {
        for router in 0..tenant.routers.len() {
            for dst in tenant.routers.iter().flat_map(|it| &it.routes).flat_map(|it| [it.to.address(), it.via]) {
                let packet =
                    IpPacket { src: dst, dst, protocol: 6, ports: Ports::Known(1, 2), ttl: 9, fragment: None, payload: &[] };
                let _ = tenant.route(router, &packet);
            }
        }
    }
    let more = append_tenant(text, &NewTenant { id: 16_777_215, name: "one-more", spaces: &[], readers: None });
    if let Ok(after) = Tenants::parse(&more) {
        assert_eq!(after.tenants.len(), all.tenants.len() + 1);
    }
});
