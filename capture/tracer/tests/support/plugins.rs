//! Plugins built from C, as an operator builds them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use spanwise_capture_protocols::plugins::Plugin;
use spanwise_capture_tracer::Tracer;

use super::tracer;

/// The example's folder.
pub(crate) fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plugin")
}

/// A new file for a plugin, in a folder that `cargo clean` removes.
pub(crate) fn file(name: &str) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{name}-{}-{count}.wasm", std::process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A plugin built from this source.
pub(crate) fn built(source: &Path, flags: &[&str]) -> PathBuf {
    let name = source.file_stem().expect("a file").to_str().expect("UTF-8");
    let plugin = file(name);
    let done = Command::new(example().join("build.sh"))
        .args([source, &plugin])
        .args(flags)
        .output()
        .expect("bash runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "clang and lld are needed (make setup): {said}");
    plugin
}

/// One of the tests' own.
pub(crate) fn of_tests(name: &str, flags: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plugins");
    built(&folder.join(name), flags)
}

/// The plugin in a file, which goes with it.
pub(crate) fn loaded(file: &Path) -> Plugin {
    let plugin = Plugin::load(file).unwrap_or_else(|error| panic!("{error}"));
    std::fs::remove_file(file).expect("built a moment ago");
    plugin
}

/// A tracer with these plugins.
pub(crate) fn tracer_with(plugins: &[Plugin]) -> Tracer {
    let mut tracer = tracer();
    tracer.use_plugins(plugins.to_vec());
    tracer
}
