//! Operators that list records and change them.

use std::collections::BTreeMap;

use rand::RngExt;
use weft_control::netlord::tenants::records::messages::outcome_of;
use weft_control::netlord::tenants::records::{Name, Op, Outcome};
use weft_control::wire::directory::{Amend, AmendOp, Amended, Browse, Message, RecordState, Records, RecordsState};
use weft_fabric::{Duration, Instant};
use weft_sim::directory::cluster::Cluster;

use super::attempts::{Attempt, Browsed};
use super::bodies::{TENANTS, any_name, any_vif, body};
use super::{SETTLED, Tenants};

#[derive(Debug, Default)]
pub(super) struct Editor {
    doing: Doing,
    /// The generations of records that it has seen.
    known: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
enum Doing {
    #[default]
    Nothing,
    Browsing {
        prefix: String,
        after: String,
        limit: u16,
        call: Instant,
    },
    Amending(usize),
}

impl Editor {
    pub(super) fn lost(&mut self) {
        self.doing = Doing::Nothing;
    }
}

impl Tenants {
    /// An editor's turn; the next one comes after at most so many microseconds.
    pub(super) fn edit(&mut self, cluster: &mut Cluster, operator: u16) -> u64 {
        if self.links[&operator].stream.is_none() {
            let server = self.rng.random_range(0..self.servers);
            self.link(operator).stream = cluster.open_stream(operator, server).map(|stream| (stream, server));
        }
        let has_stream = self.links[&operator].stream.is_some();
        let is_late = cluster.now() >= self.heal_at + SETTLED;
        if has_stream && matches!(self.editors[&operator].doing, Doing::Nothing) {
            if is_late {
                let ops = if cluster.now() < self.heal_at + LAST_CHANGE { self.late_change() } else { Vec::new() };
                self.amend(cluster, operator, ops);
            } else if !self.is_quiet(cluster) {
                if self.rng.random_range(0..3) == 0 {
                    self.browse(cluster, operator);
                } else {
                    let ops = self.change(cluster, operator);
                    self.amend(cluster, operator, ops);
                }
            }
        }
        if is_late { 1_500_000 } else { 60_000 }
    }

    /// An editor received something.
    pub(super) fn edited(&mut self, cluster: &Cluster, operator: u16, message: &Message<'_>) -> Result<(), String> {
        match message {
            Message::Records(page) => self.page(cluster, operator, page),
            Message::Amended(amended) => self.amended(cluster, operator, amended),
            _ => Err(format!("an unexpected {:?}", message.kind())),
        }
    }

    fn editor(&mut self, operator: u16) -> &mut Editor {
        self.editors.get_mut(&operator).expect("every editor is known")
    }

    fn browse(&mut self, cluster: &mut Cluster, operator: u16) {
        let tenant = TENANTS[self.rng.random_range(0..TENANTS.len())];
        let prefix = match self.rng.random_range(0..4) {
            0 => "site".to_owned(),
            1 => "t/".to_owned(),
            2 => format!("r/{tenant}/"),
            _ => format!("v/{tenant}/"),
        };
        self.next_page(cluster, operator, prefix, String::new());
    }

    fn next_page(&mut self, cluster: &mut Cluster, operator: u16, prefix: String, after: String) {
        let limit = self.rng.random_range(1..4);
        self.send(cluster, operator, &Message::Browse(Browse { prefix: &prefix, after: &after, limit }));
        self.editor(operator).doing = Doing::Browsing { prefix, after, limit, call: cluster.now() };
    }

    fn page(&mut self, cluster: &Cluster, operator: u16, page: &Records<'_>) -> Result<(), String> {
        let Doing::Browsing { prefix, after, limit, call } = std::mem::take(&mut self.editor(operator).doing) else {
            return Err("a page unasked".to_owned());
        };
        if page.state == RecordsState::Elsewhere {
            self.counts.elsewhere += 1;
            return Ok(());
        }
        let records = cluster.store.records();
        let shown: Vec<(&str, u64, &str)> = page
            .records
            .iter()
            .map(|(name, state)| match state {
                RecordState::Present { generation, body } => Ok((*name, *generation, *body)),
                other => Err(format!("{other:?} of {name} in a page")),
            })
            .collect::<Result<_, _>>()?;
        let then = records.at(page.revision);
        let all = then.iter().filter(|(name, ..)| name.starts_with(&prefix) && *name > after.as_str());
        let is_in_time = (records.revision_at(call)..=records.revision()).contains(&page.revision);
        if !is_in_time || shown != all.take(usize::from(limit)).collect::<Vec<_>>() {
            return Err(format!("a page of {prefix} after `{after}`, asked at {call}: {page:?}"));
        }
        let returned = cluster.now();
        self.browsed.extend(shown.iter().map(|&(name, generation, body)| Browsed {
            name: name.to_owned(),
            generation,
            body: body.to_owned(),
            call,
            returned,
        }));
        let last = shown.last().map(|(name, ..)| (*name).to_owned());
        self.counts.browsed += 1;
        let known = &mut self.editor(operator).known;
        let is_covered =
            |name: &String| name.starts_with(&prefix) && *name > after && (!page.more || Some(name) <= last.as_ref());
        known.retain(|name, _| !is_covered(name));
        known.extend(shown.iter().map(|(name, generation, _)| ((*name).to_owned(), *generation)));
        Ok(())
    }

