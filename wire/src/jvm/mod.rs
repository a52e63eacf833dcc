//! What the JVM agent sends (docs/jvm-format.md): a batch of spans in which each name and trace id
//! is written once.

mod read;
mod row;
#[cfg(test)]
mod tests;

use spanwise_model::{AttributeValue, ResourceJson, SpanId, TraceId};

use crate::otlp::{Decoded, Invalid, Limits};
use crate::rows::{DecodeError, Rows};
use read::{Broken, Reader};
use row::{Component, JvmSpan, Process};

const FORMAT: &str = "batch of the JVM agent";
const MAGIC: [u8; 4] = *b"SWJ\x01";

/// Bits of a span's flags.
mod flags {
    pub(super) const FAILED: u8 = 1;
    pub(super) const PARENT_ID: u8 = 2;
    pub(super) const PARENT_BEFORE: u8 = 4;
    pub(super) const STATUS: u8 = 8;
    pub(super) const CLIENT_PORT: u8 = 16;
    pub(super) const ALL: u8 = 31;
}

/// Bytes of the shortest span.
const LEAST_SPAN_BYTES: usize = 16;

/// A batch, and what its agent could not send.
#[derive(Debug)]
pub struct Batch {
    /// Its spans as rows.
    pub decoded: Decoded,
    /// The service that the agent names.
    pub service: String,
    /// Spans that the agent dropped because a ring was full.
    pub dropped_ring_full: u64,
    /// Spans that the agent dropped because too many were open within one another.
    pub dropped_too_deep: u64,
}

/// Decodes a batch.
///
/// # Errors
/// If the bytes are no such batch, or a limit is exceeded. Spans with invalid ids are counted in
/// [`Decoded::rejections`] instead, and the others are kept.
pub fn decode(body: &[u8], limits: &Limits) -> Result<Batch, DecodeError> {
    let mut rows = Rows::new(FORMAT, limits);
    let mut reader = Reader::new(body);
    let head = Head::read(&mut reader, limits).map_err(|reason| broken(&reader, reason))?;
    let spans = reader.count(LEAST_SPAN_BYTES).map_err(|reason| broken(&reader, reason))?;
    let mut time = head.wall_nano;
    let mut ids: Vec<[u8; 8]> = Vec::with_capacity(spans);
    for _ in 0..spans {
        let before = reader.position();
        let read = head.span(&mut reader, &ids, &mut time);
        let (id, span) = read.map_err(|reason| broken(&reader, reason))?;
        ids.push(id);
        if !rows.admit(reader.position() - before)? {
            continue;
        }
        match span {
            Ok(span) => rows.push(span.into_row(&head.process))?,
            Err(invalid) => rows.invalid(invalid),
        }
    }
    if !reader.is_empty() {
        return Err(broken(&reader, "bytes follow the last span"));
    }
    Ok(Batch {
        decoded: rows.finish()?,
        service: head.process.service,
        dropped_ring_full: head.dropped_ring_full,
        dropped_too_deep: head.dropped_too_deep,
    })
}

fn broken(reader: &Reader<'_>, reason: Broken) -> DecodeError {
    DecodeError::malformed(FORMAT, format!("byte {}", reader.position()), reason)
}

/// What comes before the spans.
struct Head<'a> {
    wall_nano: i64,
    dropped_ring_full: u64,
    dropped_too_deep: u64,
    process: Process,
    texts: Vec<&'a str>,
    traces: Vec<[u8; 16]>,
}

impl<'a> Head<'a> {
    fn read(reader: &mut Reader<'a>, limits: &Limits) -> Result<Self, Broken> {
        if reader.array()? != MAGIC {
            return Err("it does not begin with SWJ and version 1");
        }
        let wall_nano = i64::try_from(reader.number()?).map_err(|_| "its time is out of range")?;
        let dropped_ring_full = reader.number()?;
        let dropped_too_deep = reader.number()?;
        let pairs = reader.count(2)?;
        if pairs > limits.span_attributes {
            return Err("it tells too much about its process");
        }
        let mut resource = Vec::with_capacity(pairs);
        for _ in 0..pairs {
            resource.push((reader.text()?, reader.text()?));
        }
        let count = reader.count(1)?;
        let mut texts = Vec::with_capacity(count);
        for _ in 0..count {
            texts.push(reader.text()?);
        }
        let count = reader.count(16)?;
        let mut traces = Vec::with_capacity(count);
        for _ in 0..count {
            traces.push(reader.array()?);
        }
        let process = process(&resource);
        Ok(Self { wall_nano, dropped_ring_full, dropped_too_deep, process, texts, traces })
    }

