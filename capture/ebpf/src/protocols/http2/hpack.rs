//! HPACK (RFC 7541): header fields of one direction, of which only those that a
//! span shows are kept.
//!
//! Entries of the dynamic table are counted from the newest, so those added
//! since the beginning, or since bytes were lost, are known whatever was in the
//! table before. What refers to older ones is said to be unknown.
//!
//! Unless there is a bridge: how many entries were added unseen can be told from
//! a block that says what an earlier one said, each field as far from the others
//! as it was. To be wrong about that, the whole table would have to have been
//! replaced unseen, by fields in the same order. What rests on it is said to be
//! inferred.

use std::collections::VecDeque;

use super::huffman;

/// Bytes of a value that are kept.
const MAX_VALUE_BYTES: usize = 2048;
/// Size, as the RFC counts it, of the entries that are kept; older ones become
/// unknown where a connection has agreed on more.
const MAX_TABLE_BYTES: usize = 64 * 1024;
/// Size of the table until it is changed (RFC 9113, section 6.5.2).
const USUAL_TABLE_BYTES: usize = 4096;
/// What an entry costs beyond its bytes (RFC 7541, section 4.1).
const ENTRY_BYTES: usize = 32;
/// Longest name that may be one of interest.
const MAX_NAME_BYTES: usize = 32;
/// Entries that a block may refer to, and that may have been added unseen, for
/// these to be told.
const MAX_BRIDGED_FIELDS: usize = 16;
const MAX_BRIDGED_ENTRIES: usize = USUAL_TABLE_BYTES / ENTRY_BYTES;
/// Fields that must agree for a bridge where not all do.
const MIN_AGREEING_FIELDS: usize = 3;
/// How much faster fields may have been added unseen than they were before.
const CAUTION: u64 = 4;

/// These bytes are no header block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// A field that a span shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Method,
    Scheme,
    Authority,
    Path,
    Status,
    Host,
    ContentType,
    ContentLength,
    UserAgent,
    GrpcStatus,
    GrpcMessage,
    GrpcTimeout,
    /// A trace header: this name, in [`TRACE_HEADERS`].
    Trace(usize),
    /// The name refers to what was not seen; the value is a short number.
    Unnamed,
    /// All of the field refers to what was not seen.
    Unseen,
}

/// How much of a block's fields is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Knowledge {
    /// All.
    #[default]
    Known,
    /// All, some by inference.
    Inferred,
    /// Some are not.
    Partial,
}

const NAMES: [(&str, Name); 12] = [
    (":method", Name::Method),
    (":scheme", Name::Scheme),
    (":authority", Name::Authority),
    (":path", Name::Path),
    (":status", Name::Status),
    ("host", Name::Host),
    ("content-type", Name::ContentType),
    ("content-length", Name::ContentLength),
    ("user-agent", Name::UserAgent),
    ("grpc-status", Name::GrpcStatus),
    ("grpc-message", Name::GrpcMessage),
    ("grpc-timeout", Name::GrpcTimeout),
];

/// Names of the fields that name traces.
pub(super) const TRACE_HEADERS: [&str; 6] =
    ["traceparent", "tracestate", "b3", "x-b3-traceid", "x-b3-spanid", "x-request-id"];

/// RFC 7541, appendix A.
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// What is known of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Known(Name),
    /// Known, and of no interest.
    Other,
    /// It refers to what was not seen.
    Unknown,
}

impl Named {
    fn of(name: &[u8]) -> Self {
        if let Some((_, known)) = NAMES.iter().find(|(text, _)| text.as_bytes() == name) {
            return Self::Known(*known);
        }
        let trace = TRACE_HEADERS.iter().position(|text| text.as_bytes() == name);
        trace.map_or(Self::Other, |at| Self::Known(Name::Trace(at)))
    }
}

/// A field in the dynamic table.
#[derive(Debug)]
struct Entry {
    name: Named,
    name_bytes: usize,
    /// As the RFC counts it.
    size: usize,
    /// Empty where the name is of no interest, or where it was not seen.
    value: Box<[u8]>,
    /// Counts those that were seen.
    number: u64,
    /// Its place is inferred.
    inferred: bool,
}

/// Stands for a value without a name that is no short number.
const NO_NUMBER: &[u8] = b"-";

