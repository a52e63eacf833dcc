//! HPACK (RFC 7541): header fields of one direction, of which only those that a
//! span shows are kept.

use super::names::{Name, Named, STATIC, STATIC_NUMBERS, number_of};
use super::table::{ENTRY_BYTES, Entry, Field, Knowledge, MAX_BRIDGED_FIELDS, Shape, Table};
use super::{Malformed, huffman};

/// Bytes of a value that are kept.
const MAX_VALUE_BYTES: usize = 2048;
/// Longest name that may be one of interest.
const MAX_NAME_BYTES: usize = 64;

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
    pub(super) table: Table,
}

impl Decoder {
    /// A decoder that knows nothing of what was said before.
    pub(super) const fn new() -> Self {
        Self { table: Table::new() }
    }

    /// Looks for what was not seen in a block that is going to be read: see
    /// [`Table::bridge`].
    pub(super) fn bridge(&mut self, block: &[u8], shape: Shape) -> bool {
        self.table.has_gap()
            && fields(block).is_some_and(|fields| self.table.bridge(&fields, shape))
    }

    /// Reads a header block, calling `each` with the fields of interest, among them headers that
    /// are `wanted`, always the same ones. `cut` where its end is missing: what it adds to the
    /// table is then not known.
    pub(super) fn decode(
        &mut self,
        block: &[u8],
        cut: bool,
        wanted: &[String],
        mut each: impl FnMut(Name, &[u8]),
    ) -> Result<Knowledge, Malformed> {
        let mut known = if cut { Knowledge::Partial } else { Knowledge::Known };
        let (mut rest, mut value) = (block, Vec::new());
        self.table.begin_block();
        while !rest.is_empty() {
            match self.field(&mut rest, &mut value, wanted, &mut each) {
                Ok(field) => known = known.max(field),
                Err(Stop::End) if cut => break,
                Err(_) => {
                    self.table.lose();
                    return Err(Malformed);
                }
            }
        }
        Ok(known)
    }

    /// Reads a field (RFC 7541, section 6).
    fn field(
        &mut self,
        rest: &mut &[u8],
        value: &mut Vec<u8>,
        wanted: &[String],
        each: &mut impl FnMut(Name, &[u8]),
    ) -> Result<Knowledge, Stop> {
        let first = rest[0];
        if first & 0x80 != 0 {
            let index = integer(rest, 7)?;
            return Ok(self.indexed(index, wanted, each)?);
        }
        if first & 0xe0 == 0x20 {
            let limit = integer(rest, 5)?;
            self.table.resize(limit);
            return Ok(Knowledge::Known);
        }
        let indexed = first & 0x40 != 0;
        let index = integer(rest, if indexed { 6 } else { 4 })?;
        let OfName { name, name_bytes, number, known } = if index == 0 {
            let text = string(rest)?;
            text.decode(MAX_NAME_BYTES + 1, value)?;
            OfName::literal(value, wanted)
        } else {
            self.name(index, wanted)?
        };
        self.table.says(number);
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
            let inferred = known == Knowledge::Inferred;
            let value = value.as_slice().into();
            let entry = Entry { name, name_bytes, size, value, name_number: number, inferred };
            self.table.insert(entry, name_bytes + text.most_bytes() + ENTRY_BYTES);
        }
        Ok(known)
    }

    fn indexed(
        &mut self,
        index: u64,
        wanted: &[String],
        each: &mut impl FnMut(Name, &[u8]),
    ) -> Result<Knowledge, Malformed> {
        let at = usize::try_from(index).map_err(|_| Malformed)?.checked_sub(1).ok_or(Malformed)?;
        if let Some((name, value)) = STATIC.get(at) {
            if let Named::Known(name) = Named::of(name.as_bytes(), wanted) {
                each(name, value.as_bytes());
            }
            self.table.says(STATIC_NUMBERS[at]);
            return Ok(Knowledge::Known);
        }
        let at = at - STATIC.len();
        let Some(entry) = self.table.entry(at)? else {
            each(Name::Unseen, b"");
            self.table.says(0);
            return Ok(Knowledge::Partial);
        };
        match entry.name {
            Named::Known(name) => each(name, &entry.value),
            Named::Unknown if entry.value.is_empty() => each(Name::Unseen, b""),
            Named::Unknown if *entry.value != *NO_NUMBER => each(Name::Unnamed, &entry.value),
            Named::Unknown | Named::Other => {}
        }
        let (known, number) = (entry.knowledge(), entry.name_number);
        self.table.says(number);
        Ok(known)
    }

    /// The name of an entry.
    fn name(&self, index: u64, wanted: &[String]) -> Result<OfName, Malformed> {
        let at = usize::try_from(index).map_err(|_| Malformed)?.checked_sub(1).ok_or(Malformed)?;
        if let Some((name, _)) = STATIC.get(at) {
            let (name_bytes, number) = (name.len(), STATIC_NUMBERS[at]);
            let name = Named::of(name.as_bytes(), wanted);
            return Ok(OfName { name, name_bytes, number, known: Knowledge::Known });
        }
        Ok(match self.table.entry(at - STATIC.len())? {
            Some(entry) => OfName {
                name: entry.name,
                name_bytes: entry.name_bytes,
                number: entry.name_number,
                known: entry.knowledge(),
            },
            None => OfName::UNKNOWN,
        })
    }
}

