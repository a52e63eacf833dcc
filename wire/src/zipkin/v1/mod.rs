//! Version 1: a span is a list of annotations, each with the endpoint that made it. The events of
//! an exchange have two-letter names, and both sides may be in one span. It becomes one version 2
//! span for each side.

pub(super) mod json;
pub(super) mod thrift;

use spanwise_model::{AttributeValue, Kind, SpanId, TraceId};

use super::Spans;
use super::span::{Annotation, Endpoint, ZipkinSpan};
use crate::rows::DecodeError;

/// A decoded span.
#[derive(Debug)]
struct V1Span {
    trace_id: TraceId,
    id: SpanId,
    parent_id: Option<SpanId>,
    name: String,
    timestamp_micros: Option<i64>,
    duration_micros: Option<i64>,
    annotations: Vec<V1Annotation>,
    tags: Vec<V1Tag>,
    debug: bool,
}

#[derive(Debug)]
struct V1Annotation {
    timestamp_micros: i64,
    value: String,
    endpoint: Option<Endpoint>,
}

/// A "binary annotation".
#[derive(Debug)]
struct V1Tag {
    key: String,
    value: AttributeValue,
    endpoint: Option<Endpoint>,
}

/// One side of an exchange: its begin and end, if known.
#[derive(Debug, Default)]
struct Side {
    kind: Option<Kind>,
    begin: Option<V1Annotation>,
    end: Option<V1Annotation>,
}

impl Side {
    fn of(kind: Kind) -> Self {
        Self { kind: Some(kind), ..Self::default() }
    }

    fn endpoint(&self) -> Option<&Endpoint> {
        self.begin.as_ref().or(self.end.as_ref())?.endpoint.as_ref()
    }

    const fn is_seen(&self) -> bool {
        self.begin.is_some() || self.end.is_some()
    }

    /// Start and duration.
    fn times(&self) -> (Option<i64>, Option<i64>) {
        let micros = |moment: &Option<V1Annotation>| moment.as_ref().map(|m| m.timestamp_micros);
        match (micros(&self.begin), micros(&self.end)) {
            (Some(begin), Some(end)) => (Some(begin), end.checked_sub(begin).filter(|d| *d > 0)),
            (begin, _) => (begin, None),
        }
    }
}

/// The core annotations: the side, and whether it begins there. A consumer begins when the message
/// was received.
const CORE: [(&str, Kind, bool); 8] = [
    ("cs", Kind::Client, true),
    ("cr", Kind::Client, false),
    ("sr", Kind::Server, true),
    ("ss", Kind::Server, false),
    ("ms", Kind::Producer, true),
    ("ws", Kind::Producer, false),
    ("wr", Kind::Consumer, true),
    ("mr", Kind::Consumer, false),
];

/// Assigns a span's annotations and tags to its sides, and adds each side.
fn take(span: V1Span, spans: &mut Spans) -> Result<(), DecodeError> {
    for side in sides(span) {
        spans.take(Ok(side))?;
    }
    Ok(())
}

fn sides(span: V1Span) -> Vec<ZipkinSpan> {
    let mut sides = [Kind::Client, Kind::Server, Kind::Producer, Kind::Consumer].map(Side::of);
    let mut others = Vec::new();
    for annotation in span.annotations {
        let core = CORE.iter().find(|(name, ..)| *name == annotation.value);
        let place = match core {
            Some((_, kind, begins)) => sides
                .iter_mut()
                .find(|side| side.kind == Some(*kind))
                .map(|side| if *begins { &mut side.begin } else { &mut side.end }),
            None => None,
        };
        match place {
            Some(place) if place.is_none() => *place = Some(annotation),
            _ => others.push(annotation),
        }
    }
    let mut addresses = Addresses::default();
    let mut tags = Vec::new();
    for V1Tag { key, value, endpoint } in span.tags {
        // The value is true, or what old senders use for true.
        let address = match key.as_str() {
            "ca" => Some(&mut addresses.client),
            "sa" => Some(&mut addresses.server),
            "ma" => Some(&mut addresses.broker),
            _ => None,
        };
        match (address, endpoint) {
            (Some(address), Some(endpoint)) => *address = Some(endpoint),
            (_, endpoint) => tags.push(V1Tag { key, value, endpoint }),
        }
    }
    let mut seen: Vec<Side> = sides.into_iter().filter(Side::is_seen).collect();
    if seen.is_empty() {
        seen.push(Side::default());
    }

    let base = ZipkinSpan {
        name: span.name,
        debug: span.debug,
        ..ZipkinSpan::new(span.trace_id, span.id, span.parent_id)
    };
    let has = |kind| seen.iter().any(|side| side.kind == Some(kind));
    let (called, sent) = (has(Kind::Client), has(Kind::Producer));
    let mut made: Vec<ZipkinSpan> = seen
        .into_iter()
        .map(|side| {
            // If the span has both sides, its own time is that of the side that began it.
            let joined = match side.kind {
                Some(Kind::Server) => called,
                Some(Kind::Consumer) => sent,
                _ => false,
            };
            let (begin, length) = side.times();
            let (own_begin, own_length) = match joined {
                false => (span.timestamp_micros, span.duration_micros),
                true => (None, None),
            };
            let lone_end =
                if begin.is_none() || length.is_none() { side.end.as_ref() } else { None };
            ZipkinSpan {
                kind: side.kind,
                timestamp_micros: own_begin.or(begin),
                duration_micros: own_length.or(length),
                local: side.endpoint().cloned().unwrap_or_default(),
                annotations: lone_end.map(V1Annotation::plain).into_iter().collect(),
                // A tracer that did not begin the span does not report its time.
                shared: joined
                    || (side.kind == Some(Kind::Server)
                        && side.begin.is_some()
                        && span.timestamp_micros.is_none()),
                ..base.clone()
            }
        })
        .collect();
    addresses.put(&mut made);
    for annotation in others {
        let side = side_at(&mut made, annotation.endpoint.as_ref());
        side.annotations.push(annotation.plain());
    }
    for tag in tags {
        let side = side_at(&mut made, tag.endpoint.as_ref());
        if tag.key == "lc" && tag.value.as_str() == Some("") {
            // Only says where a local span ran.
            continue;
        }
        side.tags.push((tag.key, tag.value));
    }
    made
}

