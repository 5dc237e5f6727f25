//! Agents that subscribe to the tenants of their VIFs, as `crates/agent/src/netlord/host/records.rs` does, over the same [`View`].

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use weft_control::directory::PrincipalId;
use weft_control::netlord::tenants::records::messages::listed;
use weft_control::netlord::tenants::records::{Listed, ListedState, Name, Question, View, tenants_of};
use weft_control::wire::directory::{Message, Notice, Records, RecordsState, Subscribe};
use weft_fabric::{Duration, Instant};
use weft_sim::directory::cluster::{Cluster, operator_principal};

use super::bodies::{TENANTS, VIFS, expected};
use super::{LEARNT, SETTLED, Tenants};

#[derive(Debug)]
pub(super) struct Subscriber {
    principal: PrincipalId,
    view: View,
    /// Tenants and VIFs of theirs.
    wanted: BTreeSet<(String, String)>,
    asked: Option<Asked>,
    /// When it asked last, and how often there was a reason to ask since the stream was opened.
    last_asked: Instant,
    reasons: u64,
    /// The tenants that it has asked for on this stream.
    subscribed: BTreeSet<String>,
    /// No stream is opened before.
    retry_at: Instant,
    /// The revision of the last answer, and the last one that was compared with the store.
    revision: u64,
    compared: u64,
}

/// A question under way.
#[derive(Debug)]
struct Asked {
    question: Question,
    /// The store's revision at that time.
    since: u64,
    listed: Vec<Listed>,
}

impl Subscriber {
    pub(super) fn new(operator: u16) -> Self {
        Self {
            principal: operator_principal(operator),
            view: View::new(),
            wanted: BTreeSet::new(),
            asked: None,
            last_asked: Instant::ZERO,
            reasons: 0,
            subscribed: BTreeSet::new(),
            retry_at: Instant::ZERO,
            revision: 0,
            compared: 0,
        }
    }

    pub(super) fn lost(&mut self, retry_at: Instant) {
        self.asked = None;
        self.retry_at = retry_at;
    }

    /// Whether it has what the store has of what it wants.
    pub(super) fn has_all(&self, cluster: &Cluster) -> Result<(), String> {
        let records = cluster.store.records();
        let mut tenants: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (tenant, vif) in &self.wanted {
            tenants.entry(tenant.clone()).or_default().push(vif.clone());
        }
        let question = Question { fresh: true, tenants: tenants.into_iter().collect() };
        let all = expected(records, records.revision(), &question, self.principal);
        let present = all.iter().filter_map(|(name, state)| match state {
            ListedState::Present(_, body) => Some((name.parse::<Name>().expect("a record"), body.as_str())),
            ListedState::Absent | ListedState::Forbidden => None,
        });
        let present: Vec<(Name, &str)> = present.collect();
        let stored = tenants_of(1, present.iter().map(|(name, body)| (name, *body))).map_err(|e| format!("the store: {e}"))?;
        let held = self.view.tenants(1).map_err(|e| format!("its copy contradicts itself: {e}"))?;
        if held == stored {
            return Ok(());
        }
        Err(format!("it holds {held:?}, the store at revision {} {stored:?}", records.revision()))
    }

    /// One question more may be asked.
    fn expects(&mut self) {
        self.reasons += 1;
    }
}

impl Tenants {
    /// A subscriber's turn.
    pub(super) fn follow(&mut self, cluster: &mut Cluster, operator: u16) -> Result<(), String> {
        if !self.is_quiet(cluster) && (self.subscriber(operator).wanted.is_empty() || self.rng.random_range(0..40) == 0) {
            self.want(operator);
        }
        let now = cluster.now();
        if self.links[&operator].stream.is_none() && now >= self.subscriber(operator).retry_at {
            let server = self.rng.random_range(0..self.servers);
            let stream = cluster.open_stream(operator, server).map(|stream| (stream, server));
            self.link(operator).stream = stream;
            let retry_at = now + Duration::from_us(self.rng.random_range(500_000..1_500_000));
            let subscriber = self.subscriber(operator);
            match stream {
                Some(_) => {
                    subscriber.view.connected();
                    subscriber.subscribed.clear();
                    subscriber.reasons = 1;
                }
                None => subscriber.retry_at = retry_at,
            }
        }
        self.ask(cluster, operator)?;
        self.compare(cluster, operator)
    }

    /// A subscriber received something.
    pub(super) fn followed(&mut self, cluster: &mut Cluster, operator: u16, message: &Message<'_>) -> Result<(), String> {
        match message {
            Message::Records(records) => self.answered(cluster, operator, records)?,
            Message::Notice(notice) => self.notified(operator, notice)?,
            _ => return Err(format!("an unexpected {:?}", message.kind())),
        }
        self.ask(cluster, operator)
    }

    fn subscriber(&mut self, operator: u16) -> &mut Subscriber {
        self.subscribers.get_mut(&operator).expect("every subscriber is known")
    }

    /// VIFs come to its server and leave it.
    fn want(&mut self, operator: u16) {
        let mut wanted = BTreeSet::new();
        for tenant in TENANTS {
            // Of a third of the tenants none.
            let has_some = self.rng.random_range(0..3) > 0;
            let vifs = VIFS.iter().filter(|_| has_some && self.rng.random_range(0..2) == 0);
            wanted.extend(vifs.map(|vif| (tenant.to_owned(), (*vif).to_owned())));
        }
        let subscriber = self.subscriber(operator);
        subscriber.view.want(wanted.iter().cloned());
        subscriber.wanted = wanted;
        subscriber.expects();
    }

