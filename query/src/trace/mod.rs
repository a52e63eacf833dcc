//! One trace: found by any id, assembled, and given in pages.

mod cache;
mod find;
mod gather;
pub(crate) mod messages;
mod tree;

use std::sync::Arc;

use spanwise_model::{SpanId, WrittenId};

use crate::{Queries, QueryError, on_blocking_thread};

pub(crate) use cache::{Epoch, TraceCache};
pub(crate) use find::AROUND_NANO;
pub(crate) use gather::GatheredTraces;
pub use tree::{PageRange, TraceTree};

/// A question for a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceQuery {
    /// The id of the trace, or of one of its spans.
    pub id: WrittenId,
    /// The page.
    pub page: PagePosition,
    /// The most spans of the page.
    pub limit: usize,
    /// The [`TraceTree::snapshot`] of the page before: if it is still in the cache, this page
    /// is of the same tree.
    pub snapshot: Option<String>,
}

/// Which page of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagePosition {
    /// The page after so many spans.
    After(usize),
    /// The page that has this span.
    Around(SpanId),
    /// All spans. The trace is not cached.
    Whole,
}

/// A trace, and a page of it.
#[derive(Clone)]
pub struct TraceAnswer {
    /// The whole trace.
    pub tree: Arc<TraceTree>,
    /// The page.
    pub page: PageRange,
    /// A warning where the tree is another one than the snapshot that was asked for.
    pub changed: Option<String>,
}

impl Queries {
    /// A page of a trace.
    ///
    /// # Errors
    /// Where there is no such trace, or it has no such span, or the store cannot answer.
    pub async fn trace(&self, query: &TraceQuery) -> Result<TraceAnswer, QueryError> {
        let id = query.id.trace();
        let snapshot = query.snapshot.as_deref();
        let tree = match snapshot.and_then(|snapshot| self.traces.get(id, snapshot)) {
            Some(tree) => tree,
            None => {
                let epoch = self.traces.epoch();
                let mut rows = self.find_trace(query.id).await?.finish();
                self.link_messages(&mut rows).await?;
                let tree = on_blocking_thread("making the tree", || TraceTree::of(rows)).await??;
                let tree = Arc::new(tree);
                if tree.len() > query.limit && query.page != PagePosition::Whole {
                    self.traces.insert(id, &tree, epoch);
                }
                tree
            }
        };
        let page = match query.page {
            PagePosition::Whole => PageRange { after: 0, limit: usize::MAX },
            PagePosition::After(after) => PageRange { after, limit: query.limit },
            PagePosition::Around(span) => {
                let position = tree.position(span);
                let position = position.ok_or(QueryError::SpanNotFound { trace: id, span })?;
                PageRange::around(position, query.limit)
            }
        };
        let changed = snapshot.is_some_and(|snapshot| snapshot != tree.snapshot).then(|| {
            "the trace has changed since its page before this one was read: spans came, or were \
             deleted; read it again from its first page"
                .to_owned()
        });
        Ok(TraceAnswer { tree, page, changed })
    }
}
