//! The versions of the protocol that this program speaks.

use weft_control::wire::directory::Versions;

/// Those of this build. With `WEFT_PROTOCOL=next` in the environment the next one is spoken as well, with the same layouts: tests of upgrades run programs of one build
/// as neighbouring versions.
pub fn versions() -> Versions {
    if std::env::var_os(NAME).is_some_and(|value| value == "next") { Versions::NEXT } else { Versions::OURS }
}

const NAME: &str = "WEFT_PROTOCOL";
