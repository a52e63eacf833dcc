//! Decides which attributes belong to shapes, and which have their own columns.
//!
//! A frequent value belongs to the shape, unless it would split shapes into too many. Then writing
//! it with every row is cheaper. A sample of the rows decides.

use ahash::AHashMap;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::own::{Own, OwnType};
use super::shapes::Rows;
use super::split::Split;
use super::{Layout, MAX_OWN};
use crate::embedded::files::order::RowPlace;
use crate::embedded::keys::{fold, hash_value};

/// Rows in the sample.
const SAMPLE_ROWS: usize = 8192;
/// A value is frequent if this many rows of the sample have it.
const FREQUENT_ROWS: u32 = 4;
/// If none of this many values has a form, the attribute's values are assumed not to have it.
const LOOKED_AT: usize = 8;
/// Attributes with fewer than one in this many rows stay in the map.
const RARE_ROWS: usize = 512;
/// An attribute belongs to shapes if at least one in this many of its rows has a frequent value.
const LEAST_FREQUENT: u32 = 4;
/// Bytes of one additional shape in a file, for each attribute that adds one.
const SHAPE_BYTES: f64 = 6.0;
/// Maximum attributes for which new files get columns. Merged files have room for those of several
/// files.
const MAX_CHOSEN: usize = MAX_OWN / 2;
/// Hash multiplier that mixes values into shapes: odd, with many bits set.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The plan for a file. See the module's description.
pub(crate) struct Plan {
    /// Whether frequent values of a name belong to the shape.
    is_shaped: Vec<bool>,
    frequent: Frequent,
    /// Attributes with their own columns, of rows and of shapes.
    pub(crate) own: Vec<Own>,
    pub(crate) shaped: Vec<Own>,
    /// Row attributes with mostly distinct values.
    pub(crate) distinct: Vec<Own>,
}

/// The frequent values of names. Every value of every row is looked up here, so the data is
/// compact.
#[derive(Default)]
struct Frequent {
    values: HashTable<Value>,
    texts: String,
    count: u32,
}

struct Value {
    hash: u64,
    name: u32,
    number: u32,
    /// Offset and length in the texts.
    at: u32,
    len: u32,
}

impl Frequent {
    fn find(&self, name: u32, hash: u64, value: &str) -> Option<u32> {
        let found = self.values.find(hash, |found| found.hash == hash)?;
        let text = &self.texts.as_bytes()[found.at as usize..][..found.len as usize];
        (found.name == name && text == value.as_bytes()).then_some(found.number)
    }

    fn add(&mut self, name: u32, hash: u64, value: &str) {
        // A value whose hash collides with another's, or that does not fit, counts as rare.
        let (Ok(at), Ok(len)) = (u32::try_from(self.texts.len()), u32::try_from(value.len()))
        else {
            return;
        };
        let entry = self.values.entry(hash, |found| found.hash == hash, |found| found.hash);
        if let Entry::Vacant(entry) = entry {
            entry.insert(Value { hash, name, number: self.count, at, len });
            self.texts.push_str(value);
            self.count += 1;
        }
    }
}

/// A name in the sample.
#[derive(Default)]
struct Sampled<'a> {
    /// By the hash of the value: number of rows, and the value.
    values: AHashMap<u64, (u32, &'a str)>,
    /// Rows of the sample, and the hash of each row's value.
    rows: Vec<(u32, u64)>,
}

