//! Embeds the helper for Java, if it has been built by `make java-helper`, which needs a JDK.
//! Without it the crate compiles anyway.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, fs};

fn main() {
    let built = Path::new("../target/java-helper");
    let jar = built.join("spanwise-java-helper.jar");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // If the directory did not exist, this script would run in every build.
    fs::create_dir_all(built)
        .unwrap_or_else(|error| panic!("cannot make {}: {error}", built.display()));
    println!("cargo:rerun-if-changed={}", built.display());
    let sources = Path::new("../agents/jvm/src");
    println!("cargo:rerun-if-changed={}", sources.display());
    let bytes = if jar.exists() {
        if newest(sources) > modified(&jar) {
            println!(
                "cargo:warning=the helper for Java that this build takes in is older than its \
                 sources: `make java-helper` builds it"
            );
        }
        fs::read(&jar).unwrap_or_else(|error| panic!("cannot read {}: {error}", jar.display()))
    } else {
        Vec::new()
    };
    fs::write(out.join("java-helper.jar"), bytes).expect("OUT_DIR can be written");
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

/// When a file below a directory was last modified. `None` if there is none.
fn newest(directory: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(directory).ok()?;
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let path = entry.path();
            if path.is_dir() { newest(&path) } else { modified(&path) }
        })
        .max()
}
