//! Why bytes are not a message, and why a message has no bytes.

use super::Version;
use super::field_id::FieldId;

/// Why bytes are not a message of the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ParseError {
    /// The bytes end before this part does.
    #[error("the bytes end inside {0}")]
    Truncated(&'static str),
    /// Bytes are left after this part.
    #[error("{left} bytes are left after {part}")]
    Trailing {
        /// Which part.
        part: &'static str,
        /// How many.
        left: usize,
    },
    /// A length field holds what it cannot.
    #[error("{part} cannot have the length {given}")]
    Length {
        /// Whose length.
        part: &'static str,
        /// What the field holds.
        given: usize,
    },
    /// A field holds what it cannot.
    #[error("{part} cannot be {given}")]
    Value {
        /// Which field.
        part: &'static str,
        /// What it holds.
        given: u64,
    },
    /// The header has another version than the connection.
    #[error("a message of wire version {given} on a connection of {expected}")]
    Version {
        /// In the header.
        given: u8,
        /// Of the connection.
        expected: Version,
    },
    /// No such message type in this version.
    #[error("unknown message type {0}")]
    Type(u8),
    /// A match has a field twice.
    #[error("a match has {0:?} twice")]
    Duplicate(FieldId),
}

/// Why a message has no bytes in the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EmitError {
    /// The version has no encoding for it.
    #[error("{version} has no {what}")]
    NotInVersion {
        /// Which version.
        version: Version,
        /// What it lacks.
        what: &'static str,
    },
    /// A length field is too small for it.
    #[error("{part} of {bytes} bytes: at most {max} fit")]
    TooLong {
        /// What is too long.
        part: &'static str,
        /// Its length.
        bytes: usize,
        /// The largest length.
        max: usize,
    },
    /// A field cannot hold it.
    #[error("{part} cannot be {given}")]
    Value {
        /// Which field.
        part: &'static str,
        /// What it should hold.
        given: u64,
    },
}