    /// Asks what there is to ask, once the last question is answered.
    fn ask(&mut self, cluster: &mut Cluster, operator: u16) -> Result<(), String> {
        let (now, since) = (cluster.now(), cluster.store.records().revision());
        let has_stream = self.links[&operator].stream.is_some();
        let subscriber = self.subscriber(operator);
        let is_silent = now.saturating_since(subscriber.last_asked) >= HEARTBEAT;
        if !has_stream || subscriber.asked.is_some() || !(subscriber.view.is_due() || is_silent) {
            return Ok(());
        }
        subscriber.reasons = match subscriber.reasons {
            0 if !is_silent => return Err("it asks again and again, and nothing has happened".to_owned()),
            reasons => reasons.saturating_sub(1),
        };
        let question = subscriber.view.question();
        subscriber.view.asked(&question);
        subscriber.subscribed.extend(question.tenants.iter().map(|(tenant, _)| tenant.clone()));
        (subscriber.last_asked, subscriber.asked) = (now, Some(Asked { question: question.clone(), since, listed: Vec::new() }));
        self.counts.questions += 1;
        let tenants = question.tenants.iter();
        let tenants = tenants.map(|(tenant, vifs)| (tenant.as_str(), vifs.iter().map(String::as_str).collect())).collect();
        self.send(cluster, operator, &Message::Subscribe(Subscribe { fresh: question.fresh, tenants }));
        Ok(())
    }

    fn answered(&mut self, cluster: &mut Cluster, operator: u16, answer: &Records<'_>) -> Result<(), String> {
        let store = cluster.store.records();
        let subscriber = self.subscriber(operator);
        let Some(mut asked) = subscriber.asked.take() else { return Err("records unasked".to_owned()) };
        asked.listed.extend(listed(answer));
        if answer.more {
            subscriber.asked = Some(asked);
            return Ok(());
        }
        match answer.state {
            RecordsState::Found => {}
            RecordsState::None if store.get_at("site", answer.revision).is_none() => return Ok(()),
            RecordsState::None => return Err(format!("no records at revision {}", answer.revision)),
            RecordsState::Refused => return Err("a question was refused".to_owned()),
            RecordsState::Elsewhere => {
                self.counts.elsewhere += 1;
                self.leave(cluster, operator);
                return Ok(());
            }
        }
        if answer.revision < asked.since || answer.revision > store.revision() {
            return Err(format!("an answer of revision {} to a question at {}", answer.revision, asked.since));
        }
        if answer.revision < subscriber.revision {
            return Err(format!("it went back from revision {} to {}", subscriber.revision, answer.revision));
        }
        subscriber.revision = answer.revision;
        let expected = expected(store, answer.revision, &asked.question, subscriber.principal);
        let answered: BTreeMap<String, ListedState> = asked.listed.iter().map(|it| (it.name.clone(), it.state.clone())).collect();
        if let Some(name) = answered.keys().find(|name| !expected.contains_key(*name)) {
            return Err(format!("{name} was not asked for, or is not to be read: {:?}", asked.question));
        }
        if answered != expected || answered.len() != asked.listed.len() {
            return Err(format!("at revision {} it was answered {answered:?}, where {expected:?} was", answer.revision));
        }
        if asked.question.fresh {
            // Notices of others may come until then.
            subscriber.subscribed = asked.question.tenants.iter().map(|(tenant, _)| tenant.clone()).collect();
        }
        subscriber.view.answered(&asked.question, asked.listed);
        self.counts.answers += 1;
        self.counts.forbidden += u64::from(expected.values().any(|state| *state == ListedState::Forbidden));
        Ok(())
    }

    fn notified(&mut self, operator: u16, notice: &Notice<'_>) -> Result<(), String> {
        let subscriber = self.subscriber(operator);
        if let Some(tenant) = notice.tenants.iter().find(|it| !it.is_empty() && !subscriber.subscribed.contains(**it)) {
            return Err(format!("a notice of {tenant}, to which it did not subscribe"));
        }
        subscriber.view.notified(notice.tenants.iter().copied());
        subscriber.expects();
        self.counts.notices += 1;
        Ok(())
    }

    /// Once nothing fails, a subscriber has a change within [`LEARNT`].
    fn compare(&mut self, cluster: &Cluster, operator: u16) -> Result<(), String> {
        let (now, settled) = (cluster.now(), self.heal_at + SETTLED);
        let records = cluster.store.records();
        let Some(last) = records.log().last() else { return Ok(()) };
        let subscriber = self.subscriber(operator);
        if now < settled + LEARNT || now < last.at + LEARNT || subscriber.compared == records.revision() {
            return Ok(());
        }
        subscriber.has_all(cluster).map_err(|e| format!("{LEARNT} after revision {}: {e}", records.revision()))?;
        subscriber.compared = records.revision();
        Ok(())
    }
}

/// A server that has sent nothing for so long is asked whether it is there.
const HEARTBEAT: Duration = Duration::from_secs(20);
