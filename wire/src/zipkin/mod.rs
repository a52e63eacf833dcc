//! Zipkin: both versions of its span in all encodings (zipkin-api: `zipkin-api.yaml`,
//! `zipkin2-api.yaml`, `zipkin.proto`, `zipkinCore.thrift`) to span batches.
//!
//! One Zipkin span may become two rows. Zipkin's tracers report client and server under one id.
//! Then the server's row gets its own id ([`spanwise_model::SpanId::receiving_half`]), and the
//! client's row becomes its parent.

mod json;
mod protobuf;
mod span;
mod v1;

use spanwise_model::{SpanId, TraceId};

use crate::bounds::LeftOut;
use crate::mistaken::Taken;
use crate::otlp::{Decoded, Invalid, Limits};
use crate::rows::{DecodeError, Rows};

/// The encoding of spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Version 1, a JSON list.
    V1Json,
    /// Version 1, a Thrift list in the binary protocol.
    V1Thrift,
    /// Version 2, a JSON list.
    V2Json,
    /// Version 2, `ListOfSpans` in protobuf.
    V2Protobuf,
}

impl Format {
    const fn name(self) -> &'static str {
        match self {
            Self::V1Json => "Zipkin v1 JSON list of spans",
            Self::V1Thrift => "Zipkin v1 thrift list of spans",
            Self::V2Json => "Zipkin v2 JSON list of spans",
            Self::V2Protobuf => "Zipkin v2 protobuf ListOfSpans",
        }
    }
}

/// Decodes a list of spans. Spans without any time start at `arrived_unix_nano`, and are marked
/// with the attribute `zipkin.timestamp_missing`.
///
/// # Errors
/// If the bytes are not such a list (or not a single span could be decoded), or a limit is
/// exceeded. Single invalid spans are counted in [`Decoded::rejections`] instead, and the others
/// are kept.
pub fn decode(
    format: Format,
    body: &[u8],
    limits: &Limits,
    arrived_unix_nano: i64,
) -> Result<Decoded, DecodeError> {
    let mut spans = Spans::new(Rows::new(format.name(), limits), arrived_unix_nano);
    let (read, taken) = match format {
        Format::V1Json => (v1::json::read(body, &mut spans), Taken::Json),
        Format::V1Thrift => (v1::thrift::read(body, &mut spans), Taken::Thrift),
        Format::V2Json => (json::read(body, &mut spans), Taken::Json),
        Format::V2Protobuf => (protobuf::read(body, &mut spans), Taken::Protobuf),
    };
    read.and_then(|()| spans.into_rows().finish()).map_err(|error| error.with_hint(body, taken))
}

/// Adds the spans of a version 1 Thrift list that has been checked to be valid Thrift.
pub(crate) use v1::thrift::read_list as read_thrift_list;

/// Collects decoded spans.
pub(crate) struct Spans {
    rows: Rows,
    arrived_unix_nano: i64,
}

impl Spans {
    pub(crate) const fn new(rows: Rows, arrived_unix_nano: i64) -> Self {
        Self { rows, arrived_unix_nano }
    }

    pub(crate) const fn rows(&mut self) -> &mut Rows {
        &mut self.rows
    }

    pub(crate) fn into_rows(self) -> Rows {
        self.rows
    }

    fn take(&mut self, span: Result<span::ZipkinSpan, Invalid>) -> Result<(), DecodeError> {
        match span {
            Ok(mut span) => {
                let mut left_out = LeftOut::default();
                if let Some(service) = &mut span.local.service {
                    *service = left_out.name(service).into_owned();
                }
                self.rows.left_out(&left_out);
                self.rows.push(span.into_row(self.arrived_unix_nano))
            }
            Err(invalid) => {
                self.rows.invalid(invalid);
                Ok(())
            }
        }
    }
}

/// A trace id with 1 to 32 hexadecimal digits. Shorter ones are 64-bit ids, or lack leading zeros.
fn trace_id(text: &str) -> Result<TraceId, Invalid> {
    padded::<16>(text).and_then(|id| TraceId::from_bytes(&id)).ok_or(Invalid::Trace)
}

/// A span id with 1 to 16 hexadecimal digits.
fn span_id(text: &str) -> Result<SpanId, Invalid> {
    padded::<8>(text).and_then(|id| SpanId::from_bytes(&id)).ok_or(Invalid::Span)
}

/// A parent's id. Missing or zero for a root.
fn parent_id(text: Option<&str>) -> Result<Option<SpanId>, Invalid> {
    match text {
        None | Some("") => Ok(None),
        Some(text) => padded::<8>(text).map(|id| SpanId::from_bytes(&id)).ok_or(Invalid::Parent),
    }
}

fn padded<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.trim().as_bytes();
    let mut id = [0; N];
    if digits.is_empty() || digits.len() > 2 * N {
        return None;
    }
    for (index, digit) in digits.iter().rev().enumerate() {
        let value = u8::try_from(char::from(*digit).to_digit(16)?).ok()?;
        id[N - 1 - index / 2] |= value << (4 * (index % 2));
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ids_are_filled_with_zeros() {
        assert_eq!(trace_id("a3CE").map(|id| id.to_string()), Ok(format!("{:0>32}", "a3ce")));
        assert_eq!(span_id("7").map(|id| id.to_string()), Ok(format!("{:0>16}", "7")));
        let whole = "463ac35c9f6413ad48485a3953bb6124";
        assert_eq!(trace_id(whole).map(|id| id.to_string()), Ok(whole.to_owned()));
        for wrong in ["", "0", "xyz", "é", "463ac35c9f6413ad48485a3953bb61240"] {
            assert_eq!(trace_id(wrong), Err(Invalid::Trace), "{wrong}");
        }
        assert_eq!(parent_id(Some("0000")), Ok(None));
        assert_eq!(parent_id(Some("nope")), Err(Invalid::Parent));
    }
}
