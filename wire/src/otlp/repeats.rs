//! Recognises spans that resemble earlier ones, by their bytes.
//!
//! Most spans have the same attributes as an earlier one, except for a few values. The bytes of a
//! span's attributes without those values form its [signature](super::signature). If the signature
//! is known, nothing in it needs to be decoded, checked or looked up again: the row's template and
//! the meaning of the attributes are known.

use hashbrown::HashTable;
use spanwise_model::{
    AttributeRef, AttributeValue, KnownTemplate, SpanBatchBuilder, is_same, key_slot,
};

use super::decode::{self, short_bytes};
use super::known::{Known, Note};
use super::resource::ScopeFacts;
use super::signature::{Hash, Secrets, Signature};
use super::value::{Pair, Value};
use super::view::SpanView;
use crate::bounds::NAME_BYTES;

/// Number of slots for keys, and number of slots that are tried for a key.
const KEY_SLOTS: usize = 256;
const KEY_TRIES: usize = 4;
/// Maximum signatures, and bytes of their noted values.
const MOST_KNOWN: usize = 8192;
const MOST_BYTES: usize = 4 << 20;
/// Maximum bytes of a value in a template: a text with tag and length.
const LONGEST_SHARED: usize = SpanBatchBuilder::LONGEST_SHARED + 3;
/// After this many spans, the share of known ones is checked.
const WINDOW: u32 = 4096;
/// Number of windows to skip if fewer than half of the spans were known.
const PAUSE: u32 = 64;
/// An attribute's field number and wire type. In a signature, it begins an unchanged attribute.
const ATTRIBUTE: u8 = 0x4a;
/// In a signature, it begins a key whose value is the span's own.
const OWN: u8 = 0;

/// An attribute key.
struct Key {
    bytes: Box<[u8]>,
    is_shared: bool,
}

/// The common part of spans with one signature.
pub(super) struct SharedPart {
    hash: Hash,
    pub(super) template: KnownTemplate,
    noted: Box<[(Note, ExchangeValue)]>,
}

/// A value that describes the exchange.
enum ExchangeValue {
    Shared(AttributeValue),
    /// The index among the span's own values.
    Own(usize),
}

/// The part of a span that is not in its signature.
#[derive(Default)]
pub(super) struct Own<'a> {
    /// Values with the index of their attribute.
    values: Vec<(usize, Value<'a>)>,
    /// Number of attributes decoded so far.
    attributes: usize,
}

impl Own<'_> {
    /// The values, in order.
    pub(super) fn values(&self) -> impl Iterator<Item = AttributeRef<'_>> {
        self.values.iter().map(|(_, value)| value.as_ref())
    }

    /// Number of attributes, including shared ones.
    pub(super) const fn attributes(&self) -> usize {
        self.attributes
    }

    fn clear(&mut self) {
        self.values.clear();
        self.attributes = 0;
    }
}

impl SharedPart {
    /// What the attributes say, including the span's own values.
    pub(super) fn known<'a>(&'a self, own: &'a Own<'_>) -> Known<'a> {
        let mut known = Known::default();
        for (note, value) in &self.noted {
            match value {
                ExchangeValue::Shared(value) => note(&mut known, value.as_ref()),
                ExchangeValue::Own(place) => note(&mut known, own.values[*place].1.as_ref()),
            }
        }
        known
    }
}

/// Known signatures. They belong to one builder, because they refer to its templates. See the
/// module's description.
pub(super) struct Repeats {
    secrets: Secrets,
    /// The builder's epoch for which the entries are valid.
    epoch: u64,
    keys: Keys,
    known: HashTable<SharedPart>,
    known_bytes: usize,
    /// The hash of the span that was last looked up, if it has one.
    hash: Option<Hash>,
    spans: u32,
    misses: u32,
    pause: u32,
}

impl Default for Repeats {
    fn default() -> Self {
        Self {
            secrets: Secrets::default(),
            epoch: u64::MAX,
            keys: Keys::default(),
            known: HashTable::new(),
            known_bytes: 0,
            hash: None,
            spans: 0,
            misses: 0,
            pause: 0,
        }
    }
}

