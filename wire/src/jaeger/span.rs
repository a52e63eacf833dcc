//! Converts a Jaeger span to a row.

use spanwise_model::{
    AttributeValue, Attributes, Capture, Event, Kind, Link, Span, SpanId, TraceId,
};

use super::process::Process;
use crate::bounds::LeftOut;
use crate::otlp::Invalid;
use crate::rows::{DecodeError, Rows};
use crate::tags::FieldTags;

/// Bit of `flags`: the span was requested for debugging.
const FLAG_DEBUG: u32 = 2;
/// The attribute for the type of an OpenTracing reference in OpenTelemetry's conventions.
const REFERENCE_TYPE: &str = "opentracing.ref_type";

/// A decoded span. Invalid ids are `None`.
#[derive(Debug, Default)]
pub(super) struct JaegerSpan {
    pub(super) trace_id: Option<TraceId>,
    pub(super) span_id: Option<SpanId>,
    /// Only in Thrift. Protobuf names the parent in the references.
    pub(super) parent_span_id: Option<SpanId>,
    pub(super) operation: String,
    pub(super) references: Vec<Reference>,
    pub(super) flags: u32,
    pub(super) start_unix_nano: i64,
    pub(super) duration_nano: i64,
    pub(super) tags: Attributes,
    pub(super) logs: Vec<Log>,
    pub(super) warnings: Vec<String>,
}

/// A reference to another span.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reference {
    pub(super) trace_id: Option<TraceId>,
    pub(super) span_id: Option<SpanId>,
    pub(super) kind: ReferenceKind,
}

/// OpenTracing's two kinds of reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReferenceKind {
    ChildOf,
    FollowsFrom,
}

/// A timestamped event.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) time_unix_nano: i64,
    pub(super) fields: Attributes,
}

impl JaegerSpan {
    /// Adds the span's row, or counts why it was rejected.
    pub(super) fn take(self, process: &Process, rows: &mut Rows) -> Result<(), DecodeError> {
        match self.into_row(process) {
            Ok((row, dropped_links)) => {
                rows.left_out(&LeftOut { invalid_links: dropped_links, ..process.left_out });
                rows.push(row)
            }
            Err(invalid) => {
                rows.invalid(invalid);
                Ok(())
            }
        }
    }

    /// The row, and the number of links that were left out.
    fn into_row(self, process: &Process) -> Result<(Span, u64), Invalid> {
        let trace_id = self.trace_id.ok_or(Invalid::Trace)?;
        let span_id = self.span_id.ok_or(Invalid::Span)?;
        let (parent_span_id, links, dropped_links) =
            relations(trace_id, self.parent_span_id, &self.references);
        let mut said = FieldTags::default();
        let mut attributes: Attributes = Vec::with_capacity(self.tags.len());
        for (key, value) in self.tags {
            attributes.extend(said.take(key, value));
        }
        if self.flags & FLAG_DEBUG != 0 {
            attributes.push(("jaeger.debug".to_owned(), true.into()));
        }
        if !self.warnings.is_empty() {
            let warnings: serde_json::Value = self.warnings.into();
            attributes
                .push(("jaeger.warnings".to_owned(), AttributeValue::Json(warnings.to_string())));
        }
        let mut row = Span {
            trace_id: Some(trace_id),
            parent_span_id,
            instance: process.instance.clone(),
            host: process.host.clone(),
            process_id: process.process_id,
            resource: process.json.clone(),
            attributes,
            events: self.logs.into_iter().map(Event::from).collect(),
            links,
            ..Span::new(
                span_id,
                Capture::App,
                said.kind().unwrap_or(Kind::Internal),
                process.service.as_str(),
                self.operation,
                self.start_unix_nano,
                self.duration_nano,
            )
        };
        said.fill(&mut row);
        Ok((row, dropped_links))
    }
}

