//! Traffic of traced processes, as input of the tracer: the parsers of all protocols, and their
//! recognition. FUZZ_PROTOCOL selects a single parser that gets everything instead. Recordings of
//! this protocol are written to the directory FUZZ_SEEDS.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use spanwise_fuzz::traffic::{Goal, play, write_seeds};

static GOAL: OnceLock<Goal> = OnceLock::new();

fn name() -> String {
    std::env::var("FUZZ_PROTOCOL").unwrap_or_else(|_| "traffic".to_owned())
}

fn goal() -> Goal {
    *GOAL.get_or_init(|| {
        let name = name();
        Goal::named(&name).unwrap_or_else(|| panic!("FUZZ_PROTOCOL: there is no `{name}`"))
    })
}

fuzz_target!(
    init: {
        if let Some(seeds) = std::env::var_os("FUZZ_SEEDS") {
            let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/recorded");
            write_seeds(&name(), goal(), Path::new(recorded), Path::new(&seeds));
        }
    },
    |input: &[u8]| {
        play(input, goal());
    }
);
