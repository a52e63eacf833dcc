//! OTLP protobuf: the outer messages, down to single spans.

use std::collections::HashSet;

use arrow::array::UInt32Array;
use spanwise_model::{ModelError, SpanRows};

use super::OtlpError;
use super::builders::{Builder, with_builder};
use super::collect::{Collector, Decoded, Emitting, Limits, Part};
use super::decode;
use super::repeats::Own;
use super::resource::ScopeFacts;
use super::unknown::spans_in_protobuf;
use super::view::SpanView;
use crate::mistaken::Taken;
use crate::protobuf::{Payload, ReadError, Reader, submessages};

/// Field numbers of opentelemetry-proto's `trace_service.proto` and
/// `trace.proto`.
mod number {
    pub(super) const RESOURCE_SPANS: u32 = 1;
    pub(super) const RESOURCE: u32 = 1;
    pub(super) const SCOPE_SPANS: u32 = 2;
    pub(super) const SCHEMA_URL: u32 = 3;
    /// `instrumentation_library_spans` of OTLP 0.x, which is now called `scope_spans`.
    pub(super) const OLD_SCOPE_SPANS: u32 = 1000;
    pub(super) const SCOPE: u32 = 1;
    pub(super) const SPANS: u32 = 2;
}

/// Decodes an `ExportTraceServiceRequest`.
///
/// # Errors
/// If the bytes are not such a message (or not a single span could be decoded), or a limit is
/// exceeded. Single invalid spans are counted in [`Decoded::rejections`] instead, and the others
/// are kept.
pub fn decode_protobuf(body: &[u8], limits: &Limits) -> Result<Decoded, OtlpError> {
    with_builder(|builder| decode_with(builder, body, limits))
}

/// Like [`decode_protobuf`], with this builder.
pub(super) fn decode_with(
    builder: &mut Builder,
    body: &[u8],
    limits: &Limits,
) -> Result<Decoded, OtlpError> {
    // Finding a scope requires going through all spans. So it is first assumed to be where nearly
    // all senders write it. If it is not, or anything else is wrong, everything is decoded again.
    if let Ok(Some(part)) = decode_as(builder, body, limits, Scopes::First) {
        return Ok(part.alone(builder.rows.finish_rows()?));
    }
    builder.rows.finish_rows()?;
    decode_anywhere(builder, body, limits)
}

fn decode_anywhere(
    builder: &mut Builder,
    body: &[u8],
    limits: &Limits,
) -> Result<Decoded, OtlpError> {
    let part = decode_as(builder, body, limits, Scopes::Anywhere)
        .map_err(|error| error.with_hint(body, Taken::Protobuf))?;
    let part = part.ok_or_else(|| OtlpError::malformed("the request", "a scope cannot be read"))?;
    Ok(part.alone(builder.rows.finish_rows()?))
}

/// Consecutive requests whose rows are one batch.
#[derive(Debug)]
pub struct Together {
    /// Number of requests.
    pub requests: usize,
    /// Their rows and the result of each request, or why they could not be decoded.
    pub decoded: Result<(SpanRows, Vec<Part>), OtlpError>,
}

/// Decodes requests, like [`decode_protobuf`], into as few batches as their size allows. A batch
/// costs as much as a hundred of its rows. No request is affected by another one.
pub fn decode_protobuf_together<B: AsRef<[u8]>>(bodies: &[B], limits: &Limits) -> Vec<Together> {
    with_builder(|builder| {
        let (mut all, mut rest) = (Vec::new(), bodies);
        while !rest.is_empty() {
            let together = first_together(builder, rest, limits);
            rest = &rest[together.requests..];
            all.push(together);
        }
        all
    })
}

/// From this many bytes of rows ([`Limits::row_bytes`]) on, no request is added to a batch.
const TOGETHER_ROW_BYTES: usize = 16 << 20;

