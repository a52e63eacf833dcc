//! Compares every look-up with a scan over all rows.

use proptest::prelude::*;
use spanwise_model::{Evidence, Kind};

use super::*;
use crate::testing::{MS, app, client, id, server, trace};

/// Rows with few distinct keys, so that many rows share one.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let picks = (0..4u8, 0..3u8, 0..40i64, 0..40i64, 0..3u64, 0..3u32, 0..4u64, 0..5u8);
    prop::collection::vec(picks, 1..40).prop_map(|picks| {
        let picks = (1..).zip(picks);
        picks
            .map(|(number, (what, service, from, length, fragment, seq, parent, flag))| {
                let service = ["a", "b", "c"][usize::from(service)];
                let to = from + length;
                let row = match what {
                    0 => client(number, service, from, to).within(fragment, Evidence::Thread, 1.0),
                    1 => server(number, service, from, to).serves(fragment),
                    2 => app(number % 6 + 1, Kind::Client, service, from, to),
                    _ => app(number, Kind::Server, service, from, to).nowhere(),
                };
                let row = if what < 2 { row.hop(seq, 0).request_id(service) } else { row };
                match flag {
                    0 => row,
                    1 => row.context(1, parent).on("other", 1),
                    _ => row.context(2, parent),
                }
            })
            .collect()
    })
}

fn numbers(slots: impl Iterator<Item = Slot>) -> Vec<Slot> {
    let mut slots: Vec<Slot> = slots.collect();
    slots.sort_unstable();
    slots
}

fn check(index: &Index, there: &[Slot]) -> Result<(), TestCaseError> {
    let scan = |fits: &dyn Fn(&Row) -> bool| {
        numbers(there.iter().copied().filter(|slot| fits(index.row(*slot))))
    };
    let is_kernel = |row: &Row| row.capture != Capture::App;
    prop_assert_eq!(index.len(), there.len());
    for number in 0..4u64 {
        let (fragment, seq) = (number, number as u32);
        let parent = SpanId::from_u64(number).unwrap_or(id(9));
        let serves =
            |row: &Row| row.capture == Capture::ServerProcess && row.fragment_id == Some(fragment);
        prop_assert_eq!(numbers(index.servers_of_fragment(fragment)), scan(&serves));
        let begins = |row: &Row| is_kernel(row) && row.request_tcp_seq == Some(seq);
        prop_assert_eq!(numbers(index.with_request_seq(seq)), scan(&begins));
        for trace in [trace(1), trace(2)] {
            let is_app =
                |row: &Row| !is_kernel(row) && row.trace_id == Some(trace) && row.span_id == parent;
            prop_assert_eq!(numbers(index.apps(trace, parent)), scan(&is_app));
            let carries = |row: &Row| {
                is_kernel(row) && row.trace_id == Some(trace) && row.parent_span_id == Some(parent)
            };
            prop_assert_eq!(numbers(index.with_header(trace, parent)), scan(&carries));
            let calls =
                |row: &Row| row.capture == Capture::ClientProcess && row.trace_id == Some(trace);
            prop_assert_eq!(numbers(index.clients_of_trace(trace)), scan(&calls));
        }
    }
    let text = Text::of("a");
    let has = |row: &Row| is_kernel(row) && row.x_request_id == Some(text);
    prop_assert_eq!(numbers(index.with_x_request_id(text)), scan(&has));
    for slot in there {
        let row = index.row(*slot);
        let sorts: &[Sort] = match row.capture {
            Capture::App => &[Sort::Server, Sort::Client],
            Capture::ClientProcess if row.trace_id.is_some() => &[],
            _ => &[Sort::App],
        };
        for sort in sorts {
            let is_sort = |other: &Row| match sort {
                Sort::App => other.capture == Capture::App,
                Sort::Server => other.capture == Capture::ServerProcess,
                Sort::Client => other.capture == Capture::ClientProcess && other.trace_id.is_none(),
            };
            let of_process = |other: &Row| is_sort(other) && other.same_process(row);
            let during = |other: &Row| of_process(other) && row.covers_start(other, 5 * MS);
            prop_assert_eq!(index.during(*sort, *slot, 5 * MS), scan(&during));
            let covering = |other: &Row| of_process(other) && other.covers(row, 5 * MS, 9 * MS);
            prop_assert_eq!(index.covering(*sort, *slot, 5 * MS, 9 * MS), scan(&covering));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn look_ups_find_what_a_scan_finds(
        rows in rows(),
        more in rows(),
        gone in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let mut index = Index::default();
        let mut there: Vec<Slot> = rows.into_iter().map(|row| index.insert(row)).collect();
        check(&index, &there)?;
        for gone in gone {
            if !there.is_empty() {
                index.remove(there.swap_remove(gone.index(there.len())));
            }
        }
        check(&index, &there)?;
        // Inserts again, so that slots are reused.
        there.extend(more.into_iter().map(|row| index.insert(row)));
        check(&index, &there)?;
        for slot in there {
            index.remove(slot);
        }
        prop_assert!(index.is_bare());
    }
}
