//! Finds templates for rows during building.
//!
//! A row's attributes are encoded as a signature: its keys and types in order, and the values that
//! may be shared. Rows with the same signature share a template.
//!
//! A sample of some thousand rows, which get no templates, determines the keys whose values are
//! shared: a key is shared if nearly all rows would still find others with the same signature. The
//! share of rows in a sample with a unique signature estimates the share of future rows with a new
//! one (I. J. Good, "The population frequencies of species", 1953).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ahash::{AHashMap, AHashSet, RandomState};
use arrow::array::StringArray;
use arrow::buffer::ScalarBuffer;
use hashbrown::HashTable;

use super::attributes::{AttributeMaps, push_value};
use super::reuse::{TextList, taken};
use super::written::{BatchId, Written};
use crate::attributes::{is_same, key_slot};
use crate::rows::IN_MAP;
use crate::{AttributeRef, ModelError, Slot, Template, Templated};

/// Rows in a sample, and in a window whose success is checked.
const WINDOW_ROWS: usize = 4096;
/// Maximum rows of a sample with a unique signature, if templates are stored.
pub(super) const FEW_ALONE: usize = WINDOW_ROWS / 16;
/// The same if templates are only forwarded. A new template costs its maker as much as a hundred
/// texts, and many templates do not fit into the processor's caches.
pub(super) const HARDLY_ALONE: usize = WINDOW_ROWS / 128;
/// Rows of a window without a known template, beyond which a new sample is taken.
const MOST_MISSES: usize = WINDOW_ROWS / 8;
/// Windows in which most templates are still new.
const FIRST_WINDOWS: u32 = 2;
/// Windows after which a new sample is taken anyway, because services change.
const RENEW_WINDOWS: u32 = 256;
/// Windows without templates, if rows have too little in common.
const PAUSE: u32 = 64;
/// Maximum templates.
const MOST_TEMPLATES: usize = 8192;
/// Maximum bytes of all signatures.
const MOST_BYTES: usize = 4 << 20;
/// Maximum keys. Rows with other keys get no template.
const MOST_KEYS: usize = 4096;
/// Maximum bytes of a shared value.
pub(super) const LONGEST_SHARED: usize = 256;
/// Maximum attributes of a row with a template.
const MOST_SLOTS: usize = 128;
/// Flag of a type in a signature: the value is the row's own.
const OWN: u8 = 0x80;
/// Maximum pieces, and maximum bytes of a piece's signature.
const KEPT_PIECES: usize = 1024;
const USUAL_SIGNATURE_BYTES: usize = 256;
/// Size of the cache for keys.
const GUESSES: usize = 256;

/// A key.
struct Key {
    text: Arc<str>,
    /// Whether its values are shared.
    is_shared: bool,
}

/// Attributes that were added to a row of this batch and may be added to others.
struct Piece {
    /// Its range in the pieces' signatures.
    signature: Range<usize>,
    /// Its range in the pieces' own texts.
    texts: Range<usize>,
    slots: usize,
}

/// The start of a piece in the current row.
pub(super) struct PieceStart {
    signature: usize,
    texts: usize,
    slots: usize,
}

/// How rows are handled.
enum Phase {
    /// Sampling: the key and the hash of each value of each row.
    Study { rows: Vec<Vec<(u16, u64)>> },
    /// Rows get templates, for this many more windows.
    Share(u32),
    /// Rows get none, for this many more windows.
    Pause(u32),
}

/// A known signature.
struct KnownSignature {
    hash: u64,
    signature: Box<[u8]>,
    /// Index of its template among the known ones.
    listed: u32,
}

/// A known template.
struct TemplateEntry {
    template: Arc<Template>,
    /// The last batch that used it, and its index there.
    batch: u64,
    place: u32,
}

/// A reference to a builder's template.
#[derive(Debug, Clone, Copy)]
pub struct KnownTemplate {
    epoch: u64,
    listed: u32,
}

