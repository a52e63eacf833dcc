//! The layout of data that plugin and agent exchange in the plugin's memory: interface 1, in C in
//! `examples/plugin/spanwise_plugin.h`. All numbers are little-endian.

use spanwise_model::AttributeValue;

use crate::redaction::{self, REDACTED, Secrecy};

/// Interface version of this agent.
pub(super) const VERSION: u32 = 1;
/// Maximum bytes of a message that are passed to a plugin.
pub(super) const INPUT_BYTES: usize = 1024;

/// Size of the area that the plugin reserves. It holds the plugin's name and keys (each an address
/// and a length), then the input, then the answer.
pub(super) const AREA_BYTES: usize = ANSWER_AT + ANSWER_BYTES;
const NAME_AT: usize = 0;
const KEYS_AT: usize = 8;
pub(super) const INPUT_AT: usize = 16;
pub(super) const ANSWER_AT: usize = INPUT_AT + INPUT_BYTES;
/// Offsets from the start of the answer.
const STREAM_AT: usize = 8;
const STATUS_AT: usize = 16;
const COUNT_AT: usize = 20;
const OPERATION_AT: usize = 24;
const ERROR_AT: usize = 32;
const TRACE_PARENT_AT: usize = 40;
const ATTRIBUTES_AT: usize = 48;
const ATTRIBUTE_BYTES: usize = 16;
pub(super) const ANSWER_BYTES: usize = ATTRIBUTES_AT + MAX_ATTRIBUTES * ATTRIBUTE_BYTES;

/// Maximum attributes of a message, and maximum keys of a plugin.
pub(super) const MAX_ATTRIBUTES: usize = 16;
pub(super) const MAX_KEYS: usize = 32;
/// Maximum length of a protocol name or a key.
const MAX_NAME_BYTES: usize = 32;
const MAX_KEY_BYTES: usize = 64;
/// Maximum length of an operation, an error or a value. Longer text is cut.
const MAX_OPERATION_BYTES: usize = 128;
const MAX_ERROR_BYTES: usize = 256;
const MAX_VALUE_BYTES: usize = 256;
const MAX_TRACE_PARENT_BYTES: usize = 64;

/// Flags of an answer.
const HAS_STREAM: u32 = 1;
const HAS_STATUS: u32 = 2;
const FAILED: u32 = 4;
const MORE: u32 = 8;
const ALL_FLAGS: u32 = HAS_STREAM | HAS_STATUS | FAILED | MORE;

/// The type of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A message that is ignored.
    Other,
    /// A request that gets a response.
    Request,
    /// A response, or a part of one.
    Response,
    /// A message without a response.
    OneWay,
    /// A further part of a request.
    RequestPart,
}

/// A plugin's description of a message.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Message {
    pub(super) kind: Kind,
    /// Pairs a request with its response; without it, they are paired in order.
    pub(super) stream: Option<u64>,
    /// The response continues in another message.
    pub(super) more: bool,
    pub(super) status: Option<i32>,
    /// Set if the request failed; may be empty.
    pub(super) error: Option<String>,
    /// Operation name; may be empty.
    pub(super) operation: String,
    pub(super) trace_parent: Vec<u8>,
    pub(super) attributes: Vec<(&'static str, AttributeValue)>,
}

/// An error in a plugin's answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Nonsense {
    #[error("its {0} lies outside its memory")]
    Outside(&'static str),
    #[error("it answered {name} {value}, which means nothing")]
    Unknown { name: &'static str, value: u32 },
    #[error("it answered {0} attributes, and {MAX_ATTRIBUTES} are the most")]
    Attributes(u32),
    #[error("it answered attribute key {0}, and has fewer keys")]
    Key(u32),
    #[error("it measured {measured} bytes, after it had wanted more than {given}")]
    Shrunk { measured: u64, given: usize },
}

/// An error in a plugin's description of itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misnamed {
    #[error(transparent)]
    Outside(#[from] Nonsense),
    #[error(
        "its name is `{0}`; a name has 1 to {MAX_NAME_BYTES} of the characters a-z 0-9 _ - . and \
         begins with a letter"
    )]
    Name(String),
    #[error(
        "its attribute key `{0}` is none; a key has 1 to {MAX_KEY_BYTES} of the characters \
         a-z 0-9 _ - . and begins with a letter, and neither with `spanwise.`"
    )]
    Key(String),
    #[error("it has its attribute key `{0}` twice")]
    Twice(String),
    #[error("it has {0} attribute keys, and {MAX_KEYS} are the most")]
    Keys(usize),
}

