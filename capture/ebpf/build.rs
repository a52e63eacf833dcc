//! Compiles the BPF programs into objects that are embedded in the crate.

#[path = "build/layout.rs"]
mod layout;

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed=build");
    let header = std::fs::read_to_string("bpf/spanwise.h").expect("the header is there");
    let write = |name: &str, text: String| {
        std::fs::write(out.join(name), text).expect("cargo's directory can be written");
    };
    write("layout.rs", layout::constants(&header));
    write("layout.h", layout::assertions(&header));
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    let architecture = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "arm64",
        _ => "x86",
    };
    let objects: [(&str, &str, &[&str]); 4] = [
        ("capture", "capture", &[]),
        ("capture", "capture_before_5_12", &["-DBEFORE_5_12"]),
        ("empty", "empty", &[]),
        ("figures", "figures", &[]),
    ];
    for (source, object, defined) in objects {
        let source = Path::new("bpf").join(format!("{source}.bpf.c"));
        let architecture = format!("-D__TARGET_ARCH_{architecture}");
        let include = format!("-I{}", out.display());
        libbpf_cargo::SkeletonBuilder::new()
            .source(&source)
            .clang_args([architecture.as_str(), include.as_str(), "-Wall"].iter().chain(defined))
            .obj(out.join(format!("{object}.bpf.o")))
            .build()
            .unwrap_or_else(|error| {
                panic!(
                    "{} does not compile: {error:#}\nclang 14 or newer with its BPF target is \
                     needed (apt-get install clang)",
                    source.display()
                )
            });
    }
}
