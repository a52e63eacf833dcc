//! Heads seen of late, and what they say: clients send the same request again and
//! again, and a server the same head of a response, for a second at least. What is
//! found is what parsing would give, for it is found by all of a head's bytes, and by
//! what else parsing asks. Requests for ever other paths are alike but for these: what they
//! say beside is found by all bytes but those of the target.

use std::hash::Hash;

use ahash::RandomState;

use super::head::{self, Beside, RequestHead, ResponseHead};
use crate::bytes::Side;
use crate::sessions::Tag;

/// Heads remembered of requests, and as many of responses.
const SLOTS: usize = 64;
/// Longest method of a request of which is remembered what it says beside its path.
const LONGEST_METHOD: usize = 8;
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
    beside: Table<Asking, Beside>,
    responses: Table<(Tag, bool), ResponseHead>,
}

impl Heads {
    /// As [`head::request`], of a complete head, which is looked for at its connection's
    /// `places` first: that of all of it, and that of what it says beside its path.
    pub(super) fn request(
        &mut self,
        head: &[u8],
        [place, beside_place]: [&mut Place; 2],
    ) -> Option<RequestHead> {
        let Self { requests, beside, .. } = self;
        requests.get(head, (), place, || {
            let line = head::request_line(head, true)?;
            let asking = Asking::of(line.method, line.version).filter(|_| !line.names_server());
            let found = match asking {
                Some(asking) => {
                    let parse = || Some(head::beside(&line));
                    beside.get(line.headers, asking, beside_place, parse)?
                }
                None => head::beside(&line),
            };
            Some(line.request(found))
        })
    }

    /// As [`head::response`], of a complete head; likewise.
    pub(super) fn response(
        &mut self,
        head: &[u8],
        asked: Tag,
        serving: bool,
        place: &mut Place,
    ) -> Option<ResponseHead> {
        let key = (asked, serving);
        self.responses.get(head, key, place, || head::response(head, asked, serving))
    }

    /// As [`head::end_of`], where these bytes begin with the head at this place.
    pub(super) fn end_of(&self, side: Side, bytes: &[u8], place: Place) -> Option<usize> {
        match side {
            Side::Request => self.requests.end_of(bytes, place),
            Side::Response => self.responses.end_of(bytes, place),
        }
    }
}

/// What a request's line says beside its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Asking {
    method: [u8; LONGEST_METHOD],
    version: [u8; 3],
}

impl Asking {
    /// `None` of unusual ones.
    fn of(method: &str, version: Option<&str>) -> Option<Self> {
        let mut padded = [0; LONGEST_METHOD];
        padded.get_mut(..method.len())?.copy_from_slice(method.as_bytes());
        Some(Self { method: padded, version: version?.as_bytes().try_into().ok()? })
    }
}

/// Where a connection's last head of this side is remembered, unless another has taken the
/// place since: the next is often the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place(usize);

impl Place {
    /// Where nothing is known of it.
    pub(super) const fn first() -> Self {
        Self(0)
    }
}

struct Slot<K, V> {
    head: Vec<u8>,
    key: K,
    value: V,
}

impl<K: Eq, V> Slot<K, V> {
    fn is(&self, head: &[u8], key: K) -> bool {
        self.key == key && self.head == head
    }
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
    fn at(&self, place: Place) -> Option<&Slot<K, V>> {
        self.slots.get(place.0)?.as_ref()
    }

    fn end_of(&self, bytes: &[u8], place: Place) -> Option<usize> {
        let head = &self.at(place)?.head;
        bytes.starts_with(head).then_some(head.len())
    }

