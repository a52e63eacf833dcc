//! Embeds the helper for Java, if it has been built by `make java-helper`, which needs a JDK.
//! Without it the crate compiles anyway.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let built = Path::new("../target/java-helper");
    let jar = built.join("spanwise-java-helper.jar");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // If the directory did not exist, this script would run in every build.
    fs::create_dir_all(built)
        .unwrap_or_else(|error| panic!("cannot make {}: {error}", built.display()));
    println!("cargo:rerun-if-changed={}", built.display());
    let bytes = if jar.exists() {
        fs::read(&jar).unwrap_or_else(|error| panic!("cannot read {}: {error}", jar.display()))
    } else {
        Vec::new()
    };
    fs::write(out.join("java-helper.jar"), bytes).expect("OUT_DIR can be written");
}
