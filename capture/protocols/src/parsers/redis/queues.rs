//! Lists and streams as queues: which messages commands push, and replies bring.

use std::collections::VecDeque;

use crate::formats::messaging::{self, Destination};
use crate::redaction::Hidden;
use crate::sessions::{
    Identity, MAX_MESSAGES, Manner, Passage, PassedMessage, Request, SEARCHED_BYTES,
};

/// Longest name of a stream, or id of an entry, that is kept.
const MAX_NAME_BYTES: usize = 128;
/// Texts of a reply from streams that are kept: names and ids.
const MAX_NAMES: usize = 2 * MAX_MESSAGES;
/// Commands about queues whose replies are awaited.
const MAX_AWAITED: usize = 256;

/// Which texts of a reply are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watch {
    Nothing,
    /// All texts: elements of a list.
    Elements,
    /// The second text: an element after its list's name.
    Second,
    /// Texts below the list's name.
    Below,
    /// The id of an entry that was added to a stream.
    Added,
    /// Names of streams and ids of entries.
    Entries,
}

/// A text of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bulk {
    /// Arrays around it.
    pub(super) depth: usize,
    /// Its length.
    pub(super) length: u64,
    /// Its first bytes, as far as they were captured.
    pub(super) begin: Vec<u8>,
}

impl Bulk {
    pub(super) fn add(&mut self, bytes: &[u8], limit: usize) {
        let room = limit.saturating_sub(self.begin.len());
        self.begin.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

impl Watch {
    /// What the reply to a command may bring.
    pub(super) fn of(operation: &str) -> Self {
        match operation {
            "LPOP" | "RPOP" | "RPOPLPUSH" | "BRPOPLPUSH" | "LMOVE" | "BLMOVE" => Self::Elements,
            "BLPOP" | "BRPOP" => Self::Second,
            "LMPOP" | "BLMPOP" => Self::Below,
            "XADD" => Self::Added,
            "XREADGROUP" | "XREAD" => Self::Entries,
            _ => Self::Nothing,
        }
    }

    /// Whether the reply takes messages out of a queue.
    pub(super) const fn receives(self) -> bool {
        matches!(self, Self::Elements | Self::Second | Self::Below | Self::Entries)
    }

    /// How many bytes are kept of the text in so many arrays, at this index of the innermost, if
    /// so many texts were kept before.
    pub(super) const fn bytes_at(self, depth: usize, index: u64, before: usize) -> usize {
        let (wanted, bytes, most) = match self {
            Self::Nothing => (false, 0, 0),
            Self::Elements => (depth <= 1, SEARCHED_BYTES, MAX_MESSAGES),
            Self::Second => (depth == 1 && index == 1, SEARCHED_BYTES, 1),
            Self::Below => (depth == 2, SEARCHED_BYTES, MAX_MESSAGES),
            Self::Added => (depth == 0, MAX_NAME_BYTES, 1),
            // Names are keys of a map or first in an array of two, ids are first in theirs.
            Self::Entries => (
                depth <= 4 && (index == 0 || depth == 1 && index.is_multiple_of(2)),
                MAX_NAME_BYTES,
                MAX_NAMES,
            ),
        };
        if wanted && before < most { bytes } else { 0 }
    }

    /// The messages in a reply. `queue` is what the command is about.
    pub(super) fn messages(self, bulks: &[Bulk], queue: Option<&[u8]>) -> Vec<PassedMessage> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Elements | Self::Second | Self::Below => {
                let of = |bulk: &Bulk| {
                    PassedMessage::of_content(Passage::Received, &bulk.begin, bulk.length)
                };
                bulks.iter().filter_map(of).collect()
            }
            Self::Added => {
                let entry = bulks.first().filter(|bulk| is_entry(bulk));
                let place = queue.zip(entry);
                place.map(|(stream, bulk)| at(Passage::Sent, stream, bulk)).into_iter().collect()
            }
            Self::Entries => entries(bulks),
        }
    }
}

fn at(passage: Passage, stream: &[u8], entry: &Bulk) -> PassedMessage {
    PassedMessage::new(passage, Identity::Place, [stream, &entry.begin])
}

/// `1526919030474-55`.
fn is_entry(bulk: &Bulk) -> bool {
    let Some(dash) = memchr::memchr(b'-', &bulk.begin) else { return false };
    let (time, number) = (&bulk.begin[..dash], &bulk.begin[dash + 1..]);
    [time, number].iter().all(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit))
}

fn entries(bulks: &[Bulk]) -> Vec<PassedMessage> {
    let mut messages = Vec::new();
    let mut stream: Option<&Bulk> = None;
    for bulk in bulks {
        let Some(name) = stream.filter(|stream| bulk.depth == stream.depth + 2) else {
            // Fields of entries lie deeper than their ids.
            if stream.is_none_or(|stream| bulk.depth <= stream.depth) {
                stream = Some(bulk);
            }
            continue;
        };
        if is_entry(bulk) && messages.len() < MAX_MESSAGES {
            messages.push(at(Passage::Received, &name.begin, bulk));
        }
    }
    messages
}

/// What a process does with messages of a queue.
pub(super) fn work(queue: Option<&[u8]>, messages: &[PassedMessage], hide: Hidden) -> Request {
    let queue = queue.filter(|_| !hide.keys).unwrap_or_default();
    let queue = Destination::plain(queue);
    let mut request =
        messaging::request("redis", "process", Some("process"), &queue, Manner::Deliver);
    request.messages = messages.to_vec();
    request
}