impl V1Annotation {
    fn plain(&self) -> Annotation {
        Annotation { timestamp_micros: self.timestamp_micros, value: self.value.clone() }
    }
}

/// The side of an endpoint, by service, since tracers of one service may report several addresses.
/// A side without an endpoint takes it.
fn side_at<'a>(sides: &'a mut [ZipkinSpan], endpoint: Option<&Endpoint>) -> &'a mut ZipkinSpan {
    let found = endpoint
        .and_then(|endpoint| sides.iter().position(|side| same_place(&side.local, endpoint)));
    let side = &mut sides[found.unwrap_or(0)];
    if let Some(endpoint) = endpoint
        && side.local == Endpoint::default()
    {
        side.local = endpoint.clone();
    }
    side
}

fn same_place(one: &Endpoint, other: &Endpoint) -> bool {
    match (&one.service, &other.service) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.address == other.address,
        _ => false,
    }
}

/// The other ends, according to a side's annotations.
#[derive(Debug, Default)]
struct Addresses {
    client: Option<Endpoint>,
    server: Option<Endpoint>,
    broker: Option<Endpoint>,
}

impl Addresses {
    fn put(self, sides: &mut [ZipkinSpan]) {
        if let [alone] = sides
            && alone.kind.is_none()
        {
            alone_between(alone, self);
            return;
        }
        for side in sides {
            let other = match side.kind {
                Some(Kind::Client) => &self.server,
                Some(Kind::Server) => &self.client,
                Some(Kind::Producer | Kind::Consumer) => &self.broker,
                Some(Kind::Internal) | None => &None,
            };
            let Some(other) = other.as_ref().filter(|other| **other != side.local) else {
                continue;
            };
            side.remote = other.clone();
            // Some tracers give the remote end their own name.
            if side.remote.service == side.local.service {
                side.remote.service = None;
            }
        }
    }
}

