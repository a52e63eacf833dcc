//! Decodes messages into views without building objects. Texts are not copied, and only arrays and
//! maps in attributes are allocated.
//!
//! The rules are those of protobuf and prost, and a property test compares both decoders. Of a
//! repeated scalar the last counts, pieces of a message are merged, unknown fields are skipped, and
//! a known field with another wire type is an error. One difference: groups are an error here,
//! while prost skips them.

use super::collect::Limits;
use super::keys::Keys;
use super::value::{Any, Pair, Value};
use super::view::{EventView, LinkView, ResourceView, ScopeView, SpanView};
use crate::protobuf::Payload::{Bytes, Fixed32, Fixed64, Varint};
use crate::protobuf::{ReadError, Reader};

/// Maximum depth of nested messages.
const DEPTH: u32 = 100;

/// The remaining depth for nested messages.
#[inline]
fn inner(depth: u32) -> Result<u32, ReadError> {
    depth.checked_sub(1).ok_or(ReadError::Deep)
}

#[inline]
fn text<'a>(message: &'static str, number: u32, bytes: &'a [u8]) -> Result<&'a str, ReadError> {
    std::str::from_utf8(bytes).map_err(|_| ReadError::Text { message, number })
}

/// Decodes a `Span` into a clear view, up to the limits for attributes, events and links.
pub(super) fn span<'a>(
    bytes: &'a [u8],
    view: &mut SpanView<'a>,
    limits: &Limits,
) -> Result<(), ReadError> {
    const SPAN: &str = "Span";
    let depth = inner(DEPTH)?;
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        match (field.number, field.payload) {
            (9, Bytes(bytes)) => {
                if view.attributes.len() >= limits.span_attributes {
                    view.attributes_beyond += 1;
                    continue;
                }
                let pair = pair(bytes, &mut view.keys, depth)?;
                view.attributes.push(pair);
            }
            (1, Bytes(bytes)) => view.trace_id = bytes,
            (2, Bytes(bytes)) => view.span_id = bytes,
            (3, Bytes(bytes)) => view.trace_state = text(SPAN, 3, bytes)?,
            (4, Bytes(bytes)) => view.parent_span_id = bytes,
            (5, Bytes(bytes)) => view.name = text(SPAN, 5, bytes)?,
            (6, Varint(number)) => view.kind = number as i32,
            (7, Fixed64(time)) => view.start_time_unix_nano = time,
            (8, Fixed64(time)) => view.end_time_unix_nano = time,
            (10, Varint(count)) => view.dropped_attributes_count = count as u32,
            (11, Bytes(_)) if view.events.len() >= limits.span_events => view.events_beyond += 1,
            (11, Bytes(bytes)) => {
                let event = event(bytes, &mut view.inner, &mut view.keys, depth)?;
                view.events.push(event);
            }
            (12, Varint(count)) => view.dropped_events_count = count as u32,
            (13, Bytes(_)) if view.links.len() >= limits.span_links => view.links_beyond += 1,
            (13, Bytes(bytes)) => {
                let link = link(bytes, &mut view.inner, &mut view.keys, depth)?;
                view.links.push(link);
            }
            (14, Varint(count)) => view.dropped_links_count = count as u32,
            (15, Bytes(bytes)) => status(bytes, view)?,
            // Flags. The sampled bit is implied for stored spans.
            (16, Fixed32(_)) => {}
            (number @ 1..=16, _) => return Err(ReadError::Type { message: SPAN, number }),
            _ => {}
        }
    }
    Ok(())
}

fn status<'a>(bytes: &'a [u8], view: &mut SpanView<'a>) -> Result<(), ReadError> {
    const STATUS: &str = "Status";
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        match (field.number, field.payload) {
            (1, Varint(number)) => view.old_status_code = number,
            (2, Bytes(bytes)) => view.status_message = text(STATUS, 2, bytes)?,
            (3, Varint(number)) => view.status_code = number as i32,
            (number @ 2..=3, _) => return Err(ReadError::Type { message: STATUS, number }),
            _ => {}
        }
    }
    Ok(())
}

fn event<'a>(
    bytes: &'a [u8],
    attributes: &mut Vec<Pair<'a>>,
    keys: &mut Keys<'a>,
    depth: u32,
) -> Result<EventView<'a>, ReadError> {
    const EVENT: &str = "Event";
    let start = attributes.len();
    let mut event = EventView::default();
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        match (field.number, field.payload) {
            (1, Fixed64(time)) => event.time_unix_nano = time,
            (2, Bytes(bytes)) => event.name = text(EVENT, 2, bytes)?,
            (3, Bytes(bytes)) => attributes.push(pair(bytes, keys, inner(depth)?)?),
            (4, Varint(count)) => event.dropped_attributes_count = count as u32,
            (number @ 1..=4, _) => return Err(ReadError::Type { message: EVENT, number }),
            _ => {}
        }
    }
    event.attributes = start..attributes.len();
    Ok(event)
}

