//! The cost of capturing: nanoseconds added to each of the ten calls that move bytes through
//! sockets, and to the same calls on files.
//!
//! A run measures the calls without hooks, with empty hooks, and with the agent's programs, in
//! turns. It prints differences within a round, as the median over all rounds, so that a
//! temporarily slow host affects all of them equally. Usage: `bench-capture [ROUNDS]`.
//!
//! Then the calls are measured with cold caches, as in a program that works between its calls: the
//! hook's code and data must be fetched, and they displace the program's.
//!
//! `bench-capture --drain [COMMAND]` attaches the agent's programs and discards their events until
//! it is stopped, to measure the kernel side alone. Processes of that command, which generate the
//! load, are excluded.
//!
//! `bench-capture --spans [REQUESTS]` measures the tracer alone: from events of nginx's requests
//! and responses to encoded batches. `bench-capture --spans FILE` uses events that an agent
//! recorded (setting `record`).

mod calls;
mod spans;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use calls::{CALLS, Fixture};
use spanwise_capture_ebpf::kernel::{
    EmptyHooks, Hook, HookChoice, Kernel, KernelConfig, RingReader, decode,
};
use spanwise_capture_host::filter::Filter;
use spanwise_capture_tracer::event::Event;

// The same allocator as the agent's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Calls that are timed together.
const BATCH: usize = 50;
const BATCHES: usize = 400;
const PAYLOAD_BYTES: usize = 256;
/// More than a processor's own caches.
const DISPLACING_BYTES: usize = 3 << 20;
const COLD_CALLS: usize = 500;

#[derive(Clone, Copy)]
enum Setting {
    Bare,
    Empty(Hook),
    Real(Hook),
}

/// Nanoseconds for each call, in the order of [`CALLS`]: sockets, then files, then sockets with
/// cold caches.
type Figures = Vec<f64>;

const FILES: usize = CALLS.len();
const COLD: usize = 2 * CALLS.len();

fn main() {
    if std::env::args().nth(1).as_deref() == Some("--drain") {
        let kernel = Kernel::attach(&KernelConfig::default()).unwrap_or_else(|error| fail(&error));
        let left_out = std::env::args().nth(2);
        drain(&kernel, left_out.as_deref(), &AtomicBool::new(false));
        return;
    }
    if std::env::args().nth(1).as_deref() == Some("--spans") {
        match std::env::args().nth(2) {
            None => spans::run(2_000_000),
            Some(text) => match text.parse() {
                Ok(requests) => spans::run(requests),
                Err(_) => spans::replay(text.as_ref()),
            },
        }
        return;
    }
    let rounds = std::env::args().nth(1).map_or(Ok(9), |text| text.parse::<usize>());
    let Ok(rounds) = rounds else {
        eprintln!("usage: bench-capture [ROUNDS], a whole number (default 9)");
        std::process::exit(2);
    };
    pin(0);
    let mut settings = vec![Setting::Bare];
    for hook in Hook::ALL {
        let config = KernelConfig { hook: HookChoice::Only(*hook), ..KernelConfig::default() };
        match Kernel::attach(&config) {
            Ok(_) => settings.extend([Setting::Empty(*hook), Setting::Real(*hook)]),
            Err(reason) => eprintln!("without {hook}: {reason}"),
        }
    }
    if settings.len() == 1 {
        fail(&"this kernel takes none of the hooks");
    }
    let mut samples: Vec<Vec<Figures>> = vec![Vec::new(); settings.len()];
    let fixture = Fixture::open(PAYLOAD_BYTES);
    // With a second thread, every call pays for the shared descriptor table. The ring's reader is a
    // thread, so there must be one in every setting.
    std::thread::spawn(|| {
        loop {
            std::thread::park();
        }
    });
    run(&fixture, 20, 1);
    for round in 0..rounds.max(1) {
        // The order changes each round, so that no setting always follows the same one.
        for step in 0..settings.len() {
            let index = (step + round) % settings.len();
            samples[index].push(measure(settings[index], &fixture));
        }
        eprint!("\rround {} of {rounds}", round + 1);
    }
    eprintln!();
    report(&settings, &samples);
}

fn measure(setting: Setting, fixture: &Fixture) -> Figures {
    match setting {
        Setting::Bare => run(fixture, BATCHES, COLD_CALLS),
        Setting::Empty(hook) => {
            let _hooks = EmptyHooks::attach(hook).unwrap_or_else(|error| fail(&error));
            run(fixture, BATCHES, COLD_CALLS)
        }
        Setting::Real(hook) => {
            let config = KernelConfig { hook: HookChoice::Only(hook), ..KernelConfig::default() };
            let kernel = Kernel::attach(&config).unwrap_or_else(|error| fail(&error));
            let done = AtomicBool::new(false);
            let (figures, records) = std::thread::scope(|scope| {
                let drain = scope.spawn(|| drain(&kernel, None, &done));
                let figures = run(fixture, BATCHES, COLD_CALLS);
                done.store(true, Ordering::Relaxed);
                (figures, drain.join().unwrap_or(0))
            });
            let expected = CALLS.len() * (BATCH * BATCHES + COLD_CALLS);
            assert!(records >= expected, "{hook}: {records} of {expected} transfers were seen");
            assert_eq!(kernel.losses().data, 0, "the ring overflowed; the figures would flatter");
            figures
        }
    }
}