impl Repeats {
    /// Looks up a span's signature. If it is known, fills `view`, which must be clear, with the
    /// other fields, and `own` with the span's own values. Otherwise the span must be decoded.
    pub(super) fn find<'a>(
        &mut self,
        bytes: &'a [u8],
        scope: &ScopeFacts,
        view: &mut SpanView<'a>,
        own: &mut Own<'a>,
        builder: &mut SpanBatchBuilder,
    ) -> Option<&SharedPart> {
        self.hash = None;
        let epoch = builder.sharing_epoch()?;
        self.check_benefit();
        if self.pause > 0 {
            return None;
        }
        if self.epoch != epoch {
            self.epoch = epoch;
            self.forget();
        }
        own.clear();
        let mut signature = self.secrets.begin();
        signature.add(&scope.id().to_le_bytes());
        self.keys.read(bytes, &mut signature, view, own, builder)?;
        let [kind, status] = [view.kind, view.status_code].map(|number| number.to_le_bytes()[0]);
        signature.add(&[kind, status]);
        let hash = signature.end();
        self.hash = Some(hash);
        let found = self.known.find(hash[0], |known| known.hash == hash);
        if found.is_none() {
            self.misses += 1;
        }
        found
    }

    /// If most spans are new, looking them up is not worth while.
    fn check_benefit(&mut self) {
        self.spans += 1;
        if self.spans < WINDOW {
            return;
        }
        self.pause = match self.pause {
            0 if self.misses > WINDOW / 2 => PAUSE,
            left => left.saturating_sub(1),
        };
        (self.spans, self.misses) = (0, 0);
    }

    /// Remembers the span that was last looked up. Decoding found these attributes, and its row is
    /// the builder's last.
    pub(super) fn learn(
        &mut self,
        attributes: &[Pair<'_>],
        own: &Own<'_>,
        builder: &SpanBatchBuilder,
    ) {
        let Some(hash) = self.hash.take() else { return };
        if builder.sharing_epoch() != Some(self.epoch) {
            return;
        }
        let Some((known, template)) = builder.last_template() else { return };
        let slots = || template.slots().iter().enumerate();
        let expected = slots().filter(|(_, slot)| slot.text.is_none()).map(|(place, _)| place);
        if !expected.eq(own.values.iter().map(|(place, _)| *place)) {
            return;
        }
        if self.known.len() >= MOST_KNOWN || self.known_bytes > MOST_BYTES {
            self.known.clear();
            self.known_bytes = 0;
        }
        let noted = attributes.iter().enumerate().filter_map(|(place, pair)| {
            let own = own.values.iter().position(|(own, _)| *own == place);
            let value = own.map_or_else(
                || ExchangeValue::Shared(pair.value.as_ref().to_value()),
                ExchangeValue::Own,
            );
            Some((pair.note?, value))
        });
        let noted: Box<[_]> = noted.collect();
        self.known_bytes += size_of_val(&*noted) + noted.iter().map(of_value).sum::<usize>();
        let repeated = SharedPart { hash, template: known, noted };
        self.known.insert_unique(hash[0], repeated, |known| known.hash[0]);
    }

    fn forget(&mut self) {
        self.known.clear();
        self.known_bytes = 0;
        self.keys.slots.clear();
        self.keys.slots.resize_with(KEY_SLOTS, || None);
    }
}

/// Attribute keys.
#[derive(Default)]
struct Keys {
    slots: Vec<Option<Key>>,
}