/// What is known of a name.
struct OfName {
    name: Named,
    name_bytes: usize,
    number: u32,
    known: Knowledge,
}

impl OfName {
    const UNKNOWN: Self =
        Self { name: Named::Unknown, name_bytes: 0, number: 0, known: Knowledge::Partial };

    fn literal(name: &[u8], wanted: &[String]) -> Self {
        let (name_bytes, number) = (name.len(), number_of(name));
        Self { name: Named::of(name, wanted), name_bytes, number, known: Knowledge::Known }
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

/// The fields of a block, as far as they are looked at, before it is read. `None` where it changes
/// the table in another way than by adding them.
fn fields(block: &[u8]) -> Option<Vec<Field>> {
    let (mut rest, mut fields, mut added, mut name) = (block, Vec::new(), 0, Vec::new());
    let place = |index: u64, added: usize| {
        let index = usize::try_from(index).ok()?.checked_sub(1)?;
        Some(match index.checked_sub(STATIC.len()) {
            None => Field::Named(STATIC_NUMBERS[index]),
            Some(place) => place.checked_sub(added).map_or(Field::Own, Field::At),
        })
    };
    while let Some(first) = rest.first().copied() {
        if fields.len() == MAX_BRIDGED_FIELDS {
            break;
        }
        if first & 0x80 != 0 {
            fields.push(place(integer(&mut rest, 7).ok()?, added)?);
            continue;
        }
        if first & 0xe0 == 0x20 {
            return None;
        }
        let adds = first & 0x40 != 0;
        fields.push(match integer(&mut rest, if adds { 6 } else { 4 }).ok()? {
            0 => {
                string(&mut rest).ok()?.decode(MAX_NAME_BYTES + 1, &mut name).ok()?;
                Field::Named(number_of(&name))
            }
            index => place(index, added)?,
        });
        string(&mut rest).ok()?;
        added += usize::from(adds);
    }
    Some(fields)
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
        let known = decoder.decode(block, cut, &[], |name, value| match name {
            Name::Unseen => {}
            _ => found += &format!("{name:?}={} ", String::from_utf8_lossy(value)),
        })?;
        Ok((found.trim_end().to_owned(), known))
    }

    fn fresh() -> Decoder {
        let mut decoder = Decoder::new();
        decoder.table.fresh();
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
            decoder.table.resize(256);
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
        assert_eq!(read(&mut late, b"\xbe", false), Err(Malformed));
    }

    #[test]
    fn a_block_that_was_cut_gives_what_is_there() {
        let mut decoder = fresh();
        read(&mut decoder, b"\x44\x02/a", false).unwrap();
        let cut = read(&mut decoder, b"\x83\xbe\x41\x10shop", true);
        assert_eq!(cut, Ok(("Method=POST Path=/a".to_owned(), true)));
        decoder.table.lose();
        assert_eq!(read(&mut decoder, b"\xbe", false), Ok((String::new(), true)));
    }

    /// A response's head, its trailers, and what refers to them.
    fn call(decoder: &mut Decoder) {
        read(decoder, b"\x88\x5f\x10application/grpc", false).unwrap();
        decoder.table.is_usual(Shape::Answer);
        read(decoder, b"\x40\x0bgrpc-status\x010\x40\x0cgrpc-message\x00", false).unwrap();
    }

    #[test]
    fn over_a_gap_a_usual_block_is_a_bridge() {
        let mut decoder = fresh();
        call(&mut decoder);
        assert_eq!(learn(&mut decoder, b"\xbf\xbe", false).unwrap().0, "GrpcStatus=0 GrpcMessage=");
        decoder.table.lose_sight();
        assert_eq!(read(&mut decoder, b"\xbf\xbe", false), Ok((String::new(), true)));
        // Two entries were added unseen, and one that is seen.
        read(&mut decoder, b"\x40\x01x\x01y", false).unwrap();
        assert!(decoder.bridge(b"\x88\xc3", Shape::Answer));
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
        decoder.table.lose_sight();
        read(&mut decoder, b"\x40\x01x\x01y", false).unwrap();
        decoder.table.lose_sight();
        assert!(!decoder.bridge(b"\x88\xc3", Shape::Answer));
    }

    #[test]
    fn an_unusual_block_is_no_bridge() {
        for block in [b"\x88\xc4\xbf".as_slice(), b"\x88\xbe", b"\x88", b"\x20\x88\xc3"] {
            let mut decoder = fresh();
            call(&mut decoder);
            read(&mut decoder, b"\x40\x01x\x01y", false).unwrap();
            decoder.table.lose_sight();
            assert!(!decoder.bridge(block, Shape::Answer), "{}", block.escape_ascii());
        }
    }

    #[test]
    fn a_date_that_changes_is_no_hindrance_and_errors_have_a_shape_of_their_own() {
        let mut decoder = fresh();
        // Date, content-type; then both again, with the error that is the whole answer.
        read(&mut decoder, b"\x88\x61\x011\x5f\x10application/grpc", false).unwrap();
        decoder.table.is_usual(Shape::Answer);
        let error = b"\x88\xbf\xbe\x40\x0bgrpc-status\x015\x40\x0cgrpc-message\x01x";
        read(&mut decoder, error, false).unwrap();
        decoder.table.is_usual(Shape::LastAnswer);
        decoder.table.lose_sight();
        // A new date; two others were added unseen.
        assert!(decoder.bridge(b"\x88\x61\x012\xc3", Shape::Answer));
        assert_eq!(
            learn(&mut decoder, b"\x88\x61\x012\xc3", false).unwrap().1,
            Knowledge::Inferred
        );
        let error = learn(&mut decoder, b"\x88\xbe\xc3\xc2\xc1", false).unwrap();
        let expected = "Status=200 ContentType=application/grpc GrpcStatus=5 GrpcMessage=x";
        assert_eq!(error, (expected.to_owned(), Knowledge::Inferred));
        // Only errors come.
        decoder.table.lose_sight();
        let seen = b"\x88\x61\x013\xc4\xc3\xc2";
        assert!(!decoder.bridge(&seen[..5], Shape::LastAnswer));
        assert!(decoder.bridge(seen, Shape::LastAnswer));
    }

    #[test]
    fn where_two_numbers_of_unseen_entries_fit_there_is_no_bridge() {
        let mut decoder = fresh();
        // Two content types, next to each other.
        read(&mut decoder, b"\x88\x5f\x01a", false).unwrap();
        read(&mut decoder, b"\x88\x5f\x01b", false).unwrap();
        decoder.table.is_usual(Shape::Answer);
        decoder.table.lose_sight();
        assert!(!decoder.bridge(b"\x88\xbf", Shape::Answer));
        // Only the newer one can be so near.
        assert!(decoder.bridge(b"\x88\xbe", Shape::Answer));
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
            decoder.table.passed(100, true);
        }
        decoder.table.is_usual(Shape::Request);
        decoder
    }