/// Reads the ring like the agent, on the other core.
fn drain(kernel: &Kernel, left_out: Option<&str>, done: &AtomicBool) -> usize {
    pin(1);
    let events = kernel.events();
    let mut records = 0;
    let mut last_left_out = 0;
    let reader = kernel
        .reader(&events, |record| {
            records += 1;
            if let (Some(command), Ok(Event::Opened(opened))) = (left_out, decode(record))
                && opened.command.name() == command
                && opened.process != last_left_out
            {
                last_left_out = opened.process;
                let done = kernel.ignore_process(opened.process, true);
                done.and_then(|()| kernel.set_filter(&Filter::default(), true))
                    .unwrap_or_else(|error| fail(&error));
            }
        })
        .unwrap_or_else(|error| fail(&error));
    while !done.load(Ordering::Relaxed) {
        let records = reader.consume();
        std::thread::sleep(reader.pause(records).min(Duration::from_millis(3)));
    }
    while reader.consume() == RingReader::MOST_RECORDS {}
    drop(reader);
    records
}

fn run(fixture: &Fixture, batches: usize, cold_calls: usize) -> Figures {
    let mut times = vec![Vec::with_capacity(batches); CALLS.len() * 2];
    for _ in 0..batches {
        for (index, call) in CALLS.iter().enumerate() {
            times[index].push(time(BATCH, || fixture.on_socket(*call)));
            times[FILES + index].push(time(BATCH, || fixture.on_file(*call)));
        }
    }
    let mut displacing = vec![0_u8; DISPLACING_BYTES];
    let mut cold = vec![Vec::with_capacity(cold_calls); CALLS.len()];
    for _ in 0..cold_calls {
        for (call, times) in CALLS.iter().zip(&mut cold) {
            displace(&mut displacing);
            times.push(time(1, || fixture.on_socket(*call)));
        }
    }
    // A low quantile, because interrupts and other load only add time.
    times.iter_mut().chain(&mut cold).map(|times| quantile(times, 0.3)).collect()
}

/// Writes to each cache line of this memory, so that the caches contain nothing else.
fn displace(memory: &mut [u8]) {
    for line in memory.iter_mut().step_by(64) {
        *line = line.wrapping_add(1);
    }
    std::hint::black_box(memory);
}

fn time(calls: usize, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    start.elapsed().as_nanos() as f64 / calls as f64
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share) as usize]
}

fn report(settings: &[Setting], samples: &[Vec<Figures>]) {
    let added = |setting: usize, base: usize, column: usize| {
        let mut differences: Vec<f64> = samples[setting]
            .iter()
            .zip(&samples[base])
            .map(|(with, without)| with[column] - without[column])
            .collect();
        quantile(&mut differences, 0.5)
    };
    print!("{:<22}", "added ns per call");
    CALLS.iter().for_each(|call| print!("{:>10}", call.name()));
    println!();
    let row = |name: &str, offset: usize, value: &dyn Fn(usize) -> f64| {
        print!("{name:<22}");
        (0..CALLS.len()).for_each(|column| print!("{:>10.0}", value(offset + column)));
        println!();
    };
    let bare = |column: usize| {
        quantile(&mut samples[0].iter().map(|round| round[column]).collect::<Vec<_>>(), 0.5)
    };
    row("bare", 0, &bare);
    row("bare, on a file", FILES, &bare);
    row("bare, caches cold", COLD, &bare);
    for (index, setting) in settings.iter().enumerate() {
        let name = match setting {
            Setting::Bare => continue,
            Setting::Empty(hook) => format!("{hook} empty"),
            Setting::Real(hook) => format!("{hook} real"),
        };
        row(&name, 0, &|column| added(index, 0, column));
        row("  on a file", FILES, &|column| added(index, 0, column));
        row("  caches cold", COLD, &|column| added(index, 0, column));
    }
    println!();
    // The first hook is the agent's preferred one. Its figures count.
    let (empty, real) = (1, 2);
    for (column, call) in CALLS.iter().enumerate() {
        println!("figure capture.{}.total_ns {:.0} ns", call.name(), added(real, 0, column));
        println!(
            "figure capture.{}.beyond_empty_ns {:.0} ns",
            call.name(),
            added(real, empty, column)
        );
    }
    for (column, call) in CALLS.iter().enumerate() {
        println!(
            "figure capture.file_{}.total_ns {:.0} ns",
            call.name(),
            added(real, 0, FILES + column)
        );
    }
    for (column, call) in CALLS.iter().enumerate() {
        println!(
            "figure capture.cold_{}.total_ns {:.0} ns",
            call.name(),
            added(real, 0, COLD + column)
        );
    }
}

/// Pins this thread to a core, if there is more than one.
fn pin(core: usize) {
    // SAFETY: the set is a plain bit mask on this stack, and the call reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

fn fail(error: &dyn std::fmt::Display) -> ! {
    eprintln!("bench-capture: {error}");
    std::process::exit(1);
}