    /// A text by its number from 1; 0 is none.
    fn text(&self, reader: &mut Reader<'_>) -> Result<Option<&'a str>, Broken> {
        let Some(index) = reader.number()?.checked_sub(1) else { return Ok(None) };
        let text = usize::try_from(index).ok().and_then(|index| self.texts.get(index));
        text.copied().map(Some).ok_or("a text is named that it does not have")
    }

    /// A span and its id. `time` is the start of the span before.
    fn span(
        &self,
        reader: &mut Reader<'_>,
        before: &[[u8; 8]],
        time: &mut i64,
    ) -> Result<([u8; 8], Result<JvmSpan<'a>, Invalid>), Broken> {
        let component = Component::numbered(reader.byte()?);
        let bits = reader.byte()?;
        if bits & !flags::ALL != 0 {
            return Err("a span has unknown flags");
        }
        let has = |flag| bits & flag != 0;
        let name = self.text(reader)?;
        let target = self.text(reader)?;
        let peer = self.text(reader)?;
        let error = if has(flags::FAILED) { self.text(reader)? } else { None };
        let status = match has(flags::STATUS) {
            true => Some(i32::try_from(reader.number()?).map_err(|_| "a status is out of range")?),
            false => None,
        };
        let client_port = match has(flags::CLIENT_PORT) {
            true => Some(u16::try_from(reader.number()?).map_err(|_| "a port is out of range")?),
            false => None,
        };
        let trace = usize::try_from(reader.number()?).ok();
        let trace = trace.and_then(|index| self.traces.get(index));
        let trace = trace.ok_or("a trace is named that it does not have")?;
        let id: [u8; 8] = reader.array()?;
        let parent: Option<[u8; 8]> = match (has(flags::PARENT_ID), has(flags::PARENT_BEFORE)) {
            (false, false) => None,
            (true, false) => Some(reader.array()?),
            (false, true) => {
                let back = usize::try_from(reader.number()?).ok().filter(|back| *back > 0);
                let index = back.and_then(|back| before.len().checked_sub(back));
                let parent = index.and_then(|index| before.get(index));
                Some(*parent.ok_or("a parent is before the first span")?)
            }
            (true, true) => return Err("a span has two parents"),
        };
        *time = time.saturating_add(reader.signed()?);
        let duration_nano = i64::try_from(reader.number()?).unwrap_or(i64::MAX);
        let ids = || {
            let trace_id = TraceId::from_bytes(trace).ok_or(Invalid::Trace)?;
            let span_id = SpanId::from_bytes(&id).ok_or(Invalid::Span)?;
            Ok((trace_id, span_id))
        };
        let span = ids().map(|(trace_id, id)| JvmSpan {
            component,
            failed: has(flags::FAILED),
            name,
            target,
            peer,
            error,
            status,
            client_port,
            trace_id,
            id,
            parent_id: parent.and_then(|parent| SpanId::from_bytes(&parent)),
            start_unix_nano: *time,
            duration_nano,
        });
        Ok((id, span))
    }
}

fn process(resource: &[(&str, &str)]) -> Process {
    let value = |key: &str| {
        let found = resource.iter().find(|(name, value)| *name == key && !value.is_empty());
        found.map(|(_, value)| (*value).to_owned())
    };
    let attributes: Vec<(&str, AttributeValue)> = resource
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (*key, AttributeValue::from(*value)))
        .collect();
    Process {
        service: value("service.name").unwrap_or_else(|| "unknown_service:java".to_owned()),
        host: value("host.name"),
        process_id: value("process.pid").and_then(|id| id.parse().ok()),
        resource: ResourceJson::from_attributes(
            attributes.iter().map(|(key, value)| (*key, value)),
        ),
    }
}