    fn get(
        &mut self,
        head: &[u8],
        key: K,
        place: &mut Place,
        parse: impl FnOnce() -> Option<V>,
    ) -> Option<V> {
        let known = self.at(*place).filter(|known| known.is(head, key));
        if let Some(value) = known.map(|known| known.value.clone()) {
            self.misses = 0;
            return Some(value);
        }
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
        *place = Place(at);
        let slot = &mut self.slots[at];
        if let Some(known) = slot
            && known.is(head, key)
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
        let (mut asked_at, mut answered_at) = ([Place::first(); 2], Place::first());
        let head = |n: usize| format!("GET /{n} HTTP/1.1\r\nHost: shop:{n}\r\n\r\n").into_bytes();
        let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\n";
        // As many as push each other out of their slots, and each several times.
        for n in (0..2 * SLOTS).flat_map(|n| [n, n, 0]) {
            let found = heads.request(&head(n), asked_at.each_mut()).expect("a request");
            let parsed = head::request(&head(n), true).expect("a request");
            assert_eq!(format!("{:?}", found.request), format!("{:?}", parsed.request));
            assert_eq!(found.body, parsed.body);
            for (tag, serving) in [(Tag::Plain, true), (Tag::Plain, false), (Tag::Head, true)] {
                let found = heads.response(answer, tag, serving, &mut answered_at);
                let found = found.expect("a response");
                let parsed = head::response(answer, tag, serving).expect("a response");
                assert_eq!(format!("{:?}", found.answer), format!("{:?}", parsed.answer));
            }
        }
        assert!(heads.request(b"GET nothing\r\n\r\n", asked_at.each_mut()).is_none());
    }

    #[test]
    fn requests_that_differ_in_some_of_their_head_are_told_apart() {
        let mut heads = Heads::default();
        let mut places = [Place::first(); 2];
        let targets = ["/a", "/b?c=d", "http://other:81/a", "shop:443", ""];
        let further = ["", "Host: shop\r\n", "Host: shop\r\nContent-Length: 3\r\n"];
        let traced = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
        for (method, version) in [("GET", "1.1"), ("GET", "1.0"), ("CONNECT", "1.1")] {
            for target in targets {
                for headers in further.into_iter().chain([traced]) {
                    let head = format!("{method} {target} HTTP/{version}\r\n{headers}\r\n");
                    let found = heads.request(head.as_bytes(), places.each_mut());
                    let parsed = head::request(head.as_bytes(), true);
                    let told = |head: Option<RequestHead>| {
                        head.map(|head| (format!("{:?}", head.request), head.body))
                    };
                    assert_eq!(told(found), told(parsed), "{head}");
                }
            }
        }
    }

    #[test]
    fn the_end_of_a_head_is_known_where_it_begins_the_bytes() {
        let mut heads = Heads::default();
        let head = b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n";
        let mut place = Place::first();
        assert_eq!(heads.end_of(Side::Request, head, place), None);
        heads.request(head, [&mut place, &mut Place::first()]).expect("a request");
        let twice = head.repeat(2);
        for (bytes, end) in [
            (&head[..], Some(head.len())),
            (&twice, Some(head.len())),
            (&head[..head.len() - 1], None),
            (&head[1..], None),
            (b"", None),
        ] {
            assert_eq!(heads.end_of(Side::Request, bytes, place), end);
            assert_eq!(heads.end_of(Side::Response, bytes, place), None);
        }
        // Another head takes the place. Each comes twice: of ever new ones none is kept.
        for n in 0..32 * SLOTS {
            let other = format!("GET /{n} HTTP/1.1\r\n\r\n");
            for _ in 0..2 {
                heads.request(other.as_bytes(), [Place::first(); 2].each_mut()).expect("a request");
            }
        }
        assert_eq!(heads.end_of(Side::Request, head, place), None);
    }

    #[test]
    fn what_an_exchange_adds_is_its_own() {
        let mut heads = Heads::default();
        let head = b"GET / HTTP/1.1\r\n\r\n";
        let mut first =
            heads.request(head, [Place::first(); 2].each_mut()).expect("a request").request;
        first.silent = true;
        first.attributes.push(("url.query", "own".into()));
        let second =
            heads.request(head, [Place::first(); 2].each_mut()).expect("a request").request;
        assert!(!second.silent);
        assert!(second.attributes.iter().all(|(key, _)| *key != "url.query"));
    }

    #[test]
    fn where_all_heads_are_new_nobody_looks_for_a_while() {
        let mut heads = Heads::default();
        for n in 0..MAX_MISSES {
            heads.request(
                format!("GET /{n} HTTP/1.1\r\n\r\n").as_bytes(),
                [Place::first(); 2].each_mut(),
            );
        }
        assert_eq!(heads.requests.pause, PAUSE);
        for _ in 0..PAUSE {
            let head = b"GET / HTTP/1.1\r\n\r\n";
            assert!(heads.request(head, [Place::first(); 2].each_mut()).is_some());
        }
        assert_eq!(heads.requests.pause, 0);
    }
}