/// Whether the words after the first argument of a command are messages.
pub(super) fn pushes(name: &[u8]) -> bool {
    const PUSHING: [&[u8]; 4] = [b"LPUSH", b"RPUSH", b"LPUSHX", b"RPUSHX"];
    PUSHING.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The queues that commands are about whose replies have not come.
#[derive(Debug, Default)]
pub(super) struct Asked(VecDeque<(u64, Vec<u8>)>);

impl Asked {
    /// A command was sent: the exchange's id, what its reply may bring, and its first argument.
    pub(super) fn sent(&mut self, exchange: u64, watch: Watch, first: Option<&[u8]>) {
        let is_about = !matches!(watch, Watch::Nothing | Watch::Entries);
        let Some(queue) = first.filter(|_| is_about) else { return };
        if self.0.len() >= MAX_AWAITED {
            self.0.pop_front();
        }
        self.0.push_back((exchange, queue[..queue.len().min(MAX_NAME_BYTES)].to_vec()));
    }

    /// The queue that the command of an exchange is about, once.
    pub(super) fn take(&mut self, exchange: u64) -> Option<Vec<u8>> {
        let at = self.0.iter().position(|(known, _)| *known == exchange)?;
        // Replies keep the order of commands.
        self.0.drain(..=at).next_back().map(|(_, queue)| queue)
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.0.iter().map(|(_, queue)| 32 + queue.capacity()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{Input, Mark};
    use crate::parsers::redis::reply::{Reply, Step};

    fn brought(command: &str, reply: &[u8], stream: Option<&[u8]>) -> Vec<String> {
        let mut all = Vec::new();
        // However it is cut into pieces.
        for size in [1, 7, reply.len()] {
            let mut reading = Reply::new();
            reading.watch = Watch::of(command);
            for piece in reply.chunks(size) {
                let mark = Mark::NOWHERE;
                let mut input = Input { bytes: piece, unseen: 0, missed: false, mark };
                if let Step::Complete(message) = reading.read(&mut input) {
                    let messages = Watch::of(command).messages(&message.bulks, stream);
                    all.push(messages.iter().map(ToString::to_string).collect::<Vec<_>>());
                }
            }
        }
        assert!(all.len() == 3 && all.iter().all(|found| *found == all[0]), "{all:?}");
        all.swap_remove(0)
    }

    fn pushed(content: &[u8]) -> String {
        let length = content.len() as u64;
        let sent = PassedMessage::of_content(Passage::Sent, content, length).expect("a message");
        sent.to_string().replace('>', "<")
    }

    #[test]
    fn what_is_popped_is_what_was_pushed() {
        let hello = pushed(b"hello");
        assert_eq!(brought("RPOP", b"$5\r\nhello\r\n", None), [hello.as_str()]);
        let two = b"*2\r\n$5\r\nhello\r\n$3\r\nyou\r\n";
        assert_eq!(brought("LPOP", two, None), [hello.clone(), pushed(b"you")]);
        let named = b"*2\r\n$3\r\nyou\r\n$5\r\nhello\r\n";
        assert_eq!(brought("BRPOP", named, None), [hello.as_str()]);
        let below = b"*2\r\n$1\r\nq\r\n*1\r\n$5\r\nhello\r\n";
        assert_eq!(brought("LMPOP", below, None), [hello]);
        for nothing in [b"$-1\r\n".as_slice(), b"*-1\r\n", b"_\r\n"] {
            assert_eq!(brought("BRPOP", nothing, None), [""; 0]);
        }
        assert_eq!(brought("GET", b"$5\r\nhello\r\n", None), [""; 0]);
    }

    #[test]
    fn entries_of_streams_are_identified_by_their_places() {
        let place = |stream: &[u8], id: &[u8]| {
            PassedMessage::new(Passage::Received, Identity::Place, [stream, id]).to_string()
        };
        let added = brought("XADD", b"$15\r\n1526919030474-1\r\n", Some(b"orders"));
        assert_eq!(added[0].replace('>', "<"), place(b"orders", b"1526919030474-1"));
        assert_eq!(brought("XADD", b"$3\r\n1-x\r\n", Some(b"orders")), [""; 0]);
        assert_eq!(brought("XADD", b"$15\r\n1526919030474-1\r\n", None), [""; 0]);
        let resp2 = b"*2\r\n*2\r\n$1\r\na\r\n*2\r\n\
            *2\r\n$3\r\n1-1\r\n*2\r\n$3\r\n7-7\r\n$1\r\nv\r\n\
            *2\r\n$3\r\n1-2\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n\
            *2\r\n$1\r\nb\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n";
        let resp3 = b"%2\r\n$1\r\na\r\n*2\r\n\
            *2\r\n$3\r\n1-1\r\n*2\r\n$3\r\n7-7\r\n$1\r\nv\r\n\
            *2\r\n$3\r\n1-2\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n\
            $1\r\nb\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n";
        let expected = [place(b"a", b"1-1"), place(b"a", b"1-2"), place(b"b", b"1-1")];
        assert_eq!(brought("XREADGROUP", resp2, None), expected);
        assert_eq!(brought("XREAD", resp3, None), expected);
    }

    #[test]
    fn what_is_awaited_is_bounded() {
        let mut asked = Asked::default();
        for exchange in 0..1000 {
            asked.sent(exchange, Watch::Added, Some(&[b's'; 300]));
        }
        assert!(asked.held_bytes() < 64 << 10);
        assert_eq!(asked.take(999).map(|queue| queue.len()), Some(MAX_NAME_BYTES));
        assert_eq!(asked.take(998), None);
    }
}
