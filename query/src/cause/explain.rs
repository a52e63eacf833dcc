//! From a verdict to a story: evidence in words, where, since when, and examples.

use ahash::AHashMap;
use spanwise_analyze::cause::{CauseFigures, CauseValue, CauseVerdict, Evidence, Suspect, change};
use spanwise_analyze::{Name, Names};
use spanwise_store::TimeRange;

use super::read::{Detail, Rows};
use super::windows::Compared;
use super::words::{list, milliseconds, moved, number, percent};
use super::{
    CauseAnswer, CauseEvidence, CauseKind, CauseSuspect, CauseTrace, MOST_SUSPECTS, changes,
};

/// The most lines of evidence, examples and places of a suspect.
const MOST_EVIDENCE: usize = 4;
const MOST_TRACES: usize = 3;
const MOST_PLACES: usize = 3;
/// Spans that a place must have to be told apart.
const LEAST_OF_PLACE: usize = 4;

impl Compared {
    pub(super) fn usual_time(&self) -> Option<TimeRange> {
        Some(TimeRange {
            from_unix_nano: self.usual.iter().map(|window| window.time.from_unix_nano).min()?,
            to_unix_nano: self.usual.iter().map(|window| window.time.to_unix_nano).max()?,
        })
    }
}

/// Spans, and how their time divides.
pub(super) struct Side {
    pub(super) rows: Rows,
    pub(super) figures: CauseFigures,
}

impl Side {
    fn of(rows: Rows) -> Self {
        Self { figures: CauseFigures::of(&rows.spans), rows }
    }

    fn values(&self, names: &Names, service: &str, evidence: &Evidence) -> Vec<CauseValue> {
        self.figures.values(&self.rows.spans, names, service, evidence)
    }
}

/// The spans of a suspect's strongest evidence, with their values.
struct Values {
    bad: Vec<CauseValue>,
    usual: Vec<CauseValue>,
}

/// Everything that a story is made of.
struct Story<'a> {
    names: &'a Names,
    bad: &'a Side,
    usual: &'a Side,
}

/// The answer without attributes, and for each suspect the duration from which on its spans are
/// slow.
pub(super) fn explain(compared: Compared) -> (CauseAnswer, Vec<Option<i64>>) {
    let usual_time = compared.usual_time();
    let Compared { asked, usual, names, found, warnings } = compared;
    let verdict = CauseVerdict::of(&asked.range, usual.iter().map(|window| &window.range), &names);
    let usual_ranges = usual.len();
    let mut before = Rows::default();
    for window in usual {
        before.extend(&window.rows);
    }
    let (time, bad, usual) = (asked.time, Side::of(asked.rows), Side::of(before));
    let story = Story { names: &names, bad: &bad, usual: &usual };
    let stands_out = verdict.suspects.iter().any(|suspect| suspect.stands_out);
    let mut suspects = Vec::new();
    let mut limits = Vec::new();
    let told = verdict.suspects.iter().filter(|suspect| !suspect.evidence.is_empty());
    for suspect in told.take(MOST_SUSPECTS) {
        suspects.push(story.suspect(suspect));
        limits.push(story.slow_nano(suspect));
    }
    let changes = changes::changes(&bad, &usual, &names, &suspects);
    let summary = summary(&suspects, stands_out, usual_ranges, bad.rows.spans.len());
    let answer = CauseAnswer {
        summary,
        stands_out,
        suspects,
        changes,
        time,
        found: found && stands_out,
        usual_time,
        usual_ranges,
        spans: bad.rows.spans.len(),
        usual_spans: usual.rows.spans.len(),
        warnings,
    };
    (answer, limits)
}

