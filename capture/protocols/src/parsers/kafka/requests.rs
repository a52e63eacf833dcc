//! What requests ask for (kafka.apache.org/protocol, "Messages").

use spanwise_keys::SpanKey;

use super::api;
use super::frame::RequestHeader;
use super::primitives::Reader;
use super::records::records;
use super::topics::Topics;
use crate::bytes::text;
use crate::formats::messaging::{self, Destination};
use crate::keys::Keys;
use crate::redaction;
use crate::sessions::{Attributes, Manner, Request};

/// Longest name of a client or of a group that is shown.
const MAX_NAME_BYTES: usize = 128;
/// Topics of one message that are named.
const MAX_TOPICS: usize = 16;

/// A request, as far as it is understood.
pub(super) struct Asked {
    pub(super) request: Request,
    /// Whether the broker answers it.
    pub(super) answered: bool,
    /// What was not captured would tell which topics it is about.
    pub(super) cut: bool,
}

/// What lies in the topics of a request or response.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The topics' names.
    pub(super) topics: Vec<String>,
    /// Whether there are, or may be, topics besides.
    pub(super) others: bool,
    /// The partition, where there is but one.
    pub(super) partition: Option<i32>,
    /// Records, where all of them could be counted.
    pub(super) records: Option<i64>,
    /// Keys of the records.
    pub(super) keys: Vec<SpanKey>,
}

impl Found {
    /// Takes note of a topic; of one without a name it is not known which it is.
    pub(super) fn add(&mut self, name: String) {
        if self.topics.contains(&name) {
            return;
        }
        if name.is_empty() || self.topics.len() >= MAX_TOPICS {
            self.others = true;
        } else {
            self.topics.push(name);
        }
    }

    /// The topic, where there is but one.
    pub(super) fn topic(&self) -> Option<&str> {
        match self.topics.as_slice() {
            [only] if !self.others => Some(only),
            _ => None,
        }
    }

    /// Whether there are several topics.
    pub(super) fn is_several(&self) -> bool {
        self.topics.len() + usize::from(self.others) > 1
    }
}

/// A topic's name, or its id of which the name may be known.
pub(super) fn topic(reader: &mut Reader<'_>, by_id: bool, topics: &Topics) -> Option<String> {
    if by_id {
        let id = reader.uuid()?;
        return Some(topics.name(id).unwrap_or_default().to_owned());
    }
    Some(text(reader.string()?, MAX_NAME_BYTES * 2))
}

/// Reads a request after its header; what was not captured is not told.
pub(super) fn asked(header: RequestHeader, content: &[u8], topics: &Topics, keys: &Keys) -> Asked {
    let RequestHeader { api, version, .. } = header;
    let flexible = api.is_flexible(version);
    // The client's id has a length of two bytes whatever the version.
    let mut reader = Reader::new(content, false);
    let client = reader.string().map(|name| text(name, MAX_NAME_BYTES));
    let mut reader = reader.with_flexible(flexible);
    let (mut answered, mut cut) = (true, false);
    let mut asked = match (reader.tags(), api.key) {
        (Some(()), api::PRODUCE) => {
            let (acks, found, request) = produce(version, &mut reader, topics, keys);
            answered = acks != Some(0);
            cut = found.others && found.is_several();
            request
        }
        (_, api::FETCH) => {
            let mut request = named("fetch", Some("receive"), None, Manner::Call);
            // Most are there to wait for messages, and come back with none: those
            // say nothing. One with messages is shown once it is answered.
            request.silent = true;
            request
        }
        (Some(()), api::OFFSET_COMMIT | api::TXN_OFFSET_COMMIT) => {
            commit(api.key, version, &mut reader, topics)
        }
        (Some(()), api::CREATE_TOPICS | api::DELETE_TOPICS) => {
            let found = manage(api.key, version, &mut reader, topics);
            named(api.name, None, found, Manner::Call)
        }
        _ => {
            let mut request = named(api.name, None, None, Manner::Call);
            request.silent = api.upkeep;
            if matches!(
                api.key,
                api::JOIN_GROUP | api::SYNC_GROUP | api::HEARTBEAT | api::LEAVE_GROUP
            ) {
                let group = reader.string().unwrap_or_default();
                add(&mut request, "messaging.consumer.group.name", group);
            }
            request
        }
    };
    if let Some(client) = client {
        add(&mut asked, "messaging.client.id", client.as_bytes());
    }
    Asked { request: asked, answered, cut }
}

fn named(operation: &str, kind: Option<&str>, topic: Option<String>, manner: Manner) -> Request {
    let destination = Destination::plain(topic.unwrap_or_default().as_bytes());
    messaging::request("kafka", operation, kind, &destination, manner)
}