/// The first batch of these requests, which must not be empty.
fn first_together<B: AsRef<[u8]>>(
    builder: &mut Builder,
    bodies: &[B],
    limits: &Limits,
) -> Together {
    let (mut parts, mut row_bytes) = (Vec::new(), 0);
    for body in bodies {
        let before = builder.rows.len();
        match decode_as(builder, body.as_ref(), limits, Scopes::First) {
            Ok(Some(part)) => {
                row_bytes += part.row_bytes;
                parts.push(part);
                if row_bytes > TOGETHER_ROW_BYTES {
                    break;
                }
            }
            Ok(None) | Err(_) => {
                return without_last(builder, before, parts, body.as_ref(), limits);
            }
        }
    }
    let rows = builder.rows.finish_rows();
    Together { requests: parts.len(), decoded: rows.map(|rows| (rows, parts)).map_err(Into::into) }
}

/// The requests before `last`, which must be decoded in the slow way and may have left rows after
/// theirs. If `last` is the first request, its own result.
fn without_last(
    builder: &mut Builder,
    rows: usize,
    parts: Vec<Part>,
    last: &[u8],
    limits: &Limits,
) -> Together {
    let all = builder.rows.finish_rows().map_err(OtlpError::from);
    if parts.is_empty() {
        let decoded = all.and_then(|_| decode_anywhere(builder, last, limits));
        return Together { requests: 1, decoded: decoded.map(Decoded::into_part) };
    }
    let requests = parts.len();
    let decoded = all.and_then(|all| {
        let theirs = UInt32Array::from_iter_values(0..rows as u32);
        Ok((all.take(&theirs).map_err(ModelError::from)?, parts))
    });
    Together { requests, decoded }
}

/// Where to look for a scope.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scopes {
    /// Before the spans.
    First,
    /// Before and after the spans.
    Anywhere,
}

/// Returns nothing if a scope is elsewhere.
fn decode_as(
    builder: &mut Builder,
    body: &[u8],
    limits: &Limits,
    scopes: Scopes,
) -> Result<Option<Part>, OtlpError> {
    let mut collector = Collector::new(limits, builder);
    let mut span = Reading::default();
    let mut reader = Reader::new(body);
    let malformed = |error| OtlpError::malformed("the request", error);
    let mut index = 0;
    while let Some(field) = reader.next().map_err(malformed)? {
        let Payload::Bytes(bytes) = field.payload else { continue };
        if field.number != number::RESOURCE_SPANS {
            let count = spans_in_protobuf(bytes);
            collector.unknown_field(count, || format!("field {} of the request", field.number));
            continue;
        }
        let place = || format!("resource_spans[{index}]");
        if !resource_spans(bytes, &place, &mut span, &mut collector, scopes)? {
            return Ok(None);
        }
        index += 1;
    }
    let part = collector.part()?;
    if index == 0 && !body.is_empty() && part.rejections.total() == 0 {
        return Err(OtlpError::malformed("the request", "it has no resource_spans"));
    }
    Ok(Some(part))
}

/// A span being decoded. One is reused for the whole request.
#[derive(Default)]
struct Reading<'a> {
    view: SpanView<'a>,
    own: Own<'a>,
}

/// The pieces of a nested message.
fn pieces(message: &[u8], number: u32) -> Result<Vec<&[u8]>, ReadError> {
    submessages(message, number).collect()
}

/// The pieces before the first field with the number `until`.
fn first_pieces(message: &[u8], number: u32, until: u32) -> Result<Vec<&[u8]>, ReadError> {
    let (mut reader, mut pieces) = (Reader::new(message), Vec::new());
    while let Some(field) = reader.next()? {
        match field.payload {
            Payload::Bytes(_) if field.number == until => break,
            Payload::Bytes(bytes) if field.number == number => pieces.push(bytes),
            _ => {}
        }
    }
    Ok(pieces)
}

