//! Questions in the dialects of other tools: Tempo's, Jaeger's and Zipkin's query APIs. Their
//! parameters vary from question to question, so that no answer is one that was given before.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use spanwise_bench_load::{Client, Load, LoadSummary, Profile, SampleTrace};

use crate::kept::KeptData;
use crate::server::Server;
use crate::{Flags, PART_NANO, feed, known_of};

/// Time range of a search for a service.
const WINDOW_NANO: i64 = 900_000_000_000;
const SECOND_NANO: i64 = 1_000_000_000;

/// A kind of question: the name of its figure, what it asks, and the path of each question.
struct Kind {
    figure: &'static str,
    asks: &'static str,
    paths: Vec<String>,
}

/// What the questions of a kind took.
struct Taken {
    /// The first question of the kind to a server that has just started.
    first: Duration,
    /// The others, shortest first.
    warm: Vec<Duration>,
    /// Answers that a bound limited.
    limited: usize,
    /// Mean size of an answer.
    bytes: usize,
}

/// The time range of a load, and what is known of it.
struct Asked<'a> {
    known: &'a LoadSummary,
    first: i64,
    last: i64,
    each: usize,
}

/// Stores the spans of each profile, asks all questions, and prints the worse of the times.
pub(crate) fn measure(flags: &Flags, now: i64, directory: &Path) -> anyhow::Result<()> {
    let mut worst: Vec<(&str, f64)> = Vec::new();
    for (profile, name) in [(Profile::Shop, "shop"), (Profile::Pods, "pods")] {
        let flags = Flags { profile, ..flags.clone() };
        let data = flags.keep.as_deref().unwrap_or(directory).join(name);
        let kept = KeptData::open(&data, format!("{name} --spans {}", flags.spans))?;
        let end = kept.end_unix_nano().unwrap_or(now);
        let load = flags.load(0, end - PART_NANO);
        let mut server = Server::start(&flags.spanwise, &data)?;
        let known = if kept.end_unix_nano().is_some() {
            known_of(load)?
        } else {
            let mut load = Load::new(load)?;
            feed(&mut server, &mut load, &flags, flags.spans)?;
            kept.note(end)?;
            server.stop()?;
            server = Server::start(&flags.spanwise, &data)?;
            load.known().clone()
        };
        let asked =
            Asked { known: &known, first: end - PART_NANO, last: end, each: flags.questions };
        println!("\n{} spans of profile {name}", flags.spans);
        println!(
            "{:<56}{:>8}{:>8}{:>8}{:>8}{:>9}{:>9}",
            "milliseconds", "first", "p50", "p95", "p99", "limited", "bytes"
        );
        for kind in asked.kinds() {
            let taken = kind.ask(server.api())?;
            let ms = |share: f64| {
                let place = ((taken.warm.len() - 1) as f64 * share).round() as usize;
                taken.warm[place].as_secs_f64() * 1e3
            };
            println!(
                "{:<56}{:>8.1}{:>8.1}{:>8.1}{:>8.1}{:>9}{:>9}",
                kind.asks,
                taken.first.as_secs_f64() * 1e3,
                ms(0.5),
                ms(0.95),
                ms(0.99),
                taken.limited,
                taken.bytes
            );
            match worst.iter_mut().find(|(figure, _)| *figure == kind.figure) {
                Some((_, worst)) => *worst = worst.max(ms(0.95)),
                None => worst.push((kind.figure, ms(0.95))),
            }
        }
        println!("peak memory of the server: {:.0} MB", server.peak_rss_mb()?);
        server.stop()?;
    }
    println!();
    for (figure, ms) in worst {
        println!("figure query.{figure}_p95_ms {ms:.1} ms");
    }
    Ok(())
}

impl Kind {
    fn ask(&self, api: SocketAddr) -> anyhow::Result<Taken> {
        let mut client = Client::connect(api)?;
        let mut taken = Taken { first: Duration::ZERO, warm: Vec::new(), limited: 0, bytes: 0 };
        for (number, path) in self.paths.iter().enumerate() {
            let began = Instant::now();
            let reply = client.get(path).with_context(|| path.clone())?;
            let time = began.elapsed();
            let body = String::from_utf8_lossy(&reply.body);
            ensure!(reply.status == 200, "{path} answered {}: {body}", reply.status);
            taken.limited += usize::from(reply.is_limited);
            taken.bytes += reply.body.len();
            match number {
                0 => taken.first = time,
                _ => taken.warm.push(time),
            }
        }
        ensure!(!taken.warm.is_empty(), "{}: too few questions", self.asks);
        taken.warm.sort_unstable();
        taken.bytes /= self.paths.len();
        Ok(taken)
    }
}

