//! Reads recordings to OTLP bytes on one core, and says how fast.

use std::path::PathBuf;
use std::time::Instant;

use spanwise_native::{Recording, otlp};

fn main() -> Result<(), String> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let mut recording = Recording::open(&paths)?;
    let used = recording.bytes();
    let began = Instant::now();
    let (mut spans, mut bytes) = (0, Vec::new());
    while let Some(piece) = recording.next_piece() {
        bytes.clear();
        let process = &recording.processes[piece.process];
        spans += otlp::traces(process, &piece, |_| true, &mut bytes);
    }
    let rate = spans as f64 / began.elapsed().as_secs_f64();
    println!("spans {spans} per_second {rate:.0}\nbytes {used}");
    for problem in recording.problems() {
        eprintln!("{problem}");
    }
    Ok(())
}