/// A unique number for a builder's state.
fn next_epoch() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Finds templates. See the module's description.
pub(super) struct Sharing {
    /// Maximum rows of a sample with a unique signature.
    most_alone: usize,
    hasher: RandomState,
    keys: Vec<Key>,
    numbers: AHashMap<Arc<str>, u16>,
    guesses: [u16; GUESSES],
    known: HashTable<KnownSignature>,
    known_bytes: usize,
    listed: Vec<TemplateEntry>,
    /// Changes when templates are forgotten.
    epoch: u64,
    phase: Phase,
    rows_in_window: usize,
    misses: usize,

    /// Signature of the current row.
    signature: Vec<u8>,
    slots: usize,
    fits: bool,
    /// Template of the previous row.
    last: Option<u32>,

    /// Of the current batch.
    batch: u64,
    templates: Vec<Arc<Template>>,
    new_bytes: usize,
    rows: Vec<u32>,
    offsets: Vec<i32>,
    texts: TextList,
    pieces: Vec<Piece>,
    piece_signatures: Vec<u8>,
    /// Valid as long as the pieces are.
    pieces_id: BatchId,
}

impl Sharing {
    pub(super) fn new(most_alone: usize) -> Self {
        Self {
            most_alone,
            hasher: RandomState::new(),
            keys: Vec::new(),
            numbers: AHashMap::new(),
            guesses: [0; GUESSES],
            known: HashTable::new(),
            known_bytes: 0,
            listed: Vec::new(),
            epoch: next_epoch(),
            phase: Phase::Study { rows: Vec::new() },
            rows_in_window: 0,
            misses: 0,
            signature: Vec::new(),
            slots: 0,
            fits: true,
            last: None,
            batch: 1,
            templates: Vec::new(),
            new_bytes: 0,
            rows: Vec::new(),
            offsets: vec![0],
            texts: TextList::default(),
            pieces: Vec::new(),
            piece_signatures: Vec::new(),
            pieces_id: BatchId::default(),
        }
    }

    /// A new instance with the same settings that has learned nothing.
    pub(super) fn anew(&self) -> Self {
        Self::new(self.most_alone)
    }

    /// Whether rows get templates now.
    pub(super) const fn is_on(&self) -> bool {
        matches!(self.phase, Phase::Share(_))
    }

    /// Whether a sample is being taken.
    pub(super) const fn studies(&self) -> bool {
        matches!(self.phase, Phase::Study { .. })
    }

    /// While rows get templates, a number that changes when templates are forgotten or the choice
    /// of shared keys changes.
    pub(super) fn epoch(&self) -> Option<u64> {
        self.is_on().then_some(self.epoch)
    }

    /// Whether values of this key are shared; `None` if there are too many keys.
    pub(super) fn shares(&mut self, key: &str) -> Option<bool> {
        let number = self.number(key)?;
        Some(self.keys[usize::from(number)].is_shared)
    }

    /// The template of the previous row, if it had one.
    pub(super) fn last(&self) -> Option<(KnownTemplate, &Template)> {
        let listed = self.last?;
        let template = &self.listed.get(listed as usize)?.template;
        Some((KnownTemplate { epoch: self.epoch, listed }, template))
    }

    /// Adds an attribute of a row to the sample.
    pub(super) fn study(&mut self, key: &str, value: AttributeRef<'_>) {
        if !self.studies() {
            return;
        }
        let Some(number) = self.number(key) else { return };
        let kind = value.type_number();
        let hasher = &self.hasher;
        let hash = match value {
            AttributeRef::String(text) if text.len() <= LONGEST_SHARED => {
                hasher.hash_one((kind, text))
            }
            AttributeRef::Int(number) => hasher.hash_one((kind, number)),
            AttributeRef::Bool(flag) => hasher.hash_one((kind, flag)),
            _ => hasher.hash_one(kind),
        };
        if let Phase::Study { rows } = &mut self.phase {
            rows.resize_with(self.rows_in_window + 1, Vec::new);
            let row = &mut rows[self.rows_in_window];
            // Rows with more attributes get no template.
            if row.len() < MOST_SLOTS {
                row.push((number, hash));
            }
        }
    }

