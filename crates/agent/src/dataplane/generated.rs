//! What libbpf-cargo generates from the programs: their types, so that no layout is written twice.

macro_rules! skeletons {
    ($($name:ident),+) => { $(
        #[allow(clippy::all, clippy::disallowed_methods, clippy::iter_over_hash_type, clippy::too_many_lines, dead_code, unused, missing_docs, single_use_lifetimes)]
        pub(crate) mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".skel.rs"));
        }
    )+ };
}

skeletons!(vl2_host, vl2_switch, netlord_host, netlord_switch, subways_host);
