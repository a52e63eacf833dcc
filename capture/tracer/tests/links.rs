//! Programs of the accuracy bench again, from what the kernel told of them: every link
//! that is called certain is right, and how many there are of each kind is known.
//!
//! A case is what `bench/accuracy/accuracy.py --record tests/recorded/links` has kept of
//! a cell: the events, and in NAME.truth the language of the program and the request of
//! each call (`-`: none), by the tokens in their paths. Cells whose links were once wrong
//! are kept there.

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

/// The last part of a path: `/r/TOKEN`, or as gRPC's method `r/TOKEN`.
fn token(span: &Span) -> Option<&str> {
    let text = |key| span.attribute(key).and_then(|value| value.as_str());
    let path = text("url.path").or_else(|| text("rpc.method"))?;
    path.rsplit('/').next().filter(|token| !token.is_empty())
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

/// How the calls of a case were linked, as text.
fn told(case: &Case) -> String {
    let config = TracerConfig { seed: Some(7), ..TracerConfig::default() };
    let mut tracer = Tracer::new(config, Box::new(Speakers(case.runtime.clone())));
    let spans = spans(&mut tracer, &case.events);
    let results = assembled(&spans);
    let by_id: HashMap<SpanId, usize> =
        spans.iter().enumerate().map(|(at, span)| (span.span_id, at)).collect();
    // By evidence: right and wrong.
    let mut links: BTreeMap<String, [usize; 2]> = BTreeMap::new();
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
        assert!(is_right || sure == "guess", "a link called certain is wrong: {span:?}");
        links.entry(format!("{sure} {evidence}")).or_default()[usize::from(!is_right)] += 1;
    }
    let mut text =
        format!("{calls} calls, {of_nobody} of nobody; {ambiguous} ambiguous, {alone} alone\n");
    for (kind, [right, wrong]) in links {
        let _ = writeln!(text, "{kind}: {right} right, {wrong} wrong");
    }
    text
}

#[test]
fn cells_of_the_bench_are_linked_as_they_were() {
    let mut paths: Vec<_> = std::fs::read_dir(folder().join("links"))
        .expect("cases")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "gz"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 8, "cases are missing");
    let mut text = String::new();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let _ = writeln!(text, "{}", name.trim_end_matches(".jsonl.gz"));
        text.extend(told(&case(&path)).lines().map(|line| format!("  {line}\n")));
    }
    insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => folder().join("links") }, {
        insta::assert_snapshot!("links", text);
    });
}
