//! What the directory's answers mean for a request, and whether it answers at all.

use super::Tor;
use crate::directory::resolver::Resolution;
use crate::directory::{Generation, Locator, Mapping, ServiceId, Value};
use crate::time::Instant;
use crate::wire::vl2::attach::{Attach, Code};

impl Tor {
    /// When the directory answered first: before, no address that an earlier process left can be confirmed.
    pub fn first_answer(&self) -> Option<Instant> {
        self.contact.first_answer.map(|at| self.clock.to_host(at))
    }

    /// Since when no directory server answers. Addresses that are here stay then, and no other can be attached.
    pub fn unanswered_since(&self) -> Option<Instant> {
        self.contact.unanswered_since.map(|at| self.clock.to_host(at))
    }
}

/// Whether the directory answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contact {
    first_answer: Option<Instant>,
    unanswered_since: Option<Instant>,
}

impl Contact {
    pub fn note(&mut self, now: Instant, resolution: &Resolution) {
        if *resolution == Resolution::Unanswered {
            self.unanswered_since.get_or_insert(now);
        } else {
            self.first_answer.get_or_insert(now);
            self.unanswered_since = None;
        }
    }
}

/// What the directory's word means for a request.
pub(super) enum Verdict {
    /// The address is this host's, and here; its service.
    Here(ServiceId),
    /// It is this host's, and is to be brought here.
    Elsewhere(Generation, Mapping),
    /// It is not this host's.
    Refuse(Code),
    /// No server has answered.
    Unanswered,
}

pub(super) fn judge(request: &Attach, resolution: Resolution, here: Locator) -> Verdict {
    match resolution {
        Resolution::Found(_, Value::Mapping(it)) if it.owner != request.principal => Verdict::Refuse(Code::NotOwner),
        Resolution::Found(_, Value::Mapping(it)) if request.service != ServiceId(0) && it.service != request.service => {
            Verdict::Refuse(Code::OtherService)
        }
        Resolution::Found(_, Value::Mapping(it)) if it.locator == here => Verdict::Here(it.service),
        Resolution::Found(generation, Value::Mapping(it)) => Verdict::Elsewhere(generation, it),
        Resolution::Found(_, Value::Group(_)) | Resolution::Unknown => Verdict::Refuse(Code::Unknown),
        Resolution::Forbidden => Verdict::Refuse(Code::Forbidden),
        Resolution::Unanswered => Verdict::Unanswered,
    }
}