/// A plugin's name and its attribute keys. Both stay the same as long as the agent runs.
#[derive(Debug, Clone)]
pub(super) struct About {
    pub(super) name: String,
    pub(super) keys: Vec<String>,
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn long_number(bytes: &[u8], at: usize) -> u64 {
    u64::from(number(bytes, at)) | u64::from(number(bytes, at + 4)) << 32
}

/// The bytes that the address and length stored at `at` refer to.
fn bytes<'a>(
    memory: &'a [u8],
    area: &[u8],
    at: usize,
    what: &'static str,
) -> Result<&'a [u8], Nonsense> {
    let (from, length) = (number(area, at) as usize, number(area, at + 4) as usize);
    if length == 0 {
        return Ok(&[]);
    }
    let end = from.checked_add(length).ok_or(Nonsense::Outside(what))?;
    memory.get(from..end).ok_or(Nonsense::Outside(what))
}

/// Converts bytes from any source to text. Invalid and unprintable characters are replaced, so the
/// conversion cannot fail.
fn text(bytes: &[u8], limit: usize) -> String {
    let text = crate::bytes::text(bytes, limit);
    if !text.contains(char::is_control) {
        return text;
    }
    text.replace(char::is_control, "\u{fffd}")
}

fn is_name(text: &str, limit: usize) -> bool {
    text.len() <= limit
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.'))
}

/// Reads the plugin's description of itself from the area at `area`.
pub(super) fn about(memory: &[u8], area: usize) -> Result<About, Misnamed> {
    let described = memory.get(area..).unwrap_or_default();
    let name = text(bytes(memory, described, NAME_AT, "name")?, 2 * MAX_NAME_BYTES);
    if !is_name(&name, MAX_NAME_BYTES) {
        return Err(Misnamed::Name(name));
    }
    let keys = bytes(memory, described, KEYS_AT, "list of attribute keys")?;
    let keys = text(keys, MAX_KEYS * 2 * MAX_KEY_BYTES);
    let keys: Vec<String> =
        keys.split(' ').filter(|key| !key.is_empty()).map(str::to_owned).collect();
    if keys.len() > MAX_KEYS {
        return Err(Misnamed::Keys(keys.len()));
    }
    for (index, key) in keys.iter().enumerate() {
        if !is_name(key, MAX_KEY_BYTES) || key.starts_with("spanwise.") {
            return Err(Misnamed::Key(key.clone()));
        }
        if keys[..index].contains(key) {
            return Err(Misnamed::Twice(key.clone()));
        }
    }
    Ok(About { name, keys })
}

