//! Recordings of native programs: read as a whole, and followed while they grow. An input is a byte
//! of form, the lengths of the process's file and of the ring's slots, and the parts themselves.
//! Recordings in the directory SPANWISE_RECORDED are written to the directory FUZZ_SEEDS.
#![no_main]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use spanwise_fuzz::directory;
use spanwise_native::{Following, Piece, Process, Recording, otlp};
use spanwise_wire::otlp::{Limits, decode_protobuf};

/// In the byte of form: the data is in segments.
const SEGMENTS: u8 = 1;
/// In the byte of form: another reader goes on from a checkpoint.
const RESTART: u8 = 2;
const HEAD: usize = 264;
const SLOTS_AT: u64 = 4096;
const DATA_AT: u64 = 8192;
const BLOCK: usize = 4096;
/// Spans of the recorded thread that came to their end.
const ENDED: u64 = 2;
/// What a reader is asked at most. It must come to its end.
const STEPS: usize = 10_000;

static DIR: LazyLock<PathBuf> = LazyLock::new(|| directory("native"));

struct Parts<'a> {
    form: u8,
    process: &'a [u8],
    head: &'a [u8],
    slots: &'a [u8],
    data: &'a [u8],
}

fn cut<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (part, rest) = bytes.split_at(length.min(bytes.len()));
    *bytes = rest;
    part
}

fn parts(mut bytes: &[u8]) -> Option<Parts<'_>> {
    let [form, a, b, slots, ref rest @ ..] = *bytes else { return None };
    bytes = rest;
    Some(Parts {
        form,
        process: cut(&mut bytes, usize::from(u16::from_le_bytes([a, b]))),
        head: cut(&mut bytes, HEAD),
        slots: cut(&mut bytes, usize::from(slots) * 16),
        data: bytes,
    })
}

fn create(name: &str) -> File {
    let file = File::options().write(true).create(true).truncate(true).open(DIR.join(name));
    file.expect("a file in the directory can be made")
}

fn write(parts: &Parts<'_>) -> File {
    let process = create("1-1.process");
    // Readers ask for the whole head.
    process.set_len(4096.max(parts.process.len() as u64)).expect("a file can grow");
    process.write_all_at(parts.process, 0).expect("written");
    let ring = create("1-1.0.ring");
    ring.set_len(DATA_AT).expect("a file can grow");
    ring.write_all_at(parts.head, 0).expect("written");
    ring.write_all_at(parts.slots, SLOTS_AT).expect("written");
    for number in 0..2 {
        let _ = std::fs::remove_file(DIR.join(format!("1-1.0.{number}.segment")));
    }
    if parts.form & SEGMENTS == 0 {
        ring.write_all_at(parts.data, DATA_AT).expect("written");
    } else {
        let mut data = parts.data;
        for number in 0..2 {
            let segment = create(&format!("1-1.0.{number}.segment"));
            segment.write_all_at(cut(&mut data, 2 * BLOCK), 0).expect("written");
        }
    }
    ring
}

/// The messages of a piece are read by their receiver as they were meant.
fn check(process: &Process, piece: &Piece) -> u64 {
    let mut bytes = Vec::new();
    let count = otlp::traces(process, piece, |_| true, &mut bytes);
    assert_eq!(count, piece.spans.len() as u64);
    let decoded = decode_protobuf(&bytes, &Limits::default()).expect("it is OTLP");
    assert_eq!(decoded.batch.num_rows() as u64 + decoded.rejections.total(), count);
    bytes.clear();
    otlp::logs(process, &piece.logs, &mut bytes);
    otlp::metrics(process, &piece.metrics, &mut bytes);
    count
}

fn read_all() -> u64 {
    let Ok(mut recording) = Recording::open(std::slice::from_ref(&*DIR)) else { return 0 };
    let mut spans = 0;
    for step in 0.. {
        assert!(step < STEPS, "a recording has an end");
        let Some(piece) = recording.next_piece() else { break };
        spans += check(&recording.processes[piece.process], &piece);
    }
    spans
}

