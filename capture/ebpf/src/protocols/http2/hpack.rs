//! HPACK (RFC 7541): header fields of one direction, of which only those that a
//! span shows are kept.
//!
//! Entries of the dynamic table are counted from the newest, so those added
//! since the beginning, or since bytes were lost, are known whatever was in the
//! table before. What refers to older ones is said to be unknown.

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
    /// Empty where the name is of no interest.
    value: Box<[u8]>,
}

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
}

impl Decoder {
    /// A decoder that knows nothing of what was said before.
    pub(super) const fn new() -> Self {
        Self { entries: VecDeque::new(), size: 0, limit: USUAL_TABLE_BYTES, whole: false, held: 0 }
    }

    /// The connection begins here.
    pub(super) fn fresh(&mut self) {
        *self = Self { whole: true, ..Self::new() };
    }

    /// Fields may have been added that were not seen.
    pub(super) fn lose(&mut self) {
        *self = Self { limit: self.limit, ..Self::new() };
    }

    /// Bytes that it holds.
    pub(super) fn held_bytes(&self) -> usize {
        self.held + self.entries.capacity() * size_of::<Entry>()
    }

    /// Reads a header block, calling `each` with the fields of interest. `cut`
    /// where its end is missing. Returns whether fields were unknown.
    pub(super) fn decode(
        &mut self,
        block: &[u8],
        cut: bool,
        mut each: impl FnMut(Name, &[u8]),
    ) -> Result<bool, Malformed> {
        let (mut rest, mut partial) = (block, cut);
        let mut value = Vec::new();
        while !rest.is_empty() {
            match self.field(&mut rest, &mut value, &mut each) {
                Ok(known) => partial |= !known,
                Err(Stop::End) if cut => break,
                Err(_) => {
                    self.lose();
                    return Err(Malformed);
                }
            }
        }
        if cut {
            self.lose();
        }
        Ok(partial)
    }

    /// Reads a field (RFC 7541, section 6); `false` where it is unknown.
    fn field(
        &mut self,
        rest: &mut &[u8],
        value: &mut Vec<u8>,
        each: &mut impl FnMut(Name, &[u8]),
    ) -> Result<bool, Stop> {
        let first = rest[0];
        if first & 0x80 != 0 {
            let index = integer(rest, 7)?;
            return Ok(self.indexed(index, each)?);
        }
        if first & 0xe0 == 0x20 {
            let limit = integer(rest, 5)?;
            self.resize(limit);
            return Ok(true);
        }
        let indexed = first & 0x40 != 0;
        let index = integer(rest, if indexed { 6 } else { 4 })?;
        let (name, name_bytes) = if index == 0 {
            let text = string(rest)?;
            text.decode(MAX_NAME_BYTES + 1, value)?;
            (Named::of(value), value.len())
        } else {
            self.name(index)?
        };
        let text = string(rest)?;
        value.clear();
        let value_bytes = match name {
            Named::Known(known) => {
                text.decode(MAX_VALUE_BYTES, value)?;
                each(known, value);
                value.len()
            }
            _ => text.least_bytes(),
        };
        if indexed {
            // What is not kept may be longer. That leaves entries here for longer
            // than at the other end, where nothing refers to them any more.
            let size = name_bytes + value_bytes + ENTRY_BYTES;
            let kept = value.as_slice().into();
            self.insert(Entry { name, name_bytes, size, value: kept });
        }
        Ok(name != Named::Unknown)
    }

    fn indexed(&self, index: u64, each: &mut impl FnMut(Name, &[u8])) -> Result<bool, Malformed> {
        let at = usize::try_from(index).map_err(|_| Malformed)?.checked_sub(1).ok_or(Malformed)?;
        if let Some((name, value)) = STATIC.get(at) {
            if let Named::Known(name) = Named::of(name.as_bytes()) {
                each(name, value.as_bytes());
            }
            return Ok(true);
        }
        match self.entries.get(at - STATIC.len()) {
            Some(Entry { name: Named::Known(name), value, .. }) => {
                each(*name, value);
                Ok(true)
            }
            Some(entry) => Ok(entry.name != Named::Unknown),
            None if self.whole => Err(Malformed),
            None => Ok(false),
        }
    }

    /// The name of an entry, and how long it is.
    fn name(&self, index: u64) -> Result<(Named, usize), Malformed> {
        let at = usize::try_from(index).map_err(|_| Malformed)?.checked_sub(1).ok_or(Malformed)?;
        if let Some((name, _)) = STATIC.get(at) {
            return Ok((Named::of(name.as_bytes()), name.len()));
        }
        match self.entries.get(at - STATIC.len()) {
            Some(entry) => Ok((entry.name, entry.name_bytes)),
            None if self.whole => Err(Malformed),
            None => Ok((Named::Unknown, 0)),
        }
    }

    fn insert(&mut self, entry: Entry) {
        self.size += entry.size;
        self.held += entry.value.len();
        self.entries.push_front(entry);
        self.evict();
    }

    fn resize(&mut self, limit: u64) {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.limit = limit.min(MAX_TABLE_BYTES);
        self.evict();
        // An empty table has nothing unknown in it.
        self.whole = (self.whole || limit == 0) && limit <= MAX_TABLE_BYTES;
    }

    fn evict(&mut self) {
        while self.size > self.limit
            && let Some(entry) = self.entries.pop_back()
        {
            self.size -= entry.size;
            self.held -= entry.value.len();
        }
    }
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
        let mut found = String::new();
        let partial = decoder.decode(block, cut, |name, value| {
            found += &format!("{name:?}={} ", String::from_utf8_lossy(value));
        })?;
        Ok((found.trim_end().to_owned(), partial))
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
    fn a_block_that_was_cut_gives_what_is_there_and_forgets_the_table() {
        let mut decoder = fresh();
        read(&mut decoder, b"\x44\x02/a", false).unwrap();
        let cut = read(&mut decoder, b"\x83\xbe\x41\x10shop", true);
        assert_eq!(cut, Ok(("Method=POST Path=/a".to_owned(), true)));
        assert_eq!(read(&mut decoder, b"\xbe", false), Ok((String::new(), true)));
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
