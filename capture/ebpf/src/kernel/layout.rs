//! Where the fields of `bpf/spanwise.h` lie. `build/layout.rs` reads them from there, and the
//! compiler of the BPF programs checks that it sees them in the same places.

#![allow(dead_code, reason = "the header has more than is read here")]

include!(concat!(env!("OUT_DIR"), "/layout.rs"));
