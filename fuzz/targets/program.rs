//! Executables in which the agent searches for the functions of TLS libraries. Anybody may run any
//! file. A small one is written to the directory FUZZ_SEEDS.
#![no_main]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use spanwise_capture_ebpf::libraries::tls_functions;
use spanwise_fuzz::program::program;

/// Maximum number of probed places in a file.
const MOST_FUNCTIONS: usize = 512;

/// An unnamed file that is reused for all inputs.
static FILE: LazyLock<File> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("spanwise-fuzz-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path);
    let file = file.expect("a temporary file");
    std::fs::remove_file(path).expect("it is there");
    file
});

fn find(bytes: &[u8]) -> usize {
    FILE.set_len(0).expect("a temporary file can be cut");
    FILE.write_all_at(bytes, 0).expect("a temporary file can be written");
    tls_functions(&FILE)
}

fn write_seeds(to: &Path) {
    for (name, text_in_table) in [("go-1.25", true), ("go-1.26", false)] {
        let seed = program(text_in_table);
        // SSL_read, Go's two methods, and a return.
        assert_eq!(find(&seed), 4, "{name}: the program's functions are not found");
        std::fs::write(to.join(name), seed).expect("a seed is written");
    }
}

fuzz_target!(
    init: {
        if let Some(seeds) = std::env::var_os("FUZZ_SEEDS") {
            write_seeds(Path::new(&seeds));
        }
    },
    |bytes: &[u8]| {
        assert!(find(bytes) <= MOST_FUNCTIONS);
    }
);
