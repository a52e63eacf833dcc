//! What responses answer (kafka.apache.org/protocol, "Messages").

use super::api::{self, Api};
use super::errors;
use super::primitives::Reader;
use super::records::records;
use super::requests::{Found, attributes, topic};
use super::topics::Topics;
use crate::formats::messaging::Destination;
use crate::keys::Keys;
use crate::sessions::{Exchange, Failure, Identity, MAX_MESSAGES, Passage, PassedMessage};

/// Reads a response after its header into the exchange that it answers. What was
/// not captured is not told; says whether that would tell which topics it is about.
pub(super) fn answered(
    api: &Api,
    version: i16,
    content: &[u8],
    exchange: &mut Exchange,
    topics: &mut Topics,
    keys: &Keys,
) -> bool {
    let flexible = api.is_flexible(version);
    let mut reader = Reader::new(content, flexible);
    // Whoever asks for the versions cannot know yet which there are.
    if api.key != api::API_VERSIONS && reader.tags().is_none() {
        return false;
    }
    let error = match api.key {
        api::FETCH => return fetched(version, &mut reader, exchange, topics, keys),
        api::METADATA => {
            let _ = learn(version, &mut reader, topics);
            return false;
        }
        api::PRODUCE => produced(version, &mut reader, exchange, topics),
        api::OFFSET_COMMIT => partitions(&mut reader, version >= 3, version >= 10),
        api::TXN_OFFSET_COMMIT => partitions(&mut reader, true, false),
        api::JOIN_GROUP => plain(&mut reader, version >= 2),
        api::FIND_COORDINATOR if version < 4 => plain(&mut reader, version >= 1),
        api::SYNC_GROUP | api::HEARTBEAT | api::LEAVE_GROUP => plain(&mut reader, version >= 1),
        api::INIT_PRODUCER_ID
        | api::ADD_OFFSETS_TO_TXN
        | api::END_TXN
        | api::CONSUMER_GROUP_HEARTBEAT => plain(&mut reader, true),
        api::SASL_HANDSHAKE | api::SASL_AUTHENTICATE | api::API_VERSIONS => {
            plain(&mut reader, false)
        }
        api::CREATE_TOPICS => managed(&mut reader, version >= 2, version >= 7),
        api::DELETE_TOPICS => managed(&mut reader, version >= 1, version >= 6),
        _ => None,
    };
    if let Some(code) = error.filter(|code| !is_usual(api.key, *code)) {
        fail(exchange, code);
    }
    false
}

/// Errors that are a step of an orderly conversation.
const fn is_usual(key: i16, code: i16) -> bool {
    matches!(
        (key, code),
        // A version to ask again in, and a member's first id.
        (api::API_VERSIONS, 35) | (api::JOIN_GROUP, 79)
        // The group gets a new member.
        | (api::HEARTBEAT, 27)
        // The broker has forgotten what the client wants fetched.
        | (api::FETCH, 70 | 71)
    )
}

fn fail(exchange: &mut Exchange, code: i16) {
    exchange.answer.failure = Some(Failure::plain(&errors::name(code)));
    exchange.answer.status_code = Some(i32::from(code));
}

fn is_error(code: &i16) -> bool {
    *code != 0
}

/// The error that a response begins with, after a delay that some tell.
fn plain(reader: &mut Reader<'_>, delay: bool) -> Option<i16> {
    if delay {
        reader.int32()?;
    }
    reader.int16().filter(is_error)
}

/// A batch of records is at the place where its first record is.
fn carry(
    passage: Passage,
    topic: &str,
    partition: i32,
    offset: i64,
    messages: &mut Vec<PassedMessage>,
) {
    if topic.is_empty() || offset < 0 || messages.len() >= MAX_MESSAGES {
        return;
    }
    let place = [topic.as_bytes(), &partition.to_be_bytes(), &offset.to_be_bytes()];
    messages.push(PassedMessage::new(passage, Identity::Place, place));
}

fn produced(
    version: i16,
    reader: &mut Reader<'_>,
    exchange: &mut Exchange,
    topics: &Topics,
) -> Option<i16> {
    for _ in 0..reader.count()? {
        let name = topic(reader, version >= 13, topics)?;
        for _ in 0..reader.count()? {
            let partition = reader.int32()?;
            let error = reader.int16()?;
            if error != 0 {
                return Some(error);
            }
            let offset = reader.int64()?;
            let messages = &mut exchange.answer.messages;
            carry(Passage::Sent, &name, partition, offset, messages);
            if version >= 2 {
                let _append_time = reader.int64()?;
            }
            if version >= 5 {
                let _log_start = reader.int64()?;
            }
            if version >= 8 {
                for _ in 0..reader.count()? {
                    let (_index, _message) = (reader.int32()?, reader.string()?);
                    reader.tags()?;
                }
                let _message = reader.string()?;
            }
            reader.tags()?;
        }
        reader.tags()?;
    }
    None
}

