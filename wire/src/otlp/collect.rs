//! Collects the rows of one request and its rejected spans.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use spanwise_model::{EmitterPlaces, SpanRows};

use super::builders::Builder;
use super::keys::Keys;
use super::repeats::Own;
use super::resource::{ResourceFacts, ScopeFacts};
use super::span::{self, Invalid};
use super::view::{ResourceView, ScopeView, SpanView};
use super::{OtlpError, decode};
use crate::bounds::{LeftOut, said};
use crate::protobuf::ReadError;

/// Limits of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum spans.
    pub spans: usize,
    /// Maximum bytes of one encoded span. A larger one is rejected, the others are kept.
    pub span_bytes: usize,
    /// Estimated maximum bytes of all rows. A request may use one long text in every span. So the
    /// size of rows (and the work of hashing their resource) is not limited by the body's length.
    pub row_bytes: usize,
    /// Maximum attributes of one span. The excess is left out and counted.
    pub span_attributes: usize,
    /// Maximum events of one span; excess as above.
    pub span_events: usize,
    /// Maximum links of one span; excess as above.
    pub span_links: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            spans: 262_144,
            span_bytes: 4 << 20,
            row_bytes: 256 << 20,
            span_attributes: 1024,
            span_events: 1024,
            span_links: 1024,
        }
    }
}

/// Rejected spans of a request, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rejections {
    counts: BTreeMap<&'static str, u64>,
    first_malformed: Option<String>,
}

impl Rejections {
    /// All reasons, as counter names.
    pub const REASONS: &'static [&'static str] = &[
        Invalid::Trace.name(),
        Invalid::Span.name(),
        Invalid::Parent.name(),
        MALFORMED,
        TOO_LARGE,
        UNKNOWN_FIELD,
    ];

    /// Number of rejected spans.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Number of rejected spans by reason.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counts.iter().map(|(reason, count)| (*reason, *count))
    }

    /// The message for the sender; `None` if nothing was rejected.
    pub fn message(&self) -> Option<String> {
        if self.counts.is_empty() {
            return None;
        }
        let mut text = match self.total() {
            1 => "1 span was not taken:".to_owned(),
            total => format!("{total} spans were not taken:"),
        };
        for (index, (reason, count)) in self.counts.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            // Writing to a String cannot fail.
            let _ = write!(text, "{comma} {count} {}", explained(reason));
        }
        if let Some(first) = &self.first_malformed {
            let _ = write!(text, "; the first: {first}");
        }
        Some(text)
    }

    pub(crate) fn count(&mut self, reason: &'static str) {
        *self.counts.entry(reason).or_default() += 1;
    }

    /// Counts a span that exceeds the size limit.
    pub(crate) fn too_large(&mut self) {
        self.count(TOO_LARGE);
    }

    /// Counts a span that could not be decoded.
    pub(crate) fn malformed<E: ToString>(&mut self, what: impl FnOnce() -> (String, E)) {
        self.count(MALFORMED);
        self.first_malformed.get_or_insert_with(|| {
            let (place, error) = what();
            format!("{place}: {}", said(error))
        });
    }

    /// Counts spans in an unknown field, which cannot be decoded.
    pub(crate) fn unknown_field(&mut self, spans: u64, place: impl FnOnce() -> String) {
        if spans == 0 {
            return;
        }
        *self.counts.entry(UNKNOWN_FIELD).or_default() += spans;
        self.first_malformed.get_or_insert_with(|| format!("{}: no such field is known", place()));
    }

    /// The first span that could not be decoded, with the reason.
    pub(crate) fn first_malformed(&self) -> Option<&str> {
        self.first_malformed.as_deref()
    }
}

const MALFORMED: &str = "malformed_span";
const TOO_LARGE: &str = "span_too_large";
const UNKNOWN_FIELD: &str = "unknown_field";

fn explained(reason: &str) -> &str {
    match reason {
        "invalid_trace_id" => {
            "with an invalid trace id (16 bytes, not all zero, are needed; in JSON as 32 \
             hexadecimal digits, not base64)"
        }
        "invalid_span_id" => {
            "with an invalid span id (8 bytes, not all zero, are needed; in JSON as 16 \
             hexadecimal digits, not base64)"
        }
        "invalid_parent_span_id" => {
            "with an invalid parent span id (8 bytes or none are needed; in JSON as 16 \
             hexadecimal digits, not base64)"
        }
        "span_too_large" => "larger than a span may be",
        "malformed_span" => "that could not be read",
        "unknown_field" => "in a field that is not known here",
        other => other,
    }
}

