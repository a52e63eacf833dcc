//! Detects the language runtime of an executable, because the meaning of threads depends on it.

use std::fs::File;
use std::path::Path;

use object::read::elf::{ElfFile64, FileHeader};
use object::{Endianness, Object, ReadCache};

use spanwise_capture_protocols::process::Runtime;

/// The runtime of a process, from its executable's name and sections.
///
/// `executable_file` is a path by which the file can be read from here
/// (`/proc/PID/exe`), whatever root the process has.
pub(super) fn detect(executable: &str, executable_file: &Path) -> Runtime {
    let stem = executable.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    match stem {
        "node" | "nodejs" => Runtime::Node,
        "java" => Runtime::Java,
        "python" => Runtime::Python,
        _ if is_go(executable_file) => Runtime::Go,
        _ => Runtime::Other(executable.to_owned()),
    }
}

/// Go's linker writes its build information into a separate section.
fn is_go(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    // Only the headers are read, because the file may be large.
    let cache = ReadCache::new(file);
    let Ok(elf) = ElfFile64::<Endianness, _>::parse(&cache) else { return false };
    let _: &object::elf::FileHeader64<Endianness> = elf.elf_header();
    debug_assert!(elf.elf_header().is_supported());
    elf.section_by_name(".go.buildinfo").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_interpreters() {
        let none = Path::new("/nonexistent");
        assert!(matches!(detect("python3.11", none), Runtime::Python));
        assert!(matches!(detect("node", none), Runtime::Node));
        assert!(matches!(detect("java", none), Runtime::Java));
        assert!(matches!(detect("nginx", none), Runtime::Other(name) if name == "nginx"));
    }

    #[test]
    fn a_rust_program_is_no_go_program() {
        assert!(!is_go(Path::new("/proc/self/exe")));
    }
}
