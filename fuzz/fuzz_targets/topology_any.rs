//! Any bytes are an error that names a line, or a fabric that every world can use: it has metrics, addresses and routes.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use weft_fabric::addressing::Addressing;
use weft_fabric::formats::topology::read;
use weft_fabric::routing::{FlowKey, RootLabel, RootPaths, Router, Routing};
use weft_fabric::{HostId, topology::Metrics};

fuzz_target!(|data: &[u8]| {
    match read(data) {
        Ok(imported) if imported.fabric.links().len() < 1_000 => {
            let fabric = Arc::new(imported.fabric);
            let _ = Metrics::of(&fabric);
            let _ = Addressing::new(&fabric);
            if fabric.host_count() > 1 {
                let (src, dst) = (HostId(0), HostId::from(fabric.host_count() - 1));
                let mut router = Router::new(Arc::clone(&fabric), Routing::default(), 1);
                assert!(router.route(&FlowKey::of_flow(0, src, dst)).is_some(), "connected");
                let roots = RootPaths::new(Arc::clone(&fabric));
                assert!(roots.path(src, dst, RootLabel(0)).len() >= 2);
            }
        }
        Ok(_) => {}
        Err(error) => assert!(error.line > 0 && !error.help.is_empty()),
    }
});
