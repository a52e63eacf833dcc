//! Queues that are asked by HTTP, as Amazon SQS and what imitates it: their answers name messages
//! (docs.aws.amazon.com/AWSSimpleQueueService, the JSON and the XML protocol).

use crate::sessions::{Identity, MAX_MESSAGES, Passage, PassedMessage};

/// Bytes of an answer that are looked at.
pub(crate) const SEARCHED_BYTES: usize = 1024;
/// Shortest id: they are UUIDs, also with something before or after.
const MIN_ID_BYTES: usize = 32;
const MAX_ID_BYTES: usize = 128;

/// Whether an answer that begins with this byte may name messages.
pub(crate) const fn may_begin(first: u8) -> bool {
    matches!(first, b'{' | b'<')
}

/// The messages that an answer names, as far as it was captured.
pub(crate) fn messages(body: &[u8]) -> Vec<PassedMessage> {
    let has = |part: &[u8]| memchr::memmem::find(body, part).is_some();
    if !has(b"MessageId") {
        return Vec::new();
    }
    let (begin, end, passage): (&[u8], u8, Passage) = match body.first() {
        Some(b'{') if has(b"\"Messages\"") => (b"\"MessageId\"", b'"', Passage::Received),
        Some(b'{') => (b"\"MessageId\"", b'"', Passage::Sent),
        _ if has(b"<ReceiveMessageResponse") => (b"<MessageId>", b'<', Passage::Received),
        _ if has(b"<SendMessage") => (b"<MessageId>", b'<', Passage::Sent),
        _ => return Vec::new(),
    };
    let mut found = Vec::new();
    for at in memchr::memmem::find_iter(body, begin) {
        let value = &body[at + begin.len()..];
        let value = match end {
            b'<' => Some(value),
            _ => {
                let value = value.trim_ascii_start().strip_prefix(b":");
                value.and_then(|value| value.trim_ascii_start().strip_prefix(b"\""))
            }
        };
        let id = value.and_then(|value| Some(&value[..memchr::memchr(end, value)?]));
        let is_id = |id: &&[u8]| {
            (MIN_ID_BYTES..=MAX_ID_BYTES).contains(&id.len())
                && id.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        };
        if let Some(id) = id.filter(is_id) {
            found.push(PassedMessage::new(passage, Identity::Message, [id, b""]));
        }
        if found.len() == MAX_MESSAGES {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(body: &str) -> Vec<String> {
        messages(body.as_bytes()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn answers_name_messages_in_both_forms() {
        let id = "5fea7756-0ea4-451a-a703-a558b933e274";
        let sent = shown(&format!(r#"{{"MD5OfMessageBody":"x","MessageId": "{id}"}}"#));
        let received =
            shown(&format!(r#"{{"Messages":[{{"Body":"geheim","MessageId":"{id}"}}]}}"#));
        assert_eq!((sent.len(), received.len()), (1, 1));
        assert_eq!(sent[0].replace('>', "<"), received[0]);
        let xml = |kind: &str| {
            shown(&format!("<?xml version=\"1.0\"?><{kind}Response><MessageId>{id}</MessageId>"))
        };
        assert_eq!(xml("SendMessage"), sent);
        assert_eq!(xml("ReceiveMessage"), received);
        for nothing in [
            r#"{"MessageId":7}"#,
            r#"{"MessageId":"short"}"#,
            r#"{"MessageId":"#,
            "<Other><MessageId>5fea7756-0ea4-451a-a703-a558b933e274</MessageId>",
            "MessageId",
        ] {
            assert_eq!(shown(nothing), [""; 0], "{nothing}");
        }
    }
}