/// A decoded request.
#[derive(Debug)]
pub struct Decoded {
    /// The rows. Empty if all spans were rejected.
    pub batch: SpanRows,
    /// Rejected spans.
    pub rejections: Rejections,
    /// What was left out of accepted spans.
    pub left_out: LeftOut,
}

/// The result of a request whose rows are part of a batch.
#[derive(Debug)]
pub struct Part {
    /// Number of its rows. They follow those of earlier requests.
    pub rows: usize,
    /// See [`Decoded::rejections`].
    pub rejections: Rejections,
    /// See [`Decoded::left_out`].
    pub left_out: LeftOut,
    /// See [`Limits::row_bytes`].
    pub(super) row_bytes: usize,
}

impl Part {
    /// Combines the result with the rows, which all belong to this request.
    pub(super) fn alone(self, batch: SpanRows) -> Decoded {
        let Self { rejections, left_out, .. } = self;
        Decoded { batch, rejections, left_out }
    }
}

impl Decoded {
    /// The rows and the rest.
    pub(super) fn into_part(self) -> (SpanRows, Vec<Part>) {
        let Self { batch, rejections, left_out } = self;
        let rows = batch.num_rows();
        (batch, vec![Part { rows, rejections, left_out, row_bytes: 0 }])
    }
}

/// Adds spans one by one.
pub(crate) struct Collector<'b> {
    limits: Limits,
    builder: &'b mut Builder,
    /// Rows of earlier requests in the builder.
    before: usize,
    rejections: Rejections,
    left_out: LeftOut,
    row_bytes: usize,
    seen: usize,
}

/// The resource of the spans that follow.
pub(crate) struct Emitting {
    places: EmitterPlaces,
    /// Bytes of shared texts that each row refers to.
    bytes: usize,
}

/// Approximate bytes of a row's fixed-width columns.
const ROW_BYTES: usize = 320;

impl<'b> Collector<'b> {
    pub(crate) fn new(limits: &Limits, builder: &'b mut Builder) -> Self {
        Self {
            limits: *limits,
            before: builder.rows.len(),
            builder,
            rejections: Rejections::default(),
            left_out: LeftOut::default(),
            row_bytes: 0,
            seen: 0,
        }
    }

    /// Whether to decode a span of this encoded length. If not, the span is counted as rejected.
    pub(crate) fn admit(&mut self, encoded_bytes: usize) -> Result<bool, OtlpError> {
        self.seen += 1;
        if self.seen > self.limits.spans {
            return Err(OtlpError::TooLarge { what: "spans", limit: self.limits.spans });
        }
        // Before decoding, so that the estimate limits memory.
        self.account(encoded_bytes)?;
        let fits = encoded_bytes <= self.limits.span_bytes;
        if !fits {
            self.rejections.too_large();
        }
        Ok(fits)
    }

    /// Counts a span that could not be decoded.
    pub(crate) fn malformed<E: ToString>(&mut self, what: impl FnOnce() -> (String, E)) {
        self.rejections.malformed(what);
    }

    /// Counts spans in an unknown field.
    pub(super) fn unknown_field(&mut self, spans: u64, place: impl FnOnce() -> String) {
        self.rejections.unknown_field(spans, place);
    }

    /// Counts what was left out of a scope.
    pub(super) fn left_out_of(&mut self, scope: &ScopeFacts) {
        self.left_out.add(scope.left_out());
    }

    /// Limits of one request.
    pub(super) const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Sets the resource of the spans that follow.
    pub(crate) fn emitter(&mut self, resource: &ResourceFacts) -> Emitting {
        self.left_out.add(resource.left_out());
        Emitting { places: self.builder.rows.emitter(&resource.emitter()), bytes: resource.bytes() }
    }

