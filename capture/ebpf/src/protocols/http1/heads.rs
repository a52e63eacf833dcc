//! Heads seen of late, and what they say: clients send the same request again and
//! again, and a server the same head of a response, for a second at least. What is
//! found is what parsing would give, for it is found by all of a head's bytes, and by
//! what else parsing asks.

use std::hash::Hash;

use ahash::RandomState;

use super::head::{self, RequestHead, ResponseHead};
use crate::sessions::Tag;

/// Heads remembered of requests, and as many of responses.
const SLOTS: usize = 64;
/// Longest head that is remembered.
const MAX_BYTES: usize = 1024;
/// After as many heads in a row that were all new ...
const MAX_MISSES: u32 = 256;
/// ... so many are not looked for.
const PAUSE: u32 = 8 * MAX_MISSES;

/// Complete heads, see [`self`].
#[derive(Default)]
pub(crate) struct Heads {
    requests: Table<(), RequestHead>,
    responses: Table<(Tag, bool), ResponseHead>,
}

impl Heads {
    /// As [`head::request`], of a complete head.
    pub(super) fn request(&mut self, head: &[u8]) -> Option<RequestHead> {
        self.requests.get(head, (), || head::request(head, true))
    }

    /// As [`head::response`], of a complete head.
    pub(super) fn response(
        &mut self,
        head: &[u8],
        asked: Tag,
        serving: bool,
    ) -> Option<ResponseHead> {
        self.responses.get(head, (asked, serving), || head::response(head, asked, serving))
    }
}

struct Slot<K, V> {
    head: Vec<u8>,
    key: K,
    value: V,
}

struct Table<K, V> {
    hasher: RandomState,
    /// Empty until the first head comes.
    slots: Vec<Option<Slot<K, V>>>,
    /// Heads in a row that were new.
    misses: u32,
    /// Heads that are not looked for yet.
    pause: u32,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { hasher: RandomState::new(), slots: Vec::new(), misses: 0, pause: 0 }
    }
}

impl<K: Copy + Eq + Hash, V: Clone> Table<K, V> {
    fn get(&mut self, head: &[u8], key: K, parse: impl FnOnce() -> Option<V>) -> Option<V> {
        if head.len() > MAX_BYTES {
            return parse();
        }
        if self.pause > 0 {
            self.pause -= 1;
            return parse();
        }
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, || None);
        }
        let at = self.hasher.hash_one((head, key)) as usize % SLOTS;
        let slot = &mut self.slots[at];
        if let Some(known) = slot
            && known.key == key
            && known.head == head
        {
            self.misses = 0;
            return Some(known.value.clone());
        }
        self.misses += 1;
        if self.misses >= MAX_MISSES {
            self.misses = 0;
            self.pause = PAUSE;
        }
        let value = parse()?;
        let mut bytes = slot.take().map(|slot| slot.head).unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(head);
        *slot = Some(Slot { head: bytes, key, value: value.clone() });
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_what_parsing_gives() {
        let mut heads = Heads::default();
        let head = |n: usize| format!("GET /{n} HTTP/1.1\r\nHost: shop:{n}\r\n\r\n").into_bytes();
        let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\n";
        // As many as push each other out of their slots, and each several times.
        for n in (0..2 * SLOTS).flat_map(|n| [n, n, 0]) {
            let found = heads.request(&head(n)).expect("a request");
            let parsed = head::request(&head(n), true).expect("a request");
            assert_eq!(format!("{:?}", found.request), format!("{:?}", parsed.request));
            assert_eq!(found.body, parsed.body);
            for (tag, serving) in [(Tag::Plain, true), (Tag::Plain, false), (Tag::Head, true)] {
                let found = heads.response(answer, tag, serving).expect("a response");
                let parsed = head::response(answer, tag, serving).expect("a response");
                assert_eq!(format!("{:?}", found.answer), format!("{:?}", parsed.answer));
            }
        }
        assert!(heads.request(b"GET nothing\r\n\r\n").is_none());
    }

    #[test]
    fn what_an_exchange_adds_is_its_own() {
        let mut heads = Heads::default();
        let head = b"GET / HTTP/1.1\r\n\r\n";
        let mut first = heads.request(head).expect("a request").request;
        first.silent = true;
        first.attributes.push(("url.query", "own".into()));
        let second = heads.request(head).expect("a request").request;
        assert!(!second.silent);
        assert!(second.attributes.iter().all(|(key, _)| *key != "url.query"));
    }

    #[test]
    fn where_all_heads_are_new_nobody_looks_for_a_while() {
        let mut heads = Heads::default();
        for n in 0..MAX_MISSES {
            heads.request(format!("GET /{n} HTTP/1.1\r\n\r\n").as_bytes());
        }
        assert_eq!(heads.requests.pause, PAUSE);
        for _ in 0..PAUSE {
            assert!(heads.request(b"GET / HTTP/1.1\r\n\r\n").is_some());
        }
        assert_eq!(heads.requests.pause, 0);
    }
}
