//! Attributes that many spans have: encoded once for each batch, and copied from there.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Where the same attributes were last written. They are copied from there while the same batch is
/// built. Threads may share it, but only one uses it at a time.
#[derive(Debug, Default)]
pub struct Written {
    batch: AtomicU64,
    start: AtomicU32,
    end: AtomicU32,
}

impl Written {
    pub(super) fn set(&self, batch: BatchId, places: Range<usize>) {
        let Ok(end) = u32::try_from(places.end) else { return };
        self.batch.store(batch.0, Ordering::Relaxed);
        self.start.store(places.start as u32, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
    }

    /// The range in this batch, if it is in this one.
    pub(super) fn places(&self, batch: BatchId) -> Option<Range<usize>> {
        (self.batch.load(Ordering::Relaxed) == batch.0).then(|| {
            let at = |place: &AtomicU32| place.load(Ordering::Relaxed) as usize;
            at(&self.start)..at(&self.end)
        })
    }
}

/// The id of a batch, or part of one, that is being built. Unique.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchId(u64);

impl Default for BatchId {
    fn default() -> Self {
        // Zero means never written.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        AttributeValue, Attributes, Capture, Emitter, Kind, Span, SpanBatch, SpanBatchBuilder,
        SpanId, SpanRef,
    };

    fn attributes() -> impl Strategy<Value = Attributes> {
        let value = prop_oneof![
            "\\PC{0,9}".prop_map(AttributeValue::String),
            any::<i64>().prop_map(AttributeValue::Int),
            any::<bool>().prop_map(AttributeValue::Bool),
            // In rows with a template, doubles are always own values.
            (-9.0..9.0).prop_map(AttributeValue::Double),
        ];
        // The last kind of key is too long for a template.
        proptest::collection::vec(("[a-d]{0,3}|[a-d]|k{257}", value), 0..4)
    }

    proptest! {
        #[test]
        fn what_is_repeated_is_what_was_written(
            sets in proptest::collection::vec(attributes(), 1..4),
            batches in proptest::collection::vec(
                proptest::collection::vec((any::<prop::sample::Index>(), attributes()), 0..9), 1..4),
            shares in any::<bool>(),
        ) {
            let written: Vec<Written> = sets.iter().map(|_| Written::default()).collect();
            let id = SpanId([1; SpanId::LEN]);
            let span = Span::new(id, Capture::App, Kind::Server, "s", "op", 1, 1);
            let emitter = Emitter {
                service: "s",
                instance: None,
                host: None,
                process_id: None,
                resource: &span.resource,
            };
            let mut builders = [SpanBatchBuilder::new(), SpanBatchBuilder::new()];
            if shares {
                builders[1] = SpanBatchBuilder::sharing();
                // The builder learns from these rows. Later ones have templates.
                let mut learnt = span.clone();
                for row in 0..5000 {
                    learnt.attributes = sets[row % sets.len()].clone();
                    builders[1].push(&learnt);
                }
                builders[1].finish_rows().expect("rows");
            }
            for (number, batch) in batches.iter().enumerate() {
                let builder = &mut builders[number % 2];
                let emitter = builder.emitter(&emitter);
                let mut expected = Vec::new();
                for (set, own) in batch {
                    let set = set.index(sets.len());
                    let mut row = builder.begin(&SpanRef::from(&span), &emitter);
                    let said = sets[set].iter().map(|(key, value)| (key.as_str(), value.as_ref()));
                    row.repeated(&written[set], said);
                    row.attributes(own);
                    expected.push([&sets[set][..], own].concat());
                }
                let rows = SpanBatch::try_from(builder.finish().expect("a batch"));
                let found: Vec<Attributes> = rows
                    .expect("spans")
                    .spans()
                    .map(|span| span.expect("a span").attributes)
                    .collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
