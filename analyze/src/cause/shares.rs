//! How the time of spans divides into their own and that of the calls that they made.

use ahash::AHashMap;
use spanwise_model::SpanId;

use crate::names::Name;

/// What is needed of a span.
#[derive(Debug, Clone, Copy)]
pub struct CauseSpan {
    /// `span_id`.
    pub span_id: SpanId,
    /// `assembled_parent`.
    pub parent: Option<SpanId>,
    /// `service`.
    pub service: Name,
    /// `operation`.
    pub operation: Name,
    /// Whether it is a call that its service made.
    pub is_call: bool,
    /// Whether a database or cache answered here what another service asked.
    pub is_stored: bool,
    /// `start_unix_nano`.
    pub start_unix_nano: i64,
    /// `duration_nano`.
    pub duration_nano: i64,
    /// Whether `status` is an error.
    pub error: bool,
    /// `retransmits`; `None` if no kernel saw it.
    pub retransmits: Option<u32>,
}

/// The share of a span.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// Its position, and that of its parent if it is there.
    pub(super) span: usize,
    /// See [`Self::span`].
    pub(super) parent: Option<usize>,
    /// Its duration without the time in which a child ran.
    pub(super) own_nano: i64,
    /// The service that answered, where the span is a call and the answer was seen.
    pub(super) server: Option<Name>,
    /// Children.
    pub(super) calls: usize,
    /// It failed, and no child did.
    pub(super) own_error: bool,
    /// A child failed.
    pub(super) failed_call: bool,
    /// Retransmits of a call at both ends; `None` if the kernel saw neither.
    pub(super) retransmits: Option<u32>,
}

impl Share {
    /// The service that asked, of a database's span.
    pub(super) fn client(&self, spans: &[CauseSpan]) -> Option<Name> {
        let span = &spans[self.span];
        let client = spans[self.parent.filter(|_| span.is_stored)?].service;
        (client != span.service).then_some(client)
    }
}

/// The share of each span.
pub(super) fn of(spans: &[CauseSpan]) -> Vec<Share> {
    let places: AHashMap<SpanId, usize> =
        spans.iter().enumerate().map(|(place, span)| (span.span_id, place)).collect();
    let parent = |place: usize| {
        let parent = *places.get(&spans[place].parent?)?;
        (parent != place).then_some(parent)
    };
    // Children by parent, and by start.
    let mut children: Vec<(usize, usize)> =
        (0..spans.len()).filter_map(|place| Some((parent(place)?, place))).collect();
    children.sort_unstable_by_key(|(parent, place)| (*parent, spans[*place].start_unix_nano));
    let mut rest = &children[..];
    (0..spans.len())
        .map(|place| {
            let count = rest.iter().take_while(|(parent, _)| *parent == place).count();
            let (own, after) = rest.split_at(count);
            rest = after;
            let span = &spans[place];
            let (start, end) =
                (span.start_unix_nano, span.start_unix_nano.saturating_add(span.duration_nano));
            let (mut covered, mut until) = (0, start);
            for (_, child) in own {
                let child = &spans[*child];
                let from = child.start_unix_nano.max(until);
                let to = child.start_unix_nano.saturating_add(child.duration_nano).min(end);
                if to > from {
                    covered += to - from;
                    until = to;
                }
            }
            let server = match own {
                [(_, only)] if span.is_call => {
                    Some(spans[*only].service).filter(|it| *it != span.service)
                }
                _ => None,
            };
            let answered = server.and_then(|_| spans[own.first()?.1].retransmits);
            let failed_call = own.iter().any(|(_, child)| spans[*child].error);
            Share {
                span: place,
                parent: parent(place),
                own_nano: (span.duration_nano - covered).max(0),
                server,
                calls: count,
                own_error: span.error && !failed_call,
                failed_call,
                retransmits: match (span.retransmits, answered) {
                    (None, None) => None,
                    (one, other) => Some(one.unwrap_or(0).saturating_add(other.unwrap_or(0))),
                },
            }
        })
        .collect()
}