    /// Adds a span, or counts it as rejected.
    pub(crate) fn push(
        &mut self,
        span: &SpanView<'_>,
        emitting: &Emitting,
        scope: &ScopeFacts,
    ) -> Result<(), OtlpError> {
        self.account_row(emitting, scope)?;
        match span::append(span, &emitting.places, scope, &self.limits, &mut self.builder.rows) {
            Ok(left_out) => self.left_out.add(&left_out),
            Err(invalid) => self.rejections.count(invalid.name()),
        }
        Ok(())
    }

    /// Adds an encoded span if its signature is known. Returns whether it did. Fills `view`, which
    /// must be clear, and `own`.
    pub(super) fn push_repeated<'a>(
        &mut self,
        bytes: &'a [u8],
        view: &mut SpanView<'a>,
        own: &mut Own<'a>,
        emitting: &Emitting,
        scope: &ScopeFacts,
    ) -> Result<bool, OtlpError> {
        let Builder { rows, repeats, .. } = &mut *self.builder;
        let Some(repeated) = repeats.find(bytes, scope, view, own, rows) else { return Ok(false) };
        if own.attributes() > self.limits.span_attributes {
            return Ok(false);
        }
        match span::append_repeated(view, repeated, own, &emitting.places, rows) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(invalid) => self.rejections.count(invalid.name()),
        }
        self.account_row(emitting, scope)?;
        Ok(true)
    }

    /// Adds a span like [`Self::push`], after [`Self::push_repeated`] did not know it.
    pub(super) fn push_new(
        &mut self,
        span: &SpanView<'_>,
        own: &Own<'_>,
        emitting: &Emitting,
        scope: &ScopeFacts,
    ) -> Result<(), OtlpError> {
        let before = self.builder.rows.len();
        self.push(span, emitting, scope)?;
        let Builder { rows, repeats, .. } = &mut *self.builder;
        if rows.len() > before {
            repeats.learn(&span.attributes, own, rows);
        }
        Ok(())
    }

    /// Decodes a `Resource` from its pieces.
    pub(super) fn resource(&mut self, pieces: &[&[u8]]) -> Result<Arc<ResourceFacts>, ReadError> {
        self.builder.resources.get(pieces, |pieces| {
            let (mut view, mut keys) = (ResourceView::default(), Keys::default());
            pieces.iter().try_for_each(|piece| decode::resource(piece, &mut view, &mut keys))?;
            Ok(ResourceFacts::new(&view))
        })
    }

    /// Decodes an `InstrumentationScope` from its pieces.
    pub(super) fn scope(&mut self, pieces: &[&[u8]]) -> Result<Arc<ScopeFacts>, ReadError> {
        let scope = self.builder.scopes.get(pieces, |pieces| {
            let (mut view, mut keys) = (ScopeView::default(), Keys::default());
            pieces.iter().try_for_each(|piece| decode::scope(piece, &mut view, &mut keys))?;
            Ok(ScopeFacts::new(&view))
        })?;
        self.left_out.add(scope.left_out());
        Ok(scope)
    }

    fn account_row(&mut self, emitting: &Emitting, scope: &ScopeFacts) -> Result<(), OtlpError> {
        self.account(ROW_BYTES + scope.bytes() + emitting.bytes)
    }

    fn account(&mut self, bytes: usize) -> Result<(), OtlpError> {
        self.row_bytes = self.row_bytes.saturating_add(bytes);
        if self.row_bytes > self.limits.row_bytes {
            return Err(OtlpError::TooLarge {
                what: "bytes of rows",
                limit: self.limits.row_bytes,
            });
        }
        Ok(())
    }

    /// The result of the request whose rows are the builder's last.
    pub(super) fn part(&mut self) -> Result<Part, OtlpError> {
        let rows = self.builder.rows.len() - self.before;
        // A request without a single decodable span is not an OTLP request.
        if let (0, Some(first)) = (rows, self.rejections.first_malformed()) {
            return Err(OtlpError::malformed("every span", first));
        }
        Ok(Part {
            rows,
            rejections: std::mem::take(&mut self.rejections),
            left_out: self.left_out,
            row_bytes: self.row_bytes,
        })
    }

    /// The result of a request that is alone in its batch.
    pub(crate) fn finish(mut self) -> Result<Decoded, OtlpError> {
        Ok(self.part()?.alone(self.builder.rows.finish_rows()?))
    }
}