/// Grows the ring to its head in three steps, while it is followed; then its program is dead.
fn follow(parts: &Parts<'_>, ring: &File) -> u64 {
    let Some(head) = parts.head.get(128..136) else { return 0 };
    let head = u64::from_le_bytes(head.try_into().expect("eight bytes"));
    let open = |checkpoint: Option<&[u8]>| {
        let resource = vec![("host.name".to_owned(), "h".to_owned())];
        Following::open(&DIR, resource, checkpoint).expect("a reader knows its own checkpoint")
    };
    let mut following = open(None);
    let (mut spans, mut quiet) = (0, 0);
    for step in 0..STEPS {
        let grown = match step {
            0 => (head / 3) & !7,
            1 => (head / 3 * 2) & !7,
            _ => head,
        };
        ring.write_all_at(&grown.to_le_bytes(), 128).expect("written");
        let (given, more) = following.poll(&mut |_, _| step < 3);
        let nothing = given.is_empty() && !more;
        for given in given {
            spans += check(following.process(&given.process).expect("it gave"), &given.piece);
        }
        let checkpoint = following.checkpoint();
        if parts.form & RESTART != 0 && step < 3 {
            following = open(Some(&checkpoint));
        }
        following.accepted();
        quiet = if nothing { quiet + 1 } else { 0 };
        if quiet > 4 {
            return spans;
        }
    }
    panic!("a ring has an end");
}

/// A recording in the form of an input: without room, and with small blocks, of which the second
/// repeats the first.
fn seed(process: &[u8], ring: &[u8], data: &[u8], form: u8) -> Option<Vec<u8>> {
    let number = |bytes: &[u8], at: usize| {
        Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize)
    };
    let mut small = process.get(..632)?.to_vec();
    let lengths = [
        number(process, 64)?,
        32 * number(process, 64)?,
        32 * number(process, 68)?,
        4 * number(process, 56)?,
        number(process, 60)?,
        24 * number(process, 72)?,
    ];
    for (table, length) in lengths.into_iter().enumerate() {
        let (field, to) = (600 + 4 * table, small.len() as u32);
        let from = number(process, field)?;
        small[field..field + 4].copy_from_slice(&to.to_le_bytes());
        small.extend(process.get(from..from + length)?);
    }
    let used = number(ring, 128)?;
    let mut head = ring.get(..HEAD)?.to_vec();
    let slots = ring.get(4096..)?.get(..number(ring, 136)? * 64)?;
    let mut data = data.get(..used)?.to_vec();
    let again = data.clone();
    data.resize(BLOCK, 0);
    let mut put = |at: usize, value: u64, length: usize| {
        head[at..at + length].copy_from_slice(&value.to_le_bytes()[..length]);
    };
    data.extend(&again);
    data[BLOCK + 8..BLOCK + 16].copy_from_slice(&1_u64.to_le_bytes());
    data[BLOCK + 24..BLOCK + 32].copy_from_slice(&ENDED.to_le_bytes());
    put(44, BLOCK as u64, 4);
    let (in_ring, in_segment) = if form & SEGMENTS == 0 { (16 * BLOCK, 0) } else { (0, 2 * BLOCK) };
    put(48, in_ring as u64, 8);
    put(56, in_segment as u64, 8);
    put(128, data.len() as u64, 8);
    let length = (small.len() as u16).to_le_bytes();
    let mut seed = vec![form, length[0], length[1], (slots.len() / 16) as u8];
    for part in [&small[..], &head, slots, &data] {
        seed.extend(part);
    }
    Some(seed)
}

fn write_seeds(to: &Path) {
    let Some(from) = std::env::var_os("SPANWISE_RECORDED") else { return };
    let from = Path::new(&from);
    let names = std::fs::read_dir(from).expect("recordings").map(|entry| {
        entry.expect("a file").file_name().into_string().expect("a name of the library")
    });
    let read = |name: &str| std::fs::read(from.join(name)).expect("it can be read");
    let (mut process, mut data) = (Vec::new(), Vec::new());
    for name in names {
        if name.ends_with(".process") {
            process = read(&name);
        } else if let Some(name) = name.strip_suffix(".ring") {
            data.push((read(&format!("{name}.ring")), read(&format!("{name}.0.segment"))));
        }
    }
    // The thread with spans; another took the metrics.
    data.sort_by_key(|(ring, _)| ring[128..136].iter().rev().copied().collect::<Vec<_>>());
    let (ring, data) = data.pop().expect("a recording has rings");
    for form in 0..4 {
        let seed = seed(&process, &ring, &data, form).expect("the recording is whole");
        let found = parts(&seed).map(|parts| (write(&parts), read_all()).1);
        assert!(found > Some(2), "the spans of the seed are found: {found:?}");
        std::fs::write(to.join(format!("recorded-{form}")), seed).expect("a seed is written");
    }
}

fuzz_target!(
    init: {
        if let Some(seeds) = std::env::var_os("FUZZ_SEEDS") {
            write_seeds(Path::new(&seeds));
        }
    },
    |bytes: &[u8]| {
        let Some(parts) = parts(bytes) else { return };
        let ring = write(&parts);
        read_all();
        follow(&parts, &ring);
    }
);