/// A string: its bytes, coded or not.
#[derive(Debug, Clone, Copy)]
struct Text<'a> {
    bytes: &'a [u8],
    coded: bool,
}

impl Text<'_> {
    fn decode(self, limit: usize, to: &mut Vec<u8>) -> Result<(), Malformed> {
        to.clear();
        if self.coded {
            return huffman::decode(self.bytes, limit, to);
        }
        to.extend_from_slice(&self.bytes[..self.bytes.len().min(limit)]);
        Ok(())
    }

    /// The fewest bytes that it may stand for.
    const fn least_bytes(self) -> usize {
        if self.coded { self.bytes.len() * 8 / huffman::MAX_BITS } else { self.bytes.len() }
    }

    /// The most.
    const fn most_bytes(self) -> usize {
        if self.coded { self.bytes.len() * 8 / huffman::MIN_BITS } else { self.bytes.len() }
    }
}

/// Why a block cannot be read on.
enum Stop {
    /// It ends here.
    End,
    Malformed,
}

impl From<Malformed> for Stop {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Reads the header blocks of one direction.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The newest first.
    entries: VecDeque<Entry>,
    /// Sum of their sizes.
    size: usize,
    limit: usize,
    /// No entry is missing behind the last one.
    whole: bool,
    /// Bytes of the values kept.
    held: usize,
    /// Entries that were added after an unknown number of others; those behind
    /// them are older.
    gap: Option<usize>,
    next_number: u64,
    /// The entries that the last block referred to and added.
    block: Vec<u64>,
    /// Those of the last block that was called usual.
    usual: Vec<u64>,
    /// Bytes that passed and were read, what they added to the table, and bytes
    /// that passed in the gap.
    read_bytes: u64,
    added_bytes: u64,
    gap_bytes: u64,
}

