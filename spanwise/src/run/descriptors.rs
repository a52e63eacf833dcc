//! The limit of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Minimum descriptors reserved for files of the store and for the agent.
const LEAST_RESERVE: u64 = 256;
/// More than any server needs.
const MOST: u64 = 1 << 20;

/// Raises the soft limit of open files to the hard limit. Returns the current limit.
pub(super) fn raised() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(MOST);
    let wanted = limit.maximum.unwrap_or(MOST).min(MOST);
    if wanted <= current {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit }) {
        Ok(()) => wanted,
        Err(error) => {
            tracing::warn!("the limit of open files stays at {current}: {error}");
            current
        }
    }
}

/// How many of these descriptors connections may use.
pub(super) fn for_connections(files: u64) -> usize {
    let reserve = (files / 4).max(LEAST_RESERVE).min(files / 2);
    usize::try_from(files - reserve).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_left_for_the_store() {
        assert_eq!(for_connections(1024), 768);
        assert_eq!(for_connections(64), 32);
        assert_eq!(for_connections(1 << 20), 786_432);
        assert!(raised() >= 64);
    }
}