impl Sampled<'_> {
    fn is_frequent(&self, hash: u64) -> bool {
        self.values.get(&hash).is_some_and(|(rows, _)| *rows >= FREQUENT_ROWS)
    }

    fn frequent_rows(&self) -> u32 {
        self.values.values().map(|(rows, _)| rows).filter(|rows| **rows >= FREQUENT_ROWS).sum()
    }

    /// The bytes column (hexadecimal or UUID) that three quarters of the values fit, and whether
    /// all of them do. Frequent values are only included with `with_frequent`.
    fn digits(&self, with_frequent: bool) -> Option<(OwnType, bool)> {
        let values = self.values.values();
        let values = values.filter(|(rows, _)| with_frequent || *rows < FREQUENT_ROWS);
        let (mut all, mut of_uuid, mut of_hex, mut letters) = (0, 0, 0, 0);
        for (_, text) in values {
            all += 1;
            of_uuid += usize::from(OwnType::Uuid.takes(text));
            of_hex += usize::from(OwnType::Hex.takes(text));
            letters += usize::from(text.bytes().any(|byte| matches!(byte, b'a'..=b'f')));
            if all > LOOKED_AT && of_uuid + of_hex == 0 {
                return None;
            }
        }
        // Decimal numbers consist of hexadecimal digits but are not identifiers.
        let of_hex = if letters * 2 > all { of_hex } else { 0 };
        let (own_type, of_it) = match of_uuid > of_hex {
            true => (OwnType::Uuid, of_uuid),
            false => (OwnType::Hex, of_hex),
        };
        (of_it > 0 && of_it * 4 >= all * 3).then_some((own_type, of_it == all))
    }

    /// Estimate, at best, of the bytes needed to store for each row which frequent value it has.
    fn bytes(&self, all_rows: usize) -> f64 {
        let rows = f64::from(self.frequent_rows());
        let counts = self.values.values().map(|(rows, _)| *rows);
        let counts = counts.filter(|rows| *rows >= FREQUENT_ROWS).map(f64::from);
        let all = all_rows as f64;
        let bits = |count: f64| if count > 0.0 { count * (all / count).log2() } else { 0.0 };
        (counts.map(bits).sum::<f64>() + bits(all - rows)) / 8.0
    }
}

impl Plan {
    /// The plan for the rows at these places. If a layout is given, only its columns are used.
    pub(crate) fn new(rows: &Rows<'_>, places: &[RowPlace], within: Option<&Layout>) -> Self {
        let split = &rows.split;
        let step = places.len().div_ceil(SAMPLE_ROWS).max(1);
        let places: Vec<RowPlace> = places.iter().step_by(step).copied().collect();
        let names = sample(split, &places);
        let mut shapes: Vec<u64> =
            places.iter().map(|&(batch, row)| rows.hashes[batch][row][0]).collect();
        let mut plan = Self {
            is_shaped: vec![false; names.len()],
            frequent: Frequent::default(),
            own: Vec::new(),
            shaped: Vec::new(),
            distinct: Vec::new(),
        };
        let allowed = |own: &Own, columns: fn(&Layout) -> &Vec<Own>| {
            within.is_none_or(|layout| columns(layout).binary_search(own).is_ok())
        };
        let mut order: Vec<(usize, f64)> =
            names.iter().map(|sampled| sampled.bytes(places.len())).enumerate().collect();
        order.sort_by(|one, other| other.1.total_cmp(&one.1));
        let mut distinct = Distinct::default();
        let mut count = distinct.count(&shapes);
        for (number, bytes) in order {
            let (name, sampled) = (&split.names[number], &names[number]);
            let Some(own_type) = OwnType::of_number(name.type_number) else { continue };
            let own = Own { key: name.key.to_owned(), own_type };
            let frequent = sampled.frequent_rows();
            let mut left = sampled.rows.len();
            if frequent > 0
                && frequent as usize * LEAST_FREQUENT as usize >= sampled.rows.len()
                && allowed(&own, |layout| &layout.shaped)
                && plan.shaped.len() < MAX_OWN
            {
                let with = with(&shapes, sampled, number);
                let more = distinct.count(&with);
                if (more - count) as f64 * SHAPE_BYTES <= bytes {
                    (shapes, count) = (with, more);
                    left -= frequent as usize;
                    plan.is_shaped[number] = true;
                    plan.shaped.push(own.clone());
                    for (hash, (_, value)) in
                        sampled.values.iter().filter(|(hash, _)| sampled.is_frequent(**hash))
                    {
                        plan.frequent.add(number as u32, *hash, value);
                    }
                }
            }
            if left == 0 || left * RARE_ROWS < places.len() {
                continue;
            }
            let values = sampled.values.values();
            let rare = values.filter(|(rows, _)| *rows < FREQUENT_ROWS).count();
            let is_text = own_type == OwnType::String;
            let digits = is_text.then(|| sampled.digits(!plan.is_shaped[number])).flatten();
            let of_digits = digits.map(|(own_type, _)| Own { own_type, ..own.clone() });
            let of_digits = of_digits.filter(|own| allowed(own, |layout| &layout.own));
            // Values without the form need another column, if there are any.
            let is_enough = of_digits.is_some() && digits.is_some_and(|(_, all)| all);
            for own in of_digits.into_iter().chain((!is_enough).then_some(own)) {
                if plan.own.len() < MAX_CHOSEN && allowed(&own, |layout| &layout.own) {
                    plan.distinct.extend((rare * 2 >= left).then(|| own.clone()));
                    plan.own.push(own);
                }
            }
        }
        plan
    }