fn add(request: &mut Request, key: &'static str, value: &[u8]) {
    if !value.is_empty() {
        let value = redaction::owned(text(value, MAX_NAME_BYTES), redaction::keyed_name);
        request.attributes.push((key, value.into()));
    }
}

/// What was found in topics, as attributes.
pub(super) fn attributes(found: &Found, to: &mut Attributes) {
    if found.is_several() {
        let names = (!found.others).then_some(found.topics.as_slice());
        to.push((messaging::DESTINATIONS, messaging::destinations(names)));
    }
    if let Some(partition) = found.partition {
        to.push(("messaging.destination.partition.id", partition.to_string().into()));
    }
    if let Some(records) = found.records {
        to.push(("messaging.batch.message_count", records.into()));
    }
}

/// The acknowledgements that a Produce request wants, and what it is.
fn produce(
    version: i16,
    reader: &mut Reader<'_>,
    topics: &Topics,
    keys: &Keys,
) -> (Option<i16>, Found, Request) {
    let mut found = Found { records: Some(0), ..Found::default() };
    let mut headers = None;
    let acks = produced(version, reader, topics, keys, &mut found, &mut headers);
    let topic = found.topic().map(str::to_owned);
    let mut request = named("produce", Some("send"), topic, Manner::Publish);
    attributes(&found, &mut request.attributes);
    request.keys = std::mem::take(&mut found.keys);
    // Several messages may be of several traces.
    if let (Some(1), Some(headers)) = (found.records, headers) {
        request.headers = headers;
    }
    (acks, found, request)
}

fn produced(
    version: i16,
    reader: &mut Reader<'_>,
    topics: &Topics,
    keys: &Keys,
    found: &mut Found,
    headers: &mut Option<crate::trace_headers::TraceHeaders>,
) -> Option<i16> {
    if version >= 3 {
        let _transaction = reader.string()?;
    }
    let (acks, _timeout) = (reader.int16()?, reader.int32()?);
    let complete = (|| {
        let count = reader.count()?;
        // Until all of them are read.
        found.others = count > 1;
        for _ in 0..count {
            found.add(topic(reader, version >= 13, topics)?);
            let partitions = reader.count()?;
            for _ in 0..partitions {
                let partition = reader.int32()?;
                found.partition = (count == 1 && partitions == 1).then_some(partition);
                let length = reader.bytes()?;
                let here = records(reader, length, keys);
                found.keys.extend(here.keys);
                headers.get_or_insert(here.headers);
                found.records = found.records.zip(here.count).map(|(sum, more)| sum + more);
                if count > 1 || partitions > 1 {
                    reader.tags()?;
                } else {
                    // Nothing follows that counts.
                    return Some(());
                }
            }
            reader.tags()?;
        }
        found.others = found.topics.len() < count;
        Some(())
    })();
    if complete.is_none() {
        found.records = None;
    }
    Some(acks)
}

fn commit(key: i16, version: i16, reader: &mut Reader<'_>, topics: &Topics) -> Request {
    let transactional = key == api::TXN_OFFSET_COMMIT;
    let mut group = b"".as_slice();
    let mut found = Found::default();
    let _ = (|| {
        if transactional {
            let _transaction = reader.string()?;
        }
        group = reader.string()?;
        if transactional {
            let (_producer, _epoch) = (reader.int64()?, reader.int16()?);
        }
        if version >= if transactional { 3 } else { 1 } {
            let (_generation, _member) = (reader.int32()?, reader.string()?);
        }
        if version >= if transactional { 3 } else { 7 } {
            let _instance = reader.string()?;
        }
        if !transactional && (2..=4).contains(&version) {
            let _retention = reader.int64()?;
        }
        found.others = reader.count()? != 1;
        found.add(topic(reader, !transactional && version >= 10, topics)?);
        Some(())
    })();
    let topic = found.topic().map(str::to_owned);
    let mut request = named("commit", Some("settle"), topic, Manner::Call);
    attributes(&found, &mut request.attributes);
    add(&mut request, "messaging.consumer.group.name", group);
    request
}

/// The topic that is created or deleted, where it is one.
fn manage(key: i16, version: i16, reader: &mut Reader<'_>, topics: &Topics) -> Option<String> {
    if reader.count()? != 1 {
        return None;
    }
    let name = topic(reader, false, topics)?;
    if key == api::DELETE_TOPICS && version >= 6 && name.is_empty() {
        return topic(reader, true, topics);
    }
    Some(name)
}