    /// Adds an attribute to the current row. Returns `false` if the row can have no template. All
    /// its attributes are then in `maps`, and further ones must be added there.
    pub(super) fn push(
        &mut self,
        key: &str,
        value: AttributeRef<'_>,
        maps: &mut AttributeMaps,
    ) -> bool {
        let number = if self.slots < MOST_SLOTS { self.number(key) } else { None };
        let Some(number) = number else {
            self.give_up_row(maps);
            return false;
        };
        self.slots += 1;
        let [low, high] = number.to_le_bytes();
        let kind = value.type_number();
        let is_own = !self.keys[usize::from(number)].is_shared;
        let signature = &mut self.signature;
        match value {
            AttributeRef::String(text) if !is_own && text.len() <= LONGEST_SHARED => {
                // Only a value longer than the maximum would need a second byte.
                let [length, more, ..] = text.len().to_le_bytes();
                signature.extend_from_slice(&[low, high, kind, length, more]);
                signature.extend_from_slice(text.as_bytes());
            }
            AttributeRef::Int(number) if !is_own => {
                signature.extend_from_slice(&[low, high, kind]);
                signature.extend_from_slice(&number.to_le_bytes());
            }
            AttributeRef::Bool(flag) if !is_own => {
                signature.extend_from_slice(&[low, high, kind, u8::from(flag)]);
            }
            value => {
                signature.extend_from_slice(&[low, high, kind | OWN]);
                push_value(&mut self.texts, value);
            }
        }
        true
    }

    /// Adds attributes that were added before. Returns `false` if they were not, in this batch.
    pub(super) fn repeat(&mut self, written: &Written) -> bool {
        let places = written.places(self.pieces_id).filter(|places| !places.is_empty());
        let piece = places.and_then(|places| self.pieces.get(places.start));
        let Some(piece) = piece.filter(|piece| self.slots + piece.slots <= MOST_SLOTS) else {
            return false;
        };
        self.slots += piece.slots;
        self.signature.extend_from_slice(&self.piece_signatures[piece.signature.clone()]);
        self.texts.repeat(piece.texts.clone());
        true
    }

    /// Marks the start of attributes that may be repeated. Not at their first occurrence, because
    /// most occur only once.
    pub(super) fn begin_piece(&self, written: &Written) -> Option<PieceStart> {
        if written.places(self.pieces_id).is_none() {
            written.set(self.pieces_id, 0..0);
            return None;
        }
        let (signature, texts) = (self.signature.len(), self.texts.len());
        Some(PieceStart { signature, texts, slots: self.slots })
    }

    /// Records the attributes added since the start, so that they can be repeated.
    pub(super) fn end_piece(&mut self, start: PieceStart, written: &Written) {
        let first = self.piece_signatures.len();
        self.piece_signatures.extend_from_slice(&self.signature[start.signature..]);
        let place = self.pieces.len();
        self.pieces.push(Piece {
            signature: first..self.piece_signatures.len(),
            texts: start.texts..self.texts.len(),
            slots: self.slots - start.slots,
        });
        written.set(self.pieces_id, place..place + 1);
    }

    fn forget_pieces(&mut self) {
        self.pieces_id = BatchId::default();
        self.pieces.clear();
        self.pieces.shrink_to(KEPT_PIECES);
        self.piece_signatures.clear();
        self.piece_signatures.shrink_to(KEPT_PIECES * USUAL_SIGNATURE_BYTES);
    }

    /// The key's number; `None` if there are too many keys.
    #[inline]
    fn number(&mut self, key: &str) -> Option<u16> {
        let guess = &mut self.guesses[key_slot::<GUESSES>(key.as_bytes())];
        let same = |known: &Key| is_same(known.text.as_bytes(), key.as_bytes());
        if self.keys.get(usize::from(*guess)).is_some_and(same) {
            return Some(*guess);
        }
        let number = match self.numbers.get(key) {
            Some(number) => *number,
            None if self.keys.len() >= MOST_KEYS || key.len() > LONGEST_SHARED => return None,
            None => {
                let text: Arc<str> = key.into();
                let number = self.keys.len() as u16;
                self.numbers.insert(Arc::clone(&text), number);
                self.keys.push(Key { text, is_shared: false });
                number
            }
        };
        *guess = number;
        Some(number)
    }