/// Reads the plugin's answer from the area at `area`.
pub(super) fn message(
    memory: &[u8],
    area: usize,
    keys: &[&'static str],
) -> Result<Message, Nonsense> {
    let answer = memory.get(area + ANSWER_AT..).unwrap_or_default();
    let kind = match number(answer, 0) {
        0 => Kind::Other,
        1 => Kind::Request,
        2 => Kind::Response,
        3 => Kind::OneWay,
        4 => Kind::RequestPart,
        value => return Err(Nonsense::Unknown { name: "kind", value }),
    };
    let flags = number(answer, 4);
    if flags & !ALL_FLAGS != 0 {
        return Err(Nonsense::Unknown { name: "flags", value: flags });
    }
    let has = |flag| flags & flag != 0;
    let said = |at, what, limit| {
        Ok(redaction::owned(text(bytes(memory, answer, at, what)?, limit), redaction::prose))
    };
    let error = said(ERROR_AT, "error", MAX_ERROR_BYTES)?;
    let trace_parent = bytes(memory, answer, TRACE_PARENT_AT, "trace parent")?;
    Ok(Message {
        kind,
        stream: has(HAS_STREAM).then(|| long_number(answer, STREAM_AT)),
        more: has(MORE),
        status: has(HAS_STATUS).then(|| number(answer, STATUS_AT).cast_signed()),
        error: has(FAILED).then_some(error),
        operation: said(OPERATION_AT, "operation", MAX_OPERATION_BYTES)?,
        trace_parent: trace_parent[..trace_parent.len().min(MAX_TRACE_PARENT_BYTES)].to_vec(),
        attributes: attributes(memory, answer, keys)?,
    })
}

fn attributes(
    memory: &[u8],
    answer: &[u8],
    keys: &[&'static str],
) -> Result<Vec<(&'static str, AttributeValue)>, Nonsense> {
    let count = number(answer, COUNT_AT);
    if count as usize > MAX_ATTRIBUTES {
        return Err(Nonsense::Attributes(count));
    }
    let mut attributes = Vec::with_capacity(count as usize);
    for index in 0..count as usize {
        let at = ATTRIBUTES_AT + index * ATTRIBUTE_BYTES;
        let key = number(answer, at);
        let key = *keys.get(key as usize).ok_or(Nonsense::Key(key))?;
        let value = long_number(answer, at + 8);
        let value = match number(answer, at + 4) {
            0 => {
                let value = bytes(memory, answer, at + 8, "attribute's text")?;
                AttributeValue::String(shown(key, text(value, MAX_VALUE_BYTES)))
            }
            1 => AttributeValue::Int(value.cast_signed()),
            2 => AttributeValue::Double(f64::from_bits(value)),
            3 => AttributeValue::Bool(value != 0),
            value => return Err(Nonsense::Unknown { name: "attribute type", value }),
        };
        attributes.push((key, value));
    }
    Ok(attributes)
}

/// The value of a plugin's key, as it is shown.
fn shown(key: &str, value: String) -> String {
    let secret = !value.is_empty() && redaction::secrecy(key) == Secrecy::Yes;
    if secret { REDACTED.to_owned() } else { redaction::owned(value, redaction::prose) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plugin's memory: the area at 64, followed by texts.
    struct Memory(Vec<u8>);

    const AREA: usize = 64;
    const TEXTS: usize = AREA + AREA_BYTES;

    impl Memory {
        fn new(texts: &[u8]) -> Self {
            let mut memory = vec![0; TEXTS];
            memory.extend_from_slice(texts);
            Self(memory)
        }

        fn put(mut self, at: usize, numbers: &[u32]) -> Self {
            for (index, number) in numbers.iter().enumerate() {
                let at = AREA + at + index * 4;
                self.0[at..at + 4].copy_from_slice(&number.to_le_bytes());
            }
            self
        }

        fn answer(self, at: usize, numbers: &[u32]) -> Self {
            self.put(ANSWER_AT + at, numbers)
        }

        fn message(&self) -> Result<Message, Nonsense> {
            message(&self.0, AREA, &["a.b", "c"])
        }
    }

    const AT: u32 = TEXTS as u32;

    #[test]
    fn a_name_and_keys_are_taken_and_wrong_ones_named() {
        let about_of = |name: &[u8], keys: &[u8]| {
            let texts = [name, keys].concat();
            let (name, keys) = (name.len() as u32, keys.len() as u32);
            let memory = Memory::new(&texts).put(0, &[AT, name, AT + name, keys]);
            about(&memory.0, AREA).map(|about| (about.name, about.keys))
        };
        let found = about_of(b"kv", b"kv.key  kv.ttl").expect("right");
        assert_eq!(found, ("kv".to_owned(), vec!["kv.key".to_owned(), "kv.ttl".to_owned()]));
        assert_eq!(about_of(b"k", b"").expect("right").1, Vec::<String>::new());
        for name in [&b""[..], b"Kv", b"1kv", b"k v", b"k\0", b"k\xff", &[b'k'; 33]] {
            assert!(matches!(about_of(name, b""), Err(Misnamed::Name(_))), "{name:?}");
        }
        for key in [&b"K"[..], b"a\n", b".a", b"spanwise.a", &[b'k'; 65]] {
            assert!(matches!(about_of(b"kv", key), Err(Misnamed::Key(_))), "{key:?}");
        }
        assert!(matches!(about_of(b"kv", b"a b a"), Err(Misnamed::Twice(_))));
        let many: Vec<String> = (0..33).map(|n| format!("k{n}")).collect();
        assert!(matches!(about_of(b"kv", many.join(" ").as_bytes()), Err(Misnamed::Keys(33))));
        let outside = Memory::new(b"").put(0, &[AT, 1]);
        let error = about(&outside.0, AREA).expect_err("outside");
        assert_eq!(error.to_string(), "its name lies outside its memory");
    }

    #[test]
    fn an_answer_is_read_as_the_header_file_has_it() {
        let memory = Memory::new(b"GETno such keytp")
            .answer(0, &[2, HAS_STREAM | HAS_STATUS | FAILED | MORE, 7, 1, 404, 4])
            .answer(24, &[AT, 3, AT + 3, 11, AT + 14, 2])
            .answer(48, &[0, 0, AT, 3])
            .answer(64, &[1, 1, u32::MAX, u32::MAX])
            .answer(80, &[1, 2, 0, 0x4004_0000])
            .answer(96, &[1, 3, 1, 0]);
        let expected = Message {
            kind: Kind::Response,
            stream: Some(7 | 1 << 32),
            more: true,
            status: Some(404),
            error: Some("no such key".to_owned()),
            operation: "GET".to_owned(),
            trace_parent: b"tp".to_vec(),
            attributes: vec![
                ("a.b", AttributeValue::String("GET".to_owned())),
                ("c", AttributeValue::Int(-1)),
                ("c", AttributeValue::Double(2.5)),
                ("c", AttributeValue::Bool(true)),
            ],
        };
        assert_eq!(memory.message(), Ok(expected));
    }

    #[test]
    fn nonsense_is_told_from_what_peers_may_have_said() {
        let wrong = |memory: Memory| memory.message().expect_err("nonsense");
        assert!(matches!(wrong(Memory::new(b"").answer(0, &[5])), Nonsense::Unknown { .. }));
        assert!(matches!(wrong(Memory::new(b"").answer(4, &[16])), Nonsense::Unknown { .. }));
        assert_eq!(wrong(Memory::new(b"").answer(20, &[17])), Nonsense::Attributes(17));
        assert_eq!(wrong(Memory::new(b"").answer(20, &[1, 0, 0, 0, 0, 0, 0, 2])), Nonsense::Key(2));
        for place in [[AT, 1], [u32::MAX, u32::MAX], [0, u32::MAX], [u32::MAX, 1]] {
            for at in [24, 32, 40] {
                let found = wrong(Memory::new(b"").answer(at, &place));
                assert!(matches!(found, Nonsense::Outside(_)), "{found}");
            }
            let [from, length] = place;
            let memory = Memory::new(b"").answer(20, &[1]).answer(48, &[0, 0, from, length]);
            assert_eq!(wrong(memory), Nonsense::Outside("attribute's text"));
        }
        let memory = Memory::new(b"a\xff\n\0b").answer(24, &[AT, 5]);
        assert_eq!(memory.message().expect("text").operation, "a\u{fffd}\u{fffd}\u{fffd}b");
        let memory = Memory::new(&[b'x'; 1000]).answer(24, &[AT, 1000]);
        assert_eq!(memory.message().expect("cut").operation.len(), MAX_OPERATION_BYTES);
    }
}
