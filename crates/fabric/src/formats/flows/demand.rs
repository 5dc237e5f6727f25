//! Flows for demand estimation: who sends to whom, and nothing else (Hedera section 4.2).
//!
//! ```text
//!   src,dst        the header; the columns start and size of a flow file are ignored
//!   0,1            host numbers
//! ```

use super::csv::Table;
use super::{FormatError, HostNames};
use crate::ids::HostId;

/// Reads pairs of hosts, in the order of the lines. There is no fabric: any number up to ten million is a host.
///
/// # Errors
/// The first line that is not a pair of different hosts; a wrong header.
pub fn parse(bytes: &[u8]) -> Result<Vec<(HostId, HostId)>, FormatError> {
    let hosts = HostNames::numbers(MAX_HOSTS);
    let mut pairs = Vec::new();
    Table::new(bytes, &["src", "dst"], &["start", "size"])?.rows(|line, [src, dst]: [&str; 2]| {
        pairs.push(hosts.pair(line, host_number(src), host_number(dst))?);
        Ok(())
    })?;
    Ok(pairs)
}

/// The regular fabrics call host 7 `h7`.
fn host_number(text: &str) -> &str {
    text.strip_prefix('h').unwrap_or(text)
}

/// Estimators keep arrays of all hosts up to the largest number.
const MAX_HOSTS: usize = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pairs_are_read_and_errors_name_their_line() {
        let pairs = |pairs: &[(u32, u32)]| Ok(pairs.iter().map(|&(a, b)| (HostId(a), HostId(b))).collect());
        assert_eq!(parse(b"src,dst\n0,1\n0,2\nh2,h1\n"), pairs(&[(0, 1), (0, 2), (2, 1)]));
        assert_eq!(parse(b"src,dst,start,size\n0,1,0,5\n"), pairs(&[(0, 1)]));
        assert_eq!(parse(b"dst,src\n"), pairs(&[]));
        for (text, line) in [("", 1), ("0,1", 1), ("src,dst\n0", 2), ("src,dst\n0,1\n4,4", 3), ("src,dst\n0,99999999", 2)] {
            assert_eq!(parse(text.as_bytes()).unwrap_err().line, line, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_error_or_pairs(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }
    }
}
