//! Programs of the accuracy bench again, from what the kernel told of them: every link
//! that is called certain is right, and how many there are of each kind is known.
//!
//! A case is what `bench/accuracy/accuracy.py --record tests/recorded/links` has kept of
//! a cell, or the agent's recording of another program: the events, and in NAME.truth the
//! language of the program and the request of each call (`-`: none), by the tokens in their
//! paths. Programs whose links were once wrong are kept there; README.md says what they are.

mod support;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use flate2::read::GzDecoder;
use spanwise_assemble::{Row, Window, WindowConfig};
use spanwise_capture_protocols::process::{Process, ProcessDirectory, Runtime};
use spanwise_capture_tracer::recording;
use spanwise_capture_tracer::{Tracer, TracerConfig};
use spanwise_model::{Assembled, Capture, Evidence, RowRef, Span, SpanId};
use support::{Everyone, folder, spans};

/// Knows every process by its number, and that all are of one language.
struct Speakers(Runtime);

impl ProcessDirectory for Speakers {
    fn describe(&mut self, process: u32) -> Arc<Process> {
        let known = Everyone.describe(process);
        Arc::new(Process { runtime: self.0.clone(), ..Process::clone(&known) })
    }

    fn forget(&mut self, _process: u32) {}
}

struct Case {
    runtime: Runtime,
    /// The request of each call, where it has one.
    truth: HashMap<String, Option<String>>,
    events: Vec<recording::RecordedEvent>,
}

fn case(path: &Path) -> Case {
    let text = std::fs::read_to_string(path.with_extension("").with_extension("truth"))
        .expect("what is true of it");
    let (head, notes) = text.split_once('\n').expect("lines");
    let runtime = match head.strip_prefix("# runtime ").expect("its language") {
        "cpython" => Runtime::Python,
        "nodejs" => Runtime::Node,
        "go" => Runtime::Go,
        "java" => Runtime::Java,
        other => Runtime::Other(other.to_owned()),
    };
    let note = |line: &str| {
        let (call, request) = line.split_once(' ').expect("two tokens");
        (call.to_owned(), (request != "-").then(|| request.to_owned()))
    };
    let file = GzDecoder::new(File::open(path).expect("the events"));
    let events = recording::read(BufReader::new(file)).expect("events");
    Case { runtime, truth: notes.lines().map(note).collect(), events }
}

/// The last part of a path: `/r/TOKEN`, as gRPC's method `r/TOKEN`, or of a key of Redis.
fn token(span: &Span) -> Option<&str> {
    let text = |key| span.attribute(key).and_then(|value| value.as_str());
    let path = text("url.path").or_else(|| text("rpc.method")).or_else(|| text("db.query.text"))?;
    path.rsplit('/')
        .next()
        .map(|token| token.trim_end_matches('"'))
        .filter(|token| !token.is_empty())
}

/// What assembly makes of spans that come as they end.
fn assembled(spans: &[Span]) -> Vec<Assembled> {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|at| spans[*at].end_unix_nano());
    let mut window = Window::new(WindowConfig::default());
    let mut found = vec![None; spans.len()];
    let mut keep = |results: Vec<Assembled>| {
        for result in results {
            found[result.row.row as usize] = Some(result);
        }
    };
    let mut now = 0;
    for at in order {
        let end = u64::try_from(spans[at].end_unix_nano()).expect("after 1970");
        // As the server does, ten times a second.
        if end >= now + 100_000_000 {
            now = end;
            keep(window.poll(now));
        }
        let row = RowRef { batch: 0, row: u32::try_from(at).expect("few") };
        window.push_rows([Row::from_span(row, &spans[at])], now.max(end));
    }
    keep(window.flush(now + 10_000_000_000));
    found.into_iter().map(|result| result.expect("each is told")).collect()
}

