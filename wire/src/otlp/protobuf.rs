//! OTLP protobuf: the outer layer by hand, each span through prost.

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use super::OtlpError;
use super::collect::{Collector, Decoded, Limits};
use super::resource::{ResourceFacts, ScopeFacts};
use crate::protobuf::{merged, submessages};

/// Field numbers of opentelemetry-proto's `trace_service.proto` and
/// `trace.proto`.
mod number {
    pub(super) const RESOURCE_SPANS: u64 = 1;
    pub(super) const RESOURCE: u64 = 1;
    pub(super) const SCOPE_SPANS: u64 = 2;
    pub(super) const SCOPE: u64 = 1;
    pub(super) const SPANS: u64 = 2;
}

/// Reads an `ExportTraceServiceRequest`.
///
/// # Errors
/// Where the bytes are no such message (also where not one span of it could be
/// read), or more than the limits allow. Single spans that are wrong are
/// counted in [`Decoded::rejections`] instead, and the others kept.
pub fn decode_protobuf(body: &[u8], limits: &Limits) -> Result<Decoded, OtlpError> {
    let mut collector = Collector::new(limits);
    for (index, bytes) in submessages(body, number::RESOURCE_SPANS).enumerate() {
        let place = || format!("resource_spans[{index}]");
        let bytes = bytes.map_err(|error| OtlpError::malformed("the request", error))?;
        resource_spans(bytes, &place, &mut collector)?;
    }
    collector.finish()
}

fn resource_spans(
    bytes: &[u8],
    place: &dyn Fn() -> String,
    collector: &mut Collector,
) -> Result<(), OtlpError> {
    // A message may come in several pieces and after the fields that need it,
    // so it is merged in a pass of its own.
    let resource: Resource = merged(bytes, number::RESOURCE)
        .map_err(|reason| OtlpError::malformed(format!("{}.resource", place()), reason))?;
    let resource = ResourceFacts::new(resource);
    for (index, bytes) in submessages(bytes, number::SCOPE_SPANS).enumerate() {
        let bytes = bytes.map_err(|error| OtlpError::malformed(place(), error))?;
        let place = || format!("{}.scope_spans[{index}]", place());
        let scope: InstrumentationScope = merged(bytes, number::SCOPE)
            .map_err(|reason| OtlpError::malformed(format!("{}.scope", place()), reason))?;
        let scope = ScopeFacts::new(scope);
        for (index, bytes) in submessages(bytes, number::SPANS).enumerate() {
            let bytes = bytes.map_err(|error| OtlpError::malformed(place(), error))?;
            if !collector.admit(bytes.len())? {
                continue;
            }
            match Span::decode(bytes) {
                Ok(span) => collector.push(span, &resource, &scope)?,
                Err(error) => {
                    collector.malformed(|| (format!("{}.spans[{index}]", place()), error));
                }
            }
        }
    }
    Ok(())
}
