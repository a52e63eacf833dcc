//! Common queries of a tracing backend, through the API like the UI, with known answers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use spanwise_bench_load::{Client, LoadSummary, SampleTrace};

/// Time range of a search for a service.
const WINDOW_NANO: i64 = 900_000_000_000;
/// Time around the load that searches without a range cover.
const AROUND_NANO: i64 = 60_000_000_000;
const WARM_UP: usize = 40;

/// The expected answer.
enum Expected {
    /// This many spans.
    Spans(usize),
    /// Exactly this trace.
    Only(String),
    /// Any number of traces of this service, since others may be newer.
    Service(&'static str),
    /// At least one trace.
    Some,
}

struct Question {
    /// What the query uses.
    by: &'static str,
    path: String,
    expected: Expected,
}

/// Queries of all kinds.
pub(crate) struct Questions {
    by_id: Vec<Question>,
    by_span: Vec<Question>,
    by_service: Vec<Question>,
    by_rare: Vec<Question>,
    by_common: Vec<Question>,
}

/// A correct answer.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) time: Duration,
    /// What the query used, and the number of traces found.
    pub(crate) kind: (&'static str, usize),
}

/// All answers.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) by_id: Vec<Answer>,
    pub(crate) by_span: Vec<Answer>,
    pub(crate) by_service: Vec<Answer>,
    pub(crate) by_attribute: Vec<Answer>,
    pub(crate) by_rare: Vec<Answer>,
    pub(crate) by_common: Vec<Answer>,
}

impl Questions {
    /// Queries about a load in this time range.
    pub(crate) fn new(known: &LoadSummary, (first, last): (i64, i64), each: usize) -> Self {
        let over_all = format!("start={}&end={}", first - AROUND_NANO, last + AROUND_NANO);
        let of_trace = |id: &str, trace: &SampleTrace| Question {
            by: "id",
            path: format!("/api/v1/traces/{id}"),
            expected: Expected::Spans(trace.spans),
        };
        let of_service = |index: usize, trace: &SampleTrace| {
            let service = trace.services[index % trace.services.len()];
            let start = (trace.start_unix_nano - WINDOW_NANO / 2).max(first);
            let least_ms = [5, 10, 20, 50, 100][index % 5];
            Question {
                by: "service",
                path: format!(
                    "/api/v1/search?service={service}&min_duration={least_ms}ms&start={start}\
                     &end={}&limit=20",
                    start + WINDOW_NANO
                ),
                expected: Expected::Service(service),
            }
        };
        let attribute = |key: &'static str, value: &str, expected: Expected| Question {
            by: key,
            path: format!("/api/v1/search?attribute={key}%3D{value}&{over_all}&limit=20"),
            expected,
        };
        let rare = |trace: &SampleTrace| {
            let order = trace.order_id.as_deref().unwrap_or_default();
            attribute("app.order.id", order, Expected::Only(trace.trace_id.clone()))
        };
        let common = |index: usize, trace: &SampleTrace| match index % 4 {
            0 => attribute("user.id", &trace.user_id, Expected::Some),
            1 => attribute("http.response.status_code", "503", Expected::Some),
            2 => attribute("messaging.destination.name", "payments.captured", Expected::Some),
            _ => attribute("error.type", "java.net.SocketTimeoutException", Expected::Some),
        };
        let all: Vec<&SampleTrace> = known.traces.iter().collect();
        let with_order: Vec<&SampleTrace> =
            all.iter().copied().filter(|trace| trace.order_id.is_some()).collect();
        let by_id = spread(&all, each).map(|trace| of_trace(&trace.trace_id, trace));
        let by_span = spread(&all, each).map(|trace| of_trace(&trace.span_id, trace));
        let numbered = |count: usize| spread(&all, count).enumerate();
        let by_service = numbered(each).map(|(index, trace)| of_service(index, trace));
        let by_rare = spread(&with_order, each / 2).map(rare);
        let by_common = numbered(each / 2).map(|(index, trace)| common(index, trace));
        Self {
            by_id: by_id.collect(),
            by_span: by_span.collect(),
            by_service: by_service.collect(),
            by_rare: by_rare.collect(),
            by_common: by_common.collect(),
        }
    }

    /// Runs some queries, so that code and files are in memory.
    pub(crate) fn warm_up(&self, api: SocketAddr) -> anyhow::Result<()> {
        let mut client = Client::connect(api)?;
        let kinds = [&self.by_id, &self.by_span, &self.by_service, &self.by_rare, &self.by_common];
        for kind in kinds {
            // The last ones. Figures cover all.
            for question in kind.iter().rev().take(WARM_UP) {
                question.ask(&mut client)?;
            }
        }
        Ok(())
    }

    /// Runs all queries, one after the other.
    pub(crate) fn ask(&self, api: SocketAddr) -> anyhow::Result<Answers> {
        let mut client = Client::connect(api)?;
        let mut ask = |kind: &[Question]| -> anyhow::Result<Vec<Answer>> {
            kind.iter().map(|question| question.ask(&mut client)).collect()
        };
        let (by_id, by_span) = (ask(&self.by_id)?, ask(&self.by_span)?);
        let by_service = ask(&self.by_service)?;
        let (by_rare, by_common) = (ask(&self.by_rare)?, ask(&self.by_common)?);
        let by_attribute = by_rare.iter().chain(&by_common).copied().collect();
        Ok(Answers { by_id, by_span, by_service, by_attribute, by_rare, by_common })
    }
}