    /// Moves the current row's attributes to the map.
    fn give_up_row(&mut self, maps: &mut AttributeMaps) {
        self.fits = false;
        let first = self.offsets.last().map_or(0, |end| *end as usize);
        let mut own = first;
        for entry in signature_entries(&self.signature) {
            let key = &self.keys[usize::from(entry.key)].text;
            match entry.value {
                Some(value) => maps.push_text(key, entry.type_number, &value.text()),
                None => {
                    maps.push_text(key, entry.type_number, self.texts.text_at(own));
                    own += 1;
                }
            }
        }
        self.texts.truncate(first);
        // Some pieces may be of this row.
        self.forget_pieces();
    }

    /// Ends the current row.
    pub(super) fn end_row(&mut self) {
        let template = if self.fits && self.is_on() { Some(self.template()) } else { None };
        self.signature.clear();
        self.slots = 0;
        self.fits = true;
        self.end_with(template);
    }

    /// Appends a row with a template and these values. Returns whether the template is still known
    /// and needs this number of values.
    pub(super) fn push_known<'v>(
        &mut self,
        known: KnownTemplate,
        own: impl Iterator<Item = AttributeRef<'v>>,
    ) -> bool {
        own.for_each(|value| push_value(&mut self.texts, value));
        let first = self.offsets.last().map_or(0, |end| *end as usize);
        let listed = self.listed.get(known.listed as usize).filter(|_| known.epoch == self.epoch);
        let wanted = listed.map(|listed| listed.template.own_texts());
        let fits = wanted == Some(self.texts.len() - first);
        if fits {
            self.end_with(Some(known.listed));
        } else {
            self.texts.truncate(first);
        }
        fits
    }

    fn end_with(&mut self, template: Option<u32>) {
        self.last = template;
        let place = template.map_or(IN_MAP, |listed| self.place(listed));
        self.rows.push(place);
        // The total size is checked once, at the end.
        self.offsets.push(self.texts.len() as i32);
        self.rows_in_window += 1;
        if self.rows_in_window >= WINDOW_ROWS {
            self.learn();
        }
    }

    /// A template's index in the batch.
    fn place(&mut self, listed: u32) -> u32 {
        let listed = &mut self.listed[listed as usize];
        if listed.batch != self.batch {
            (listed.batch, listed.place) = (self.batch, self.templates.len() as u32);
            self.templates.push(Arc::clone(&listed.template));
        }
        listed.place
    }

    /// The index of the row's template among the known ones.
    fn template(&mut self) -> u32 {
        let hash = self.hasher.hash_one(&*self.signature);
        let same =
            |known: &KnownSignature| known.hash == hash && *known.signature == *self.signature;
        match self.known.find(hash, same) {
            Some(known) => known.listed,
            None => self.new_template(hash),
        }
    }

    #[cold]
    fn new_template(&mut self, hash: u64) -> u32 {
        self.misses += 1;
        if self.known.len() >= MOST_TEMPLATES || self.known_bytes > MOST_BYTES {
            self.forget();
        }
        let slots = signature_entries(&self.signature).map(|entry| {
            let key = Arc::clone(&self.keys[usize::from(entry.key)].text);
            let text = entry.value.map(|value| value.text().into());
            Slot { key, type_number: entry.type_number, text }
        });
        let template = Arc::new(Template::new(slots.collect()));
        self.new_bytes += template.memory_bytes();
        let listed = self.listed.len() as u32;
        // Not in any batch yet. Batches are counted from one.
        self.listed.push(TemplateEntry { template, batch: 0, place: 0 });
        let signature: Box<[u8]> = self.signature.as_slice().into();
        self.known_bytes += signature.len();
        let known = KnownSignature { hash, signature, listed };
        self.known.insert_unique(hash, known, |known| known.hash);
        listed
    }

    fn forget(&mut self) {
        self.known.clear();
        self.known_bytes = 0;
        self.listed.clear();
        self.last = None;
        self.epoch = next_epoch();
    }

    /// Evaluates the window.
    fn learn(&mut self) {
        self.rows_in_window = 0;
        // The choice of shared keys may change.
        self.forget_pieces();
        let misses = std::mem::take(&mut self.misses);
        let study = Phase::Study { rows: Vec::new() };
        self.phase = match std::mem::replace(&mut self.phase, Phase::Pause(0)) {
            Phase::Study { rows } if self.choose(&rows) => Phase::Share(0),
            Phase::Study { .. } => Phase::Pause(PAUSE),
            // At first, all templates are new.
            Phase::Share(windows)
                if windows >= RENEW_WINDOWS || windows >= FIRST_WINDOWS && misses > MOST_MISSES =>
            {
                study
            }
            Phase::Share(windows) => Phase::Share(windows + 1),
            Phase::Pause(0) => study,
            Phase::Pause(windows) => Phase::Pause(windows - 1),
        };
        if matches!(self.phase, Phase::Study { .. }) && self.keys.len() >= MOST_KEYS {
            self.forget();
            self.keys.clear();
            self.numbers.clear();
        }
    }

    /// Chooses the keys whose values are shared, using these rows. Returns whether templates are
    /// worth while.
    fn choose(&mut self, rows: &[Vec<(u16, u64)>]) -> bool {
        let mut signatures: Vec<u64> = (rows.iter())
            .map(|row| row.iter().fold(0, |all, (key, _)| mixed(all, u64::from(*key) + 1)))
            .collect();
        if alone(&signatures) > self.most_alone {
            return false;
        }
        // For each key, its rows and their values.
        let mut noted: Vec<Vec<(usize, u64)>> = Vec::new();
        noted.resize_with(self.keys.len(), Vec::new);
        for (row, values) in rows.iter().enumerate() {
            values.iter().for_each(|(key, hash)| noted[usize::from(*key)].push((row, *hash)));
        }
        let distinct = |noted: &Vec<(usize, u64)>| {
            noted.iter().map(|(_, hash)| hash).collect::<AHashSet<_>>().len()
        };
        let mut order: Vec<(usize, usize)> = noted.iter().map(distinct).enumerate().collect();
        let mut changed = false;
        // Keys with few values first, because they produce few signatures.
        order.sort_unstable_by_key(|(key, values)| (*values, *key));
        // For keys without rows, nothing new is known.
        for (key, _) in order.into_iter().filter(|(_, values)| *values > 0) {
            let mut with = signatures.clone();
            for (row, hash) in &noted[key] {
                with[*row] = mixed(with[*row], *hash);
            }
            let is_shared = alone(&with) <= self.most_alone;
            changed |= self.keys[key].is_shared != is_shared;
            self.keys[key].is_shared = is_shared;
            if is_shared {
                signatures = with;
            }
        }
        if changed {
            // Signatures change.
            self.forget();
        }
        true
    }

    /// Takes the templates of the rows, and the memory of the new ones.
    pub(super) fn finish(&mut self) -> Result<(Templated, usize), ModelError> {
        self.batch += 1;
        self.forget_pieces();
        let templates = std::mem::take(&mut self.templates);
        let rows: ScalarBuffer<u32> = taken(&mut self.rows);
        let offsets = super::reuse::taken_offsets(&mut self.offsets);
        let texts: StringArray = self.texts.finish(None)?;
        let templated = Templated::of_parts(templates, rows, offsets, texts)?;
        Ok((templated, std::mem::take(&mut self.new_bytes)))
    }
}