/// The parent, the other references as links, and the number of references without a valid span.
/// The parent is the explicit one, else the first CHILD_OF reference within the same trace, else
/// the first FOLLOWS_FROM reference.
fn relations(
    trace_id: TraceId,
    named: Option<SpanId>,
    references: &[Reference],
) -> (Option<SpanId>, Vec<Link>, u64) {
    let own = |kind| {
        references
            .iter()
            .filter(|reference| reference.kind == kind && reference.trace_id == Some(trace_id))
            .find_map(|reference| reference.span_id)
    };
    let parent =
        named.or_else(|| own(ReferenceKind::ChildOf)).or_else(|| own(ReferenceKind::FollowsFrom));
    let others: Vec<&Reference> = references
        .iter()
        .filter(|other| {
            other.span_id.is_none() || other.span_id != parent || other.trace_id != Some(trace_id)
        })
        .collect();
    let links: Vec<Link> = others.iter().filter_map(|reference| link(reference)).collect();
    let dropped = (others.len() - links.len()) as u64;
    (parent, links, dropped)
}

fn link(reference: &Reference) -> Option<Link> {
    let kind = match reference.kind {
        ReferenceKind::ChildOf => "child_of",
        ReferenceKind::FollowsFrom => "follows_from",
    };
    Some(Link {
        trace_id: reference.trace_id?,
        span_id: reference.span_id?,
        trace_state: None,
        attributes: vec![(REFERENCE_TYPE.to_owned(), kind.into())],
    })
}

/// OpenTracing has a field for the event's name. If it is missing, the message is used.
impl From<Log> for Event {
    fn from(mut log: Log) -> Self {
        let text = |fields: &Attributes, name: &str| {
            fields.iter().position(|(key, value)| key == name && value.as_str().is_some())
        };
        let name = match text(&log.fields, "event") {
            Some(position) => log.fields.remove(position).1.to_string(),
            None => match text(&log.fields, "message") {
                Some(position) => log.fields[position].1.to_string(),
                None => "log".to_owned(),
            },
        };
        Self { time_unix_nano: log.time_unix_nano, name, attributes: log.fields }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: TraceId = TraceId([1; 16]);

    fn reference(trace_id: TraceId, span: u64, kind: ReferenceKind) -> Reference {
        Reference { trace_id: Some(trace_id), span_id: SpanId::from_u64(span), kind }
    }

    use ReferenceKind::{ChildOf, FollowsFrom};

    #[test]
    fn one_reference_is_the_parent_and_the_others_are_links() {
        let other = TraceId([2; 16]);
        let references = [
            reference(TRACE, 1, FollowsFrom),
            reference(other, 2, ChildOf),
            reference(TRACE, 3, ChildOf),
            reference(TRACE, 0, ChildOf),
        ];
        let spans = |links: Vec<Link>| links.iter().map(|l| l.span_id.as_u64()).collect::<Vec<_>>();
        let (parent, links, dropped) = relations(TRACE, None, &references);
        assert_eq!((parent, spans(links), dropped), (SpanId::from_u64(3), vec![1, 2], 1));
        let (parent, links, _) = relations(TRACE, SpanId::from_u64(9), &references);
        assert_eq!((parent, spans(links)), (SpanId::from_u64(9), vec![1, 2, 3]));
        let (parent, links, _) = relations(TRACE, None, &references[..2]);
        assert_eq!((parent, spans(links)), (SpanId::from_u64(1), vec![2]));
        assert_eq!(relations(TRACE, None, &[]), (None, vec![], 0));
    }

    #[test]
    fn a_log_is_named_by_its_event() {
        let named = |fields: &[(&str, &str)]| {
            let fields = fields.iter().map(|(k, v)| ((*k).to_owned(), (*v).into())).collect();
            let event = Event::from(Log { time_unix_nano: 1, fields });
            (event.name, event.attributes.len())
        };
        assert_eq!(named(&[("level", "x"), ("event", "retry")]), ("retry".to_owned(), 1));
        assert_eq!(named(&[("message", "gone"), ("level", "x")]), ("gone".to_owned(), 2));
        assert_eq!(named(&[]), ("log".to_owned(), 0));
    }
}
