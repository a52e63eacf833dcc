//! OTLP/JSON: protobuf's JSON with hexadecimal ids (OTLP specification, "JSON Protobuf Encoding").
//!
//! Variations are accepted: snake_case names, numbers as texts and texts as numbers, enumerations
//! by name, `null` for unset fields, and names of OTLP 0.x (`instrumentationLibrarySpans`). Unknown
//! names are ignored, unless their values may contain spans. Such spans are counted as rejected.

mod fields;
mod message;
mod scalar;
mod value;

use std::collections::HashSet;

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::OtlpError;
use super::builders::{Builder, with_builder};
use super::collect::{Collector, Decoded, Emitting, Limits};
use super::resource::{ResourceFacts, ScopeFacts};
use super::unknown::spans_in_json;
use crate::mistaken::{MeantFor, Taken, with_hint};
use fields::{Fields, list};
use message::{JsonIds, JsonResource, JsonScope, JsonSpan};

/// The plain names of other signals' lists.
const OTHER_SIGNALS: [&str; 3] = ["resourcelogs", "resourcemetrics", "resourceprofiles"];

/// Decodes an `ExportTraceServiceRequest` in JSON.
///
/// # Errors
/// Like [`super::decode_protobuf`].
pub fn decode_json(body: &[u8], limits: &Limits) -> Result<Decoded, OtlpError> {
    with_builder(|builder| decode_with(builder, body, limits))
}

fn decode_with(builder: &mut Builder, body: &[u8], limits: &Limits) -> Result<Decoded, OtlpError> {
    let mut collector = Collector::new(limits, builder);
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    // `null` means an unset field, but a request is not a field.
    if text.trim_ascii() == b"null" {
        let reason = "it is `null`, not an object with `resourceSpans`";
        return Err(OtlpError::malformed("the request", reason));
    }
    let request: Fields<'_> = serde_json::from_slice(text).map_err(|error| {
        let (reason, meant_for) = with_hint(error, body, Taken::Json);
        let (hint, also_meant_for) = as_lists_are(text);
        OtlpError::Malformed {
            place: "the request".to_owned(),
            reason: reason + hint,
            meant_for: meant_for.or(also_meant_for),
        }
    })?;
    let mut is_request = request.0.is_empty();
    for (name, raw) in &request.0 {
        match name.plain.as_str() {
            "resourcespans" => {
                is_request = true;
                let all = list(raw, &|| "resourceSpans".to_owned())?;
                for (index, raw) in all.into_iter().enumerate() {
                    let place = || format!("resourceSpans[{index}]");
                    resource_spans(raw, &place, &mut collector)?;
                }
            }
            other => {
                let is_signal = OTHER_SIGNALS.contains(&other) && raw.get() != "null";
                let count = spans_in_json(raw.get()).max(u64::from(is_signal));
                collector.unknown_field(count, || match is_signal {
                    true => format!("`{}` (only traces are taken here)", name.short()),
                    false => format!("`{}`", name.short()),
                });
            }
        }
    }
    let decoded = collector.finish()?;
    if !is_request && decoded.rejections.total() == 0 {
        return Err(OtlpError::malformed("the request", "it has no `resourceSpans`"));
    }
    Ok(decoded)
}

/// The error for a body that is a list or consists of several documents.
fn as_lists_are(text: &[u8]) -> (&'static str, Option<MeantFor>) {
    let text = text.trim_ascii_start();
    if text.starts_with(b"[") {
        return ("; a list of spans is Zipkin's", Some(MeantFor::Zipkin));
    }
    let mut documents = serde_json::Deserializer::from_slice(text).into_iter::<&RawValue>();
    match (documents.next(), documents.next()) {
        (Some(Ok(_)), Some(Ok(_))) => {
            ("; one request is one document: `spanwise import` reads files of many lines", None)
        }
        _ => ("", None),
    }
}

