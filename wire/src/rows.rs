//! Rows of a request in one of the older formats (Zipkin's, Jaeger's), and what
//! was wrong with the others.

use spanwise_model::{Span, SpanBatchBuilder};

use crate::bounds::{LeftOut, said};
use crate::mistaken::{MeantFor, Taken, with_hint};
use crate::otlp::{Decoded, Invalid, Limits, Rejections};

/// Why a request could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is not of its format.
    #[error("the body is no {format}: {place}: {reason}")]
    Malformed {
        /// What it should have been.
        format: &'static str,
        /// Which part of it.
        place: String,
        /// What is wrong with it.
        reason: String,
        /// Where it belongs, if it belongs elsewhere.
        meant_for: Option<MeantFor>,
    },
    /// It holds more than one request may.
    #[error("the request is too large: {what} (limit {limit}); send smaller batches")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The limit that it passes.
        limit: usize,
    },
    /// The rows could not be put into a batch: a mistake of this program.
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

    /// With what the body rather is.
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

/// Takes spans one by one.
pub(crate) struct Rows {
    format: &'static str,
    limits: Limits,
    builder: SpanBatchBuilder,
    rejections: Rejections,
    left_out: LeftOut,
    row_bytes: usize,
    seen: usize,
}

/// Bytes of a row's columns with fixed width, about.
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

    /// Whether a span of this encoded length shall be taken; where not, it is
    /// counted.
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

    /// Counts a span that could not be read.
    pub(crate) fn malformed<E: ToString>(&mut self, what: impl FnOnce() -> (String, E)) {
        self.rejections.malformed(what);
    }

    /// Counts a span whose ids are wrong.
    pub(crate) fn invalid(&mut self, invalid: Invalid) {
        self.rejections.count(invalid.name());
    }

    /// Counts what was left out of spans.
    pub(crate) fn left_out(&mut self, left_out: &LeftOut) {
        self.left_out.add(left_out);
    }

    /// Counts spans in a field that is not known here.
    pub(crate) fn unknown_field(&mut self, spans: u64, place: impl FnOnce() -> String) {
        self.rejections.unknown_field(spans, place);
    }

    /// Whether any span was not taken.
    pub(crate) fn has_rejections(&self) -> bool {
        self.rejections.total() > 0
    }

    /// Takes a row, of which what is more than a span may hold is left out.
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
        // A request of which nothing could be read is not of its format.
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
