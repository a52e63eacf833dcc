//! OTLP protobuf: the outer layer, which hands over span by span.

use super::OtlpError;
use super::builders::{Builder, with_builder};
use super::collect::{Collector, Decoded, Limits};
use super::decode;
use super::repeats::Own;
use super::view::SpanView;
use crate::protobuf::{ReadError, submessages};

/// Field numbers of opentelemetry-proto's `trace_service.proto` and
/// `trace.proto`.
mod number {
    pub(super) const RESOURCE_SPANS: u32 = 1;
    pub(super) const RESOURCE: u32 = 1;
    pub(super) const SCOPE_SPANS: u32 = 2;
    pub(super) const SCOPE: u32 = 1;
    pub(super) const SPANS: u32 = 2;
}

/// Reads an `ExportTraceServiceRequest`.
///
/// # Errors
/// Where the bytes are no such message (also where not one span of it could be
/// read), or more than the limits allow. Single spans that are wrong are
/// counted in [`Decoded::rejections`] instead, and the others kept.
pub fn decode_protobuf(body: &[u8], limits: &Limits) -> Result<Decoded, OtlpError> {
    with_builder(|builder| decode_with(builder, body, limits))
}

/// As [`decode_protobuf`], with this builder.
pub(super) fn decode_with(
    builder: &mut Builder,
    body: &[u8],
    limits: &Limits,
) -> Result<Decoded, OtlpError> {
    let mut collector = Collector::new(limits, builder);
    let mut span = Reading::default();
    for (index, bytes) in submessages(body, number::RESOURCE_SPANS).enumerate() {
        let place = || format!("resource_spans[{index}]");
        let bytes = bytes.map_err(|error| OtlpError::malformed("the request", error))?;
        resource_spans(bytes, &place, &mut span, &mut collector)?;
    }
    collector.finish()
}

/// A span that is being read. One is used for all of a request.
#[derive(Default)]
struct Reading<'a> {
    view: SpanView<'a>,
    own: Own<'a>,
}

/// The pieces of a message in a message.
fn pieces(message: &[u8], number: u32) -> Result<Vec<&[u8]>, ReadError> {
    submessages(message, number).collect()
}

fn resource_spans<'a>(
    bytes: &'a [u8],
    place: &dyn Fn() -> String,
    span: &mut Reading<'a>,
    collector: &mut Collector<'_>,
) -> Result<(), OtlpError> {
    // A message may come in several pieces and after the fields that need it,
    // so it is looked for in a pass of its own.
    let resource = pieces(bytes, number::RESOURCE)
        .and_then(|pieces| collector.resource(&pieces))
        .map_err(|error| OtlpError::malformed(format!("{}.resource", place()), error))?;
    let emitting = collector.emitter(&resource);
    for (index, bytes) in submessages(bytes, number::SCOPE_SPANS).enumerate() {
        let bytes = bytes.map_err(|error| OtlpError::malformed(place(), error))?;
        let place = || format!("{}.scope_spans[{index}]", place());
        let scope = pieces(bytes, number::SCOPE)
            .and_then(|pieces| collector.scope(&pieces))
            .map_err(|error| OtlpError::malformed(format!("{}.scope", place()), error))?;
        for (index, bytes) in submessages(bytes, number::SPANS).enumerate() {
            let bytes = bytes.map_err(|error| OtlpError::malformed(place(), error))?;
            if !collector.admit(bytes.len())? {
                continue;
            }
            let Reading { view, own } = span;
            view.clear();
            if collector.push_repeated(bytes, view, own, &emitting, &scope)? {
                continue;
            }
            view.clear();
            match decode::span(bytes, view) {
                Ok(()) => collector.push_new(view, own, &emitting, &scope)?,
                Err(error) => {
                    collector.malformed(|| (format!("{}.spans[{index}]", place()), error));
                }
            }
        }
    }
    Ok(())
}
