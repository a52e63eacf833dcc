//! Reads pages of a row group and decompresses them with a zstd context that the thread keeps. A
//! look-up reads one page of many columns, and setting up zstd takes longer than decompressing a
//! page. Pages that will be read again are cached.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use memchr::memmem;
use parking_lot::Mutex;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::SchemaDescriptor;

use super::cache::Cache;
use super::handle::Handle;

/// Size of the cache of decompressed pages of all files.
const CACHE_BYTES: usize = 16 << 20;
/// Maximum size of a page, whatever its header says.
const MAX_PAGE_BYTES: usize = 256 << 20;

/// A row group whose columns are read.
pub(crate) struct Group<'a> {
    pub(crate) file: &'a Handle,
    pub(crate) metadata: &'a ParquetMetaData,
    pub(crate) group: usize,
    /// Whether its pages are likely to be read again.
    pub(crate) keep: bool,
}

impl Group<'_> {
    /// Fetches the pages with these rows of some columns together, if they are remote. `rows` are
    /// indexes in the group; `None` means all.
    pub(crate) fn prepare(
        &self,
        schema: &SchemaDescriptor,
        mask: &ProjectionMask,
        rows: Option<impl Iterator<Item = Range<usize>>>,
    ) -> Result<(), ParquetError> {
        if self.file.is_local() {
            return Ok(());
        }
        let rows: Option<Vec<Range<usize>>> = rows.map(Iterator::collect);
        let mut ranges = Vec::new();
        let leaves = (0..schema.num_columns()).filter(|leaf| mask.leaf_included(*leaf));
        for leaf in leaves {
            let (start, length) = self.metadata.row_group(self.group).column(leaf).byte_range();
            let locations = self.metadata.offset_index();
            let locations = locations.and_then(|all| all.get(self.group)?.get(leaf));
            let (Some(rows), Some(index)) = (&rows, locations) else {
                ranges.push(start..start + length);
                continue;
            };
            // The dictionary precedes the first page.
            let pages = &index.page_locations;
            let offset = |page: usize| u64::try_from(pages[page].offset).unwrap_or(start);
            let first_row = |page: usize| usize::try_from(pages[page].first_row_index).unwrap_or(0);
            if !pages.is_empty() {
                ranges.push(start..offset(0));
            }
            for page in 0..pages.len() {
                let last = page + 1 == pages.len();
                let end = if last { start + length } else { offset(page + 1) };
                let own = first_row(page)..if last { usize::MAX } else { first_row(page + 1) };
                if rows.iter().any(|rows| rows.start < own.end && own.start < rows.end) {
                    ranges.push(offset(page)..end);
                }
            }
        }
        Ok(self.file.prepare(&ranges)?)
    }

    /// Whether a column may have one of these values in any of these rows: whether the bytes, as
    /// plain pages and dictionaries contain them, occur in the pages. This is cheaper than decoding
    /// values, and most checks are negative.
    pub(crate) fn may_have(
        &self,
        leaf: usize,
        rows: &[Range<usize>],
        value: &[u8],
    ) -> Result<bool, ParquetError> {
        let value = memmem::Finder::new(value);
        let schema = self.metadata.file_metadata().schema_descr();
        self.prepare(schema, &ProjectionMask::leaves(schema, [leaf]), Some(rows.iter().cloned()))?;
        let mut pages = self.pages(leaf, false)?;
        let (mut first_row, mut is_in_dictionary) = (0, false);
        let mut looked_at = Vec::new();
        for number in 0.. {
            let Some(next) = pages.peek_next_page()? else { break };
            if !next.is_dict {
                let Some(count) = next.num_rows else { return Ok(true) };
                let own = first_row..first_row + count;
                first_row = own.end;
                if !rows.iter().any(|rows| rows.start < own.end && own.start < rows.end) {
                    pages.skip_next_page()?;
                    continue;
                }
            }
            let key = (self.column(leaf), number);
            let kept = CACHE.lock().get(&key);
            let page = match kept {
                Some(page) => {
                    pages.skip_next_page()?;
                    page
                }
                None => match pages.get_next_page()? {
                    Some(page) => Arc::new(page),
                    None => break,
                },
            };
            let may = match page.as_ref() {
                Page::DictionaryPage { buf, .. } => {
                    is_in_dictionary = value.find(buf).is_some();
                    false
                }
                Page::DataPage { buf, encoding: Encoding::PLAIN, .. } => value.find(buf).is_some(),
                Page::DataPage { encoding: Encoding::RLE_DICTIONARY, .. } => is_in_dictionary,
                _ => true,
            };
            looked_at.push((key, page));
            if may {
                // They will be read soon.
                let mut cache = CACHE.lock();
                for (key, page) in looked_at {
                    let bytes = page.buffer().len();
                    cache.put(key, page, bytes);
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn column(&self, leaf: usize) -> Column {
        (self.file.serial(), self.group, leaf)
    }

    /// The decompressed pages of a column. `keep` is that of [`Unpacked`].
    fn pages(&self, leaf: usize, keep: bool) -> Result<Box<dyn PageReader>, ParquetError> {
        let chunk = self.metadata.row_group(self.group).column(leaf);
        let locations = self.metadata.offset_index();
        let locations = locations.and_then(|all| all.get(self.group)?.get(leaf));
        let locations = locations.map(|index| index.page_locations.clone());
        let locations = locations.filter(|locations| !locations.is_empty());
        let read = |chunk: &ColumnChunkMetaData| {
            SerializedPageReader::new(
                Arc::new(self.file.clone()),
                chunk,
                self.num_rows(),
                locations.clone(),
            )
        };
        Ok(match chunk.compression() {
            Compression::ZSTD(_) => {
                let packed = chunk.clone().into_builder();
                let packed = packed.set_compression(Compression::UNCOMPRESSED).build()?;
                let (pages, column) = (read(&packed)?, self.column(leaf));
                Box::new(Unpacked { pages, column, next: 0, keep })
            }
            _ => Box::new(read(chunk)?),
        })
    }
}

impl RowGroups for Group<'_> {
    fn num_rows(&self) -> usize {
        usize::try_from(self.metadata.row_group(self.group).num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>, ParquetError> {
        let reader = self.pages(column, self.keep)?;
        Ok(Box::new(RowGroupPages(Some(reader))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(self.group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}

/// The pages of one row group.
struct RowGroupPages(Option<Box<dyn PageReader>>);

impl Iterator for RowGroupPages {
    type Item = Result<Box<dyn PageReader>, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for RowGroupPages {}

/// File, row group and column.
type Column = (u64, usize, usize);

/// Recently read pages, by column and page number.
static CACHE: LazyLock<Mutex<Cache<(Column, usize), Page>>> =
    LazyLock::new(|| Mutex::new(Cache::new(CACHE_BYTES)));

/// A page reader that decompresses pages.
struct Unpacked<R> {
    pages: R,
    column: Column,
    /// The number of the next page.
    next: usize,
    /// Whether to use and fill the cache.
    keep: bool,
}

impl<R: PageReader> Unpacked<R> {
    fn read(&mut self) -> Result<Option<Page>, ParquetError> {
        let Some(mut page) = self.pages.get_next_page()? else { return Ok(None) };
        match &mut page {
            Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => *buf = unpack(buf)?,
            // Only files of other programs have such pages. Levels precede the values.
            Page::DataPageV2 {
                buf,
                is_compressed,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let levels = *def_levels_byte_len as usize + *rep_levels_byte_len as usize;
                if *is_compressed && levels < buf.len() {
                    let values = unpack(&buf.slice(levels..))?;
                    *buf = [&buf[..levels], &values].concat().into();
                }
            }
        }
        Ok(Some(page))
    }
}

impl<R: PageReader> PageReader for Unpacked<R> {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let key = (self.column, self.next);
        self.next += 1;
        if !self.keep {
            return self.read();
        }
        let kept = CACHE.lock().get(&key);
        if let Some(page) = kept {
            self.pages.skip_next_page()?;
            return Ok(Some(page.as_ref().clone()));
        }
        let page = self.read()?;
        if let Some(page) = &page {
            let bytes = page.buffer().len();
            CACHE.lock().put(key, Arc::new(page.clone()), bytes);
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.next += 1;
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool, ParquetError> {
        self.pages.at_record_boundary()
    }
}

impl<R: PageReader> Iterator for Unpacked<R> {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

fn unpack(packed: &[u8]) -> Result<Bytes, ParquetError> {
    thread_local! {
        static UNPACKER: RefCell<Option<zstd::bulk::Decompressor<'static>>> =
            const { RefCell::new(None) };
    }
    // A page without values.
    if packed.is_empty() {
        return Ok(Bytes::new());
    }
    let damaged = |what: &dyn std::fmt::Display| ParquetError::General(format!("a page: {what}"));
    let length = zstd::zstd_safe::get_frame_content_size(packed);
    let length = length.ok().flatten().and_then(|length| usize::try_from(length).ok());
    let length = length.filter(|length| *length <= MAX_PAGE_BYTES);
    let length = length.ok_or_else(|| damaged(&"it does not say how large it is"))?;
    let unpacked = UNPACKER.with_borrow_mut(|unpacker| match unpacker {
        Some(unpacker) => unpacker.decompress(packed, length),
        None => unpacker.insert(zstd::bulk::Decompressor::new()?).decompress(packed, length),
    });
    unpacked.map(Bytes::from).map_err(|error| damaged(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_pages_are_errors() {
        let level = zstd::bulk::compress(&[7; 5000], 3).expect("packed");
        assert_eq!(unpack(&level).expect("unpacked"), vec![7; 5000]);
        for cut in 0..level.len() {
            let _ = unpack(&level[..cut]);
        }
        assert!(unpack(&[0; 10]).is_err());
    }
}
