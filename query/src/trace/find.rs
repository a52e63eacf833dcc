//! All rows of a trace, by any id.

use spanwise_assemble::{Expansion, SearchKey};
use spanwise_model::{SpanId, WrittenId};
use spanwise_store::{Key, TimeRange};

use crate::{Queries, QueryError};

/// The most spans of a trace that are examined; beyond it, the answer says that it is cut.
const MAX_SPANS: usize = 200_000;
/// How far the spans of a trace may be outside of the range that one span was found in. Keys
/// are reused over time: a row further away than this belongs to another trace.
pub(crate) const AROUND_NANO: i64 = 3_600_000_000_000;

impl Queries {
    /// All rows of the trace with this id, or of the trace that has the span with this id.
    pub(super) async fn find_trace(&self, wanted: WrittenId) -> Result<Expansion, QueryError> {
        let id = wanted.trace();
        let asked = [SearchKey::Assembled(id), SearchKey::Header(id)];
        let mut search = Expansion::new(MAX_SPANS, asked);
        let keys = [Key::AssembledTrace(id), Key::Trace(id)];
        self.add_rows(&mut search, &keys, TimeRange::ALL).await?;
        // A span; or the first span of a trace whose id was generated because no header
        // carried one, and that a later header named otherwise.
        let span = match wanted {
            WrittenId::TraceOrSpan(_, span) => Some(span),
            WrittenId::Trace(id) => SpanId::from_bytes(&id.0[8..]),
        };
        if search.time_range().is_none()
            && let Some(span) = span
        {
            self.add_rows(&mut search, &[Key::Span(span)], TimeRange::ALL).await?;
        }
        let Some((start, end)) = search.time_range() else {
            return Err(QueryError::TraceNotFound(wanted));
        };
        let around = TimeRange {
            from_unix_nano: start.saturating_sub(AROUND_NANO),
            to_unix_nano: end.saturating_add(AROUND_NANO),
        };
        loop {
            let keys: Vec<Key> = search.next_keys().into_iter().map(store_key).collect();
            if keys.is_empty() {
                return Ok(search);
            }
            self.add_rows(&mut search, &keys, around).await?;
        }
    }

    async fn add_rows(
        &self,
        search: &mut Expansion,
        keys: &[Key],
        time: TimeRange,
    ) -> Result<(), QueryError> {
        for batch in self.store.find_by_keys(keys, time).await? {
            search.add(batch)?;
        }
        Ok(())
    }
}

/// The store's form of a key.
pub(super) const fn store_key(key: SearchKey) -> Key {
    match key {
        SearchKey::Assembled(id) => Key::AssembledTrace(id),
        SearchKey::Header(id) => Key::Trace(id),
        SearchKey::Fragment(id) => Key::Fragment(id),
        SearchKey::Hop(request, response) => Key::TcpSequences(request, response),
    }
}
