//! A hash that identifies a span. Two rows with the same identity are the same span, sent twice.
//!
//! The client's and the server's half of a call may share trace and span id, and so may two
//! different spans of a faulty program. They differ in kind, service, name or times, so all of
//! these are part of the identity.

use ahash::RandomState;
use arrow::array::{Array, ArrayAccessor, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{Int32Type, Int64Type};
use spanwise_model::Capture;
use spanwise_model::schema::column;

use crate::contract::Origin;
use crate::embedded::keys::fold;

/// The columns of the identity.
pub(crate) const COLUMNS: [&str; 7] = [
    column::TRACE_ID,
    column::SPAN_ID,
    column::START_UNIX_NANO,
    column::DURATION_NANO,
    column::SERVICE,
    column::OPERATION,
    column::KIND,
];

/// The value for a row without an identity, because it has no trace id.
pub(crate) const NONE: u64 = 0;

/// Computes identities with a hash key that is random in each process. A collision among the
/// millions of spans that are compared is practically impossible, and nobody can construct one.
pub(crate) struct Identities {
    texts: RandomState,
    secret: [u64; 4],
}

impl Identities {
    pub(crate) fn new() -> Self {
        let texts = RandomState::new();
        // Odd, so that none is zero.
        let secret = [1, 2, 3, 4].map(|number: u64| texts.hash_one(number) | 1);
        Self { texts, secret }
    }

    /// The identities of a batch's rows, or `None` if none can be a duplicate. Batches of agents
    /// are recognised by their origin. So are batches of `import`, but their spans may also have
    /// been sent by their application, or be in another imported file.
    pub(crate) fn of_sent(&self, batch: &RecordBatch, origin: Option<Origin>) -> Option<Vec<u64>> {
        match origin {
            Some(_) if !is_of_applications(batch) => None,
            _ => self.of(batch),
        }
    }

    /// The identity of each row. `None` if a column is missing or no row has an identity.
    pub(crate) fn of(&self, batch: &RecordBatch) -> Option<Vec<u64>> {
        let ids = |name| batch.column_by_name(name)?.as_fixed_size_binary_opt();
        let numbers = |name| batch.column_by_name(name)?.as_primitive_opt::<Int64Type>();
        let (traces, spans) = (ids(column::TRACE_ID)?, ids(column::SPAN_ID)?);
        if traces.null_count() == traces.len() {
            return None;
        }
        let (starts, durations) =
            (numbers(column::START_UNIX_NANO)?.values(), numbers(column::DURATION_NANO)?.values());
        let texts = [column::SERVICE, column::OPERATION, column::KIND].map(|name| {
            let array = batch.column_by_name(name)?.as_dictionary_opt::<Int32Type>()?;
            let hashes = array.values().as_string_opt::<i32>()?.iter();
            let hashes: Vec<u64> =
                hashes.map(|text| text.map_or(0, |text| self.texts.hash_one(text))).collect();
            Some((&**array.keys().values(), hashes))
        });
        let [Some(services), Some(operations), Some(kinds)] = texts else { return None };
        let (traces_of, spans_of) =
            (traces.value_data().as_chunks::<16>().0, spans.value_data().as_chunks::<8>().0);
        let [one, two, three, four] = self.secret;
        let identity = |row: usize| {
            if traces.is_null(row) {
                return NONE;
            }
            let text = |(keys, hashes): &(&[i32], Vec<u64>)| {
                let key = usize::try_from(keys[row]).unwrap_or(usize::MAX);
                hashes.get(key).copied().unwrap_or(0)
            };
            let trace = u128::from_be_bytes(traces_of[row]);
            let span = u64::from_be_bytes(spans_of[row]);
            let (start, duration) = (starts[row].cast_unsigned(), durations[row].cast_unsigned());
            let names = text(&services)
                .wrapping_add(text(&operations).rotate_left(21))
                .wrapping_add(text(&kinds).rotate_left(42));
            let ids = fold(trace as u64 ^ one, (trace >> 64) as u64 ^ two);
            let times = fold(start ^ three, duration ^ four);
            let all = fold(ids ^ span ^ two, times ^ names ^ one);
            fold(all ^ four, three).max(1)
        };
        Some((0..batch.num_rows()).map(identity).collect())
    }
}

/// Whether applications sent the spans. No batch mixes spans of applications and agents.
fn is_of_applications(batch: &RecordBatch) -> bool {
    let first = || {
        let captures = batch.column_by_name(column::CAPTURE)?.as_dictionary_opt::<Int32Type>()?;
        let captures = captures.downcast_dict::<StringArray>()?;
        let first = (captures.len() > 0).then(|| captures.value(0))?;
        first.parse().ok().map(Capture::is_reported)
    };
    first().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanwise_model::{Capture, Kind, Span, SpanBatchBuilder, SpanId, TraceId};

    #[test]
    fn whatever_differs_makes_another_span_and_nothing_else_does() {
        let id = SpanId::from_u64(7).expect("not zero");
        let mut first = Span::new(id, Capture::App, Kind::Client, "cart", "get", 1000, 50);
        first.trace_id = Some(TraceId([3; 16]));
        let mut spans = vec![first.clone(); 9];
        // Attributes that a sender or a gateway may add are not part of the identity.
        spans[0].attributes.push(("k".to_owned(), "v".into()));
        spans[0].parent_span_id = Some(id);
        spans[1].trace_id = Some(TraceId([4; 16]));
        spans[2].span_id = SpanId::from_u64(8).expect("not zero");
        spans[3].start_unix_nano += 1;
        spans[4].duration_nano += 1;
        spans[5].service = "get".to_owned();
        spans[6].operation = "cart".to_owned();
        spans[7].kind = Kind::Server;
        spans[8].trace_id = None;
        let identities = Identities::new();
        let of = |spans: &[Span]| {
            let batch = spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
            // The same holds for a slice of a batch.
            let part = batch.slice(1, spans.len() - 1);
            let all = identities.of(&batch).expect("identities");
            assert_eq!(identities.of(&part).expect("identities"), all[1..]);
            all
        };
        let own = of(&[first.clone(), first.clone()])[0];
        let mut others = of(&spans);
        assert_eq!((others[0], others[8]), (own, NONE));
        others.sort_unstable();
        others.dedup();
        assert_eq!(others.len(), 9);
        let mut none = [&spans[8]].into_iter().collect::<SpanBatchBuilder>();
        assert_eq!(identities.of(&none.finish().expect("a batch")), None);
    }
}