impl Decoder {
    /// A decoder that knows nothing of what was said before.
    pub(super) const fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            size: 0,
            limit: USUAL_TABLE_BYTES,
            whole: false,
            held: 0,
            gap: None,
            next_number: 0,
            block: Vec::new(),
            usual: Vec::new(),
            read_bytes: 0,
            added_bytes: 0,
            gap_bytes: 0,
        }
    }

    /// The connection begins here.
    pub(super) fn fresh(&mut self) {
        *self = Self { whole: true, ..Self::new() };
    }

    /// Fields may have been added that were not seen.
    pub(super) fn lose(&mut self) {
        *self = Self { limit: self.limit, next_number: self.next_number, ..Self::new() };
    }

    /// As [`Self::lose`], but a bridge to what was before may be found.
    pub(super) fn lose_sight(&mut self) {
        // What is behind two gaps is out of reach.
        while self.gap.is_some_and(|fresh| fresh > 0 && self.entries.len() > fresh) {
            self.drop_oldest();
        }
        self.whole = false;
        self.gap = Some(0);
    }

    /// Bytes of the direction have passed, read or unseen.
    pub(super) const fn passed(&mut self, bytes: u64, seen: bool) {
        let count = if seen { &mut self.read_bytes } else { &mut self.gap_bytes };
        *count = count.saturating_add(bytes);
    }

    /// The last block is what others nearly always are.
    pub(super) fn is_usual(&mut self) {
        self.usual.clone_from(&self.block);
    }

    /// Looks for a bridge in a block before it is read. `same` where it can be
    /// nothing but the usual one; otherwise one of its fields may be another.
    pub(super) fn bridge(&mut self, block: &[u8], same: bool) -> bool {
        let Some(fresh) = self.gap.filter(|fresh| *fresh < self.entries.len()) else {
            return false;
        };
        let Some(places) = references(block).filter(|all| all.len() == self.usual.len()) else {
            return false;
        };
        // For each field, how many entries it says were added.
        let place = |number: u64| self.entries.iter().position(|entry| entry.number == number);
        let fields: Vec<Option<usize>> = places
            .iter()
            .zip(&self.usual)
            .filter_map(|(now, usual)| Some((now.filter(|now| *now >= fresh)?, place(*usual)?)))
            .map(|(now, before)| now.checked_sub(before))
            .collect();
        let agreeing = |added: &usize| fields.iter().filter(|f| **f == Some(*added)).count();
        let Some(added) = fields.iter().flatten().copied().max_by_key(agreeing) else {
            return false;
        };
        let count = agreeing(&added);
        let agrees = if same {
            count == self.usual.len()
        } else {
            count >= MIN_AGREEING_FIELDS
                && count + 1 >= fields.len()
                && self.is_too_small_a_gap_to_replace_the_table()
        };
        if !agrees || added > MAX_BRIDGED_ENTRIES {
            return false;
        }
        self.entries.range_mut(fresh..).for_each(|entry| entry.inferred = true);
        let unknown = |_| Entry {
            name: Named::Unknown,
            name_bytes: 0,
            size: ENTRY_BYTES,
            value: Box::default(),
            number: u64::MAX,
            inferred: true,
        };
        let old = self.entries.split_off(fresh);
        self.entries.extend((0..added).map(unknown));
        self.entries.extend(old);
        self.size += added * ENTRY_BYTES;
        self.gap = None;
        self.gap_bytes = 0;
        self.evict();
        true
    }

    /// Judged by how fast fields were added before, and some times that.
    fn is_too_small_a_gap_to_replace_the_table(&self) -> bool {
        let added = self.gap_bytes.saturating_mul(self.added_bytes).saturating_mul(CAUTION);
        added <= (self.limit as u64).saturating_mul(self.read_bytes)
    }

    /// Bytes that it holds.
    pub(super) fn held_bytes(&self) -> usize {
        let numbers = (self.block.capacity() + self.usual.capacity()) * size_of::<u64>();
        self.held + self.entries.capacity() * size_of::<Entry>() + numbers
    }

    /// Reads a header block, calling `each` with the fields of interest. `cut`
    /// where its end is missing: what it adds to the table is then not known.
    pub(super) fn decode(
        &mut self,
        block: &[u8],
        cut: bool,
        mut each: impl FnMut(Name, &[u8]),
    ) -> Result<Knowledge, Malformed> {
        let mut known = if cut { Knowledge::Partial } else { Knowledge::Known };
        let (mut rest, mut value) = (block, Vec::new());
        self.block.clear();
        while !rest.is_empty() {
            match self.field(&mut rest, &mut value, &mut each) {
                Ok(field) => known = known.max(field),
                Err(Stop::End) if cut => break,
                Err(_) => {
                    self.lose();
                    return Err(Malformed);
                }
            }
        }
        Ok(known)
    }

    fn refers(&mut self, number: u64) {
        if self.block.len() < MAX_BRIDGED_FIELDS {
            self.block.push(number);
        }
    }

    /// Reads a field (RFC 7541, section 6).
    fn field(
        &mut self,
        rest: &mut &[u8],
        value: &mut Vec<u8>,
        each: &mut impl FnMut(Name, &[u8]),
    ) -> Result<Knowledge, Stop> {
        let first = rest[0];
        if first & 0x80 != 0 {
            let index = integer(rest, 7)?;
            return Ok(self.indexed(index, each)?);
        }
        if first & 0xe0 == 0x20 {
            let limit = integer(rest, 5)?;
            self.resize(limit);
            return Ok(Knowledge::Known);
        }
        let indexed = first & 0x40 != 0;
        let index = integer(rest, if indexed { 6 } else { 4 })?;
        let (name, name_bytes, known) = if index == 0 {
            let text = string(rest)?;
            text.decode(MAX_NAME_BYTES + 1, value)?;
            (Named::of(value), value.len(), Knowledge::Known)
        } else {
            self.name(index)?
        };
        let text = string(rest)?;
        value.clear();
        let value_bytes = match name {
            Named::Known(name) => {
                text.decode(MAX_VALUE_BYTES, value)?;
                each(name, value);
                value.len()
            }
            Named::Unknown => {
                text.decode(3, value)?;
                if is_short_number(value) {
                    each(Name::Unnamed, value);
                } else {
                    value.clear();
                    value.extend_from_slice(NO_NUMBER);
                }
                text.least_bytes()
            }
            Named::Other => text.least_bytes(),
        };
        if indexed {
            // What is not kept may be longer. That leaves entries here for longer
            // than at the other end, where nothing refers to them any more.
            let size = name_bytes + value_bytes + ENTRY_BYTES;
            let (value, number) = (value.as_slice().into(), self.next_number);
            let inferred = known == Knowledge::Inferred;
            self.next_number += 1;
            self.insert(Entry { name, name_bytes, size, value, number, inferred });
            self.refers(number);
            let most_bytes = name_bytes + text.most_bytes() + ENTRY_BYTES;
            self.added_bytes = self.added_bytes.saturating_add(most_bytes as u64);
        }
        Ok(known)
    }

    fn indexed(
        &mut self,
        index: u64,
        each: &mut impl FnMut(Name, &[u8]),
    ) -> Result<Knowledge, Malformed> {
        let at = usize::try_from(index).map_err(|_| Malformed)?.checked_sub(1).ok_or(Malformed)?;
        if let Some((name, value)) = STATIC.get(at) {
            if let Named::Known(name) = Named::of(name.as_bytes()) {
                each(name, value.as_bytes());
            }
            return Ok(Knowledge::Known);
        }
        let at = at - STATIC.len();
        let Some(entry) = self.entry(at)? else {
            each(Name::Unseen, b"");
            return Ok(Knowledge::Partial);
        };
        match entry.name {
            Named::Known(name) => each(name, &entry.value),
            Named::Unknown if entry.value.is_empty() => each(Name::Unseen, b""),
            Named::Unknown if *entry.value != *NO_NUMBER => each(Name::Unnamed, &entry.value),
            Named::Unknown | Named::Other => {}
        }
        let (known, number) = (entry.knowledge(), entry.number);
        self.refers(number);
        Ok(known)
    }

    /// The entry at this place; `None` where it is not known.
    fn entry(&self, at: usize) -> Result<Option<&Entry>, Malformed> {
        if self.gap.is_some_and(|fresh| at >= fresh) {
            return Ok(None);
        }
        match self.entries.get(at) {
            None if self.whole => Err(Malformed),
            found => Ok(found),
        }
    }

    /// The name of an entry, and how long it is.
    fn name(&self, index: u64) -> Result<(Named, usize, Knowledge), Malformed> {
        let at = usize::try_from(index).map_err(|_| Malformed)?.checked_sub(1).ok_or(Malformed)?;
        if let Some((name, _)) = STATIC.get(at) {
            return Ok((Named::of(name.as_bytes()), name.len(), Knowledge::Known));
        }
        Ok(match self.entry(at - STATIC.len())? {
            Some(entry) => (entry.name, entry.name_bytes, entry.knowledge()),
            None => (Named::Unknown, 0, Knowledge::Partial),
        })
    }

    fn insert(&mut self, entry: Entry) {
        self.size += entry.size;
        self.held += entry.value.len();
        self.entries.push_front(entry);
        if let Some(fresh) = &mut self.gap {
            *fresh += 1;
        }
        self.evict();
    }

    fn resize(&mut self, limit: u64) {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.limit = limit.min(MAX_TABLE_BYTES);
        self.evict();
        // An empty table has nothing unknown in it.
        self.gap = self.gap.filter(|_| limit > 0);
        self.whole = (self.whole || limit == 0) && limit <= MAX_TABLE_BYTES;
    }

    fn evict(&mut self) {
        while self.size > self.limit && !self.entries.is_empty() {
            self.drop_oldest();
        }
        self.gap = self.gap.map(|fresh| fresh.min(self.entries.len()));
    }

    fn drop_oldest(&mut self) {
        if let Some(entry) = self.entries.pop_back() {
            self.size -= entry.size;
            self.held -= entry.value.len();
        }
    }
}

