//! Pages of lists that are in order: a cursor says behind which entry the next page begins, so
//! entries that come or go meanwhile move no others.

use std::cmp::Reverse;

use super::parameters::{Parameters, brief};
use crate::problem::Problem;

/// A place in a list: most spans first, then by name. Lists by name alone have 0 for all.
type Place = (Reverse<u64>, String);

/// The entries of a page of at most `limit`, and the cursor of the next one. `place` gives the
/// spans and the name of an entry.
///
/// # Errors
/// If the cursor is of no answer.
pub(super) fn page<T>(
    mut entries: Vec<T>,
    parameters: &Parameters,
    limit: usize,
    place: impl Fn(&T) -> (u64, String),
) -> Result<(Vec<T>, Option<String>), Problem> {
    let place = |entry: &T| -> Place {
        let (spans, name) = place(entry);
        (Reverse(spans), name)
    };
    entries.sort_by_cached_key(&place);
    if let Some(text) = parameters.text("cursor") {
        let behind = read(text).ok_or_else(|| {
            Problem::invalid(format!(
                "`cursor` is `{}`; write the `next_cursor` of the page before, or leave it out",
                brief(text)
            ))
        })?;
        entries.retain(|entry| place(entry) > behind);
    }
    let more = entries.len() > limit;
    entries.truncate(limit);
    let last = entries.last().filter(|_| more).map(place);
    let cursor = last.map(|(Reverse(spans), name)| format!("{spans}:{name}"));
    Ok((entries, cursor))
}

fn read(cursor: &str) -> Option<Place> {
    let (spans, name) = cursor.split_once(':')?;
    Some((Reverse(spans.parse().ok()?), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanwise_api::endpoints::OPERATIONS;

    #[test]
    fn pages_together_are_the_list() {
        let entry = |name: &str, spans: u64| (name.to_owned(), spans);
        let list = [("a:b", 3), ("b", 9), ("c", 3), ("é", 1), ("", 3)];
        let list: Vec<(String, u64)> = list.map(|(name, spans)| entry(name, spans)).to_vec();
        let mut wanted = list.clone();
        wanted.sort_by_key(|(name, spans)| (Reverse(*spans), name.clone()));
        for limit in 1..=6 {
            let (mut all, mut cursor) = (Vec::new(), None);
            loop {
                let given = cursor.iter().map(|it: &String| ("cursor".to_owned(), it.clone()));
                let parameters = Parameters::of(&OPERATIONS, given.collect()).expect("known");
                let place = |(name, spans): &(String, u64)| (*spans, name.clone());
                let paged = page(list.clone(), &parameters, limit, place).expect("a page");
                assert!(paged.0.len() <= limit && !paged.0.is_empty());
                all.extend(paged.0);
                cursor = paged.1;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(all, wanted, "{limit}");
        }
        let given = vec![("cursor".to_owned(), "b".to_owned())];
        let parameters = Parameters::of(&OPERATIONS, given).expect("known");
        assert!(page(list, &parameters, 1, |(name, spans)| (*spans, name.clone())).is_err());
    }
}
