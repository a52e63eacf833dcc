//! Root causes of published faults: which service does the analysis suspect first?
//!
//! Reads recordings of applications with injected faults, as the authors of Nezha (FSE 2023)
//! published them: spans as CSV, a file a minute, and a list of faults with time and pod. For each
//! fault, the three minutes from its start are compared with those of the day's other faults and
//! with its other minutes. Faults of which no span was recorded are left out and counted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ahash::AHashMap;
use anyhow::{Context as _, ensure};
use clap::Parser;
use serde::Deserialize;
use spanwise_analyze::cause::{CauseRange, CauseSpan, CauseVerdict};
use spanwise_analyze::{Name, Names};
use spanwise_model::SpanId;
use time::PrimitiveDateTime;
use time::macros::format_description;

/// How long a fault lasts at least.
const FAULT_SECONDS: i64 = 180;
const MINUTE_SECONDS: i64 = 60;
/// Ranges with fewer spans say nothing.
const LEAST_SPANS: usize = 300;

/// Measures the analysis of causes on published faults.
#[derive(Debug, Parser)]
struct Flags {
    /// Directories of a day each: `trace/*.csv` and `*-fault_list.json`.
    #[arg(required = true)]
    days: Vec<PathBuf>,
    /// The name of the figures.
    #[arg(long, default_value = "cause")]
    name: String,
    /// Only these kinds of faults.
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<String>,
}

/// An injected fault, as it is listed.
#[derive(Debug, Deserialize)]
struct Fault {
    inject_time: String,
    inject_pod: String,
    inject_type: String,
}

/// The spans of a day.
struct Day {
    names: Names,
    spans: Vec<CauseSpan>,
}

/// What was found.
#[derive(Default)]
struct Found {
    faults: usize,
    first: usize,
    among_three: usize,
    without_spans: usize,
    /// Somebody else stands out.
    blamed_wrongly: usize,
}

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let mut found = Found::default();
    for day in &flags.days {
        measure(day, &flags.kinds, &mut found)?;
    }
    let share = |count: usize| count as f64 / found.faults.max(1) as f64;
    let name = &flags.name;
    println!("\n{} faults, and {} without any span", found.faults, found.without_spans);
    println!("figure analysis.{name}_top1_share {:.3} 1", share(found.first));
    println!("figure analysis.{name}_top3_share {:.3} 1", share(found.among_three));
    println!("figure analysis.{name}_blamed_wrongly_share {:.3} 1", share(found.blamed_wrongly));
    Ok(())
}

fn measure(directory: &Path, kinds: &[String], found: &mut Found) -> anyhow::Result<()> {
    let faults = faults(directory)?;
    let day = Day::read(&directory.join("trace"))?;
    let end = |start: i64| start + FAULT_SECONDS;
    // The number of a fault, or a minute.
    let range_of = |seconds: i64| {
        let fault = faults.iter().position(|(start, _)| (*start..end(*start)).contains(&seconds));
        fault.ok_or(seconds / MINUTE_SECONDS)
    };
    let mut spans: BTreeMap<Result<usize, i64>, Vec<CauseSpan>> = BTreeMap::new();
    for span in &day.spans {
        let seconds = span.start_unix_nano / 1_000_000_000;
        spans.entry(range_of(seconds)).or_default().push(*span);
    }
    let mut ranges: BTreeMap<Result<usize, i64>, CauseRange> =
        spans.into_iter().map(|(range, spans)| (range, CauseRange::of(&spans))).collect();
    ranges.retain(|_, range| range.spans() >= LEAST_SPANS);
    for (number, (_, fault)) in faults.iter().enumerate() {
        if !kinds.is_empty() && !kinds.contains(&fault.inject_type) {
            continue;
        }
        let Some(range) = ranges.remove(&Ok(number)) else {
            found.without_spans += 1;
            continue;
        };
        let wanted = service_of(&fault.inject_pod);
        let verdict = CauseVerdict::of(&range, ranges.values(), &day.names);
        let place = verdict.suspects.iter().position(|suspect| suspect.service == wanted);
        let stands_out = verdict.suspects.first().is_some_and(|first| first.stands_out);
        found.faults += 1;
        found.first += usize::from(place == Some(0));
        found.among_three += usize::from(place.is_some_and(|place| place < 3));
        found.blamed_wrongly += usize::from(stands_out && place != Some(0));
        println!(
            "{:<28}{:<18}{:<10}{}",
            wanted,
            fault.inject_type,
            place.map_or("-".to_owned(), |place| (place + 1).to_string()),
            verdict.suspects.first().map_or(String::new(), |first| format!(
                "{} {:.2}{}",
                first.service,
                first.score,
                if first.stands_out { ", stands out" } else { "" }
            ))
        );
        ranges.insert(Ok(number), range);
    }
    Ok(())
}

