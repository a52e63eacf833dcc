//! Builds the C library.

fn main() {
    let sources = ["record", "process", "metrics", "export"].map(|name| format!("../src/{name}.c"));
    println!("cargo::rerun-if-changed=../src");
    println!("cargo::rerun-if-changed=../include");
    cc::Build::new()
        .files(&sources)
        .include("../include")
        .std("c11")
        .define("_GNU_SOURCE", None)
        .opt_level(2)
        .flag("-fvisibility=hidden")
        .compile("spanwise");
    println!("cargo::rustc-link-lib=pthread");
    println!("cargo::rustc-link-lib=dl");
}