fn link<'a>(
    bytes: &'a [u8],
    attributes: &mut Vec<Pair<'a>>,
    keys: &mut Keys<'a>,
    depth: u32,
) -> Result<LinkView<'a>, ReadError> {
    const LINK: &str = "Link";
    let start = attributes.len();
    let mut link = LinkView::default();
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        match (field.number, field.payload) {
            (1, Bytes(bytes)) => link.trace_id = bytes,
            (2, Bytes(bytes)) => link.span_id = bytes,
            (3, Bytes(bytes)) => link.trace_state = text(LINK, 3, bytes)?,
            (4, Bytes(bytes)) => attributes.push(pair(bytes, keys, inner(depth)?)?),
            (5, Varint(count)) => link.dropped_attributes_count = count as u32,
            (6, Fixed32(_)) => {}
            (number @ 1..=6, _) => return Err(ReadError::Type { message: LINK, number }),
            _ => {}
        }
    }
    link.attributes = start..attributes.len();
    Ok(link)
}

/// Decodes one piece of a `Resource` and merges it with earlier pieces.
pub(super) fn resource<'a>(
    bytes: &'a [u8],
    view: &mut ResourceView<'a>,
    keys: &mut Keys<'a>,
) -> Result<(), ReadError> {
    const RESOURCE: &str = "Resource";
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        match (field.number, field.payload) {
            (1, Bytes(bytes)) => {
                let pair = pair(bytes, keys, inner(DEPTH)?)?;
                view.attributes.push(pair);
            }
            (2, Varint(count)) => view.dropped_attributes_count = count as u32,
            (number @ 1..=2, _) => return Err(ReadError::Type { message: RESOURCE, number }),
            // Includes entity references.
            _ => {}
        }
    }
    Ok(())
}

/// Decodes one piece of an `InstrumentationScope`, like [`resource`].
pub(super) fn scope<'a>(
    bytes: &'a [u8],
    view: &mut ScopeView<'a>,
    keys: &mut Keys<'a>,
) -> Result<(), ReadError> {
    const SCOPE: &str = "InstrumentationScope";
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        match (field.number, field.payload) {
            (1, Bytes(bytes)) => view.name = text(SCOPE, 1, bytes)?,
            (2, Bytes(bytes)) => view.version = text(SCOPE, 2, bytes)?,
            (3, Bytes(bytes)) => {
                let pair = pair(bytes, keys, inner(DEPTH)?)?;
                view.attributes.push(pair);
            }
            (4, Varint(_)) => {}
            (number @ 1..=4, _) => return Err(ReadError::Type { message: SCOPE, number }),
            _ => {}
        }
    }
    Ok(())
}

const KEY_VALUE: &str = "KeyValue";
const ANY_VALUE: &str = "AnyValue";

/// Fast path for a `KeyValue` in the usual form: key and value once, in this order, and shorter
/// than 128 bytes. Returns nothing for other forms.
#[inline]
fn plain_pair(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let [0x0a, length @ ..0x80, rest @ ..] = bytes else { return None };
    let (key, rest) = rest.split_at_checked(usize::from(*length))?;
    let [0x12, length @ ..0x80, value @ ..] = rest else { return None };
    (value.len() == usize::from(*length)).then_some((key, value))
}

/// Length-prefixed bytes with a length of one or two bytes, and the rest.
#[inline]
pub(super) fn short_bytes(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    match bytes {
        [length @ ..0x80, rest @ ..] => rest.split_at_checked(usize::from(*length)),
        [low, high @ ..0x80, rest @ ..] => {
            rest.split_at_checked(usize::from(*high) << 7 | usize::from(*low & 0x7f))
        }
        _ => None,
    }
}

/// Decodes the `AnyValue` of a span's attribute.
pub(super) fn value(bytes: &[u8]) -> Option<Value<'_>> {
    plain_value(bytes, DEPTH - 2).ok()
}

/// Decodes an `AnyValue`, with a fast path for the usual form.
#[inline]
fn plain_value(bytes: &[u8], depth: u32) -> Result<Value<'_>, ReadError> {
    match bytes {
        [0x0a, length @ ..0x80, bytes @ ..] if bytes.len() == usize::from(*length) => {
            text(ANY_VALUE, 1, bytes).map(Value::Text)
        }
        [0x10, flag @ ..0x80] => Ok(Value::Bool(*flag != 0)),
        [0x18, number @ ..0x80] => Ok(Value::Int((*number).into())),
        _ => {
            let mut any = Any::Nothing;
            merge_any(bytes, &mut any, depth)?;
            Ok(any.into())
        }
    }
}

