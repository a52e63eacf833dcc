//! The cost of the server as a tracing backend: the real program with its own data directory, fed
//! over OTLP/HTTP and queried through its API.
//!
//! Prints the CPU time from the first byte to compacted Parquet, bytes on disk by column, memory,
//! and the times of the three common queries. Each is printed with its lower bound for the same
//! bytes in the same run: decoding with prost alone, and compressing with zstd alone. `--grow`
//! measures queries again with five times as many spans.

mod browse;
mod columns;
mod dialects;
mod floor;
mod kept;
mod measure;
mod questions;
mod red;
mod server;
mod tags;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use clap::Parser;
use spanwise_bench_load::{Load, LoadConfig, LoadSummary, Posted, Profile, Tags, post};

use floor::Floor;
use kept::KeptData;
use measure::{alike, per_million, quantile_ms};
use questions::{Answer, Answers, Questions};
use server::Server;

/// The server's allocator, since the bounds are compared with the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the server as a store of spans.
#[derive(Debug, Clone, Parser)]
struct Flags {
    /// The program.
    #[arg(long, default_value = "target/release/spanwise")]
    spanwise: PathBuf,
    /// Profile of the spans: `shop` or `pods`.
    #[arg(long, default_value = "shop")]
    profile: Profile,
    /// Number of spans.
    #[arg(long, default_value_t = 10_000_000)]
    spans: u64,
    /// Continue to five times as many spans, and query again.
    #[arg(long)]
    grow: bool,
    /// Number of connections that post.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Number of queries of each kind.
    #[arg(long, default_value_t = 200)]
    questions: usize,
    /// Number of spans in the large trace at the end; 0 for none.
    #[arg(long, default_value_t = 100_000)]
    large: u64,
    /// Directory for the temporary data directory.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Keep the data in this directory. If it is already there, only query it; with `--grow`, all
    /// spans at once.
    #[arg(long, conflicts_with = "directory")]
    keep: Option<PathBuf>,
    /// Skip the lower bounds, which take half a minute.
    #[arg(long)]
    no_floor: bool,
    /// Measure only decoding, ours and prost's.
    #[arg(long)]
    decode: bool,
    /// Measure only memory after browsing for this many minutes, while few spans arrive.
    #[arg(long)]
    browse: bool,
    /// Minutes of browsing.
    #[arg(long, default_value_t = 60)]
    browse_minutes: u64,
    /// Acceleration of these minutes.
    #[arg(long, default_value_t = 10)]
    browse_speed: u64,
    /// Measure only the cost of a hundred labels on every span.
    #[arg(long)]
    tags: bool,
    /// Measure only the query APIs of other tools, with the spans of each profile in turn.
    #[arg(long)]
    dialects: bool,
    /// Measure only what counting spans for Prometheus takes.
    #[arg(long)]
    red: bool,
}

/// Time over which the spans of one part of the load are spread.
const PART_NANO: i64 = 3_600_000_000_000;
/// Number of parts of a growing load.
const GROWN_PARTS: u64 = 5;
/// Number of spans for measuring decoding and compression alone.
const FLOOR_SPANS: u64 = 300_000;
const KNOWN_TRACES: usize = 2_000;
/// Prefix of figures of a grown load.
const GROWN: &str = "grown_";

impl Flags {
    /// The prefix of figures in the group `of`, depending on the profile.
    fn named(&self, of: &str) -> String {
        match self.profile {
            Profile::Shop => format!("{of}."),
            Profile::Pods => format!("{of}.pods."),
        }
    }

