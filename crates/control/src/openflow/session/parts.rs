//! The parts of multipart replies, joined by xid, in bounded memory.

use std::collections::BTreeMap;

use super::super::message::{Header, MULTIPART_REPLY};
use super::super::multipart::{MultipartReply, ReplyBody};
use super::CloseReason;

/// Replies of which a part is missing.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    unfinished: BTreeMap<u32, Unfinished>,
    /// Of all of them, as received.
    bytes: usize,
}

/// The parts of a reply that have come.
#[derive(Clone, Debug)]
struct Unfinished {
    /// None: one of them could not be read, so the reply is of no use.
    body: Option<ReplyBody>,
    /// As received.
    bytes: usize,
}

/// The bytes that unfinished replies may have, in all.
pub(super) const LIMIT: usize = 64 << 20;

/// The second byte of the flags of a multipart message, and the flag for more.
const FLAGS: usize = 11;
const MORE: u8 = 1;

impl Parts {
    /// Adds a part of so many bytes; returns the whole reply with its last one.
    pub fn add(&mut self, xid: u32, part: MultipartReply, bytes: usize) -> Result<Option<MultipartReply>, CloseReason> {
        let (body, before) = match self.unfinished.remove(&xid) {
            None => (Some(part.body), 0),
            Some(Unfinished { body: None, bytes }) => (None, bytes),
            Some(Unfinished { body: Some(body), bytes }) => {
                (Some(body.join(part.body).ok_or(CloseReason::Mixed { xid })?), bytes)
            }
        };
        self.bytes -= before;
        if !part.more {
            return Ok(body.map(MultipartReply::whole));
        }
        self.keep(xid, Unfinished { body, bytes: before + bytes })
    }

    /// A message could not be read: if it is a part of a reply, the rest of the reply is not returned.
    pub fn spoil(&mut self, message: &[u8]) {
        let Ok(Header { kind: MULTIPART_REPLY, xid, .. }) = Header::parse(message) else { return };
        let before = self.unfinished.remove(&xid).map_or(0, |it| it.bytes);
        self.bytes -= before;
        if message.get(FLAGS).is_some_and(|flags| flags & MORE != 0) {
            self.bytes += message.len();
            self.unfinished.insert(xid, Unfinished { body: None, bytes: message.len() });
        }
    }

    fn keep(&mut self, xid: u32, it: Unfinished) -> Result<Option<MultipartReply>, CloseReason> {
        self.bytes += it.bytes;
        self.unfinished.insert(xid, it);
        if self.bytes > LIMIT { Err(CloseReason::TooLarge { limit: LIMIT }) } else { Ok(None) }
    }
}