/// A span without core annotations. Only addresses reveal its side.
fn alone_between(span: &mut ZipkinSpan, addresses: Addresses) {
    match addresses {
        Addresses { client: Some(client), server: Some(server), .. } => {
            (span.local, span.remote) = (client, server);
        }
        Addresses { server: Some(server), .. } => span.remote = server,
        Addresses { client: Some(client), .. } => {
            span.kind = Some(Kind::Server);
            span.remote = client;
        }
        Addresses { broker: Some(broker), .. } => span.remote = broker,
        Addresses { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(service: &str, port: u16) -> Option<Endpoint> {
        Some(Endpoint {
            service: Some(service.to_owned()),
            address: Some("10.0.0.1".to_owned()),
            port: Some(port),
        })
    }

    fn annotation(timestamp_micros: i64, value: &str, endpoint: Option<Endpoint>) -> V1Annotation {
        V1Annotation { timestamp_micros, value: value.to_owned(), endpoint }
    }

    fn tag(key: &str, endpoint: Option<Endpoint>) -> V1Tag {
        V1Tag { key: key.to_owned(), value: true.into(), endpoint }
    }

    fn span(annotations: Vec<V1Annotation>, tags: Vec<V1Tag>) -> V1Span {
        V1Span {
            trace_id: TraceId([1; 16]),
            id: SpanId([2; 8]),
            parent_id: Some(SpanId([3; 8])),
            name: "get".to_owned(),
            timestamp_micros: None,
            duration_micros: None,
            annotations,
            tags,
            debug: false,
        }
    }

    type SideSummary = (Option<Kind>, String, Option<i64>, Option<i64>, bool, Option<u16>);

    fn told(span: V1Span) -> Vec<SideSummary> {
        let tell = |side: ZipkinSpan| {
            let service = side.local.service.unwrap_or_default();
            let times = (side.timestamp_micros, side.duration_micros);
            (side.kind, service, times.0, times.1, side.shared, side.remote.port)
        };
        sides(span).into_iter().map(tell).collect()
    }

    #[test]
    fn both_sides_of_a_call_in_one_span_become_two() {
        let (front, back) = (at("front", 0), at("back", 80));
        let both = || {
            vec![
                annotation(10, "cs", front.clone()),
                annotation(20, "sr", back.clone()),
                annotation(70, "ss", back.clone()),
                annotation(90, "cr", front.clone()),
            ]
        };
        let tags = || vec![tag("sa", at("back", 81)), tag("ca", at("front", 4000))];
        let client = (Some(Kind::Client), "front".to_owned(), Some(10), Some(80), false, Some(81));
        let server = (Some(Kind::Server), "back".to_owned(), Some(20), Some(50), true, Some(4000));
        assert_eq!(told(span(both(), tags())), [client.clone(), server.clone()]);
        let timed =
            V1Span { timestamp_micros: Some(9), duration_micros: Some(99), ..span(both(), tags()) };
        let client = (client.0, client.1, Some(9), Some(99), client.4, client.5);
        assert_eq!(told(timed), [client, server]);
    }

    #[test]
    fn a_server_that_tells_no_time_of_the_span_joined_it() {
        let server = at("back", 80);
        let half =
            || vec![annotation(20, "sr", server.clone()), annotation(70, "ss", server.clone())];
        let joined = (Some(Kind::Server), "back".to_owned(), Some(20), Some(50), true, None);
        assert_eq!(told(span(half(), vec![])), std::slice::from_ref(&joined));
        let began = V1Span {
            timestamp_micros: Some(20),
            duration_micros: Some(50),
            ..span(half(), vec![])
        };
        assert_eq!(told(began), [(joined.0, joined.1, joined.2, joined.3, false, None)]);
    }

    #[test]
    fn a_process_that_calls_itself_is_both_sides() {
        let own = at("own", 80);
        let annotations = [(1, "cs"), (2, "sr"), (3, "ss"), (4, "cr")];
        let annotations =
            annotations.map(|(micros, value)| annotation(micros, value, own.clone())).into();
        let kinds: Vec<_> = told(span(annotations, vec![])).into_iter().map(|s| s.0).collect();
        assert_eq!(kinds, [Some(Kind::Client), Some(Kind::Server)]);
    }

    #[test]
    fn what_is_half_said_is_kept() {
        let front = at("front", 0);
        // Only the response was recorded.
        let made = sides(span(vec![annotation(90, "cr", front.clone())], vec![]));
        assert_eq!(made[0].annotations[0].value, "cr");
        assert_eq!((made[0].kind, made[0].timestamp_micros), (Some(Kind::Client), None));
        // A second begin, an end without a side, and an annotation.
        let annotations = vec![
            annotation(1, "cs", front.clone()),
            annotation(2, "cs", front.clone()),
            annotation(3, "cr", None),
            annotation(4, "retry", front.clone()),
        ];
        let made = sides(span(annotations, vec![tag("lc", front.clone()), tag("x", None)]));
        let values: Vec<_> = made[0].annotations.iter().map(|a| a.value.as_str()).collect();
        assert_eq!(values, ["cs", "retry"]);
        assert_eq!((made[0].timestamp_micros, made[0].duration_micros), (Some(1), Some(2)));
        assert_eq!(made[0].tags.len(), 2);
        // No annotations.
        assert_eq!(told(span(vec![], vec![tag("x", front)])).len(), 1);
    }

    #[test]
    fn messages_have_a_producer_and_a_consumer() {
        let (one, two) = (at("one", 0), at("two", 0));
        let annotations = vec![
            annotation(1, "ms", one.clone()),
            annotation(3, "ws", one),
            annotation(5, "wr", two.clone()),
            annotation(6, "mr", two),
        ];
        let told = told(span(annotations, vec![tag("ma", at("broker", 9092))]));
        let producer = (Some(Kind::Producer), "one".to_owned(), Some(1), Some(2), false);
        let consumer = (Some(Kind::Consumer), "two".to_owned(), Some(5), Some(1), true);
        let sides: Vec<_> = told.iter().cloned().map(|s| (s.0, s.1, s.2, s.3, s.4)).collect();
        assert_eq!(sides, [producer, consumer]);
        assert!(told.iter().all(|side| side.5 == Some(9092)));
    }
}