    #[test]
    fn over_a_small_gap_a_request_is_a_bridge_whatever_it_asks_for() {
        for (path, found) in [(0x83, "Path=/a "), (0xc0 - 62 - 9 - 4, "")] {
            let mut decoder = requests(9);
            decoder.table.lose_sight();
            // Four were added unseen.
            let at = 62 + 9 + 4;
            let block = [0x83, 0x86, path + at, 0x82 + at, 0x81 + at, 0x80 + at, 0x40, 1, b'n', 0];
            assert!(decoder.bridge(&block, Shape::Request));
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
            decoder.table.lose_sight();
            decoder.table.passed(unseen, false);
            assert_eq!(decoder.bridge(&same, Shape::Request), bridged, "{unseen} bytes");
        }
        // Too few agree, all in another order, nearer than they were, others.
        let mut decoder = requests(9);
        decoder.table.lose_sight();
        assert!(
            !decoder.bridge(&asked([0x83 + at, 0x82 + at, 0x90 + at, 0x91 + at]), Shape::Request)
        );
        assert!(
            !decoder.bridge(&asked([0x80 + at, 0x81 + at, 0x82 + at, 0x83 + at]), Shape::Request)
        );
        assert!(!decoder.bridge(&asked([0xc3, 0xc2, 0xc1, 0xc0]), Shape::Request));
        assert!(!decoder.bridge(&same[..6], Shape::Request));
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
        decoder.table.resize(u64::MAX);
        for _ in 0..10_000 {
            read(&mut decoder, b"\x44\x02/a\x40\x01x\x00", false).unwrap();
        }
        assert!(decoder.table.held_bytes() < 256 * 1024, "{}", decoder.table.held_bytes());
    }
}