    /// A part of the load that begins at `first`.
    fn load(&self, index: u64, first: i64) -> LoadConfig {
        LoadConfig {
            profile: self.profile,
            seed: 1 + index,
            spans: self.spans,
            trace_spans: 12..=40,
            start_unix_nano: first + PART_NANO * index as i64,
            end_unix_nano: first + PART_NANO * (index as i64 + 1),
            known_traces: KNOWN_TRACES,
            tags: Tags::None,
            batch_spans: LoadConfig::BATCH_SPANS,
        }
    }
}

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    // As in the server; see there.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let directory = match &flags.directory {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    };
    let directory = directory.context("cannot make a directory for the data")?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is wrong")?;
    let now = i64::try_from(now.as_nanos()).context("the clock is past the year 2262")?;
    let parts = if flags.grow { GROWN_PARTS } else { 1 };
    let grow = if flags.grow { " --grow" } else { "" };
    let profile = if flags.profile == Profile::Pods { "--profile pods " } else { "" };
    let load = format!("{profile}--spans {} --large {}{grow}", flags.spans, flags.large);
    let open = |keep| KeptData::open(keep, load);
    if flags.dialects {
        return dialects::measure(&flags, now, directory.path());
    }
    let kept = flags.keep.as_deref().map(open).transpose()?;
    let is_there = kept.as_ref().and_then(KeptData::end_unix_nano);
    let now = is_there.unwrap_or(now);
    let first = now - PART_NANO * parts as i64;
    let part = |index: u64| flags.load(index, first);

    let floor = || Floor::measure(&LoadConfig { spans: FLOOR_SPANS, ..part(0) });
    if flags.decode {
        return floor().map(|floor| floor.print_figures(&flags.named("otlp")));
    }
    if flags.red {
        return red::measure(&LoadConfig { spans: 2 * FLOOR_SPANS, ..part(0) });
    }
    if flags.tags {
        return tags::measure(&flags, part(0), directory.path());
    }
    let mut server =
        Server::start(&flags.spanwise, flags.keep.as_deref().unwrap_or(directory.path()))?;
    if flags.browse {
        browse::measure(&flags, part, &mut server)?;
        return server.stop();
    }
    if is_there.is_some() {
        let mut loads = (0..parts).map(|index| known_of(part(index)));
        let mut known = loads.next().context("a load has a part")??;
        loads.try_for_each(|other| other.map(|other| mix(&mut known, &other)))?;
        let questions = Questions::new(&known, (first, now), flags.questions);
        print_questions(
            &flags,
            if flags.grow { GROWN } else { "" },
            &ask(&questions, server.api())?,
        );
        if flags.large >= 2 {
            large(&mut server, &flags, now, true)?;
        }
        return server.stop();
    }
    let mut load = Load::new(part(0))?;
    let floor = if flags.no_floor { None } else { Some(floor()?) };
    let taken = feed(&mut server, &mut load, &flags, flags.spans)?;
    print_ingest(&flags, &taken, floor.as_ref());
    columns::print(server.files(), taken.spans)?;
    let questions = Questions::new(load.known(), (first, first + PART_NANO), flags.questions);
    let asked = ask(&questions, server.api())?;
    print_questions(&flags, "", &asked);

    if flags.grow {
        let mut known = load.known().clone();
        for index in 1..parts {
            let mut load = Load::new(part(index))?;
            let taken = feed(&mut server, &mut load, &flags, flags.spans * (index + 1))?;
            eprintln!("{} spans stored, {:.1} CPU-s", taken.stored, taken.cpu_seconds);
            mix(&mut known, load.known());
        }
        let questions = Questions::new(&known, (first, now), flags.questions);
        let grown = ask(&questions, server.api())?;
        print_questions(&flags, GROWN, &grown);
        let ratio = |of: fn(&Answers) -> &Vec<Answer>| {
            let (before, after) = (of(&asked), of(&grown));
            let p95_before = quantile_ms(before, 0.95);
            let alike = alike(before, after);
            (quantile_ms(&alike, 0.95) / p95_before, quantile_ms(after, 0.95) / p95_before)
        };
        let (by_id, _) = ratio(|answers| &answers.by_id);
        let (by_service, _) = ratio(|answers| &answers.by_service);
        let (by_attribute, of_longer) = ratio(|answers| &answers.by_attribute);
        let store = flags.named("store");
        println!("figure {store}growth_50m_ratio {:.2} 1", by_id.max(by_service).max(by_attribute));
        println!("figure {store}growth_50m_trace_by_id_ratio {by_id:.2} 1");
        println!("figure {store}growth_50m_search_service_ratio {by_service:.2} 1");
        println!("figure {store}growth_50m_search_attribute_ratio {by_attribute:.2} 1");
        println!(
            "figure {store}growth_50m_search_attribute_of_longer_answers_ratio {of_longer:.2} 1"
        );
        println!("figure {store}grown_peak_rss_mb {:.0} MB", server.peak_rss_mb()?);
    }
    if flags.large >= 2 {
        large(&mut server, &flags, now, false)?;
    }
    if let Some(kept) = kept {
        kept.note(now)?;
    }
    server.stop()
}