    /// One to three changes at once, over what the editor knows, over something else, or over whatever is there.
    fn change(&mut self, cluster: &Cluster, operator: u16) -> Vec<Op> {
        let records = cluster.store.records();
        if records.get("site").is_none() {
            return self.first_change();
        }
        let mut ops: Vec<Op> = Vec::new();
        let wanted = if self.rng.random_range(0..4) == 0 { self.rng.random_range(2..=3) } else { 1 };
        while ops.len() < wanted {
            let name = any_name(&mut self.rng);
            if ops.iter().any(|op| op.name == name) {
                continue;
            }
            let tenant = name.tenant().unwrap_or_default();
            let is_closing = records.get(&format!("t/{tenant}")).is_some_and(|(_, body)| body.contains("closing"));
            let is_removed = match name {
                Name::Site => false,
                // What is being removed is emptied.
                _ if is_closing => self.rng.random_range(0..8) > 0,
                Name::Tenant(_) => false,
                _ => self.rng.random_range(0..4) == 0,
            };
            self.last_number += 1;
            let body = (!is_removed).then(|| body(&mut self.rng, &name, self.last_number));
            let known = self.editors[&operator].known.get(&name.to_string()).copied();
            let expect = match self.rng.random_range(0..6) {
                0..=2 => known,
                3 => Some(0),
                _ => None,
            };
            ops.push(Op { name, expect, body });
        }
        ops
    }

    /// The site and its tenants.
    fn first_change(&mut self) -> Vec<Op> {
        let names = std::iter::once(Name::Site).chain(TENANTS.map(|tenant| Name::Tenant(tenant.to_owned())));
        let op = |name| {
            self.last_number += 1;
            let body = body(&mut self.rng, &name, self.last_number);
            Op { name, expect: Some(0), body: Some(body) }
        };
        names.map(op).collect()
    }

    /// A VIF without an address, which contradicts nothing.
    fn late_change(&mut self) -> Vec<Op> {
        let tenant = TENANTS[self.rng.random_range(0..TENANTS.len())].to_owned();
        let name = any_vif(&mut self.rng, tenant);
        self.last_number += 1;
        let number = self.last_number.to_be_bytes();
        let body = format!("space = 1\nmac = \"02:00:00:02:{:02x}:{:02x}\"\naddresses = []\n", number[2], number[3]);
        vec![Op { name, expect: None, body: Some(body) }]
    }

    fn amend(&mut self, cluster: &mut Cluster, operator: u16, ops: Vec<Op>) {
        if ops.is_empty() {
            return;
        }
        let names: Vec<String> = ops.iter().map(|op| op.name.to_string()).collect();
        let of = |(op, name)| {
            let (op, name): (&Op, &String) = (op, name);
            AmendOp { name, expect: op.expect, body: op.body.as_deref() }
        };
        self.send(cluster, operator, &Message::Amend(Amend { ops: ops.iter().zip(&names).map(of).collect() }));
        self.editor(operator).doing = Doing::Amending(self.attempts.len());
        self.attempts.push(Attempt { ops, call: cluster.now(), ended: None });
    }

    fn amended(&mut self, cluster: &Cluster, operator: u16, amended: &Amended<'_>) -> Result<(), String> {
        let Doing::Amending(at) = std::mem::take(&mut self.editor(operator).doing) else {
            return Err(format!("{amended:?} unasked"));
        };
        let outcome = outcome_of(amended).ok_or("an editor may not change records")?;
        let count = match &outcome {
            Outcome::Committed(_) => &mut self.counts.committed,
            Outcome::Conflict(..) => &mut self.counts.conflicts,
            Outcome::Invalid(..) => &mut self.counts.invalid,
            Outcome::Busy | Outcome::Unknown => &mut self.counts.unknown,
        };
        *count += 1;
        let attempt = &mut self.attempts[at];
        attempt.ended = Some((cluster.now(), outcome.clone()));
        attempt.check(cluster.store.records())?;
        let seen: Vec<(String, u64)> = match outcome {
            Outcome::Committed(revision) => attempt.ops.iter().map(|op| (op.name.to_string(), revision)).collect(),
            Outcome::Conflict(at, generation) => vec![(attempt.ops[at].name.to_string(), generation)],
            _ => Vec::new(),
        };
        self.editor(operator).known.extend(seen);
        Ok(())
    }
}

/// After the faults, when the last change is made.
const LAST_CHANGE: Duration = Duration::from_secs(12);