    /// Whether frequent values of a name belong to the shape.
    pub(super) fn is_shaped(&self, name: u32) -> bool {
        self.is_shaped[name as usize]
    }

    /// The number of a value, if it is frequent and belongs to the shape.
    pub(super) fn of_shape(&self, name: u32, hash: u64, value: &str) -> Option<u32> {
        self.frequent.find(name, hash, value)
    }

    /// Number of frequent values.
    pub(super) const fn frequent_values(&self) -> usize {
        self.frequent.count as usize
    }
}

/// The values of every name in some rows, if they can have a column.
fn sample<'a>(split: &Split<'a>, places: &[RowPlace]) -> Vec<Sampled<'a>> {
    let mut names: Vec<Sampled<'a>> = Vec::new();
    names.resize_with(split.names.len(), Sampled::default);
    for (at, &(batch, row)) in (0u32..).zip(places) {
        for attribute in split.row((batch, row)) {
            let number = attribute.slot.name as usize;
            let (name, value) = (&split.names[number], attribute.text);
            let sampled = &mut names[number];
            let again = sampled.rows.last().is_some_and(|(last, _)| *last == at);
            let own_type = OwnType::of_number(name.type_number);
            if again || !own_type.is_some_and(|own_type| own_type.takes(value)) {
                continue;
            }
            let hash = attribute.hash.unwrap_or_else(|| hash_value(name.seed, value));
            sampled.values.entry(hash).or_insert((0, value)).0 += 1;
            sampled.rows.push((at, hash));
        }
    }
    names
}

/// The shapes of the sampled rows after adding this name's values.
fn with(shapes: &[u64], sampled: &Sampled<'_>, name: usize) -> Vec<u64> {
    let mut with = shapes.to_vec();
    for (row, hash) in &sampled.rows {
        if sampled.is_frequent(*hash) {
            let shape = &mut with[*row as usize];
            *shape = fold(*shape ^ hash, STEP.wrapping_add(name as u64));
        }
    }
    with
}

/// Counts distinct numbers and reuses its memory.
#[derive(Default)]
struct Distinct {
    /// Zero means empty.
    seen: Vec<u64>,
}

impl Distinct {
    /// The numbers must be random.
    fn count(&mut self, numbers: &[u64]) -> usize {
        let places = (2 * numbers.len()).next_power_of_two();
        self.seen.clear();
        self.seen.resize(places, 0);
        let mut count = 0;
        for number in numbers.iter().map(|number| number.max(&1)) {
            let mut place = *number as usize % places;
            while self.seen[place] != 0 && self.seen[place] != *number {
                place = (place + 1) % places;
            }
            count += usize::from(self.seen[place] == 0);
            self.seen[place] = *number;
        }
        count
    }
}