/// A hash that depends on both.
fn mixed(one: u64, other: u64) -> u64 {
    let product =
        u128::from(one ^ 0x9e37_79b9_7f4a_7c15) * u128::from(other ^ 0xc2b2_ae3d_27d4_eb4f);
    product as u64 ^ (product >> 64) as u64
}

/// Number of signatures that occur only once.
fn alone(signatures: &[u64]) -> usize {
    let mut counts: AHashMap<u64, u32> = AHashMap::with_capacity(signatures.len());
    signatures.iter().for_each(|signature| *counts.entry(*signature).or_default() += 1);
    counts.values().filter(|count| **count == 1).count()
}

/// A value in a signature.
#[derive(Clone, Copy)]
enum Value<'a> {
    Text(&'a [u8]),
    Int(&'a [u8; 8]),
    Bool(&'a [u8; 1]),
}

impl<'a> Value<'a> {
    fn text(self) -> std::borrow::Cow<'a, str> {
        match self {
            // It was valid UTF-8 when it was added.
            Self::Text(bytes) => String::from_utf8_lossy(bytes),
            Self::Int(bytes) => i64::from_le_bytes(*bytes).to_string().into(),
            Self::Bool(bytes) => if *bytes == [0] { "false" } else { "true" }.into(),
        }
    }
}

/// An attribute in a signature.
struct SignatureEntry<'a> {
    key: u16,
    type_number: u8,
    /// `None` if it is the row's own.
    value: Option<Value<'a>>,
}