impl Entry {
    fn knowledge(&self) -> Knowledge {
        match self.name {
            Named::Unknown => Knowledge::Partial,
            _ if self.inferred => Knowledge::Inferred,
            _ => Knowledge::Known,
        }
    }
}

fn is_short_number(value: &[u8]) -> bool {
    matches!(value.len(), 1 | 2) && value.iter().all(u8::is_ascii_digit)
}

/// An integer whose first byte has a prefix of this many bits (RFC 7541,
/// section 5.1).
fn integer(rest: &mut &[u8], prefix: u32) -> Result<u64, Stop> {
    let (first, after) = rest.split_first().ok_or(Stop::End)?;
    *rest = after;
    let most = (1_u64 << prefix) - 1;
    let mut number = u64::from(*first) & most;
    if number < most {
        return Ok(number);
    }
    // Four more bytes say more than any table or string has.
    for shift in [0, 7, 14, 21] {
        let (byte, after) = rest.split_first().ok_or(Stop::End)?;
        *rest = after;
        number += u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Stop::Malformed)
}

/// For each field that a block refers to in the dynamic table, or adds to it: its
/// place there before the block, or none. `None` where the block changes the table
/// in another way.
fn references(block: &[u8]) -> Option<Vec<Option<usize>>> {
    let (mut rest, mut places, mut added) = (block, Vec::new(), 0);
    while let Some(first) = rest.first().copied() {
        if places.len() == MAX_BRIDGED_FIELDS {
            break;
        }
        if first & 0x80 != 0 {
            let index = usize::try_from(integer(&mut rest, 7).ok()?).ok()?;
            if let Some(place) = index.checked_sub(STATIC.len() + 1) {
                places.push(place.checked_sub(added));
            }
            continue;
        }
        if first & 0xe0 == 0x20 {
            return None;
        }
        let adds = first & 0x40 != 0;
        if integer(&mut rest, if adds { 6 } else { 4 }).ok()? == 0 {
            string(&mut rest).ok()?;
        }
        string(&mut rest).ok()?;
        if adds {
            places.push(None);
            added += 1;
        }
    }
    Some(places)
}

