//! OTLP/JSON: protobuf's JSON with hexadecimal ids (OTLP specification,
//! "JSON Protobuf Encoding").
//!
//! More is accepted than the specification demands: snake_case names, numbers
//! as texts and texts as numbers, enumerations by name, `null` for "not set".
//! Unknown names are ignored.

mod message;
mod scalar;
mod value;

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::OtlpError;
use super::builders::{Builder, with_builder};
use super::collect::{Collector, Decoded, Limits};
use super::resource::{ResourceFacts, ScopeFacts};
use message::{JsonResource, JsonScope, JsonSpan};

/// The parts of a list as they lie in the text, not yet read.
type Raw<'a> = Option<Vec<&'a RawValue>>;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow, rename = "resourceSpans", alias = "resource_spans", default)]
    resource_spans: Raw<'a>,
}

#[derive(Deserialize)]
struct ResourceSpans<'a> {
    #[serde(default)]
    resource: Option<JsonResource>,
    #[serde(borrow, rename = "scopeSpans", alias = "scope_spans", default)]
    scope_spans: Raw<'a>,
}

#[derive(Deserialize)]
struct ScopeSpans<'a> {
    #[serde(default)]
    scope: Option<JsonScope>,
    #[serde(borrow, default)]
    spans: Raw<'a>,
}

/// Reads an `ExportTraceServiceRequest` in JSON.
///
/// # Errors
/// As [`super::decode_protobuf`].
pub fn decode_json(body: &[u8], limits: &Limits) -> Result<Decoded, OtlpError> {
    with_builder(|builder| decode_with(builder, body, limits))
}

fn decode_with(builder: &mut Builder, body: &[u8], limits: &Limits) -> Result<Decoded, OtlpError> {
    let mut collector = Collector::new(limits, builder);
    let request: Request<'_> =
        serde_json::from_slice(body).map_err(|error| OtlpError::malformed("the request", error))?;
    for (index, raw) in request.resource_spans.into_iter().flatten().enumerate() {
        let place = || format!("resourceSpans[{index}]");
        let Some(part) = read::<ResourceSpans<'_>>(raw, &place)? else { continue };
        let resource: Resource = part.resource.map(Into::into).unwrap_or_default();
        let emitting = collector.emitter(&ResourceFacts::new(&(&resource).into()));
        for (index, raw) in part.scope_spans.into_iter().flatten().enumerate() {
            let place = || format!("{}.scopeSpans[{index}]", place());
            let Some(part) = read::<ScopeSpans<'_>>(raw, &place)? else { continue };
            let scope: InstrumentationScope = part.scope.map(Into::into).unwrap_or_default();
            let scope = ScopeFacts::new(&(&scope).into());
            for (index, raw) in part.spans.into_iter().flatten().enumerate() {
                if !collector.admit(raw.get().len())? {
                    continue;
                }
                match serde_json::from_str::<Option<JsonSpan>>(raw.get()) {
                    Ok(Some(span)) => {
                        let span: Span = span.into();
                        collector.push(&(&span).into(), &emitting, &scope)?;
                    }
                    Ok(None) => {}
                    Err(error) => {
                        collector.malformed(|| (format!("{}.spans[{index}]", place()), error));
                    }
                }
            }
        }
    }
    collector.finish()
}

fn read<'a, T: Deserialize<'a>>(
    raw: &'a RawValue,
    place: &dyn Fn() -> String,
) -> Result<Option<T>, OtlpError> {
    serde_json::from_str(raw.get()).map_err(|error| OtlpError::malformed(place(), error))
}
