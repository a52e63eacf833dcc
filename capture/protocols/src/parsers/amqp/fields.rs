//! Values in AMQP 0-9-1 frames (specification, section 4.2.5), and the content
//! header (4.2.6.1). What was not captured reads as absent.

use spanwise_keys::SpanKey;

use crate::bytes::text;
use crate::keys::{Keys, Message};
use crate::redaction::identifier;
use crate::sessions::Identity;
use crate::trace_headers::TraceHeaders;

/// Longest identifier of a message that is shown.
const MAX_ID_BYTES: usize = 128;
/// Fields of a table that are looked at.
const MAX_TABLE_FIELDS: usize = 64;

/// A payload that is read from its beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn octet(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn short(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn long_long(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn short_string(&mut self) -> Option<&'a [u8]> {
        let length = self.octet()?;
        self.take(usize::from(length))
    }

    fn long_string(&mut self) -> Option<&'a [u8]> {
        let length = self.long()?;
        self.take(usize::try_from(length).ok()?)
    }

    /// A table, of which no more than was captured is here.
    fn table(&mut self) -> Option<Self> {
        let length = usize::try_from(self.long()?).ok()?;
        let table = Self(&self.0[..length.min(self.0.len())]);
        self.0 = self.0.get(length..).unwrap_or_default();
        Some(table)
    }

    /// The next field of a table: its name, and its value where that is text.
    /// The types are RabbitMQ's, which differ from the specification's in small
    /// numbers.
    fn table_field(&mut self) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let name = self.short_string()?;
        let width = match self.octet()? {
            b'S' | b'x' => return Some((name, Some(self.long_string()?))),
            b'A' | b'F' => {
                self.long_string()?;
                0
            }
            b'V' => 0,
            b't' | b'b' | b'B' => 1,
            b's' | b'u' => 2,
            b'I' | b'i' | b'f' => 4,
            b'D' => 5,
            b'l' | b'L' | b'd' | b'T' => 8,
            _ => return None,
        };
        self.take(width)?;
        Some((name, None))
    }
}

/// What a content header says of a message.
#[derive(Debug, Default)]
pub(super) struct Properties {
    /// Bytes of its body.
    pub(super) body_bytes: u64,
    pub(super) headers: TraceHeaders,
    pub(super) keys: Vec<SpanKey>,
    pub(super) correlation_id: Option<String>,
    pub(super) message_id: Option<String>,
    /// What identifies the message.
    pub(super) identity: Option<(Identity, Vec<u8>)>,
}

/// Reads a content header; `None` where its fixed part is not there.
pub(super) fn properties(payload: &[u8], keys: &Keys) -> Option<Properties> {
    let mut fields = Fields(payload);
    let (_class, _weight) = (fields.short()?, fields.short()?);
    let body_bytes = fields.long_long()?;
    let mut properties = Properties { body_bytes, ..Properties::default() };
    // A cut header has been read as far as it goes.
    let mut message = Message::default();
    let _ = optional(&mut fields, &mut properties, &mut message);
    properties.keys = keys.of(&message);
    Some(properties)
}

fn optional<'a>(
    fields: &mut Fields<'a>,
    properties: &mut Properties,
    message: &mut Message<'a>,
) -> Option<()> {
    let flags = fields.short()?;
    // The lowest bit says that more flags follow; class basic needs none.
    let has = |bit: u16| flags & 1 == 0 && flags & 1 << bit != 0;
    let id = |bytes: &[u8]| Some(identifier(text(bytes, MAX_ID_BYTES))).filter(|id| !id.is_empty());
    if has(15) {
        let _content_type = fields.short_string()?;
    }
    if has(14) {
        let _content_encoding = fields.short_string()?;
    }
    let (mut task, mut task_id) = (false, None);
    if has(13) {
        let mut table = fields.table()?;
        for _ in 0..MAX_TABLE_FIELDS {
            let Some((name, value)) = table.table_field() else { break };
            if let Some(value) = value {
                // Celery's.
                task |= name == b"task";
                task_id = task_id.or((name == b"id").then_some(value));
                properties.headers.header(name, value);
                message.headers.push((name, value));
            }
        }
    }
    let task_id = task_id.filter(|_| task);
    properties.identity = task_id.map(|id| (Identity::Task, id.to_vec()));
    if has(12) {
        let _delivery_mode = fields.octet()?;
    }
    if has(11) {
        let _priority = fields.octet()?;
    }
    if has(10) {
        let correlation = fields.short_string()?;
        properties.correlation_id = id(correlation);
        message.key = Some(correlation);
        if properties.identity.is_none() && !correlation.is_empty() {
            properties.identity = Some((Identity::Correlation, correlation.to_vec()));
        }
    }
    if has(9) {
        let _reply_to = fields.short_string()?;
    }
    if has(8) {
        let _expiration = fields.short_string()?;
    }
    if has(7) {
        let message = fields.short_string()?;
        properties.message_id = id(message);
        let is_task = matches!(properties.identity, Some((Identity::Task, _)));
        if !is_task && !message.is_empty() {
            properties.identity = Some((Identity::Message, message.to_vec()));
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &[u8] = b"\0\x3c\0\0\0\0\0\0\0\0\0\x05\xb4\x80\x0atext/plain\
        \0\0\0\x5e\x01nI\0\0\0\x01\x02okt\x01\x0btraceparentS\0\0\0\x37\
        00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\
        \x04listA\0\0\0\0\x02\x05cid-1\x02m1";

    #[test]
    fn headers_and_identifiers_are_read() {
        let found = properties(HEADER, &Keys::default()).unwrap();
        assert_eq!(found.body_bytes, 5);
        assert!(found.headers.parent().is_some());
        assert_eq!(found.correlation_id.as_deref(), Some("cid-1"));
        assert_eq!(found.message_id.as_deref(), Some("m1"));
        assert_eq!(found.identity, Some((Identity::Message, b"m1".to_vec())));
    }

    #[test]
    fn a_cut_header_gives_what_is_there() {
        for end in 12..HEADER.len() {
            assert_eq!(properties(&HEADER[..end], &Keys::default()).unwrap().body_bytes, 5);
        }
        assert!(properties(&HEADER[..11], &Keys::default()).is_none());
    }
}