fn summary(
    suspects: &[CauseSuspect],
    stands_out: bool,
    usual_ranges: usize,
    spans: usize,
) -> String {
    if spans == 0 {
        return "There is nothing to explain: no span started in this time.".to_owned();
    }
    if usual_ranges < 3 {
        return "What is usual is not known yet, so nothing can stand out.".to_owned();
    }
    match suspects.iter().find(|suspect| suspect.stands_out) {
        Some(suspect) if stands_out => {
            let why = suspect.evidence.first().map_or("", |evidence| evidence.text.as_str());
            format!("{} is suspected first: {why}.", suspect.service)
        }
        _ => format!(
            "Nothing stands out: times, calls and failures are within what is usual in the \
             {usual_ranges} ranges before."
        ),
    }
}

impl Story<'_> {
    fn suspect(&self, suspect: &Suspect) -> CauseSuspect {
        let service = suspect.service.as_str();
        let mut told = CauseSuspect {
            service: service.to_owned(),
            score: suspect.score,
            stands_out: suspect.stands_out,
            ..CauseSuspect::default()
        };
        for evidence in suspect.evidence.iter().take(MOST_EVIDENCE) {
            told.evidence.push(self.evidence(service, evidence));
        }
        let Some(main) = suspect.evidence.first() else { return told };
        let values = self.values_of(service, main);
        told.operation = match main {
            Evidence::OwnTime { operation, .. }
            | Evidence::Calls { operation, .. }
            | Evidence::Errors { operation, .. } => Some(operation.clone()),
            // The operation that answers is more use than the call.
            Evidence::TimeBetween { .. } | Evidence::Retransmits { .. } => None,
        };
        told.began_unix_nano = self.began(&values);
        told.places = self.places(main, &values);
        told.callers = self.callers(service, &values);
        told.bad_traces = self.examples(self.bad, main, &values.bad, true);
        told.usual_traces = self.examples(self.usual, main, &values.usual, false);
        told
    }

    fn values_of(&self, service: &str, evidence: &Evidence) -> Values {
        Values {
            bad: self.bad.values(self.names, service, evidence),
            usual: self.usual.values(self.names, service, evidence),
        }
    }

    fn evidence(&self, service: &str, evidence: &Evidence) -> CauseEvidence {
        let (kind, text, value, usual) = match evidence {
            Evidence::OwnTime { operation, store, ms, usual_ms, .. } => {
                let values = self.values_of(service, evidence);
                let (at, ms, usual_ms) = typical_or_tail(&values, *ms, *usual_ms);
                let what = match (store, self.peer(&values.bad)) {
                    (Some(store), _) => format!("time of `{operation}` in {store}"),
                    (None, Some(peer)) => format!("calls `{operation}` to {peer}"),
                    (None, None) => format!("own time of `{operation}`"),
                };
                let text = format!(
                    "{at}{what} {} from {} to {}",
                    moved(ms, usual_ms),
                    milliseconds(usual_ms),
                    milliseconds(ms)
                );
                (CauseKind::OwnTime, text, ms, usual_ms)
            }
            Evidence::TimeBetween { client, server, ms, usual_ms, .. } => {
                let values = self.values_of(service, evidence);
                let (at, ms, usual_ms) = typical_or_tail(&values, *ms, *usual_ms);
                let text = format!(
                    "{at}time between {client} and {server} {} from {} to {}{}",
                    moved(ms, usual_ms),
                    milliseconds(usual_ms),
                    milliseconds(ms),
                    self.network(&values)
                );
                (CauseKind::TimeBetween, text, ms, usual_ms)
            }
            Evidence::Calls { operation, calls, usual_calls, .. } => {
                let text = format!(
                    "calls of `{operation}` {} from {} to {} for each run{}",
                    moved(*calls, *usual_calls),
                    number(*usual_calls),
                    number(*calls),
                    self.most_moved_call(service, operation)
                );
                (CauseKind::Calls, text, *calls, *usual_calls)
            }
            Evidence::Errors { operation, store, share, usual_share, .. } => {
                let values = self.values_of(service, evidence);
                let what = match store {
                    Some(store) => format!("errors of `{operation}` in {store}"),
                    None => format!("own errors of `{operation}`"),
                };
                let text = format!(
                    "{what} {} from {} to {}{}",
                    moved(*share, *usual_share),
                    percent(*usual_share),
                    percent(*share),
                    self.frequent_error(&values.bad)
                );
                (CauseKind::Errors, text, *share, *usual_share)
            }
            Evidence::Retransmits { client, server, share, usual_share, .. } => {
                let text = format!(
                    "calls from {client} to {server} with retransmits {} from {} to {}",
                    moved(*share, *usual_share),
                    percent(*usual_share),
                    percent(*share)
                );
                (CauseKind::Retransmits, text, *share, *usual_share)
            }
        };
        CauseEvidence { kind, text, value, usual }
    }

    /// What a call went to that has no span of its own: a protocol and an address.
    fn peer(&self, values: &[CauseValue]) -> Option<String> {
        let first = values.iter().find(|value| self.bad.rows.spans[value.span].is_call)?;
        let detail = &self.bad.rows.details[first.span];
        let protocol = detail.protocol.map(|name| self.names.text(name));
        let server = detail.server.map(|(address, port)| {
            let address = self.names.text(address);
            port.map_or_else(|| address.to_owned(), |port| format!("{address}:{port}"))
        });
        match (protocol, server) {
            (Some(protocol), Some(server)) => Some(format!("{protocol} at {server}")),
            (Some(one), None) => Some(one.to_owned()),
            (None, server) => server,
        }
    }

    /// Round trips and retransmits of calls, if they moved.
    fn network(&self, values: &Values) -> String {
        let trips = |side: &Side, values: &[CauseValue]| {
            let of = values.iter().filter_map(|value| side.rows.details[value.span].rtt_nano);
            middle(of.map(|nano| nano as f64 / 1e6).collect(), 0.5)
        };
        let repeats = |side: &Side, values: &[CauseValue]| {
            let sum: f64 = values
                .iter()
                .map(|value| f64::from(side.rows.spans[value.span].retransmits.unwrap_or(0)))
                .sum();
            sum / values.len().max(1) as f64
        };
        let mut text = String::new();
        let (bad, usual) = (trips(self.bad, &values.bad), trips(self.usual, &values.usual));
        if let (Some(bad), Some(usual)) = (bad, usual)
            && bad > usual * 1.5 + 0.1
        {
            text += &format!(
                "; round trips of the network from {} to {}",
                milliseconds(usual),
                milliseconds(bad)
            );
        }
        let (bad, usual) = (repeats(self.bad, &values.bad), repeats(self.usual, &values.usual));
        if bad > usual * 2.0 + 0.01 {
            text += &format!(
                "; retransmits from {} to {} for 100 calls",
                number(usual * 100.0),
                number(bad * 100.0)
            );
        }
        text
    }

    /// The call of an operation whose number for each run moved most.
    fn most_moved_call(&self, service: &str, operation: &str) -> String {
        let counts = |side: &Side| {
            let is = |span: usize| {
                let span = &side.rows.spans[span];
                self.names.text(span.service) == service
                    && self.names.text(span.operation) == operation
            };
            let runs = (0..side.rows.spans.len()).filter(|span| is(*span)).count();
            let mut counts: AHashMap<(Name, Name), f64> = AHashMap::new();
            for (parent, _, call) in side.figures.calls(&side.rows.spans) {
                if is(parent) {
                    *counts.entry(call.server).or_default() += 1.0 / runs.max(1) as f64;
                }
            }
            counts
        };
        let (bad, usual) = (counts(self.bad), counts(self.usual));
        let mut moves: Vec<((Name, Name), f64, f64)> = bad
            .keys()
            .chain(usual.keys())
            .map(|key| {
                let count = |of: &AHashMap<_, f64>| of.get(key).copied().unwrap_or(0.0);
                (*key, count(&bad), count(&usual))
            })
            .collect();
        moves.sort_by(|one, other| {
            let by = |(key, bad, usual): &(_, f64, f64)| ((bad - usual).abs(), *key);
            let (one, other) = (by(one), by(other));
            other.0.total_cmp(&one.0).then(one.1.cmp(&other.1))
        });
        let Some(((called, call), bad, usual)) = moves.first() else { return String::new() };
        let of = match self.names.text(*called) {
            called if called == service => String::new(),
            called => format!(" of {called}"),
        };
        format!(
            ", most of all `{}`{of} from {} to {}",
            self.names.text(*call),
            number(*usual),
            number(*bad)
        )
    }

    fn frequent_error(&self, values: &[CauseValue]) -> String {
        let mut counts: AHashMap<Name, usize> = AHashMap::new();
        for value in values.iter().filter(|value| value.value > 0.0) {
            if let Some(error) = self.bad.rows.details[value.span].error {
                *counts.entry(error).or_default() += 1;
            }
        }
        let most =
            counts.into_iter().max_by_key(|(name, count)| (*count, std::cmp::Reverse(*name)));
        most.map_or(String::new(), |(error, _)| {
            let text: String = self.names.text(error).chars().take(120).collect();
            format!(", most of them \"{text}\"")
        })
    }

    /// When the values changed, over the usual and the bad ranges.
    fn began(&self, values: &Values) -> Option<i64> {
        let of = |side: &Side, values: &[CauseValue]| {
            let start =
                |value: &CauseValue| (side.rows.spans[value.span].start_unix_nano, value.value);
            values.iter().map(start).collect::<Vec<_>>()
        };
        let mut all = of(self.usual, &values.usual);
        all.extend(of(self.bad, &values.bad));
        change(&mut all)
    }

    /// Where it is seen: everywhere, or only at some of the places that the service runs at.
    fn places(&self, evidence: &Evidence, values: &Values) -> Vec<String> {
        let average = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let usual: Vec<f64> = values.usual.iter().map(|value| value.value).collect();
        let all: Vec<f64> = values.bad.iter().map(|value| value.value).collect();
        let by = |place: fn(&Detail) -> Option<Name>| {
            let mut places: AHashMap<Name, Vec<f64>> = AHashMap::new();
            for value in &values.bad {
                if let Some(place) = place(&self.bad.rows.details[value.span]) {
                    places.entry(place).or_default().push(value.value);
                }
            }
            let mut places: Vec<(Name, f64)> = places
                .into_iter()
                .filter(|(_, values)| values.len() >= LEAST_OF_PLACE)
                .map(|(place, values)| (place, average(&values)))
                .collect();
            places.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
            places
        };
        let figure = |value: f64| match evidence {
            Evidence::OwnTime { .. } | Evidence::TimeBetween { .. } => milliseconds(value),
            Evidence::Calls { .. } => number(value),
            Evidence::Errors { .. } => percent(value),
            Evidence::Retransmits { .. } => format!("{} for each call", number(value)),
        };
        let mut told = Vec::new();
        for (word, places) in [
            ("instance", by(|detail| detail.instance)),
            ("version", by(|detail| detail.version)),
            ("host", by(|detail| detail.host)),
        ] {
            let name = |place: Name| self.names.text(place);
            // Half of the way from what is usual.
            let middle = f64::midpoint(average(&usual), average(&all));
            let (hit, spared): (Vec<_>, Vec<_>) =
                places.iter().partition(|(_, value)| *value >= middle);
            match (&hit[..], &spared[..]) {
                ([], _) => {}
                ([(one, _)], []) => {
                    if word != "version" {
                        told.push(format!("{word} {}", name(*one)));
                    }
                }
                (hit, []) => told.push(format!("all {} {word}s", hit.len())),
                (hit, spared) => {
                    let shown: Vec<String> = hit
                        .iter()
                        .take(MOST_PLACES)
                        .map(|(place, value)| format!("{} ({})", name(*place), figure(*value)))
                        .collect();
                    let other =
                        average(&spared.iter().map(|(_, value)| *value).collect::<Vec<_>>());
                    told.push(format!(
                        "only {word} {}, not the other {} ({})",
                        list(&shown),
                        spared.len(),
                        figure(other)
                    ));
                }
            }
        }
        told
    }

    /// The services that called the suspect's spans, those with most calls first.
    fn callers(&self, service: &str, values: &Values) -> Vec<String> {
        let side = self.bad;
        let mut counts: AHashMap<Name, usize> = AHashMap::new();
        for value in &values.bad {
            let mut at = value.span;
            // A request has few levels within one service; circles end here too.
            for _ in 0..64 {
                let Some(above) = side.figures.parent(at) else { break };
                let caller = side.rows.spans[above].service;
                if self.names.text(caller) != service {
                    *counts.entry(caller).or_default() += 1;
                    break;
                }
                at = above;
            }
        }
        let mut callers: Vec<(Name, usize)> = counts.into_iter().collect();
        callers.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        callers.iter().take(5).map(|(name, _)| self.names.text(*name).to_owned()).collect()
    }

    fn examples(
        &self,
        side: &Side,
        evidence: &Evidence,
        values: &[CauseValue],
        bad: bool,
    ) -> Vec<CauseTrace> {
        let mut sorted = values.to_vec();
        // Fewer calls than usual are told by the traces that have fewest.
        let fewer =
            matches!(evidence, Evidence::Calls { calls, usual_calls, .. } if calls < usual_calls);
        sorted.sort_by(|one, other| {
            let order = other.value.total_cmp(&one.value).then(one.span.cmp(&other.span));
            if fewer { order.reverse() } else { order }
        });
        let from = if bad { 0 } else { sorted.len() / 2 };
        let mut traces: Vec<CauseTrace> = Vec::new();
        for value in &sorted[from..] {
            let (span, detail) = (&side.rows.spans[value.span], &side.rows.details[value.span]);
            if traces.iter().any(|other| other.trace == detail.trace) {
                continue;
            }
            let text = match evidence {
                Evidence::OwnTime { .. } | Evidence::TimeBetween { .. } => {
                    milliseconds(value.value)
                }
                Evidence::Calls { .. } => format!("{} calls", number(value.value)),
                Evidence::Errors { .. } if value.value > 0.0 => "failed".to_owned(),
                Evidence::Errors { .. } => "did not fail".to_owned(),
                Evidence::Retransmits { .. } => format!("{} retransmits", number(value.value)),
            };
            let start_unix_nano = span.start_unix_nano;
            traces.push(CauseTrace { trace: detail.trace, start_unix_nano, text });
            if traces.len() == if bad { MOST_TRACES } else { 1 } {
                break;
            }
        }
        traces
    }

    /// The duration from which on spans of the suspect's operation are slower than usual.
    fn slow_nano(&self, suspect: &Suspect) -> Option<i64> {
        let Evidence::OwnTime { operation, store: None, .. } = suspect.evidence.first()? else {
            return None;
        };
        let durations: Vec<f64> = self
            .usual
            .rows
            .spans
            .iter()
            .filter(|span| {
                self.names.text(span.service) == suspect.service
                    && self.names.text(span.operation) == operation
            })
            .map(|span| span.duration_nano as f64)
            .collect();
        middle(durations, 0.95).map(|nano| nano as i64)
    }
}

/// The median where it moved, and else the 95th percentile. Both are values that there were: the
/// middle between fast and slow requests would be neither.
fn typical_or_tail(values: &Values, ms: f64, usual_ms: f64) -> (&'static str, f64, f64) {
    let at = |share: f64| {
        let of =
            |values: &[CauseValue]| middle(values.iter().map(|value| value.value).collect(), share);
        Some((of(&values.bad)?, of(&values.usual)?))
    };
    match (at(0.5), at(0.95)) {
        (Some((median, usual)), Some((tail, usual_tail)))
            if median < usual * 1.3 && tail > usual_tail =>
        {
            ("95th percentile of ", tail, usual_tail)
        }
        (Some((median, usual)), _) => ("", median, usual),
        _ => ("", ms, usual_ms),
    }
}

/// A quantile, by nearest rank; `None` if there are no values.
fn middle(mut values: Vec<f64>, share: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    values.sort_unstable_by(f64::total_cmp);
    values.get((share * last as f64).round() as usize).copied()
}