/// Decodes a signature.
fn signature_entries(mut rest: &[u8]) -> impl Iterator<Item = SignatureEntry<'_>> {
    const STRING: u8 = AttributeRef::String("").type_number();
    const INT: u8 = AttributeRef::Int(0).type_number();
    std::iter::from_fn(move || {
        let (&[low, high, kind], after) = rest.split_first_chunk()?;
        let (value, after) = match kind {
            STRING => {
                let (length, after) = after.split_first_chunk()?;
                let (text, after) = after.split_at_checked(u16::from_le_bytes(*length).into())?;
                (Some(Value::Text(text)), after)
            }
            INT => {
                let (number, after) = after.split_first_chunk()?;
                (Some(Value::Int(number)), after)
            }
            own if own & OWN != 0 => (None, after),
            _ => {
                let (flag, after) = after.split_first_chunk()?;
                (Some(Value::Bool(flag)), after)
            }
        };
        rest = after;
        let key = u16::from_le_bytes([low, high]);
        Some(SignatureEntry { key, type_number: kind & !OWN, value })
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::Array;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        AttributeValue, Capture, Kind, Span, SpanBatch, SpanBatchBuilder, SpanId, SpanRows,
    };

    fn span(attributes: Vec<(String, AttributeValue)>) -> Span {
        let id = SpanId([1; SpanId::LEN]);
        let mut span = Span::new(id, Capture::App, Kind::Server, "s", "op", 1, 1);
        span.attributes = attributes;
        span
    }

    fn attributes(rows: SpanRows) -> Vec<Vec<(String, AttributeValue)>> {
        let batch = SpanBatch::try_from(rows).expect("spans");
        batch.spans().map(|span| span.expect("a span").attributes).collect()
    }

    fn value() -> impl Strategy<Value = AttributeValue> {
        prop_oneof![
            "[a-c]{0,2}".prop_map(AttributeValue::String),
            "\\PC{0,20}".prop_map(AttributeValue::String),
            (250usize..260).prop_map(|length| "x".repeat(length).into()),
            (0i64..3).prop_map(AttributeValue::Int),
            any::<i64>().prop_map(AttributeValue::Int),
            any::<bool>().prop_map(AttributeValue::Bool),
            (-3.0..3.0f64).prop_map(AttributeValue::Double),
            "[A-Z]{4}".prop_map(AttributeValue::Bytes),
            (0u8..9).prop_map(|n| AttributeValue::Json(format!("[{n}]"))),
        ]
    }

    proptest! {
        #[test]
        fn rows_have_the_attributes_that_they_were_given(
            batches in proptest::collection::vec(
                proptest::collection::vec(
                    proptest::collection::vec(("[a-d]{1,2}|k{255,258}", value()), 0..7), 0..20),
                1..5),
            pick in any::<prop::sample::Index>(),
        ) {
            let mut builder = SpanBatchBuilder::sharing();
            for batch in batches {
                let spans: Vec<Span> = batch.iter().cloned().map(span).collect();
                spans.iter().for_each(|span| builder.push(span));
                let rows = builder.finish_rows().expect("rows");
                prop_assert_eq!(attributes(rows.clone()), &batch[..]);
                if !batch.is_empty() {
                    let at = pick.index(batch.len());
                    let some = rows.take(&vec![at as u32, 0, at as u32].into()).expect("taken");
                    let expected = [&batch[at], &batch[0], &batch[at]].map(Clone::clone);
                    prop_assert_eq!(attributes(some), expected);
                }
            }
        }
    }

    fn row(n: u64, keys: u64) -> Vec<(String, AttributeValue)> {
        let route = format!("/route/{}", n * 7919 % 50);
        let mut row = vec![
            ("http.route".to_owned(), route.into()),
            ("url.path".to_owned(), format!("/orders/{n}").into()),
            ("http.response.status_code".to_owned(), AttributeValue::Int(200)),
        ];
        row.extend((0..keys).map(|key| (format!("k{key}"), ((n >> key) as i64 % 2).into())));
        row
    }

    /// For the last of many batches: its templates, the number of new ones, and own texts for each
    /// row.
    fn learned(
        batches: u64,
        row: impl Fn(u64) -> Vec<(String, AttributeValue)>,
    ) -> (usize, usize, usize) {
        let mut builder = SpanBatchBuilder::sharing();
        let (mut last, mut seen) = ((0, 0, 0), std::collections::HashSet::new());
        for batch in 0..batches {
            let rows: Vec<_> = (batch * 1000..batch * 1000 + 1000).map(&row).collect();
            rows.iter().for_each(|row| builder.push(&span(row.clone())));
            let built = builder.finish_rows().expect("rows");
            let templated = built.templated().expect("templates");
            let templates = templated.templates();
            let new = templates.iter().filter(|template| seen.insert(template.id())).count();
            last = (templates.len(), new, templated.texts().len() / 1000);
            assert_eq!(attributes(built), rows);
        }
        last
    }

    #[test]
    fn what_is_always_new_is_left_to_the_rows() {
        assert_eq!(learned(10, |n| row(n, 0)), (50, 0, 1));
    }

    #[test]
    fn values_of_which_there_are_too_many_mixtures_are_left_to_the_rows() {
        let (_, new, own) = learned(20, |n| row(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32, 14));
        assert!(new <= 60 && (2..14).contains(&own), "{new} new, {own} own");
    }

    #[test]
    fn what_comes_later_is_learned_too_and_keys_do_not_pile_up() {
        let mut sharing = Sharing::new(FEW_ALONE);
        let window = |sharing: &mut Sharing, key: &str| {
            let mut maps = AttributeMaps::default();
            for _ in 0..WINDOW_ROWS {
                match sharing.is_on() {
                    true => assert!(sharing.push(key, AttributeRef::Int(1), &mut maps)),
                    false => sharing.study(key, AttributeRef::Int(1)),
                }
                sharing.end_row();
            }
        };
        let is_shared = |sharing: &mut Sharing, key: &str| {
            let number = sharing.number(key).expect("a key");
            sharing.keys[usize::from(number)].is_shared
        };
        window(&mut sharing, "first");
        assert!(sharing.is_on() && is_shared(&mut sharing, "first"));
        window(&mut sharing, "later");
        assert!(!is_shared(&mut sharing, "later"));
        sharing.phase = Phase::Share(RENEW_WINDOWS);
        window(&mut sharing, "later");
        assert!(!sharing.is_on());
        window(&mut sharing, "later");
        assert!(is_shared(&mut sharing, "later") && is_shared(&mut sharing, "first"));
        for key in 0..MOST_KEYS {
            sharing.number(&key.to_string());
        }
        assert_eq!(sharing.number("one more"), None);
        sharing.phase = Phase::Share(RENEW_WINDOWS);
        window(&mut sharing, "later");
        assert!(sharing.number("one more").is_some());
    }

    #[test]
    fn keys_that_are_always_new_make_no_templates() {
        let always = |n: u64| vec![(format!("k{n}"), "v".into()), ("a".to_owned(), "b".into())];
        assert_eq!(learned(10, always).0, 0);
    }
}