/// The cost of storing a part of the load.
struct StorageCost {
    spans: u64,
    /// Number of stored spans in this and earlier parts.
    stored: u64,
    posted: Posted,
    posting: Duration,
    settling: Duration,
    cpu_seconds: f64,
    /// At the time when everything was acknowledged, but not everything compacted.
    cpu_seconds_posted: f64,
    disk_bytes: u64,
    peak_rss_mb: f64,
}

fn feed(
    server: &mut Server,
    load: &mut Load,
    flags: &Flags,
    expected: u64,
) -> anyhow::Result<StorageCost> {
    let (cpu, began) = (server.cpu_seconds()?, Instant::now());
    let posted = post(load, server.otlp(), flags.connections).context("posting the load")?;
    let posting = began.elapsed();
    let cpu_seconds_posted = server.cpu_seconds()? - cpu;
    let stored = server.wait_settled(expected)?;
    Ok(StorageCost {
        spans: load.known().span_count,
        stored,
        posted,
        posting,
        settling: began.elapsed() - posting,
        cpu_seconds: server.cpu_seconds()? - cpu,
        cpu_seconds_posted,
        disk_bytes: server.disk_bytes()?,
        peak_rss_mb: server.peak_rss_mb()?,
    })
}

fn print_ingest(flags: &Flags, taken: &StorageCost, floor: Option<&Floor>) {
    let spans = taken.spans as f64;
    let cpu = per_million(taken.cpu_seconds, taken.spans);
    println!(
        "{} spans in {} requests of {:.0} bytes a span; posted in {:.1} s ({:.0} spans/s), settled \
         {:.1} s later; told to wait {} times",
        taken.spans,
        taken.posted.requests,
        taken.posted.bytes as f64 / spans,
        taken.posting.as_secs_f64(),
        spans / taken.posting.as_secs_f64(),
        taken.settling.as_secs_f64(),
        taken.posted.waits,
    );
    println!("\n{:<52}{:>10}", "CPU-seconds per million spans", "");
    println!("{:<52}{cpu:>10.2}", "server, first byte to compacted Parquet");
    let until_posted = per_million(taken.cpu_seconds_posted, taken.spans);
    println!("{:<52}{until_posted:>10.2}", "  of these until all was acknowledged");
    if let Some(floor) = floor {
        floor.print();
    }
    let store = flags.named("store");
    println!("\nfigure {store}cpu_seconds_per_million_spans {cpu:.2} s");
    if let Some(floor) = floor {
        println!("figure {store}prost_ratio {:.2} 1", cpu / floor.prost_seconds);
        floor.print_figures(&flags.named("otlp"));
    }
    println!("figure {store}bytes_per_span {:.1} B", taken.disk_bytes as f64 / spans);
    println!("figure {store}peak_rss_mb {:.0} MB", taken.peak_rss_mb);
}

fn ask(questions: &Questions, api: SocketAddr) -> anyhow::Result<Answers> {
    // The first round loads the data into the page cache.
    questions.warm_up(api)?;
    questions.ask(api)
}

