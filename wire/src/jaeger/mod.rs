//! Decodes what Jaeger's clients, agents and collectors send (jaeger-idl: `api_v2/model.proto`,
//! `api_v2/collector.proto`, `jaeger.thrift`, `agent.thrift`) to span batches.

mod datagrams;
mod json;
mod process;
mod protobuf;
mod span;
mod thrift;

pub use datagrams::Datagrams;

use crate::mistaken::Taken;
use crate::otlp::{Decoded, Limits};
use crate::rows::{DecodeError, Rows};
pub use crate::thrift::Protocol;

/// Decodes a `jaeger.api_v2.PostSpansRequest`.
///
/// # Errors
/// If the bytes are not such a message (or not a single span could be decoded), or a limit is
/// exceeded. Single invalid spans are counted in [`Decoded::rejections`] instead, and the others
/// are kept.
pub fn decode_protobuf(body: &[u8], limits: &Limits) -> Result<Decoded, DecodeError> {
    let mut rows = Rows::new("Jaeger PostSpansRequest", limits);
    protobuf::read(body, &mut rows)
        .and_then(|()| rows.finish())
        .map_err(|error| error.with_hint(body, Taken::Protobuf))
}

/// Reads a `jaeger.storage.v1.WriteSpanRequest`, which is a span with its process. It has the
/// bytes of a batch that has no process of its own.
///
/// # Errors
/// As [`decode_protobuf`].
pub fn decode_protobuf_span(body: &[u8], limits: &Limits) -> Result<Decoded, DecodeError> {
    let mut request = Vec::with_capacity(body.len() + 11);
    prost::encoding::encode_key(1, prost::encoding::WireType::LengthDelimited, &mut request);
    prost::encoding::encode_varint(body.len() as u64, &mut request);
    request.extend_from_slice(body);
    decode_protobuf(&request, limits)
}

/// Reads a `jaeger.thrift` `Batch` in the binary protocol, as it is posted over
/// HTTP.
///
/// # Errors
/// Like [`decode_protobuf`]. But damaged Thrift is refused completely, because the span after a
/// damaged one cannot be found.
pub fn decode_thrift(body: &[u8], limits: &Limits) -> Result<Decoded, DecodeError> {
    let mut rows = Rows::new("Jaeger thrift Batch", limits);
    thrift::read(body, &mut rows)
        .and_then(|()| rows.finish())
        .map_err(|error| error.with_hint(body, Taken::Thrift))
}

/// Decodes a JSON list of traces, as Jaeger's UI and API return them.
///
/// # Errors
/// Like [`decode_protobuf`].
pub fn decode_json(body: &[u8], limits: &Limits) -> Result<Decoded, DecodeError> {
    let mut rows = Rows::new("Jaeger JSON list of traces", limits);
    json::read(body, &mut rows)?;
    rows.finish()
}