/// Returns whether scopes are where they were expected.
fn resource_spans<'a>(
    bytes: &'a [u8],
    place: &dyn Fn() -> String,
    span: &mut Reading<'a>,
    collector: &mut Collector<'_>,
    scopes: Scopes,
) -> Result<bool, OtlpError> {
    // The resource may come in several pieces and after the spans, so it is found in a separate
    // pass.
    let resource = pieces(bytes, number::RESOURCE)
        .and_then(|pieces| collector.resource(&pieces))
        .map_err(|error| OtlpError::malformed(format!("{}.resource", place()), error))?;
    let emitting = collector.emitter(&resource);
    let mut old = Vec::new();
    let mut reader = Reader::new(bytes);
    let mut index = 0;
    while let Some(field) = reader.next().map_err(|error| OtlpError::malformed(place(), error))? {
        let Payload::Bytes(bytes) = field.payload else { continue };
        match field.number {
            number::SCOPE_SPANS => {
                let place = || format!("{}.scope_spans[{index}]", place());
                let known = HashSet::new();
                if !scope_spans(bytes, &place, span, collector, scopes, (&emitting, &known))? {
                    return Ok(false);
                }
                index += 1;
            }
            number::OLD_SCOPE_SPANS => old.push(bytes),
            number::RESOURCE | number::SCHEMA_URL => {}
            other => {
                let count = spans_in_protobuf(bytes);
                collector.unknown_field(count, || format!("field {other} of {}", place()));
            }
        }
    }
    // During the renaming, senders could write the same spans under both names.
    let known = if old.is_empty() || index == 0 { HashSet::new() } else { ids_of(bytes) };
    for (index, bytes) in old.into_iter().enumerate() {
        let place = || format!("{}.instrumentation_library_spans[{index}]", place());
        if !scope_spans(bytes, &place, span, collector, scopes, (&emitting, &known))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Identifies a span.
type Ids<'a> = (&'a [u8], &'a [u8]);

fn ids(span: &[u8]) -> Ids<'_> {
    let field = |number| submessages(span, number).filter_map(Result::ok).last();
    (field(1).unwrap_or_default(), field(2).unwrap_or_default())
}

/// The ids of all spans in the `scope_spans` of a resource.
fn ids_of(resource: &[u8]) -> HashSet<Ids<'_>> {
    let scopes = submessages(resource, number::SCOPE_SPANS).filter_map(Result::ok);
    let spans = scopes.flat_map(|scope| submessages(scope, number::SPANS).filter_map(Result::ok));
    spans.map(ids).collect()
}

/// Returns whether the scope is where it was expected. Spans with ids in `known` are left out.
fn scope_spans<'a>(
    bytes: &'a [u8],
    place: &dyn Fn() -> String,
    span: &mut Reading<'a>,
    collector: &mut Collector<'_>,
    scopes: Scopes,
    (emitting, known): (&Emitting, &HashSet<Ids<'_>>),
) -> Result<bool, OtlpError> {
    let scope = match scopes {
        Scopes::First => first_pieces(bytes, number::SCOPE, number::SPANS),
        Scopes::Anywhere => pieces(bytes, number::SCOPE),
    };
    let scope = scope
        .and_then(|pieces| collector.scope(&pieces))
        .map_err(|error| OtlpError::malformed(format!("{}.scope", place()), error))?;
    let mut reader = Reader::new(bytes);
    let (mut index, mut is_after_span) = (0, false);
    while let Some(field) = reader.next().map_err(|error| OtlpError::malformed(place(), error))? {
        // See [`submessages`].
        let Payload::Bytes(bytes) = field.payload else { continue };
        match field.number {
            number::SPANS => {}
            number::SCOPE if is_after_span && scopes == Scopes::First => return Ok(false),
            number::SCOPE | number::SCHEMA_URL => continue,
            other => {
                let count = spans_in_protobuf(bytes);
                collector.unknown_field(count, || format!("field {other} of {}", place()));
                continue;
            }
        }
        is_after_span = true;
        if !known.is_empty() && known.contains(&ids(bytes)) {
            continue;
        }
        let place = || format!("{}.spans[{index}]", place());
        one_span(bytes, &place, span, collector, (emitting, &scope))?;
        index += 1;
    }
    Ok(true)
}

fn one_span<'a>(
    bytes: &'a [u8],
    place: &dyn Fn() -> String,
    Reading { view, own }: &mut Reading<'a>,
    collector: &mut Collector<'_>,
    (emitting, scope): (&Emitting, &ScopeFacts),
) -> Result<(), OtlpError> {
    if !collector.admit(bytes.len())? {
        return Ok(());
    }
    view.clear();
    if collector.push_repeated(bytes, view, own, emitting, scope)? {
        return Ok(());
    }
    view.clear();
    match decode::span(bytes, view, collector.limits()) {
        Ok(()) => collector.push_new(view, own, emitting, scope)?,
        Err(error) => collector.malformed(|| (place(), error)),
    }
    Ok(())
}