/// RFC 7541, section 5.2.
fn string<'a>(rest: &mut &'a [u8]) -> Result<Text<'a>, Stop> {
    let coded = rest.first().ok_or(Stop::End)? & 0x80 != 0;
    let length = usize::try_from(integer(rest, 7)?).map_err(|_| Stop::Malformed)?;
    let (bytes, after) = rest.split_at_checked(length).ok_or(Stop::End)?;
    *rest = after;
    Ok(Text { bytes, coded })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    fn read(decoder: &mut Decoder, block: &[u8], cut: bool) -> Result<(String, bool), Malformed> {
        let (found, known) = learn(decoder, block, cut)?;
        Ok((found, known == Knowledge::Partial))
    }

    fn learn(
        decoder: &mut Decoder,
        block: &[u8],
        cut: bool,
    ) -> Result<(String, Knowledge), Malformed> {
        let mut found = String::new();
        let known = decoder.decode(block, cut, |name, value| match name {
            Name::Unseen => {}
            _ => found += &format!("{name:?}={} ", String::from_utf8_lossy(value)),
        })?;
        Ok((found.trim_end().to_owned(), known))
    }

    fn fresh() -> Decoder {
        let mut decoder = Decoder::new();
        decoder.fresh();
        decoder
    }

    /// RFC 7541, appendices C.3 and C.4.
    #[test]
    fn the_requests_of_the_rfc_are_read_coded_and_plain() {
        let plain = [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ];
        let coded = [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ];
        for blocks in [plain, coded] {
            let mut decoder = fresh();
            let read: Vec<_> = blocks
                .iter()
                .map(|block| read(&mut decoder, &hex(block), false).unwrap())
                .collect();
            let paths =
                ["Scheme=http Path=/", "Scheme=http Path=/", "Scheme=https Path=/index.html"];
            for (read, path) in read.iter().zip(paths) {
                let expected = format!("Method=GET {path} Authority=www.example.com");
                assert_eq!(*read, (expected, false));
            }
            assert_eq!(decoder.entries.len(), 3);
        }
    }

    /// RFC 7541, appendices C.5 and C.6: the table has 256 bytes, and entries are
    /// evicted.
    #[test]
    fn the_responses_of_the_rfc_are_read_coded_and_plain() {
        let plain = [
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133
             2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70
             6c65 2e63 6f6d",
            "4803 3330 37c1 c0bf",
        ];
        let coded = [
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6
             2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
            "4883 640e ffc1 c0bf",
        ];
        for blocks in [plain, coded] {
            let mut decoder = fresh();
            decoder.resize(256);
            assert_eq!(
                read(&mut decoder, &hex(blocks[0]), false),
                Ok(("Status=302".to_owned(), false))
            );
            assert_eq!(
                read(&mut decoder, &hex(blocks[1]), false),
                Ok(("Status=307".to_owned(), false))
            );
        }
    }

    #[test]
    fn a_decoder_that_came_late_knows_what_was_added_since_and_guesses_nothing() {
        let mut late = Decoder::new();
        // POST, then an index that refers to before.
        let unknown = read(&mut late, b"\x83\x86\xbe", false);
        assert_eq!(unknown, Ok(("Method=POST Scheme=http".to_owned(), true)));
        // A path is added: from now on it is known, and what is behind it is not.
        assert_eq!(read(&mut late, b"\x44\x02/a", false), Ok(("Path=/a".to_owned(), false)));
        assert_eq!(read(&mut late, b"\xbe", false), Ok(("Path=/a".to_owned(), false)));
        assert_eq!(read(&mut late, b"\xbf", false), Ok((String::new(), true)));
        // A value whose name is unknown.
        assert_eq!(read(&mut late, b"\x7f\x05\x01x", false), Ok((String::new(), true)));
        assert_eq!(read(&mut late, b"\xbe", false), Ok((String::new(), true)));
        assert_eq!(read(&mut late, b"\xbf", false), Ok(("Path=/a".to_owned(), false)));
    }

    #[test]
    fn a_table_that_was_emptied_is_known() {
        let mut late = Decoder::new();
        assert_eq!(read(&mut late, b"\xbe", false), Ok((String::new(), true)));
        read(&mut late, b"\x20\x3f\xe1\x1f", false).unwrap();
        assert_eq!(late.limit, 4096);
        assert_eq!(read(&mut late, b"\xbe", false), Err(Malformed));
    }

    #[test]
    fn a_block_that_was_cut_gives_what_is_there() {
        let mut decoder = fresh();
        read(&mut decoder, b"\x44\x02/a", false).unwrap();
        let cut = read(&mut decoder, b"\x83\xbe\x41\x10shop", true);
        assert_eq!(cut, Ok(("Method=POST Path=/a".to_owned(), true)));
        decoder.lose();
        assert_eq!(read(&mut decoder, b"\xbe", false), Ok((String::new(), true)));
    }

    /// A response's head, its trailers, and what refers to them.
    fn call(decoder: &mut Decoder) {
        read(decoder, b"\x88\x5f\x10application/grpc", false).unwrap();
        decoder.is_usual();
        read(decoder, b"\x40\x0bgrpc-status\x010\x40\x0cgrpc-message\x00", false).unwrap();
    }

    #[test]
    fn over_a_gap_a_usual_block_is_a_bridge() {
        let mut decoder = fresh();
        call(&mut decoder);
        assert_eq!(learn(&mut decoder, b"\xbf\xbe", false).unwrap().0, "GrpcStatus=0 GrpcMessage=");
        decoder.lose_sight();
        assert_eq!(read(&mut decoder, b"\xbf\xbe", false), Ok((String::new(), true)));
        // Two entries were added unseen, and one that is seen.
        read(&mut decoder, b"\x40\x01x\x01y", false).unwrap();
        assert!(decoder.bridge(b"\x88\xc3", true));
        assert_eq!(
            learn(&mut decoder, b"\xc2\xc1", false),
            Ok(("GrpcStatus=0 GrpcMessage=".to_owned(), Knowledge::Inferred))
        );
        assert_eq!(read(&mut decoder, b"\xc0\xbf", false), Ok((String::new(), true)));
        assert_eq!(learn(&mut decoder, b"\xbe", false).unwrap().1, Knowledge::Known);
        // What is added with such a name is inferred, too.
        let named = learn(&mut decoder, b"\x7f\x03\x015", false);
        assert_eq!(named, Ok(("GrpcStatus=5".to_owned(), Knowledge::Inferred)));
        // Nothing is reached over two gaps.
        decoder.lose_sight();
        read(&mut decoder, b"\x40\x01x\x01y", false).unwrap();
        decoder.lose_sight();
        assert!(!decoder.bridge(b"\x88\xc3", true));
    }

    #[test]
    fn an_unusual_block_is_no_bridge() {
        for block in [b"\x88\xc4\xbf".as_slice(), b"\x88\xbe", b"\x88", b"\x20\x88\xc3"] {
            let mut decoder = fresh();
            call(&mut decoder);
            read(&mut decoder, b"\x40\x01x\x01y", false).unwrap();
            decoder.lose_sight();
            assert!(!decoder.bridge(block, true), "{}", block.escape_ascii());
        }
    }

    /// Requests for `/a` by a client that adds an own field to each.
    fn requests(count: usize) -> Decoder {
        let mut decoder = fresh();
        let first = b"\x83\x86\x44\x02/a\x41\x01h\x5f\x01t\x7a\x02ua\x40\x01n\x01x";
        read(&mut decoder, first, false).unwrap();
        for number in 1..count {
            let at = 62 + number as u8;
            let block = [0x83, 0x86, 0x83 + at, 0x82 + at, 0x81 + at, 0x80 + at, 0x40, 1, b'n', 0];
            let read = read(&mut decoder, &block, false).unwrap().0;
            assert_eq!(
                read,
                "Method=POST Scheme=http Path=/a Authority=h ContentType=t UserAgent=ua"
            );
            decoder.passed(100, true);
        }
        decoder.is_usual();
        decoder
    }

    #[test]
    fn over_a_small_gap_a_request_is_a_bridge_whatever_it_asks_for() {
        for (path, found) in [(0x83, "Path=/a "), (0x80 - 3, "")] {
            let mut decoder = requests(9);
            decoder.lose_sight();
            // Four were added unseen.
            let at = 62 + 9 + 4;
            let block = [0x83, 0x86, path + at, 0x82 + at, 0x81 + at, 0x80 + at, 0x40, 1, b'n', 0];
            assert!(decoder.bridge(&block, false));
            let known = learn(&mut decoder, &block, false).unwrap().0;
            let expected = format!("Scheme=http {found}Authority=h ContentType=t UserAgent=ua");
            assert!(known.ends_with(&expected), "{known}");
        }
    }

    #[test]
    fn over_a_gap_that_may_have_replaced_the_table_there_is_no_bridge() {
        let at = 62 + 9;
        let asked = |places: [u8; 4]| [&[0x83, 0x86], &places[..], &[0x40, 1, b'n', 0]].concat();
        let same = asked([0x83 + at, 0x82 + at, 0x81 + at, 0x80 + at]);
        for (unseen, bridged) in [(500, true), (50_000, false)] {
            let mut decoder = requests(9);
            decoder.lose_sight();
            decoder.passed(unseen, false);
            assert_eq!(decoder.bridge(&same, false), bridged, "{unseen} bytes");
        }
        // Too few agree, all in another order, nearer than they were, others.
        let mut decoder = requests(9);
        decoder.lose_sight();
        assert!(!decoder.bridge(&asked([0x83 + at, 0x82 + at, 0x90 + at, 0x91 + at]), false));
        assert!(!decoder.bridge(&asked([0x80 + at, 0x81 + at, 0x82 + at, 0x83 + at]), false));
        assert!(!decoder.bridge(&asked([0xc3, 0xc2, 0xc1, 0xc0]), false));
        assert!(!decoder.bridge(&same[..6], false));
    }

    #[test]
    fn a_number_whose_name_is_unknown_is_told() {
        let mut late = Decoder::new();
        assert_eq!(
            read(&mut late, b"\x7f\x05\x015\x7f\x05\x04long", false),
            Ok(("Unnamed=5".to_owned(), true))
        );
        assert_eq!(read(&mut late, b"\xbf\xbe", false), Ok(("Unnamed=5".to_owned(), true)));
    }

    #[test]
    fn what_is_no_block_is_malformed() {
        let blocks: [&[u8]; 6] = [
            b"\x80",
            b"\xbe",
            b"\x44\x05/a",
            b"\xff\xff\xff\xff\xff\xff",
            b"\x40\x81\x00",
            b"\x44",
        ];
        for block in blocks {
            assert_eq!(read(&mut fresh(), block, false), Err(Malformed), "{block:?}");
        }
    }

    #[test]
    fn secrets_are_never_held_and_the_table_is_bounded() {
        let mut decoder = fresh();
        read(&mut decoder, b"\x57\x07hunter2\x60\x07hunter2", false).unwrap();
        assert!(!format!("{decoder:?}").contains(&format!("{:?}", b"hunter2")));
        decoder.resize(u64::MAX);
        for _ in 0..10_000 {
            read(&mut decoder, b"\x44\x02/a\x40\x01x\x00", false).unwrap();
        }
        assert!(decoder.size <= MAX_TABLE_BYTES);
        assert!(decoder.held_bytes() < 4 * MAX_TABLE_BYTES, "{}", decoder.held_bytes());
    }
}
