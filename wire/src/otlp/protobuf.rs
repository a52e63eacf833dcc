//! OTLP protobuf: the outer layer, which hands over span by span.

use super::OtlpError;
use super::collect::{Collector, Decoded, Limits};
use super::decode;
use super::resource::{ResourceFacts, ScopeFacts};
use super::view::{ResourceView, ScopeView, SpanView};
use crate::protobuf::submessages;

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
    let mut collector = Collector::new(limits);
    let mut view = SpanView::default();
    for (index, bytes) in submessages(body, number::RESOURCE_SPANS).enumerate() {
        let place = || format!("resource_spans[{index}]");
        let bytes = bytes.map_err(|error| OtlpError::malformed("the request", error))?;
        resource_spans(bytes, &place, &mut view, &mut collector)?;
    }
    collector.finish()
}

fn resource_spans<'a>(
    bytes: &'a [u8],
    place: &dyn Fn() -> String,
    view: &mut SpanView<'a>,
    collector: &mut Collector,
) -> Result<(), OtlpError> {
    // A message may come in several pieces and after the fields that need it,
    // so it is merged in a pass of its own.
    let mut resource = ResourceView::default();
    for piece in submessages(bytes, number::RESOURCE) {
        piece
            .and_then(|piece| decode::resource(piece, &mut resource, &mut view.keys))
            .map_err(|error| OtlpError::malformed(format!("{}.resource", place()), error))?;
    }
    let emitting = collector.emitter(&ResourceFacts::new(&resource));
    for (index, bytes) in submessages(bytes, number::SCOPE_SPANS).enumerate() {
        let bytes = bytes.map_err(|error| OtlpError::malformed(place(), error))?;
        let place = || format!("{}.scope_spans[{index}]", place());
        let mut scope = ScopeView::default();
        for piece in submessages(bytes, number::SCOPE) {
            piece
                .and_then(|piece| decode::scope(piece, &mut scope, &mut view.keys))
                .map_err(|error| OtlpError::malformed(format!("{}.scope", place()), error))?;
        }
        let scope = ScopeFacts::new(&scope);
        for (index, bytes) in submessages(bytes, number::SPANS).enumerate() {
            let bytes = bytes.map_err(|error| OtlpError::malformed(place(), error))?;
            if !collector.admit(bytes.len())? {
                continue;
            }
            view.clear();
            match decode::span(bytes, view) {
                Ok(()) => collector.push(view, &emitting, &scope)?,
                Err(error) => {
                    collector.malformed(|| (format!("{}.spans[{index}]", place()), error));
                }
            }
        }
    }
    Ok(())
}
