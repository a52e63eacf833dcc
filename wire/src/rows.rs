//! Collects the rows of a request in an older format (Zipkin, Jaeger) and its rejected spans.

use spanwise_model::{Span, SpanBatchBuilder};

use crate::bounds::{LeftOut, said};
use crate::mistaken::{MeantFor, Taken, with_hint};
use crate::otlp::{Decoded, Invalid, Limits, Rejections};

/// Why a request could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It does not follow its format.
    #[error("the body is no {format}: {place}: {reason}")]
    Malformed {
        /// The expected format.
        format: &'static str,
        /// The invalid part.
        place: String,
        /// The problem.
        reason: String,
        /// The receiver where it belongs, if it belongs elsewhere.
        meant_for: Option<MeantFor>,
    },
    /// It exceeds a limit.
    #[error("the request is too large: {what} (limit {limit}); send smaller batches")]
    TooLarge {
        /// What exceeds the limit.
        what: &'static str,
        /// The limit that it passes.
        limit: usize,
    },
    /// The rows could not be put into a batch, which is an internal error.
    #[error(transparent)]
    Model(#[from] spanwise_model::ModelError),
}

impl DecodeError {
    pub(crate) fn malformed(
        format: &'static str,
        place: impl Into<String>,
        reason: impl ToString,
    ) -> Self {
        Self::Malformed { format, place: place.into(), reason: said(reason), meant_for: None }
    }

    /// Adds a hint what the body seems to be.
    pub(crate) fn with_hint(self, body: &[u8], taken: Taken) -> Self {
        match self {
            Self::Malformed { format, place, reason, .. } => {
                let (reason, meant_for) = with_hint(reason, body, taken);
                Self::Malformed { format, place, reason, meant_for }
            }
            other => other,
        }
    }
}

/// Adds spans one by one.
pub(crate) struct Rows {
    format: &'static str,
    limits: Limits,
    builder: SpanBatchBuilder,
    rejections: Rejections,
    left_out: LeftOut,
    row_bytes: usize,
    seen: usize,
}

/// Approximate bytes of a row's fixed-width columns.
const ROW_BYTES: usize = 320;

impl Rows {
    pub(crate) fn new(format: &'static str, limits: &Limits) -> Self {
        Self {
            format,
            limits: *limits,
            builder: SpanBatchBuilder::new(),
            rejections: Rejections::default(),
            left_out: LeftOut::default(),
            row_bytes: 0,
            seen: 0,
        }
    }

    pub(crate) const fn format(&self) -> &'static str {
        self.format
    }

    /// Whether to accept a span of this encoded length. If not, the span is counted as rejected.
    pub(crate) fn admit(&mut self, encoded_bytes: usize) -> Result<bool, DecodeError> {
        self.seen += 1;
        if self.seen > self.limits.spans {
            return Err(DecodeError::TooLarge { what: "spans", limit: self.limits.spans });
        }
        self.row_bytes += encoded_bytes;
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

    /// Counts a span with invalid ids.
    pub(crate) fn invalid(&mut self, invalid: Invalid) {
        self.rejections.count(invalid.name());
    }

    /// Counts what was left out of spans.
    pub(crate) fn left_out(&mut self, left_out: &LeftOut) {
        self.left_out.add(left_out);
    }

    /// Counts spans in an unknown field.
    pub(crate) fn unknown_field(&mut self, spans: u64, place: impl FnOnce() -> String) {
        self.rejections.unknown_field(spans, place);
    }

    /// Whether any span was rejected.
    pub(crate) fn has_rejections(&self) -> bool {
        self.rejections.total() > 0
    }

    /// Adds a row. Whatever exceeds the limits of a span is left out.
    pub(crate) fn push(&mut self, mut row: Span) -> Result<(), DecodeError> {
        self.left_out.row(&mut row, &self.limits);
        self.row_bytes += ROW_BYTES + row.resource.as_str().len();
        if self.row_bytes > self.limits.row_bytes {
            return Err(DecodeError::TooLarge {
                what: "bytes of rows",
                limit: self.limits.row_bytes,
            });
        }
        self.builder.push(&row);
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<Decoded, DecodeError> {
        // A request without a single decodable span is not of its format.
        if let (true, Some(first)) = (self.builder.is_empty(), self.rejections.first_malformed()) {
            return Err(DecodeError::malformed(self.format, "every span", first));
        }
        Ok(Decoded {
            batch: self.builder.finish_rows()?,
            rejections: self.rejections,
            left_out: self.left_out,
        })
    }
}
