//! The encoded pages of one column of a row group, and their metadata.

use std::cell::RefCell;
use std::io;

use parquet::basic::{Compression, Encoding, PageType};
use parquet::errors::ParquetError;
use parquet::file::page_index::offset_index::PageLocation;
use zstd::bulk::Compressor;

use super::hybrid::put_zigzag;

/// Compressors and buffers that each thread reuses, because a row group has a thousand pages.
#[derive(Default)]
struct Room {
    /// By compression level.
    compressors: Vec<(i32, Compressor<'static>)>,
    packed: Vec<u8>,
}

thread_local! {
    static ROOM: RefCell<Room> = RefCell::default();
}

impl Room {
    /// Compresses the bytes with zstd.
    fn pack(&mut self, level: i32, bytes: &[u8]) -> io::Result<&[u8]> {
        let at = match self.compressors.iter().position(|(of, _)| *of == level) {
            Some(at) => at,
            None => {
                self.compressors.push((level, Compressor::new(level)?));
                self.compressors.len() - 1
            }
        };
        self.packed.clear();
        self.packed.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        self.compressors[at].1.compress_to_buffer(bytes, &mut self.packed)?;
        Ok(&self.packed)
    }
}

/// The type of a page.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Data,
    Dictionary,
}

/// The pages of a column. See the module's description.
pub(super) struct Pages {
    pub(super) compression: Compression,
    pub(super) bytes: Vec<u8>,
    /// Uncompressed bytes of all pages and page headers.
    pub(super) unpacked_bytes: usize,
    pub(super) rows: usize,
    pub(super) locations: Vec<PageLocation>,
    /// Number of pages by type and encoding.
    pub(super) counts: Vec<(PageType, Encoding, i32)>,
}

impl Pages {
    pub(super) fn new(compression: Compression) -> Self {
        Self {
            compression,
            bytes: Vec::new(),
            unpacked_bytes: 0,
            rows: 0,
            locations: Vec::new(),
            counts: Vec::new(),
        }
    }

    /// Adds a page of this many rows: levels, then values.
    pub(super) fn add(
        &mut self,
        rows: usize,
        encoding: Encoding,
        page: &[u8],
    ) -> Result<(), ParquetError> {
        let offset = self.bytes.len();
        self.put(Kind::Data, rows, encoding, page)?;
        self.locations.push(PageLocation {
            offset: i64::try_from(offset)?,
            compressed_page_size: i32::try_from(self.bytes.len() - offset)?,
            first_row_index: i64::try_from(self.rows)?,
        });
        self.rows += rows;
        Ok(())
    }

    /// Adds the dictionary page, which the caller moves to the front.
    pub(super) fn add_dictionary(&mut self, words: usize, page: &[u8]) -> Result<(), ParquetError> {
        self.put(Kind::Dictionary, words, Encoding::PLAIN, page)
    }

    fn put(
        &mut self,
        kind: Kind,
        values: usize,
        encoding: Encoding,
        page: &[u8],
    ) -> Result<(), ParquetError> {
        let Compression::ZSTD(level) = self.compression else {
            self.put_packed(kind, values, encoding, page.len(), page)?;
            return Ok(());
        };
        ROOM.with_borrow_mut(|room| {
            let packed = room.pack(level.compression_level(), page)?;
            self.put_packed(kind, values, encoding, page.len(), packed)
        })
    }

    fn put_packed(
        &mut self,
        kind: Kind,
        values: usize,
        encoding: Encoding,
        unpacked: usize,
        packed: &[u8],
    ) -> Result<(), ParquetError> {
        let before = self.bytes.len();
        let [values, unpacked_bytes, packed_bytes] =
            [values, unpacked, packed.len()].map(i32::try_from);
        put_head(kind, (values?, encoding), (unpacked_bytes?, packed_bytes?), &mut self.bytes);
        self.unpacked_bytes += self.bytes.len() - before + unpacked;
        self.bytes.extend_from_slice(packed);
        let page_type = match kind {
            Kind::Data => PageType::DATA_PAGE,
            Kind::Dictionary => PageType::DICTIONARY_PAGE,
        };
        match self.counts.iter_mut().find(|known| (known.0, known.1) == (page_type, encoding)) {
            Some((.., count)) => *count += 1,
            None => self.counts.push((page_type, encoding, 1)),
        }
        Ok(())
    }
}

// Field headers of Thrift's compact protocol: the difference to the previous field's number, and
// the type.
const INTEGER_AFTER_1: u8 = 0x15;
const STRUCT_AFTER_2: u8 = 0x2c;
const STRUCT_AFTER_4: u8 = 0x4c;
const STOP: u8 = 0;

/// Appends a `PageHeader` (Parquet format, `parquet.thrift`).
fn put_head(
    kind: Kind,
    (values, encoding): (i32, Encoding),
    (unpacked_bytes, packed_bytes): (i32, i32),
    to: &mut Vec<u8>,
) {
    let integer = |number: i32, to: &mut Vec<u8>| {
        to.push(INTEGER_AFTER_1);
        put_zigzag(number.into(), to);
    };
    let (number, of_kind) = match kind {
        Kind::Data => (0, STRUCT_AFTER_2),
        Kind::Dictionary => (2, STRUCT_AFTER_4),
    };
    integer(number, to);
    integer(unpacked_bytes, to);
    integer(packed_bytes, to);
    to.push(of_kind);
    integer(values, to);
    integer(encoding as i32, to);
    if matches!(kind, Kind::Data) {
        // The encodings of definition and repetition levels.
        integer(Encoding::RLE as i32, to);
        integer(Encoding::RLE as i32, to);
    }
    to.extend([STOP; 2]);
}