/// The day's faults with their starts in seconds since 1970.
fn faults(directory: &Path) -> anyhow::Result<Vec<(i64, Fault)>> {
    let lists = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let list = lists
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().ends_with("-fault_list.json"))
        .with_context(|| format!("{} has no list of faults", directory.display()))?;
    let hours: BTreeMap<String, Vec<Fault>> =
        serde_json::from_slice(&fs::read(&list)?).with_context(|| list.display().to_string())?;
    let form = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
    let mut faults = Vec::new();
    for fault in hours.into_values().flatten() {
        let start = PrimitiveDateTime::parse(&fault.inject_time, &form)
            .with_context(|| fault.inject_time.clone())?;
        faults.push((start.assume_utc().unix_timestamp(), fault));
    }
    faults.sort_by_key(|(start, _)| *start);
    Ok(faults)
}

/// The name of a pod without the parts that Kubernetes adds.
fn service_of(pod: &str) -> &str {
    pod.rsplitn(3, '-').nth(2).unwrap_or(pod)
}

impl Day {
    fn read(directory: &Path) -> anyhow::Result<Self> {
        let mut files: Vec<PathBuf> = fs::read_dir(directory)
            .with_context(|| directory.display().to_string())?
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .collect();
        files.sort();
        let mut day = Self { names: Names::default(), spans: Vec::new() };
        let mut places: AHashMap<SpanId, usize> = AHashMap::new();
        for file in files {
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            for line in text.lines().skip(1) {
                let span = day.span(line).with_context(|| format!("{}: {line}", file.display()))?;
                // Some are there twice.
                if places.insert(span.span_id, day.spans.len()).is_none() {
                    day.spans.push(span);
                }
            }
        }
        ensure!(!day.spans.is_empty(), "{} has no spans", directory.display());
        day.find_calls();
        Ok(day)
    }

    /// `TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano,Duration`
    fn span(&mut self, line: &str) -> anyhow::Result<CauseSpan> {
        let fields: Vec<&str> = line.rsplitn(4, ',').collect();
        let &[_, end, start, head] = &fields[..] else { anyhow::bail!("too few fields") };
        let head: Vec<&str> = head.splitn(5, ',').collect();
        let &[_, id, parent, pod, operation] = &head[..] else { anyhow::bail!("too few fields") };
        let (start, end): (i64, i64) = (start.parse()?, end.parse()?);
        Ok(CauseSpan {
            span_id: span_id(id).context("the id is none")?,
            parent: span_id(parent),
            service: self.names.name(service_of(pod)),
            operation: self.names.name(operation),
            is_call: false,
            is_stored: false,
            start_unix_nano: start,
            duration_nano: end - start,
            error: false,
            retransmits: None,
        })
    }

    /// The kinds of spans were not published: a span is a call if its only child is of another
    /// service.
    fn find_calls(&mut self) {
        let services: AHashMap<SpanId, (usize, Name)> = (self.spans.iter().enumerate())
            .map(|(place, span)| (span.span_id, (place, span.service)))
            .collect();
        let mut children: Vec<(usize, bool)> = vec![(0, false); self.spans.len()];
        for span in &self.spans {
            let parent = span.parent.and_then(|parent| services.get(&parent));
            if let Some((place, service)) = parent {
                let (count, is_other) = &mut children[*place];
                *count += 1;
                *is_other = span.service != *service;
            }
        }
        for (span, child) in self.spans.iter_mut().zip(children) {
            span.is_call = child == (1, true);
        }
    }
}

fn span_id(text: &str) -> Option<SpanId> {
    Some(SpanId(u64::from_str_radix(text, 16).ok()?.to_be_bytes()))
}
