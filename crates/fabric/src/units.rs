//! Quantities: bytes and bits per second, with the field's text forms (`1500B`, `10Gbps`).

use std::fmt;
use std::str::FromStr;

pub use crate::quantity::UnitError;
use crate::quantity::{parse_wide, write_quantity};
use crate::time::{Duration, PS_PER_S};

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

/// A rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BitsPerSec(pub u64);

impl Bytes {
    /// The quantity in bits.
    pub const fn bits(self) -> u128 {
        self.0 as u128 * 8
    }
}

impl BitsPerSec {
    /// The fastest rate that is read and that a cable may have, 1000Tbps: far above any hardware, and far enough below 64 bits for
    /// what is computed of one link. (Sums over a fabric are bounded by `FabricBuilder::build`.)
    pub const MAX_READ: Self = Self(1_000_000_000_000_000);

    /// Time to send `bytes` at this rate, rounded up to the picosecond.
    ///
    /// # Panics
    /// If the rate is 0, or the time exceeds 213 days.
    pub fn time_to_send(self, bytes: Bytes) -> Duration {
        assert!(self.0 > 0, "nothing is ever sent at 0 bps");
        let ps = (bytes.bits() * u128::from(PS_PER_S)).div_ceil(u128::from(self.0));
        Duration::from_ps(u64::try_from(ps).expect("a transmission ends within 213 days"))
    }

    /// The rate in bits per second as a float, for rate models and reports.
    pub const fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

const BYTE_UNITS: &[(&str, u128)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

const RATE_UNITS: &[(&str, u128)] =
    &[("bps", 1), ("kbps", 1_000), ("Kbps", 1_000), ("Mbps", 1_000_000), ("Gbps", 1_000_000_000), ("Tbps", 1_000_000_000_000)];

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = |what| UnitError { text: text.to_owned(), what, example: "`1500B`, `64kB`, `15MB` or `1GB`" };
        let bytes = parse_wide(text, BYTE_UNITS).ok_or_else(|| error("a size"))?;
        u64::try_from(bytes).map(Bytes).map_err(|_| error("a size of at most 18 million TB"))
    }
}

impl FromStr for BitsPerSec {
    type Err = UnitError;

    /// Rates above [`BitsPerSec::MAX_READ`] are an error.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = |what| UnitError { text: text.to_owned(), what, example: "`100Mbps`, `10Gbps` or `500kbps`" };
        let bps = parse_wide(text, RATE_UNITS).ok_or_else(|| error("a rate"))?;
        let rate = u64::try_from(bps).ok().map(BitsPerSec).filter(|&rate| rate <= Self::MAX_READ);
        rate.ok_or_else(|| error("a rate of at most 1000Tbps"))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_quantity(f, self.0, &[("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)], "B")
    }
}

impl fmt::Display for BitsPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_quantity(
            f,
            self.0,
            &[("Tbps", 1_000_000_000_000), ("Gbps", 1_000_000_000), ("Mbps", 1_000_000), ("kbps", 1_000)],
            "bps",
        )
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for BitsPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_forms_of_the_field_are_read() {
        assert_eq!("10Gbps".parse(), Ok(BitsPerSec(10_000_000_000)));
        assert_eq!("1.5 Mbps".parse(), Ok(BitsPerSec(1_500_000)));
        assert_eq!("1500B".parse(), Ok(Bytes(1500)));
        assert_eq!("64KiB".parse(), Ok(Bytes(65_536)));
    }

    #[test]
    fn what_is_not_a_quantity_is_refused() {
        for text in ["", "10", "-1Gbps", "1Gb", "1e3bps", ".5Gbps", "1.Gbps", "Gbps", "99999999999999999999Gbps", "1.5.2Gbps"] {
            assert!(text.parse::<BitsPerSec>().is_err(), "{text}");
        }
    }

    #[test]
    fn rates_that_no_link_has_are_refused() {
        assert_eq!("1000Tbps".parse(), Ok(BitsPerSec::MAX_READ));
        for text in ["1000.001Tbps", "1000000000000001bps", "9000000Tbps", "99999999999Tbps"] {
            let error = text.parse::<BitsPerSec>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}` is not a rate of at most 1000Tbps")), "{error}");
        }
    }

    #[test]
    fn what_exceeds_64_bits_is_an_error_with_the_limit() {
        let size = "18446745TB".parse::<Bytes>().unwrap_err().to_string();
        assert!(size.contains("`18446745TB` is not a size of at most 18 million TB"), "{size}");
        let time = "18446745s".parse::<Duration>().unwrap_err().to_string();
        assert!(time.contains("`18446745s` is not a time of at most 213 days"), "{time}");
        assert!("18446744s".parse::<Duration>().is_ok() && "18446744TB".parse::<Bytes>().is_ok());
    }

    #[test]
    fn sending_time_is_exact() {
        assert_eq!(BitsPerSec(1_000_000_000).time_to_send(Bytes(1500)), Duration::from_us(12));
    }

    proptest! {
        #[test]
        fn display_parses_back(value: u64) {
            prop_assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
            let rate = BitsPerSec(value % (BitsPerSec::MAX_READ.0 + 1));
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }

        #[test]
        fn any_text_is_an_error_or_a_value(text in ".{0,24}") {
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<Duration>();
        }
    }
}
