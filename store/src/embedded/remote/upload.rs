//! Uploads files to the bucket.

use std::fs;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use parking_lot::Mutex;

use super::bucket::{Failure, PART_BYTES};
use super::cache::BLOCK_BYTES;
use super::head::{Head, Part, WithTails, head_key, shapes_key, spans_key};
use super::{Remote, RemoteFile};
use crate::embedded::files::SpanFile;
use crate::embedded::files::handle::Handle;
use crate::embedded::private;

// Each part must consist of whole blocks, which have checksums.
const _: () = assert!((PART_BYTES as u64).is_multiple_of(BLOCK_BYTES));

impl Remote {
    /// Uploads a local file. When this returns, another server that takes over would find it.
    pub(super) async fn upload(
        self: &Arc<Self>,
        file: &Arc<SpanFile>,
    ) -> Result<Arc<RemoteFile>, Failure> {
        let name = file.name().ok_or_else(|| {
            Failure::Here(format!("{} names no file of shapes", file.path.display()))
        })?;
        let (spans_tail, shapes_tail) = file.tails();
        let shapes = self.upload_part(&shapes_key(&name), &file.shapes.file, shapes_tail).await?;
        let spans = self.upload_part(&spans_key(&name), &file.file, spans_tail).await?;
        let with_tails = WithTails {
            head: Head {
                name: name.clone(),
                generations: file.generations,
                deletions: file.deletions,
                spans: spans.0,
                shapes: shapes.0,
            },
            spans: spans.1,
            shapes: shapes.1,
        };
        let bytes = with_tails.encode().map_err(|error| Failure::Here(error.to_string()))?;
        let bytes = Bytes::from(bytes);
        // Uploading takes time, so ownership is checked again before the head is written.
        self.check_owner().await?;
        // After a crash at any time, the local intent says what may be in the bucket.
        let (intent, own) = (self.intent_path(&name), bytes.clone());
        on_local_disk(move || private::write_durably(&intent, &own)).await?;
        self.bucket.put(&head_key(&name), bytes).await?;
        let (intent, path) = (self.intent_path(&name), self.head_path(&name));
        on_local_disk(move || {
            fs::rename(&intent, &path)?;
            path.parent().map_or(Ok(()), |parent| fs::File::open(parent)?.sync_all())
        })
        .await?;
        self.figures.files_uploaded.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(name, "a file is in object storage");
        let remote = self.file(with_tails);
        remote.is_open();
        Ok(remote)
    }

    async fn upload_part(
        &self,
        key: &str,
        source: &Handle,
        tail: u64,
    ) -> Result<(Part, Bytes), Failure> {
        let bytes = source.byte_len();
        let count = usize::try_from(bytes.div_ceil(BLOCK_BYTES)).unwrap_or(0);
        let blocks = Arc::new(Mutex::new(vec![0; count]));
        let (checked, own) = (Arc::clone(&blocks), source.clone());
        let read = move |range: Range<u64>| -> io::Result<Bytes> {
            let mut part = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
            own.read_at(&mut part, range.start)?;
            let first = (range.start / BLOCK_BYTES) as usize;
            let crcs = part.chunks(BLOCK_BYTES as usize).map(crc32fast::hash);
            for (into, crc32) in checked.lock()[first..].iter_mut().zip(crcs) {
                *into = crc32;
            }
            Ok(part.into())
        };
        self.bucket.upload(key, bytes, read).await?;
        let own = source.clone();
        let end = on_local_disk(move || {
            let mut end = vec![0; usize::try_from(bytes.saturating_sub(tail)).unwrap_or(0)];
            own.read_at(&mut end, tail)?;
            Ok(Bytes::from(end))
        })
        .await?;
        let blocks = std::mem::take(&mut *blocks.lock());
        Ok((Part { bytes, tail, blocks }, end))
    }
}

/// Runs work on the local disk.
pub(super) async fn on_local_disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.unwrap_or_else(|_| Err(io::Error::other("the program is ending")));
    done.map_err(|error| Failure::Here(format!("on the local disk: {error}")))
}
