//! Reads rows of files by key: bloom filters say which row groups may have
//! any, the key columns say which rows, and only those are read whole.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ahash::AHashSet;
use arrow::array::{BooleanBufferBuilder, RecordBatch};
use arrow::buffer::BooleanBuffer;
use parking_lot::Mutex;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowPredicateFn, ParquetRecordBatchReaderBuilder, RowFilter, RowSelection,
};
use parquet::bloom_filter::Sbbf;
use parquet::data_type::AsBytes;
use parquet::errors::ParquetError;
use spanwise_model::schema::column;

use super::deletions::{DECISIVE, each_selected};
use super::files::SpanFile;
use super::handle::Handle;
use super::keys::{KeySet, overlaps};
use crate::contract::{Selection, TimeRange};

const BATCH_ROWS: usize = 8192;
/// Memory for bloom filters that were read before.
const MAX_BLOOM_BYTES: usize = 32 << 20;

/// A row group's column of a file.
type BloomKey = (u64, usize, usize);

/// Bloom filters of the row groups that were asked lately.
#[derive(Default)]
pub(super) struct Blooms(Mutex<BloomCache>);

#[derive(Default)]
struct BloomCache {
    filters: HashMap<BloomKey, Arc<Sbbf>>,
    order: VecDeque<BloomKey>,
    bytes: usize,
}

impl Blooms {
    /// The filter of a column chunk; `None` where it has none.
    fn get(
        &self,
        file: &SpanFile,
        group: usize,
        leaf: usize,
    ) -> Result<Option<Arc<Sbbf>>, ParquetError> {
        let key = (file.id, group, leaf);
        if let Some(filter) = self.0.lock().filters.get(&key) {
            return Ok(Some(Arc::clone(filter)));
        }
        let chunk = file.metadata.metadata().row_group(group).column(leaf);
        let Some(filter) = Sbbf::read_from_column_chunk(chunk, &file.file)? else {
            return Ok(None);
        };
        let filter = Arc::new(filter);
        let mut cache = self.0.lock();
        cache.bytes += bloom_bytes(&filter);
        if let Some(before) = cache.filters.insert(key, Arc::clone(&filter)) {
            cache.bytes -= bloom_bytes(&before);
        } else {
            cache.order.push_back(key);
        }
        while cache.bytes > MAX_BLOOM_BYTES
            && let Some(oldest) = cache.order.pop_front()
        {
            let gone = cache.filters.remove(&oldest);
            cache.bytes -= gone.map_or(0, |filter| bloom_bytes(&filter));
        }
        Ok(Some(filter))
    }
}

fn bloom_bytes(filter: &Sbbf) -> usize {
    filter.num_blocks() * 32
}

/// Rows of the file that have any of the keys and start in the range.
pub(super) fn find_by_keys(
    file: &SpanFile,
    keys: &KeySet,
    time: TimeRange,
    blooms: &Blooms,
) -> Result<Vec<RecordBatch>, ParquetError> {
    let mut groups = Vec::new();
    for (group, starts) in file.group_starts.iter().enumerate() {
        if overlaps(*starts, time) && may_have(file, group, keys, blooms)? {
            groups.push(group);
        }
    }
    if groups.is_empty() {
        return Ok(Vec::new());
    }
    let columns = keys.columns();
    let schema = file.metadata.parquet_schema();
    let decisive = ProjectionMask::columns(schema, columns.iter().copied());
    // The filter must own what it asks, and lives no longer than this call.
    let wanted = Arc::new(keys.clone());
    let predicate = ArrowPredicateFn::new(decisive, move |batch| Ok(wanted.mask(&batch, time)));
    let reader =
        rows_of_groups(file, groups).with_row_filter(RowFilter::new(vec![Box::new(predicate)]));
    let found = reader.build()?.collect::<Result<Vec<_>, _>>()?;
    Ok(found.into_iter().filter(|batch| batch.num_rows() > 0).collect())
}

