//! Chooses which files to merge.
//!
//! Eight consecutive files are merged if none is much larger than the others. So a row is moved
//! only a few times, and the number of files grows with the logarithm of their size, until they
//! reach the maximum size.

use std::sync::Arc;
use std::time::Duration;

use crate::embedded::files::SpanFile;

const MERGE_FILES: usize = 8;
/// Maximum size of a merged file.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// A merged file is at least this many times larger than its largest part.
const LEAST_GROWTH: u64 = 4;
/// Without an age limit, a file covers at most this much time.
const LONGEST_WINDOW: Duration = Duration::from_secs(86_400);
/// With an age limit, a file covers at most this fraction of it.
const WINDOWS_OF_AGE: u32 = 24;

/// Maximum time over which the rows of one file arrived.
pub(crate) fn window(retain_age: Option<Duration>) -> Duration {
    retain_age.map_or(LONGEST_WINDOW, |age| (age / WINDOWS_OF_AGE).min(LONGEST_WINDOW))
}

/// The next files to merge, if any. Files with a missing generation between them (for example, of a
/// broken file) are not merged, because the merged file would claim to contain it.
pub(crate) fn next(files: &[Arc<SpanFile>], window: Duration) -> Vec<Arc<SpanFile>> {
    let parts: Vec<Part> = files.iter().map(Part::of).collect();
    let chosen = choose(&parts, i64::try_from(window.as_nanos()).unwrap_or(i64::MAX));
    chosen.map_or_else(Vec::new, |first| files[first..first + MERGE_FILES].to_vec())
}

/// The properties of a file that matter here.
#[derive(Debug, Clone, Copy)]
struct Part {
    generations: (u64, u64),
    bytes: u64,
    written_unix_nano: i64,
}

impl Part {
    fn of(file: &Arc<SpanFile>) -> Self {
        Self {
            generations: file.generations,
            bytes: file.bytes,
            written_unix_nano: file.written_unix_nano,
        }
    }
}

/// The first of the consecutive files with the fewest bytes.
fn choose(parts: &[Part], window_nano: i64) -> Option<usize> {
    let bytes = |run: &[Part]| run.iter().map(|part| part.bytes).sum::<u64>();
    let fits = |run: &&[Part]| {
        let follow = |two: &[Part]| two[0].generations.1 + 1 == two[1].generations.0;
        let largest = run.iter().map(|part| part.bytes).max().unwrap_or(0);
        let written = run.iter().map(|part| part.written_unix_nano);
        let (first, last) = (written.clone().min(), written.max());
        let span = last.zip(first).map_or(0, |(last, first)| last.saturating_sub(first));
        run.windows(2).all(follow)
            && (LEAST_GROWTH * largest..=MAX_FILE_BYTES).contains(&bytes(run))
            && span <= window_nano
    };
    parts
        .windows(MERGE_FILES)
        .enumerate()
        .filter(|(_, run)| fits(run))
        .min_by_key(|(_, run)| bytes(run))
        .map(|(first, _)| first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn part(generation: u64, bytes: u64) -> Part {
        let written_unix_nano = generation as i64 * SECOND;
        Part { generations: (generation, generation), bytes, written_unix_nano }
    }

    /// Merges until nothing is left to merge. Returns the number of bytes moved.
    fn settle(parts: &mut Vec<Part>, window_nano: i64) -> u64 {
        let mut moved = 0;
        while let Some(first) = choose(parts, window_nano) {
            let run = &parts[first..first + MERGE_FILES];
            let merged = Part {
                generations: (run[0].generations.0, run[MERGE_FILES - 1].generations.1),
                bytes: run.iter().map(|part| part.bytes).sum(),
                written_unix_nano: run[MERGE_FILES - 1].written_unix_nano,
            };
            moved += merged.bytes;
            parts.splice(first..first + MERGE_FILES, [merged]);
        }
        moved
    }

    #[test]
    fn files_stay_few_and_rows_move_a_few_times_only() {
        for (each, count, most_files) in [(4 << 20, 2_000, 80), (3_000, 5_000, 40)] {
            let (mut parts, mut moved) = (Vec::new(), 0);
            for generation in 0..count {
                parts.push(part(generation, each));
                moved += settle(&mut parts, i64::MAX);
            }
            let all = each * count;
            assert!(parts.len() <= most_files, "{} files of {each} bytes", parts.len());
            assert!(moved <= 5 * all, "{moved} of {all} bytes moved");
            assert!(parts.iter().all(|part| part.bytes <= MAX_FILE_BYTES));
        }
    }

    #[test]
    fn a_gap_and_a_window_are_not_reached_over() {
        let mut parts: Vec<Part> = (0..20).map(|generation| part(generation, 10)).collect();
        parts.remove(5);
        parts.remove(11);
        assert_eq!(choose(&parts, i64::MAX), None);
        let parts: Vec<Part> = (0..20).map(|generation| part(generation, 10)).collect();
        assert_eq!(choose(&parts, 6 * SECOND), None);
        assert_eq!(choose(&parts, 7 * SECOND), Some(0));
        assert_eq!(window(Some(Duration::from_secs(24))), Duration::from_secs(1));
        assert_eq!(window(None), LONGEST_WINDOW);
    }

    #[test]
    fn a_large_file_is_not_moved_for_small_ones() {
        let mut parts: Vec<Part> = (0..8).map(|generation| part(generation, 10)).collect();
        parts[0].bytes = 1000;
        assert_eq!(choose(&parts, i64::MAX), None);
        parts.push(part(8, 10));
        assert_eq!(choose(&parts, i64::MAX), Some(1));
    }
}