/// The first error of any partition, where a partition has nothing else.
fn partitions(reader: &mut Reader<'_>, delay: bool, by_id: bool) -> Option<i16> {
    if delay {
        reader.int32()?;
    }
    for _ in 0..reader.count()? {
        if by_id {
            reader.uuid()?;
        } else {
            reader.string()?;
        }
        for _ in 0..reader.count()? {
            let (_partition, error) = (reader.int32()?, reader.int16()?);
            if error != 0 {
                return Some(error);
            }
            reader.tags()?;
        }
        reader.tags()?;
    }
    None
}

/// The error of the first topic.
fn managed(reader: &mut Reader<'_>, delay: bool, ids: bool) -> Option<i16> {
    if delay {
        reader.int32()?;
    }
    if reader.count()? == 0 {
        return None;
    }
    reader.string()?;
    if ids {
        reader.uuid()?;
    }
    reader.int16().filter(is_error)
}

/// Topics' ids in a Metadata response.
fn learn(version: i16, reader: &mut Reader<'_>, topics: &mut Topics) -> Option<()> {
    if version < 10 {
        return None;
    }
    let _delay = reader.int32()?;
    for _ in 0..reader.count()? {
        let (_node, _host, _port) = (reader.int32()?, reader.string()?, reader.int32()?);
        let _rack = reader.string()?;
        reader.tags()?;
    }
    let (_cluster, _controller) = (reader.string()?, reader.int32()?);
    for _ in 0..reader.count()? {
        let (_error, name, id) = (reader.int16()?, reader.string()?, reader.uuid()?);
        topics.learn(id, name);
        let _internal = reader.int8()?;
        for _ in 0..reader.count()? {
            let (_error, _index) = (reader.int16()?, reader.int32()?);
            let (_leader, _epoch) = (reader.int32()?, reader.int32()?);
            for _replicas in 0..3 {
                reader.skip_array(size_of::<i32>())?;
            }
            reader.tags()?;
        }
        let _operations = reader.int32()?;
        reader.tags()?;
    }
    Some(())
}

/// A fetch that brought messages, or failed, is worth a span.
/// Says whether further topics may be in what was not captured.
fn fetched(
    version: i16,
    reader: &mut Reader<'_>,
    exchange: &mut Exchange,
    topics: &Topics,
    keys: &Keys,
) -> bool {
    let mut found = Found { records: Some(0), ..Found::default() };
    let mut bytes = 0;
    let (mut error, mut partitions) = (None, 0);
    // Topics that were not read, and whether it is known that the last one read brought nothing.
    let (mut topics_left, mut last_known) = (0, true);
    let complete = (|| {
        if version >= 1 {
            let _delay = reader.int32()?;
        }
        if version >= 7 {
            error = reader.int16().filter(is_error);
            let _session = reader.int32()?;
        }
        topics_left = reader.count()?;
        while topics_left > 0 {
            (topics_left, last_known) = (topics_left - 1, false);
            let name = topic(reader, version >= 13, topics)?;
            for _ in 0..reader.count()? {
                let partition = reader.int32()?;
                error = error.or(reader.int16().filter(is_error));
                let _high_watermark = reader.int64()?;
                if version >= 4 {
                    let _stable = reader.int64()?;
                }
                if version >= 5 {
                    let _start = reader.int64()?;
                }
                if version >= 4 {
                    for _ in 0..reader.count()? {
                        let (_producer, _offset) = (reader.int64()?, reader.int64()?);
                        reader.tags()?;
                    }
                }
                if version >= 11 {
                    let _preferred = reader.int32()?;
                }
                let length = reader.bytes()?;
                let here = records(reader, length, keys);
                found.keys.extend(here.keys);
                for offset in &here.offsets {
                    let messages = &mut exchange.answer.messages;
                    carry(Passage::Received, &name, partition, *offset, messages);
                }
                if length > 0 {
                    bytes += length;
                    found.add(name.clone());
                    last_known = true;
                    partitions += 1;
                    found.partition = (partitions == 1).then_some(partition);
                }
                found.records = found.records.zip(here.count).map(|(sum, more)| sum + more);
                reader.tags()?;
            }
            last_known = true;
            reader.tags()?;
        }
        Some(())
    })();
    if complete.is_none() {
        found.records = None;
        found.partition = None;
        found.others |= topics_left > 0 || !last_known;
    }
    if let Some(code) = error.filter(|code| !is_usual(api::FETCH, *code)) {
        fail(exchange, code);
    }
    // What could not be read to its end is longer than an empty answer.
    exchange.request.silent = bytes == 0 && complete.is_some();
    if !found.keys.is_empty() {
        exchange.request.keys = std::mem::take(&mut found.keys);
    }
    if let Some(topic) = found.topic() {
        let destination = Destination::plain(topic.as_bytes());
        exchange.request.operation = format!("fetch {topic}");
        exchange.answer.attributes.extend(destination.attributes());
    }
    if bytes > 0 {
        attributes(&found, &mut exchange.answer.attributes);
    }
    complete.is_none() && found.is_several()
}