impl Question {
    fn ask(&self, client: &mut Client) -> anyhow::Result<Answer> {
        let began = Instant::now();
        let reply = client.get(&self.path).with_context(|| self.path.clone())?;
        let time = began.elapsed();
        let body = String::from_utf8_lossy(&reply.body);
        ensure!(reply.status == 200, "{} answered {}: {body}", self.path, reply.status);
        let answer: Value = serde_json::from_slice(&reply.body)?;
        if let Err(wrong) = self.expected.check(&answer) {
            bail!("{}: {wrong}", self.path);
        }
        let traces = answer["traces"].as_array().map_or(1, Vec::len);
        Ok(Answer { time, kind: (self.by, traces) })
    }
}

/// This many traces, evenly spread over the load.
fn spread<'a>(all: &'a [&SampleTrace], count: usize) -> impl Iterator<Item = &'a SampleTrace> {
    (0..count).filter_map(move |index| all.get(index * all.len() / count).copied())
}

impl Expected {
    fn check(&self, answer: &Value) -> Result<(), String> {
        let list = |name: &str| answer[name].as_array().map_or(&[][..], Vec::as_slice);
        let traces = list("traces");
        match self {
            Self::Spans(expected) => match list("spans").len() {
                found if found == *expected => Ok(()),
                found => Err(format!("the trace has {expected} spans, and {found} were found")),
            },
            Self::Only(id) => match traces {
                [one] if one["trace_id"] == id.as_str() => Ok(()),
                other => Err(format!("only {id} was to be found, not {} traces", other.len())),
            },
            Self::Service(name) => {
                let takes_part = |trace: &Value| {
                    let services = trace["services"].as_array().map_or(&[][..], Vec::as_slice);
                    services.iter().any(|service| service["name"] == *name)
                };
                match traces.iter().find(|trace| !takes_part(trace)) {
                    None => Ok(()),
                    Some(other) => Err(format!("{} has nothing of {name}", other["trace_id"])),
                }
            }
            Self::Some if traces.is_empty() => Err("nothing was found".to_owned()),
            Self::Some => Ok(()),
        }
    }
}

/// A trace read in pages.
#[derive(Default)]
pub(crate) struct Pages {
    /// Number of spans on all pages.
    pub(crate) spans: usize,
    /// Bytes of the answers.
    pub(crate) bytes: usize,
    /// Time of each page.
    pub(crate) times: Vec<Duration>,
}

impl Pages {
    /// Total time.
    pub(crate) fn total(&self) -> Duration {
        self.times.iter().sum()
    }
}

/// Reads all pages of a trace.
pub(crate) fn pages_of(api: SocketAddr, trace_id: &str) -> anyhow::Result<Pages> {
    let mut client = Client::connect(api)?;
    let (mut pages, mut after, mut snapshot) = (Pages::default(), 0, String::new());
    loop {
        let path = format!("/api/v1/traces/{trace_id}?after={after}&snapshot={snapshot}");
        let began = Instant::now();
        let reply = client.get(&path)?;
        pages.times.push(began.elapsed());
        ensure!(reply.status == 200, "{path}: {}", String::from_utf8_lossy(&reply.body));
        let page: Value = serde_json::from_slice(&reply.body)?;
        pages.spans += page["spans"].as_array().context("a trace has spans")?.len();
        pages.bytes += reply.body.len();
        match page["next_after"].as_u64() {
            Some(next) if next > after => {
                after = next;
                snapshot = page["snapshot"].as_str().unwrap_or_default().to_owned();
            }
            _ => return Ok(pages),
        }
    }
}