/// Decodes a `KeyValue`.
#[inline]
fn pair<'a>(bytes: &'a [u8], keys: &mut Keys<'a>, depth: u32) -> Result<Pair<'a>, ReadError> {
    if let Some((key, value)) = plain_pair(bytes) {
        let found = keys.look_up(key);
        let (key, note) = found.map_err(|_| ReadError::Text { message: KEY_VALUE, number: 1 })?;
        return Ok(Pair { key, note, value: plain_value(value, inner(depth)?)? });
    }
    let (mut key, mut note) = ("", None);
    let mut any = Any::Nothing;
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        match (field.number, field.payload) {
            (1, Bytes(bytes)) => {
                let found = keys.look_up(bytes);
                (key, note) =
                    found.map_err(|_| ReadError::Text { message: KEY_VALUE, number: 1 })?;
            }
            (2, Bytes(bytes)) => merge_any(bytes, &mut any, inner(depth)?)?,
            // An index into a table that only profiles have.
            (3, Varint(_)) => {}
            (number @ 1..=3, _) => return Err(ReadError::Type { message: KEY_VALUE, number }),
            _ => {}
        }
    }
    Ok(Pair { key, note, value: any.into() })
}

/// Decodes a piece of an `AnyValue`. The last value counts, but pieces of one array or map are
/// concatenated.
#[inline]
fn merge_any<'a>(bytes: &'a [u8], any: &mut Any<'a>, depth: u32) -> Result<(), ReadError> {
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        match (field.number, field.payload) {
            (1, Bytes(bytes)) => *any = Any::Text(text(ANY_VALUE, 1, bytes)?),
            (2, Varint(flag)) => *any = Any::Bool(flag != 0),
            (3, Varint(number)) => *any = Any::Int(number.cast_signed()),
            (4, Fixed64(bits)) => *any = Any::Double(f64::from_bits(bits)),
            (5, Bytes(bytes)) => merge_array(bytes, any, inner(depth)?)?,
            (6, Bytes(bytes)) => merge_map(bytes, any, inner(depth)?)?,
            (7, Bytes(bytes)) => *any = Any::Bytes(bytes),
            (8, Varint(_)) => *any = Any::Nothing,
            (number @ 1..=8, _) => return Err(ReadError::Type { message: ANY_VALUE, number }),
            _ => {}
        }
    }
    Ok(())
}

fn merge_array<'a>(bytes: &'a [u8], any: &mut Any<'a>, depth: u32) -> Result<(), ReadError> {
    const ARRAY_VALUE: &str = "ArrayValue";
    let mut values = match std::mem::take(any) {
        Any::Array(values) => values,
        _ => Vec::new(),
    };
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        match (field.number, field.payload) {
            (1, Bytes(bytes)) => {
                let mut value = Any::Nothing;
                merge_any(bytes, &mut value, inner(depth)?)?;
                values.push(value);
            }
            (number @ 1, _) => return Err(ReadError::Type { message: ARRAY_VALUE, number }),
            _ => {}
        }
    }
    *any = Any::Array(values);
    Ok(())
}

fn merge_map<'a>(bytes: &'a [u8], any: &mut Any<'a>, depth: u32) -> Result<(), ReadError> {
    const KEY_VALUE_LIST: &str = "KeyValueList";
    let mut pairs = match std::mem::take(any) {
        Any::Map(pairs) => pairs,
        _ => Vec::new(),
    };
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        match (field.number, field.payload) {
            (1, Bytes(bytes)) => {
                pairs.push(map_entry(bytes, inner(depth)?)?);
            }
            (number @ 1, _) => return Err(ReadError::Type { message: KEY_VALUE_LIST, number }),
            _ => {}
        }
    }
    *any = Any::Map(pairs);
    Ok(())
}

fn map_entry(bytes: &[u8], depth: u32) -> Result<(&str, Any<'_>), ReadError> {
    let (mut key, mut value) = ("", Any::Nothing);
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.next()? {
        match (field.number, field.payload) {
            (1, Bytes(bytes)) => key = text(KEY_VALUE, 1, bytes)?,
            (2, Bytes(bytes)) => merge_any(bytes, &mut value, inner(depth)?)?,
            (3, Varint(_)) => {}
            (number @ 1..=3, _) => return Err(ReadError::Type { message: KEY_VALUE, number }),
            _ => {}
        }
    }
    Ok((key, value))
}

#[cfg(test)]
mod tests;
