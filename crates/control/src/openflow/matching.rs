//! Matches: which packets a flow is for (1.3.5 and 1.5.1, section 7.2.3).
//!
//! ```text
//!   type 1 u16 | length u16 without padding | fields ... | zeros to a multiple of 8
//! ```
//! A match holds its fields in one order, in which each comes after its prerequisites (the Ethernet type before IP's addresses).

use std::net::Ipv4Addr;

use weft_fabric::MacAddr;

use super::error::{EmitError, ParseError};
use super::field::{Field, FieldId};
use super::reader::{Reader, pad, padding, patch_length, put16};

/// Which packets: those whose fields have all these values; every packet if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Match {
    /// In canonical order, no field twice.
    fields: Vec<Field>,
}

/// The type of a match that consists of OXM entries.
const MATCH_OXM: u16 = 1;

impl Match {
    /// Every packet.
    pub const fn new() -> Self {
        Self { fields: Vec::new() }
    }

    /// A match on these fields; the last one of each counts.
    pub fn of(fields: impl IntoIterator<Item = Field>) -> Self {
        fields.into_iter().fold(Self::new(), Self::with)
    }

    /// The same with one field more, or with another value of it.
    #[must_use]
    pub fn with(mut self, field: Field) -> Self {
        match self.position(field.id()) {
            Ok(at) => self.fields[at] = field,
            Err(at) => self.fields.insert(at, field),
        }
        self
    }

    /// The fields, each after its prerequisites.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// A field; None if packets need not have a certain value of it.
    pub fn get(&self, id: FieldId) -> Option<&Field> {
        self.position(id).ok().map(|at| &self.fields[at])
    }

    /// The value of a field of at most 64 bits that is matched as a whole.
    pub fn number(&self, id: FieldId) -> Option<u64> {
        self.get(id).filter(|field| field.mask().is_none()).and_then(Field::number)
    }

    /// The port, if it is matched.
    pub fn in_port(&self) -> Option<u32> {
        self.number(FieldId::IN_PORT).and_then(|port| u32::try_from(port).ok())
    }

    /// An IPv4 address that is matched as a whole: [`FieldId::IPV4_SRC`], `IPV4_DST`, `ARP_SPA` or `ARP_TPA`.
    pub fn ipv4(&self, id: FieldId) -> Option<Ipv4Addr> {
        self.get(id)
            .filter(|field| field.mask().is_none())
            .and_then(|field| <[u8; 4]>::try_from(field.value()).ok())
            .map(Into::into)
    }

    /// A MAC address that is matched as a whole: [`FieldId::ETH_SRC`] and the like.
    pub fn mac(&self, id: FieldId) -> Option<MacAddr> {
        self.get(id).filter(|field| field.mask().is_none()).and_then(|field| <[u8; 6]>::try_from(field.value()).ok()).map(MacAddr)
    }

    fn position(&self, id: FieldId) -> Result<usize, usize> {
        self.fields.binary_search_by_key(&id.rank(), |field| field.id().rank())
    }

    /// Appends the match, padded.
    pub(super) fn emit(&self, out: &mut Vec<u8>) -> Result<(), EmitError> {
        let start = out.len();
        put16(out, MATCH_OXM);
        put16(out, 0);
        for field in &self.fields {
            field.emit(out);
        }
        patch_length(out, start, start + 2, "a match")?;
        pad(out, start);
        Ok(())
    }

    /// Reads a match with its padding.
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let given = reader.rest.len();
        let (kind, mut body) = reader.tlv(false)?;
        if kind != MATCH_OXM {
            return Err(ParseError::Value { part: "the type of a match", given: kind.into() });
        }
        let length = given - reader.rest.len();
        reader.skip(padding(length))?;
        let mut it = Self::new();
        while !body.is_empty() {
            it.fields.push(Field::parse(&mut body)?);
        }
        it.fields.sort_by_key(|field| field.id().rank());
        match it.fields.windows(2).find(|pair| pair[0].id() == pair[1].id()) {
            Some(pair) => Err(ParseError::Duplicate(pair[0].id())),
            None => Ok(it),
        }
    }
}
