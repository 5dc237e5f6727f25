//! Distributions of flow sizes that the field knows by name, in bytes and cumulative probability.

use super::EmpiricalCdf;

/// The names, as the scenario's `size` key takes them.
pub const NAMES: [&str; 6] = ["web-search", "data-mining", "hadoop", "cache", "storage", "vl2-sizes"];

/// The name of the distribution of concurrent flows, as the `concurrency` key takes it.
pub const VL2_CONCURRENCY: &str = "vl2-concurrency";

/// The distribution of that name.
pub fn cdf(name: &str) -> Option<EmpiricalCdf> {
    TABLES.iter().find(|(n, _)| *n == name).map(|(_, table)| built(table))
}

/// The number of concurrent flows of a server (VL2 section 3.2).
pub fn vl2_concurrency() -> EmpiricalCdf {
    built(VL2_CONCURRENT_FLOWS)
}

/// The name of a distribution that has one.
pub(super) fn name_of(cdf: &EmpiricalCdf) -> Option<&'static str> {
    TABLES.iter().find(|(_, table)| *table == cdf.points()).map(|(name, _)| *name)
}

fn built(table: &[(f64, f64)]) -> EmpiricalCdf {
    EmpiricalCdf::new(table.to_vec()).expect("the tables below are distributions")
}

type Table = &'static [(f64, f64)];

const TABLES: [(&str, Table); NAMES.len()] = [
    (NAMES[0], WEB_SEARCH),
    (NAMES[1], DATA_MINING),
    (NAMES[2], HADOOP),
    (NAMES[3], CACHE),
    (NAMES[4], STORAGE),
    (NAMES[5], VL2_SIZES),
];

/// Web search (DCTCP, SIGCOMM 2010, figure 4), as HPCC's `WebSearch_distribution.txt` and TrafficGenerator's
/// `DCTCP_CDF.txt` both have it.
const WEB_SEARCH: Table = &[
    (0.0, 0.0),
    (10e3, 0.15),
    (20e3, 0.2),
    (30e3, 0.3),
    (50e3, 0.4),
    (80e3, 0.53),
    (200e3, 0.6),
    (1e6, 0.7),
    (2e6, 0.8),
    (5e6, 0.9),
    (10e6, 0.97),
    (30e6, 1.0),
];

/// Data mining (VL2, SIGCOMM 2009, figure 2), as TrafficGenerator's `VL2_CDF.txt` has it.
const DATA_MINING: Table = &[
    (0.0, 0.0),
    (180.0, 0.1),
    (216.0, 0.2),
    (560.0, 0.3),
    (900.0, 0.4),
    (1_100.0, 0.5),
    (1_870.0, 0.6),
    (3_160.0, 0.7),
    (10e3, 0.8),
    (400e3, 0.9),
    (3.16e6, 0.95),
    (100e6, 0.98),
    (1e9, 1.0),
];

/// Facebook's Hadoop clusters (Roy et al., SIGCOMM 2015), as HPCC's `FbHdp_distribution.txt` has it.
const HADOOP: Table = &[
    (0.0, 0.0),
    (100.0, 0.01),
    (200.0, 0.02),
    (300.0, 0.05),
    (350.0, 0.15),
    (400.0, 0.2),
    (500.0, 0.3),
    (600.0, 0.4),
    (700.0, 0.5),
    (1e3, 0.6),
    (2e3, 0.67),
    (7e3, 0.7),
    (30e3, 0.72),
    (50e3, 0.82),
    (80e3, 0.87),
    (120e3, 0.9),
    (300e3, 0.95),
    (1e6, 0.975),
    (2e6, 0.99),
    (10e6, 1.0),
];

/// Facebook's cache followers (Roy et al., SIGCOMM 2015), as TrafficGenerator's `CDF_cache.txt` has it in packets of 1500 B.
const CACHE: Table = &[
    (1_500.0, 0.0),
    (1_500.0, 0.36),
    (3e3, 0.4),
    (10.5e3, 0.46),
    (19.5e3, 0.5),
    (100.5e3, 0.6),
    (199.5e3, 0.7),
    (1.0005e6, 0.78),
    (1.9995e6, 0.8),
    (3e6, 0.9),
    (4.0005e6, 0.99),
    (49.9995e6, 1.0),
];

/// Alibaba's distributed storage in 2019, as HPCC's `AliStorage2019.txt` has it.
const STORAGE: Table = &[
    (0.0, 0.0),
    (4e3, 0.2293),
    (8e3, 0.6921),
    (16e3, 0.8061),
    (32e3, 0.9047),
    (64e3, 0.9353),
    (128e3, 0.9677),
    (256e3, 0.9753),
    (2e6, 1.0),
];

/// Inferred from what VL2 section 3.2 states of the flows in its cluster; the paper prints no table. Most flows are a few
/// kB, 99 % are below 100 MB, more than 90 % of the bytes are in flows of 100 MB to 1 GB, the mode of these is at the 100 MB
/// of a file system's chunk, and flows of more than a few GB do not occur.
const VL2_SIZES: Table = &[
    (100.0, 0.0),
    (1e3, 0.3),
    (4e3, 0.7),
    (10e3, 0.82),
    (100e3, 0.95),
    (1e6, 0.984),
    (10e6, 0.9885),
    (100e6, 0.99),
    (105e6, 0.9955),
    (300e6, 0.998),
    (1e9, 0.99996),
    (3e9, 1.0),
];

/// Inferred from what VL2 section 3.2 states of its figure 3: about 10 flows for more than half of the time, more than 80 for
/// at least 5 %, almost never more than 100.
const VL2_CONCURRENT_FLOWS: Table =
    &[(1.0, 0.0), (7.0, 0.12), (13.0, 0.78), (40.0, 0.9), (77.0, 0.92), (86.0, 0.98), (100.0, 0.9985), (110.0, 1.0)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_distribution() {
        for name in NAMES {
            assert_eq!(name_of(&cdf(name).unwrap()), Some(name));
        }
        assert_eq!(cdf("no-such-name"), None);
    }

    #[test]
    fn means_are_those_that_the_field_quotes() {
        let mean = |name| cdf(name).unwrap().mean();
        assert!((mean("web-search") / 1.6e6 - 1.0).abs() < 0.1, "about 1.6 MB: {}", mean("web-search"));
        assert!((mean("data-mining") / 13e6 - 1.0).abs() < 0.1, "about 13 MB: {}", mean("data-mining"));
    }

    #[test]
    fn vl2_sizes_have_the_properties_that_the_paper_states() {
        let sizes = cdf("vl2-sizes").unwrap();
        assert!(sizes.probability(4e3) > 0.5, "the majority of flows are a few kB");
        assert!((sizes.probability(100e6 - 1.0) - 0.99).abs() < 0.001, "99 % of the flows are below 100 MB");
        assert!(sizes.share_between(100e6, 1e9) > 0.9, "{} of the bytes", sizes.share_between(100e6, 1e9));
        let density = |low: f64, high: f64| sizes.share_between(low, high) / (high / low).ln();
        assert!(density(100e6, 105e6) > 5.0 * density(105e6, 300e6).max(density(30e6, 100e6)), "a mode at 100 MB");
        assert!(1.0 - sizes.probability(1e9) < 1e-4, "flows of more than a GB are rare");
    }
}