fn resource_spans(
    raw: &RawValue,
    place: &dyn Fn() -> String,
    collector: &mut Collector<'_>,
) -> Result<(), OtlpError> {
    let part = read::<Fields<'_>>(raw, place)?;
    let resource: Option<JsonResource> = part.get("resource", place)?;
    let resource: Resource = resource.map(Into::into).unwrap_or_default();
    let emitting = collector.emitter(&ResourceFacts::new(&(&resource).into()));
    let (mut new, mut old) = (Vec::new(), Vec::new());
    for (name, raw) in &part.0 {
        match name.plain.as_str() {
            "scopespans" => new.extend(list(raw, place)?),
            "instrumentationlibraryspans" => old.extend(list(raw, place)?),
            "resource" | "schemaurl" => {}
            _ => collector.unknown_field(spans_in_json(raw.get()), || {
                format!("{}.{}", place(), name.short())
            }),
        }
    }
    // During the renaming, senders could write the same spans under both names.
    let twice = if new.is_empty() || old.is_empty() { HashSet::new() } else { ids_of(&new) };
    for (index, raw) in new.into_iter().enumerate() {
        let place = || format!("{}.scopeSpans[{index}]", place());
        scope_spans(raw, &place, &emitting, &HashSet::new(), collector)?;
    }
    for (index, raw) in old.into_iter().enumerate() {
        let place = || format!("{}.instrumentationLibrarySpans[{index}]", place());
        scope_spans(raw, &place, &emitting, &twice, collector)?;
    }
    Ok(())
}

fn scope_spans(
    raw: &RawValue,
    place: &dyn Fn() -> String,
    emitting: &Emitting,
    known: &HashSet<JsonIds>,
    collector: &mut Collector<'_>,
) -> Result<(), OtlpError> {
    let part = read::<Fields<'_>>(raw, place)?;
    let scope: Option<JsonScope> = match part.get("scope", place)? {
        Some(scope) => Some(scope),
        None => part.get("instrumentationlibrary", place)?,
    };
    let scope: InstrumentationScope = scope.map(Into::into).unwrap_or_default();
    let scope = ScopeFacts::new(&(&scope).into());
    collector.left_out_of(&scope);
    for (name, raw) in &part.0 {
        match name.plain.as_str() {
            "spans" => {
                for (index, raw) in list(raw, place)?.into_iter().enumerate() {
                    if !known.is_empty() && ids(raw).is_some_and(|ids| known.contains(&ids)) {
                        continue;
                    }
                    let place = || format!("{}.spans[{index}]", place());
                    one_span(raw, &place, emitting, &scope, collector)?;
                }
            }
            "scope" | "instrumentationlibrary" | "schemaurl" => {}
            _ => collector.unknown_field(spans_in_json(raw.get()), || {
                format!("{}.{}", place(), name.short())
            }),
        }
    }
    Ok(())
}

fn one_span(
    raw: &RawValue,
    place: &dyn Fn() -> String,
    emitting: &Emitting,
    scope: &ScopeFacts,
    collector: &mut Collector<'_>,
) -> Result<(), OtlpError> {
    if !collector.admit(raw.get().len())? {
        return Ok(());
    }
    match serde_json::from_str::<Option<JsonSpan>>(raw.get()) {
        Ok(Some(span)) => {
            let span: Span = span.into();
            collector.push(&(&span).into(), emitting, scope)?;
        }
        Ok(None) => {}
        Err(error) => collector.malformed(|| (place(), error)),
    }
    Ok(())
}

fn ids(span: &RawValue) -> Option<JsonIds> {
    serde_json::from_str(span.get()).ok()
}

/// The ids of all decodable spans in these scopes.
fn ids_of(scopes: &[&RawValue]) -> HashSet<JsonIds> {
    fn spans<'a>(scope: &&'a RawValue) -> Vec<&'a RawValue> {
        let Ok(fields) = serde_json::from_str::<Fields<'a>>(scope.get()) else { return Vec::new() };
        let lists = fields.0.iter().filter(|(name, _)| name.plain == "spans");
        lists.flat_map(|(_, raw)| list(raw, &String::new).unwrap_or_default()).collect()
    }
    scopes.iter().flat_map(spans).filter_map(ids).collect()
}

fn read<'a, T: Deserialize<'a>>(
    raw: &'a RawValue,
    place: &dyn Fn() -> String,
) -> Result<T, OtlpError> {
    serde_json::from_str(raw.get()).map_err(|error| OtlpError::malformed(place(), error))
}
