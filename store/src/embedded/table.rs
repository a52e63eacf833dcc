//! The table `spans` for SQL: rows in memory and files of one moment.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfigBuilder, ParquetFileReaderFactory, ParquetSource,
    parquet::ParquetRowSelection,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::union::UnionExec;
use futures::FutureExt;
use futures::future::BoxFuture;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, RowSelection};
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::ChunkReader;
use spanwise_model::schema::span_schema;

use super::files::SpanFile;
use super::reader;
use super::state::Snapshot;

/// See the module.
#[derive(Debug)]
pub(super) struct SpanTable {
    recent: Vec<RecordBatch>,
    files: Arc<Vec<Arc<SpanFile>>>,
}

impl SpanTable {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        let recent = snapshot.recent.iter().map(|view| view.rows.clone()).collect();
        Self { recent, files: Arc::new(snapshot.files) }
    }

    fn scan_files(
        &self,
        projection: Option<Vec<usize>>,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let readers = Arc::new(Readers { files: Arc::clone(&self.files) });
        let source = ParquetSource::new(span_schema())
            .with_parquet_file_reader_factory(readers)
            .with_pushdown_filters(true)
            .with_enable_page_index(true);
        // The path of a file is its place in the list.
        let files = self.files.iter().enumerate();
        let files = files.map(|(n, file)| {
            let whole = PartitionedFile::new(n.to_string(), file.bytes);
            if !file.is_outdated() {
                return whole;
            }
            let rows = file.all_rows();
            let left = reader::left(file, std::slice::from_ref(&rows));
            let selection = RowSelection::from_consecutive_ranges(left.into_iter(), rows.end);
            whole.with_extension(ParquetRowSelection::new(selection))
        });
        let config =
            FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
                .with_file_groups(vec![FileGroup::new(files.collect())])
                .with_projection_indices(projection)?
                .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}

#[async_trait]
impl TableProvider for SpanTable {
    fn schema(&self) -> SchemaRef {
        span_schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>, DataFusionError> {
        // The engine pushes them on into the scan of files by itself.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let recent = MemorySourceConfig::try_new_exec(
            std::slice::from_ref(&self.recent),
            span_schema(),
            projection.cloned(),
        )?;
        if self.files.is_empty() {
            return Ok(recent);
        }
        UnionExec::try_new(vec![recent, self.scan_files(projection.cloned())?])
    }
}

/// Opens files with the metadata that the store holds of them.
#[derive(Debug)]
struct Readers {
    files: Arc<Vec<Arc<SpanFile>>>,
}

impl ParquetFileReaderFactory for Readers {
    fn create_reader(
        &self,
        _partition: usize,
        file: PartitionedFile,
        _metadata_size_hint: Option<usize>,
        _metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>, DataFusionError> {
        let place: Option<usize> = file.object_meta.location.as_ref().parse().ok();
        let found = place.and_then(|place| self.files.get(place)).cloned();
        let file = found.ok_or_else(|| {
            DataFusionError::Internal("a scan asks for a file that is not its own".to_owned())
        })?;
        Ok(Box::new(Reader { file }))
    }
}

struct Reader {
    /// Held so that the file is not removed meanwhile.
    file: Arc<SpanFile>,
}

impl AsyncFileReader for Reader {
    fn get_bytes(
        &mut self,
        range: std::ops::Range<u64>,
    ) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        // Statements run on a thread of their own, which may wait for a disk.
        let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let bytes = self.file.file.get_bytes(range.start, length);
        futures::future::ready(bytes).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        futures::future::ready(Ok(Arc::clone(self.file.metadata.metadata()))).boxed()
    }
}
