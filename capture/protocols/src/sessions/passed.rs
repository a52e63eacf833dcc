//! The identities of messages that pass through a broker. The span that sent a message and the span
//! that received it are linked by them, whichever agents saw the two.

use std::fmt;

/// Most messages of one exchange that are told.
pub const MAX_MESSAGES: usize = 8;

/// The side of a message's passage through a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Passage {
    /// To the broker.
    Sent,
    /// From the broker.
    Received,
}

/// What identifies a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The id that a task queue's library gave the task.
    Task,
    /// The id that the sender gave the message.
    Message,
    /// The id of a request and its reply, with where each goes.
    Correlation,
    /// The broker's place for it: partition and offset, or stream and number.
    Place,
    /// Its first bytes and its length.
    Content,
}

impl Identity {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Message => "message",
            Self::Correlation => "correlation",
            Self::Place => "place",
            Self::Content => "content",
        }
    }
}

/// One message that passed. Agents compare only hashes: ids and contents may be secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PassedMessage {
    passage: Passage,
    identity: Identity,
    hash: u64,
}

impl PassedMessage {
    /// A message with this identity, of these parts.
    pub fn new<'a>(
        passage: Passage,
        identity: Identity,
        parts: impl IntoIterator<Item = &'a [u8]>,
    ) -> Self {
        Self { passage, identity, hash: hash(parts) }
    }

    /// A message with an id that its sender gave it. A short id is unique only where it was sent to.
    pub fn of_id(passage: Passage, id: &[u8], destination: &[u8]) -> Self {
        let destination = if is_unique(id) { b"" } else { destination };
        Self::new(passage, Identity::Message, [id, destination])
    }

    /// A message of which only the content is known. `begin` is the beginning of the content, as
    /// far as it was captured, and `length` all of it. `None` if too little was captured.
    pub fn of_content(passage: Passage, begin: &[u8], length: u64) -> Option<Self> {
        let length_bytes = length.to_be_bytes();
        if let Some(id) = task_id(begin) {
            return Some(Self::new(passage, Identity::Task, [id]));
        }
        let wanted = usize::try_from(length).unwrap_or(usize::MAX).min(COMPARED_BYTES);
        let compared = begin.get(..wanted).filter(|bytes| !bytes.is_empty())?;
        Some(Self::new(passage, Identity::Content, [&length_bytes, compared]))
    }
}

/// As the span shows it: `>task:9f86d081884c7d65`. The sign tells the passage.
impl fmt::Display for PassedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.passage {
            Passage::Sent => '>',
            Passage::Received => '<',
        };
        write!(f, "{sign}{}:{:016x}", self.identity.as_str(), self.hash)
    }
}

/// Bytes of a content that are compared.
pub const COMPARED_BYTES: usize = 512;

/// Bytes of a content in which an id is looked for.
pub const SEARCHED_BYTES: usize = 1024;

/// Names under which task queues keep a task's id in JSON: Sidekiq, Laravel, dramatiq and others,
/// Celery. The first that is there counts.
const ID_NAMES: [&[u8]; 6] =
    [b"\"jid\"", b"\"uuid\"", b"\"task_id\"", b"\"message_id\"", b"\"job_id\"", b"\"id\""];
/// Shortest text that is unique enough to be an id.
const MIN_ID_BYTES: usize = 16;
const MAX_ID_BYTES: usize = 64;

/// The id of a task in the JSON of its message.
fn task_id(content: &[u8]) -> Option<&[u8]> {
    if !matches!(content.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return None;
    }
    let content = &content[..content.len().min(SEARCHED_BYTES)];
    ID_NAMES.iter().find_map(|name| {
        let at = memchr::memmem::find(content, name)? + name.len();
        let value = content[at..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let value = value.strip_prefix(b"\"")?;
        let id = &value[..memchr::memchr(b'"', value)?];
        is_unique(id).then_some(id)
    })
}

/// Whether a text looks as if nothing else had it.
fn is_unique(id: &[u8]) -> bool {
    (MIN_ID_BYTES..=MAX_ID_BYTES).contains(&id.len())
        && id.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        && id.iter().filter(|byte| byte.is_ascii_digit()).count() >= 4
}

/// FNV-1a, with the lengths of the parts. Agents of all versions must agree.
fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for part in parts {
        (part.len() as u64).to_be_bytes().into_iter().for_each(&mut add);
        part.iter().copied().for_each(&mut add);
    }
    // FNV hardly mixes the last bytes.
    let hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(passage: Passage, content: &[u8]) -> String {
        let found = PassedMessage::of_content(passage, content, content.len() as u64);
        found.map_or_else(String::new, |found| found.to_string())
    }

    #[test]
    fn tasks_are_identified_by_their_ids() {
        let celery = br#"{"body": "W1t9XQ==", "content-type": "application/json", "headers": {"lang": "py", "task": "tasks.work", "id": "0e36bb3c-7cbb-4e4f-a1c0-5c2f9aab5d11", "argsrepr": "('1',)"}"#;
        let retried = br#"{"headers": {"retries": 1, "id" :"0e36bb3c-7cbb-4e4f-a1c0-5c2f9aab5d11""#;
        let sent = shown(Passage::Sent, celery);
        assert!(sent.starts_with(">task:") && sent.len() == 22, "{sent}");
        assert_eq!(shown(Passage::Received, retried)[1..], sent[1..]);
        let sidekiq = br#"{"class":"Job","args":[{"id":"b4a577edbccf1d805744efa9"}],"jid":"b4a577edbccf1d805744efaa"}"#;
        let other = br#"{"class":"Job","args":[{"id":"b4a577edbccf1d805744efa9"}],"jid":"b4a577edbccf1d805744efab"}"#;
        assert_ne!(shown(Passage::Sent, sidekiq), shown(Passage::Sent, other));
    }

    #[test]
    fn other_messages_are_identified_by_their_content() {
        for content in [br#"{"id": "42", "name": "x"}"#.as_slice(), b"hello", b"[1]"] {
            assert!(shown(Passage::Sent, content).starts_with(">content:"), "{content:?}");
        }
        assert_ne!(shown(Passage::Sent, b"a"), shown(Passage::Sent, b"b"));
        assert_eq!(shown(Passage::Sent, b""), "");
        let long = vec![b'x'; 2000];
        let of = |begin: &[u8], length| PassedMessage::of_content(Passage::Sent, begin, length);
        assert_eq!(of(&long[..600], 2000), of(&long[..900], 2000));
        assert_ne!(of(&long[..600], 2000), of(&long[..600], 2001));
        assert_eq!(of(&long[..500], 2000), None, "too little was captured");
    }

    #[test]
    fn hashes_never_change() {
        let of = |parts: [&'static [u8]; 2]| {
            PassedMessage::new(Passage::Sent, Identity::Place, parts).to_string()
        };
        assert_eq!(of([b"orders", b"1"]), ">place:34f9b8bdcdd1baa2");
        assert_ne!(of([b"orders1", b""]), of([b"orders", b"1"]));
    }
}