/// Of links by one evidence that say about the same confidence: how many there are, how many
/// should be right by what they say, and how many are.
#[derive(Default)]
struct Reliability(BTreeMap<(&'static str, u32), (f32, f32, f32)>);

impl Reliability {
    fn count(&mut self, evidence: Evidence, confidence: f32, is_right: bool) {
        let bin = (confidence * 10.0) as u32;
        let (all, said, right) = self.0.entry((evidence.as_str(), bin)).or_default();
        *all += 1.0;
        *said += confidence;
        *right += f32::from(u8::from(is_right));
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for ((evidence, _), (all, said, right)) in &self.0 {
            let _ = writeln!(
                text,
                "  {evidence}: {all} that say {:.2} are right in {:.2}",
                said / all,
                right / all
            );
        }
        text
    }
}

/// How the calls of a case were linked, as text.
fn told(case: &Case, reliability: &mut Reliability) -> String {
    let config = TracerConfig { seed: Some(7), ..TracerConfig::default() };
    let mut tracer = Tracer::new(config, Box::new(Speakers(case.runtime.clone())));
    let spans = spans(&mut tracer, &case.events);
    let results = assembled(&spans);
    let by_id: HashMap<SpanId, usize> =
        spans.iter().enumerate().map(|(at, span)| (span.span_id, at)).collect();
    // By evidence: right and wrong, and how many were said to be right.
    let mut links: BTreeMap<String, ([usize; 2], f32)> = BTreeMap::new();
    let (mut calls, mut of_nobody, mut ambiguous, mut alone) = (0, 0, 0, 0);
    for (span, result) in spans.iter().zip(&results) {
        let Some(request) = token(span).and_then(|token| case.truth.get(token)) else { continue };
        if span.capture != Capture::ClientProcess {
            continue;
        }
        match request {
            Some(_) => calls += 1,
            None => of_nobody += 1,
        }
        let Some(parent) = result.parent.and_then(|parent| by_id.get(&parent)) else {
            match result.evidence {
                Some(Evidence::Ambiguous) => ambiguous += 1,
                _ => alone += 1,
            }
            continue;
        };
        let is_right = request.is_some() && token(&spans[*parent]) == request.as_deref();
        let sure = if result.confidence.is_some_and(|sure| sure >= Evidence::CERTAIN) {
            "certain"
        } else {
            "guess"
        };
        let evidence = result.evidence.expect("a link has evidence").as_str();
        let (count, said) = links.entry(format!("{sure} {evidence}")).or_default();
        count[usize::from(!is_right)] += 1;
        *said += result.confidence.unwrap_or_default();
        let evidence = result.evidence.expect("a link has evidence");
        reliability.count(evidence, result.confidence.unwrap_or_default(), is_right);
    }
    let mut text =
        format!("{calls} calls, {of_nobody} of nobody; {ambiguous} ambiguous, {alone} alone\n");
    for (kind, ([right, wrong], said)) in links {
        let _ = write!(text, "{kind}: {right} right, {wrong} wrong");
        if kind.starts_with("guess") {
            let _ = write!(text, "; {said:.0} said to be");
        }
        text.push('\n');
    }
    text
}

/// The text of all cases in a folder.
fn told_of(folder: &Path) -> String {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("cases")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "gz"))
        .collect();
    paths.sort();
    let (mut text, mut reliability) = (String::new(), Reliability::default());
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let _ = writeln!(text, "{}", name.trim_end_matches(".jsonl.gz"));
        let told = told(&case(&path), &mut reliability);
        text.extend(told.lines().map(|line| format!("  {line}\n")));
    }
    text + "together\n" + &reliability.text()
}

/// For cases that are not kept: `LINKS=FOLDER cargo test … --test links -- --ignored --nocapture`.
#[test]
#[ignore = "needs a folder"]
fn cases_elsewhere() {
    let folder = std::env::var_os("LINKS").expect("the folder");
    println!("{}", told_of(Path::new(&folder)));
}

#[test]
fn cells_of_the_bench_are_linked_as_they_were() {
    let text = told_of(&folder().join("links"));
    let cases = text.lines().filter(|line| !line.starts_with(' ')).count();
    assert!(cases > 8, "cases are missing");
    let is_wrong = |line: &&str| line.trim().starts_with("certain") && !line.ends_with(" 0 wrong");
    let wrong: Vec<&str> = text.lines().filter(is_wrong).collect();
    assert!(wrong.is_empty(), "links called certain are wrong: {wrong:?} in\n{text}");
    insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => folder().join("links") }, {
        insta::assert_snapshot!("links", text);
    });
}