fn print_questions(flags: &Flags, prefix: &str, answers: &Answers) {
    println!("\n{:<40}{:>8}{:>8}{:>8}", "milliseconds, warm", "p50", "p95", "p99");
    let rows = [
        ("trace by id", &answers.by_id),
        ("trace by the id of any of its spans", &answers.by_span),
        ("search by service, duration, 15 minutes", &answers.by_service),
        ("search by attribute, over all", &answers.by_attribute),
        ("  of these by a value of one trace", &answers.by_rare),
        ("  of these by a value of many", &answers.by_common),
    ];
    for (name, times) in rows {
        print!("{name:<40}");
        [0.5, 0.95, 0.99].iter().for_each(|share| print!("{:>8.1}", quantile_ms(times, *share)));
        println!();
    }
    println!();
    let store = flags.named("store");
    let figure = |name: &str, times: &[Answer]| {
        println!("figure {store}{prefix}{name}_p95_ms {:.1} ms", quantile_ms(times, 0.95));
    };
    figure("trace_by_id", &answers.by_id);
    if prefix.is_empty() && flags.profile == Profile::Shop {
        println!("figure assembly.trace_p95_ms {:.1} ms", quantile_ms(&answers.by_span, 0.95));
    }
    figure("search_service", &answers.by_service);
    figure("search_attribute", &answers.by_attribute);
}

/// The summary of a load, which requires generating its requests.
fn known_of(config: LoadConfig) -> anyhow::Result<LoadSummary> {
    let mut load = Load::new(config)?;
    let mut request = Vec::new();
    while load.next_request(&mut request).is_some() {}
    Ok(load.known().clone())
}

/// Adds the summary of another part of the load.
fn mix(known: &mut LoadSummary, other: &LoadSummary) {
    known.traces.extend(other.traces.iter().cloned());
    known.trace_count += other.trace_count;
    known.span_count += other.span_count;
    known.error_count += other.error_count;
}

/// A very large trace: written, found, and read in pages; if it is already stored, only read.
fn large(server: &mut Server, flags: &Flags, now: i64, is_there: bool) -> anyhow::Result<()> {
    let mut load = Load::new(LoadConfig {
        profile: flags.profile,
        seed: 99,
        spans: flags.large,
        trace_spans: flags.large..=flags.large,
        start_unix_nano: now - PART_NANO,
        end_unix_nano: now,
        known_traces: 1,
        tags: Tags::None,
        batch_spans: LoadConfig::BATCH_SPANS,
    })?;
    if is_there {
        while load.next_request(&mut Vec::new()).is_some() {}
        println!("\na trace of {} spans", flags.large);
    } else {
        let before = server.stored()?;
        let began = Instant::now();
        post(&mut load, server.otlp(), flags.connections).context("posting the large trace")?;
        let posted = began.elapsed();
        let recent = questions::pages_of(server.api(), &load.known().traces[0].trace_id)?;
        println!(
            "\na trace of {} spans: posted in {:.2} s; {} of them read at once in {:.2} s ({} MB of \
             JSON)",
            flags.large,
            posted.as_secs_f64(),
            recent.spans,
            recent.total().as_secs_f64(),
            recent.bytes >> 20,
        );
        server.wait_settled(before + flags.large)?;
    }
    let (first, cpu) = (&load.known().traces[0], server.cpu_seconds()?);
    let settled = questions::pages_of(server.api(), &first.trace_id)?;
    let cpu = server.cpu_seconds()? - cpu;
    ensure!(
        settled.spans as u64 == flags.large,
        "the large trace has {} spans, and {} were read",
        flags.large,
        settled.spans
    );
    println!(
        "{} of them from files, in {} pages: the first in {:.2} s; {cpu:.2} CPU-s",
        settled.spans,
        settled.times.len(),
        settled.times.first().map_or(0.0, Duration::as_secs_f64),
    );
    let store = flags.named("store");
    println!("figure {store}large_trace_read_s {:.2} s", settled.total().as_secs_f64());
    let slowest = settled.times.iter().max().copied().unwrap_or_default();
    println!("figure {store}large_trace_page_s {:.2} s", slowest.as_secs_f64());
    Ok(())
}