fn may_have(
    file: &SpanFile,
    group: usize,
    keys: &KeySet,
    blooms: &Blooms,
) -> Result<bool, ParquetError> {
    let any = |name: &str, check: &dyn Fn(&Sbbf) -> bool| -> Result<bool, ParquetError> {
        let schema = file.metadata.parquet_schema();
        let leaf = schema.columns().iter().position(|leaf| leaf.path().string() == name);
        let Some(leaf) = leaf else { return Ok(true) };
        let filter = blooms.get(file, group, leaf)?;
        Ok(filter.is_none_or(|filter| check(&filter)))
    };
    Ok((!keys.assembled.is_empty()
        && any(column::ASSEMBLED_TRACE_ID, &|filter| has(filter, &keys.assembled))?)
        || (!keys.traces.is_empty() && any(column::TRACE_ID, &|filter| has(filter, &keys.traces))?)
        || (!keys.spans.is_empty() && any(column::SPAN_ID, &|filter| has(filter, &keys.spans))?)
        || (!keys.fragments.is_empty()
            && any(column::FRAGMENT_ID, &|filter| {
                // Parquet stores unsigned integers as signed ones of their width.
                keys.fragments.iter().any(|id| filter.check(&id.cast_signed()))
            })?)
        || (!keys.hops.is_empty()
            && any(column::REQUEST_TCP_SEQ, &|filter| {
                keys.hops.iter().any(|(request, _)| filter.check(&request.cast_signed()))
            })?)
        || (!keys.request_ids.is_empty()
            && any(column::X_REQUEST_ID, &|filter| {
                keys.request_ids.iter().any(|id| filter.check(id.as_str()))
            })?))
}

fn has<const N: usize>(filter: &Sbbf, ids: &AHashSet<[u8; N]>) -> bool
where
    [u8]: AsBytes,
{
    ids.iter().any(|id| filter.check(id.as_slice()))
}

/// Reads the rows of these row groups that are not deleted.
fn rows_of_groups(file: &SpanFile, groups: Vec<usize>) -> ParquetRecordBatchReaderBuilder<Handle> {
    let metadata = file.metadata.clone();
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file.file.clone(), metadata)
        .with_batch_size(BATCH_ROWS);
    let Some(gone) = file.gone() else { return reader.with_row_groups(groups) };
    let rows = file.group_rows();
    let kept = groups
        .iter()
        .flat_map(|group| Vec::from(gone.kept(rows[*group], rows[group + 1] - rows[*group])));
    let kept = RowSelection::from(kept.collect::<Vec<_>>());
    reader.with_row_groups(groups).with_row_selection(kept)
}

/// Those of one row group.
pub(super) fn read_group(file: &SpanFile, group: usize) -> Result<Vec<RecordBatch>, ParquetError> {
    Ok(rows_of_groups(file, vec![group]).build()?.collect::<Result<Vec<_>, _>>()?)
}

/// All rows of a file that are not deleted.
pub(super) fn read_all(file: &SpanFile) -> Result<Vec<RecordBatch>, ParquetError> {
    let groups = (0..file.group_starts.len()).collect();
    Ok(rows_of_groups(file, groups).build()?.collect::<Result<Vec<_>, _>>()?)
}

/// Which rows of the file some deletions select, whether or not they are
/// deleted already.
pub(super) fn selected(
    file: &SpanFile,
    selections: &[Selection],
) -> Result<BooleanBuffer, ParquetError> {
    let mut rows = BooleanBufferBuilder::new(0);
    rows.append_n(usize::try_from(file.rows).unwrap_or(0), false);
    let decisive = ProjectionMask::columns(file.metadata.parquet_schema(), DECISIVE);
    let metadata = file.metadata.clone();
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file.file.clone(), metadata)
        .with_batch_size(BATCH_ROWS)
        .with_projection(decisive)
        .build()?;
    let mut first = 0;
    for batch in reader {
        let batch = batch?;
        each_selected(&batch, selections, |row| rows.set_bit(first + row, true));
        first += batch.num_rows();
    }
    Ok(rows.finish())
}