impl Keys {
    /// Decodes a span whose fields have the usual form.
    fn read<'a>(
        &mut self,
        mut rest: &'a [u8],
        signature: &mut Signature<'_>,
        view: &mut SpanView<'a>,
        own: &mut Own<'a>,
        builder: &mut SpanBatchBuilder,
    ) -> Option<()> {
        while let [tag, after @ ..] = rest {
            // By tag (field number and wire type).
            rest = match tag {
                &ATTRIBUTE => self.attributes(rest, signature, own, builder)?,
                0x0a => put(short_bytes(after)?, &mut view.trace_id),
                0x12 => put(short_bytes(after)?, &mut view.span_id),
                0x22 => put(short_bytes(after)?, &mut view.parent_span_id),
                0x2a => {
                    let (name, after) = short_bytes(after)?;
                    view.name = std::str::from_utf8(name).ok()?;
                    after
                }
                0x30 => put(short_number(after)?, &mut view.kind),
                0x39 => put(fixed64(after)?, &mut view.start_time_unix_nano),
                0x41 => put(fixed64(after)?, &mut view.end_time_unix_nano),
                0x7a => match short_bytes(after)? {
                    ([], after) => after,
                    ([0x18, code @ ..0x80], after) => {
                        view.status_code = i32::from(*code);
                        after
                    }
                    _ => return None,
                },
                // Flags, which have no column.
                0x85 => match after {
                    [0x01, _, _, _, _, after @ ..] => after,
                    _ => return None,
                },
                _ => return None,
            };
        }
        Some(())
    }

    /// Adds attributes to the signature, or to the span's own values. Returns the rest.
    fn attributes<'a>(
        &mut self,
        bytes: &'a [u8],
        signature: &mut Signature<'_>,
        own: &mut Own<'a>,
        builder: &mut SpanBatchBuilder,
    ) -> Option<&'a [u8]> {
        // The shared bytes that are not in the signature yet.
        let (mut shared, mut rest) = (bytes, bytes);
        while let [ATTRIBUTE, after @ ..] = rest {
            let (pair, after) = short_bytes(after)?;
            let [0x0a, key @ ..] = pair else { return None };
            let (key, value) = short_bytes(key)?;
            let [0x12, value @ ..] = value else { return None };
            let (value, []) = short_bytes(value)? else { return None };
            // Only texts, booleans and integers are shared.
            let is_shared = matches!(value, [0x0a | 0x10 | 0x18, ..])
                && value.len() <= LONGEST_SHARED
                && self.is_shared(key, builder)?;
            if !is_shared {
                let value = decode::value(value)?;
                signature.add(&shared[..shared.len() - rest.len()]);
                signature.add(&[OWN, value.as_ref().type_number()]);
                signature.add(key);
                own.values.push((own.attributes, value));
                shared = after;
            }
            own.attributes += 1;
            rest = after;
        }
        signature.add(&shared[..shared.len() - rest.len()]);
        Some(rest)
    }

    /// Whether values of this key may be shared.
    #[inline]
    fn is_shared(&mut self, key: &[u8], builder: &mut SpanBatchBuilder) -> Option<bool> {
        let first = key_slot::<KEY_SLOTS>(key);
        for slot in (first..first + KEY_TRIES).map(|slot| slot % KEY_SLOTS) {
            match &self.slots[slot] {
                Some(known) if is_same(&known.bytes, key) => return Some(known.is_shared),
                Some(_) => {}
                None => return self.new_key(key, slot, builder),
            }
        }
        self.new_key(key, first, builder)
    }

    #[cold]
    fn new_key(&mut self, key: &[u8], slot: usize, builder: &mut SpanBatchBuilder) -> Option<bool> {
        if key.len() > NAME_BYTES {
            return None;
        }
        let is_shared = builder.shares(std::str::from_utf8(key).ok()?)?;
        self.slots[slot] = Some(Key { bytes: key.into(), is_shared });
        Some(is_shared)
    }
}

/// Memory of a noted value.
const fn of_value((_, value): &(Note, ExchangeValue)) -> usize {
    match value {
        ExchangeValue::Shared(
            AttributeValue::String(text) | AttributeValue::Bytes(text) | AttributeValue::Json(text),
        ) => text.len(),
        _ => 0,
    }
}

fn put<'a, T>((value, rest): (T, &'a [u8]), field: &mut T) -> &'a [u8] {
    *field = value;
    rest
}

fn short_number(bytes: &[u8]) -> Option<(i32, &[u8])> {
    match bytes {
        [number @ ..0x80, rest @ ..] => Some((i32::from(*number), rest)),
        _ => None,
    }
}

fn fixed64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), rest))
}

#[cfg(test)]
mod tests;