impl Asked<'_> {
    fn kinds(&self) -> Vec<Kind> {
        let kind = |figure, asks, path: &dyn Fn(usize, &SampleTrace) -> String| Kind {
            figure,
            asks,
            paths: self.sample().enumerate().map(|(index, trace)| path(index, trace)).collect(),
        };
        let (first, last) = (self.first / SECOND_NANO, self.last / SECOND_NANO + 1);
        let hour = format!("start={first}&end={last}");
        vec![
            kind(
                "traceql_service_duration",
                "TraceQL: service and duration, 15 minutes",
                &|index, trace| {
                    let (service, least_ms) = (service_of(trace, index), least_ms(index));
                    let (start, end) = self.window(trace);
                    tempo_search(
                        &format!(
                            "{{ resource.service.name = \"{service}\" && duration > {least_ms}ms }}"
                        ),
                        &format!(
                            "start={}&end={}&limit=20",
                            start / SECOND_NANO,
                            end / SECOND_NANO
                        ),
                    )
                },
            ),
            kind("traceql_attribute", "TraceQL: an attribute, everything", &|index, trace| {
                let condition = match (index % 5, &trace.order_id) {
                    (0, _) => format!("span.user.id = \"{}\"", trace.user_id),
                    (1, _) => "span.http.response.status_code = 503".to_owned(),
                    (2, _) => "span.messaging.destination.name = \"payments.captured\"".to_owned(),
                    (3, Some(order)) => format!("span.app.order.id = \"{order}\""),
                    _ => format!(".user.id = \"{}\"", trace.user_id),
                };
                tempo_search(&format!("{{ {condition} }}"), "limit=20")
            }),
            kind(
                "traceql_structural",
                "TraceQL: { a } >> { b && status = error }, one hour",
                &|index, trace| {
                    let (above, below) =
                        (service_of(trace, index), service_of(trace, index * 7 + 3));
                    tempo_search(
                        &format!(
                            "{{ resource.service.name = \"{above}\" }} >> \
                         {{ resource.service.name = \"{below}\" && status = error }}"
                        ),
                        &format!("{hour}&limit=20"),
                    )
                },
            ),
            kind(
                "metrics_range",
                "TraceQL: rate() by service, all spans of an hour",
                &|index, _| {
                    let step = [15, 20, 30, 60, 120][index % 5];
                    // A later beginning makes another question of nearly as many spans.
                    let start = first + (index as i64 % 97);
                    let query = encoded("{ } | rate() by (resource.service.name)");
                    format!(
                        "/tempo/api/metrics/query_range?q={query}&start={start}&end={last}&step={step}s"
                    )
                },
            ),
            kind("tags", "Tags: names and values, one hour", &|index, trace| {
                let range = format!("start={}&end={last}", first + (index as i64 % 97));
                match index % 4 {
                    0 => format!("/tempo/api/v2/search/tags?{range}"),
                    1 => format!("/tempo/api/v2/search/tag/resource.service.name/values?{range}"),
                    2 => {
                        format!("/tempo/api/v2/search/tag/span.http.request.method/values?{range}")
                    }
                    _ => {
                        let of = format!(
                            "{{ resource.service.name = \"{}\" }}",
                            service_of(trace, index)
                        );
                        format!("/tempo/api/v2/search/tag/name/values?q={}&{range}", encoded(&of))
                    }
                }
            }),
            kind("jaeger_search", "Jaeger: service and duration, 15 minutes", &|index, trace| {
                let (service, least_ms) = (service_of(trace, index), least_ms(index));
                let (start, end) = self.window(trace);
                format!(
                    "/jaeger/api/traces?service={service}&minDuration={least_ms}ms&start={}&end={}&limit=20",
                    start / 1000,
                    end / 1000
                )
            }),
            kind("zipkin_search", "Zipkin: service and duration, 15 minutes", &|index, trace| {
                let (service, least_ms) = (service_of(trace, index), least_ms(index));
                let (start, end) = self.window(trace);
                format!(
                    "/zipkin/api/v2/traces?serviceName={service}&minDuration={}&endTs={}&lookback={}&limit=10",
                    least_ms * 1000,
                    end / 1_000_000,
                    (end - start) / 1_000_000
                )
            }),
        ]
    }

    /// As many traces as there are questions, spread over the load.
    fn sample(&self) -> impl Iterator<Item = &SampleTrace> {
        let all = &self.known.traces;
        (0..self.each).filter_map(move |index| all.get(index * all.len() / self.each))
    }

    /// A quarter of an hour around a trace.
    fn window(&self, trace: &SampleTrace) -> (i64, i64) {
        let start = (trace.start_unix_nano - WINDOW_NANO / 2).max(self.first);
        (start, start + WINDOW_NANO)
    }
}

fn service_of(trace: &SampleTrace, index: usize) -> &'static str {
    trace.services[index % trace.services.len()]
}

const fn least_ms(index: usize) -> u64 {
    [5, 10, 20, 50, 100][index % 5]
}

fn tempo_search(query: &str, rest: &str) -> String {
    format!("/tempo/api/search?q={}&{rest}", encoded(query))
}

/// Text for a query string (RFC 3986, section 2.1).
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
