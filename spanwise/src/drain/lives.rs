//! Whether a program still has its recording mapped.

use std::fs;

/// Whether any process maps `NAME.process`. Its own number is tried first; in another namespace it
/// has another number, so all are asked then.
pub(super) fn lives(pid: u32, name: &str) -> bool {
    let file = format!("/{name}.process");
    match maps(pid, &file) {
        Some(true) => return true,
        Some(false) => {}
        // It is there, and may be the one.
        None if fs::exists(format!("/proc/{pid}")).unwrap_or(false) => return true,
        None => {}
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .any(|pid: u32| maps(pid, &file) == Some(true))
}

/// `None` if it cannot be read.
fn maps(pid: u32, file: &str) -> Option<bool> {
    let bytes = fs::read(format!("/proc/{pid}/maps")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(
        text.lines()
            .any(|line| line.ends_with(file) || line.ends_with(&format!("{file} (deleted)"))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_seen() {
        let own = std::process::id();
        let text = fs::read_to_string("/proc/self/maps").expect("readable");
        let program = text.lines().find_map(|line| line.rsplit_once('/')).expect("files").1;
        assert_eq!(maps(own, &format!("/{program}")), Some(true));
        assert!(!lives(own, "no-such-recording"));
        assert!(!lives(u32::MAX, "no-such-recording"));
    }
}
