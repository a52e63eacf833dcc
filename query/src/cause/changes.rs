//! What began or ended with the range: calls, versions, services.

use std::cmp::Reverse;
use std::hash::Hash;

use ahash::{AHashMap, AHashSet};
use spanwise_analyze::{Name, Names};

use super::explain::Side;
use super::{CauseChange, CauseSuspect};

/// The most changes that are told.
const MOST_CHANGES: usize = 12;
/// Spans from which on something is there, and that must have been expected where it is not.
const SEEN: f64 = 3.0;
const EXPECTED: f64 = 8.0;

/// A caller with its operation, and a called service with its.
type Edge = (Name, Option<Name>, Name, Option<Name>);

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    count: f64,
    first_unix_nano: i64,
}

struct Counts<K>(AHashMap<K, Seen>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(AHashMap::new())
    }
}

impl<K: Hash + Eq + Copy> Counts<K> {
    fn add(&mut self, key: K, start_unix_nano: i64) {
        let seen =
            self.0.entry(key).or_insert(Seen { count: 0.0, first_unix_nano: start_unix_nano });
        seen.count += 1.0;
        seen.first_unix_nano = seen.first_unix_nano.min(start_unix_nano);
    }

    fn count(&self, key: &K) -> f64 {
        self.0.get(key).map_or(0.0, |seen| seen.count)
    }
}

/// What is there at one side only.
#[derive(Default)]
struct Facts {
    edges: Counts<Edge>,
    services: Counts<Name>,
    operations: Counts<(Name, Name)>,
    versions: Counts<(Name, Name)>,
}

impl Facts {
    fn of(side: &Side) -> Self {
        let mut facts = Self::default();
        let spans = &side.rows.spans;
        for (span, detail) in spans.iter().zip(&side.rows.details) {
            facts.services.add(span.service, span.start_unix_nano);
            facts.operations.add((span.service, span.operation), span.start_unix_nano);
            if let Some(version) = detail.version {
                facts.versions.add((span.service, version), span.start_unix_nano);
            }
        }
        for (_, child, call) in side.figures.calls(spans) {
            let start = spans[child].start_unix_nano;
            let ((client, from), (server, to)) = (call.client, call.server);
            facts.edges.add((client, Some(from), server, Some(to)), start);
            if client != server {
                facts.edges.add((client, None, server, None), start);
            }
        }
        facts
    }
}

/// The changes: those of suspects and their callers first, then those of most spans.
pub(super) fn changes(
    bad: &Side,
    usual: &Side,
    names: &Names,
    suspects: &[CauseSuspect],
) -> Vec<CauseChange> {
    let (now, before) = (Facts::of(bad), Facts::of(usual));
    if bad.rows.spans.is_empty() || usual.rows.spans.is_empty() {
        return Vec::new();
    }
    let share = bad.rows.spans.len() as f64 / usual.rows.spans.len() as f64;
    let text = |name: Name| names.text(name);
    let mut told: Vec<(u8, f64, CauseChange)> = Vec::new();
    let mut tell = |rank: u8, weight: f64, service: Name, since: Option<i64>, sentence: String| {
        let service = text(service).to_owned();
        let change = CauseChange { text: sentence, service, since_unix_nano: since };
        told.push((rank, weight, change));
    };
    for (key, seen) in &now.versions.0 {
        let (service, version) = *key;
        let others: Vec<String> = before
            .versions
            .0
            .keys()
            .filter(|(other, _)| *other == service)
            .map(|(_, version)| text(*version).to_owned())
            .collect();
        if before.versions.count(key) == 0.0 && seen.count >= SEEN && !others.is_empty() {
            let sentence = format!(
                "{} runs version {}, before {}",
                text(service),
                text(version),
                super::words::list(&others)
            );
            tell(0, seen.count, service, Some(seen.first_unix_nano), sentence);
        }
    }
    let mut gone: AHashSet<Name> = AHashSet::new();
    for (service, seen) in &before.services.0 {
        if now.services.count(service) == 0.0 && seen.count * share >= EXPECTED {
            gone.insert(*service);
            let sentence = format!("no span of {} any more", text(*service));
            tell(1, seen.count * share, *service, None, sentence);
        }
    }
    let mut fresh: AHashSet<(Name, Name)> = AHashSet::new();
    for (key, seen) in &now.edges.0 {
        let (client, None, server, None) = *key else { continue };
        let expected = before.services.count(&client) * share;
        if before.edges.count(key) == 0.0 && seen.count >= SEEN && expected >= EXPECTED {
            fresh.insert((client, server));
            let sentence =
                format!("{} calls {}, which it did not before", text(client), text(server));
            tell(2, seen.count, client, Some(seen.first_unix_nano), sentence);
        }
    }
    let mut lost: AHashSet<(Name, Name)> = AHashSet::new();
    for (key, seen) in &before.edges.0 {
        let (client, None, server, None) = *key else { continue };
        let runs = now.services.count(&client);
        let expected = seen.count / before.services.count(&client).max(1.0) * runs;
        if now.edges.count(key) == 0.0 && expected >= EXPECTED && !gone.contains(&client) {
            lost.insert((client, server));
            let sentence = format!("{} does not call {} any more", text(client), text(server));
            tell(2, expected, client, None, sentence);
        }
    }
    for (key, seen) in &now.edges.0 {
        let (client, Some(from), server, Some(to)) = *key else { continue };
        let expected = before.operations.count(&(client, from)) * share;
        let is_new = before.edges.count(key) == 0.0 && !fresh.contains(&(client, server));
        if is_new && seen.count >= SEEN && expected >= EXPECTED {
            let sentence = format!(
                "`{}` of {} makes calls `{}`{}, which it did not before",
                text(from),
                text(client),
                text(to),
                of(client, server, names)
            );
            tell(3, seen.count, client, Some(seen.first_unix_nano), sentence);
        }
    }
    for (key, seen) in &before.edges.0 {
        let (client, Some(from), server, Some(to)) = *key else { continue };
        let (runs, usual_runs) =
            (now.operations.count(&(client, from)), before.operations.count(&(client, from)));
        let expected = seen.count / usual_runs.max(1.0) * runs;
        let is_lost = now.edges.count(key) == 0.0 && !lost.contains(&(client, server));
        if is_lost && expected >= EXPECTED {
            let sentence = format!(
                "`{}` of {} makes no calls `{}`{} any more",
                text(from),
                text(client),
                text(to),
                of(client, server, names)
            );
            tell(3, expected, client, None, sentence);
        }
    }
    told.sort_by(|one, other| {
        let by = |(rank, weight, change): &(u8, f64, CauseChange)| {
            let of_suspect = suspects.iter().any(|suspect| {
                suspect.service == change.service || suspect.callers.contains(&change.service)
            });
            (!of_suspect, *rank, Reverse((*weight * 1e3) as u64), change.text.clone())
        };
        by(one).cmp(&by(other))
    });
    told.into_iter().map(|(_, _, change)| change).take(MOST_CHANGES).collect()
}

fn of(client: Name, server: Name, names: &Names) -> String {
    if client == server { String::new() } else { format!(" of {}", names.text(server)) }
}
