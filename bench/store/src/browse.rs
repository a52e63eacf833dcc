//! The memory of a server that receives few spans while one person browses for an hour: the UI's
//! pages with their periodic requests, one after the other, and in between traces, filters and
//! statements. The hour can be accelerated. Then spans and queries are correspondingly more
//! frequent, and the server has less time to return memory.

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use spanwise_bench_load::{Client, Load, LoadConfig};

use crate::server::Server;
use crate::{Flags, PART_NANO, feed};

const SPANS_PER_SECOND: u64 = 12;
/// Number of spans stored before, over the previous hour.
const BEFORE: u64 = 100_000;
/// Spans in a request, as from an exporter after some seconds.
const BATCH: std::ops::RangeInclusive<u64> = 1..=8;
/// Duration of one round of the person's actions, in seconds of the simulated hour.
const ROUND: u64 = 300;
/// Interval at which memory is printed, in seconds of the simulated hour.
const TOLD_EVERY: u64 = 600;
const STATEMENTS: [&str; 4] = [
    "SELECT service, count(*) AS spans, approx_percentile_cont(duration_nano, 0.95) AS p95 \
     FROM spans GROUP BY service ORDER BY spans DESC",
    "SELECT operation, count(*) AS failed FROM spans WHERE status = 'error' GROUP BY operation \
     ORDER BY failed DESC LIMIT 20",
    "SELECT trace_id, count(*) AS spans, max(duration_nano) FROM spans GROUP BY trace_id \
     ORDER BY spans DESC LIMIT 50",
    "SELECT * FROM spans WHERE service = 'checkout' ORDER BY start_unix_nano DESC LIMIT 100",
];

/// The person, and the current page.
struct Person {
    client: Client,
    asked: u64,
    services: Vec<String>,
    /// The traces of the last list.
    traces: Vec<String>,
}

/// Prints the resident memory during and after the hour.
pub(crate) fn measure(
    flags: &Flags,
    load: impl Fn(u64) -> LoadConfig,
    server: &mut Server,
) -> anyhow::Result<()> {
    let seconds = flags.browse_minutes * 60;
    let mut before = Load::new(LoadConfig { spans: BEFORE, ..load(0) })?;
    feed(server, &mut before, flags, BEFORE)?;
    let (start, speed) = (now_unix_nano()?, flags.browse_speed.max(1));
    let mut later = Load::new(LoadConfig {
        spans: SPANS_PER_SECOND * seconds,
        start_unix_nano: start,
        end_unix_nano: start + PART_NANO * seconds as i64 / 3600 / speed as i64,
        batch_spans: BATCH,
        ..load(1)
    })?;
    let mut sender = Client::connect(server.otlp())?;
    let mut person = Person::new(server.api())?;
    println!(
        "{} minutes of browsing in {:.1}, {SPANS_PER_SECOND} spans a second of these minutes, {BEFORE} \
         before\n{:<12}{:>10}{:>12}{:>12}{:>10}{:>10}",
        flags.browse_minutes,
        flags.browse_minutes as f64 / speed as f64,
        "minute",
        "RSS, MB",
        "own memory",
        "its file's",
        "threads",
        "requests",
    );
    let (began, mut sent, mut request) = (Instant::now(), 0, Vec::new());
    let mut last_rss_mb: f64 = 0.0;
    for second in 0..seconds {
        while sent < (second + 1) * SPANS_PER_SECOND
            && let Some(spans) = later.next_request(&mut request)
        {
            sender.export(&request, &mut 0)?;
            sent += spans;
        }
        person.look(second)?;
        let due = Duration::from_secs(second + 1) / u32::try_from(speed)?;
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        let memory = server.memory()?;
        if second + 60 >= seconds {
            last_rss_mb = last_rss_mb.max(memory.rss_mb);
        }
        if (second + 1) % TOLD_EVERY == 0 || second + 1 == seconds {
            println!(
                "{:<12}{:>10.0}{:>12.0}{:>12.0}{:>10}{:>10}",
                (second + 1) / 60,
                memory.rss_mb,
                memory.own_mb,
                memory.file_mb,
                memory.threads,
                person.asked
            );
        }
    }
    let late = began.elapsed().as_secs_f64() * speed as f64 / seconds as f64;
    println!("it took {late:.2} times as long as it should");
    std::thread::sleep(AFTERWARDS);
    let idle = server.memory()?;
    println!(
        "{} s later, with nobody there: {:.0} MB, of which {:.0} are its own",
        AFTERWARDS.as_secs(),
        idle.rss_mb,
        idle.own_mb
    );
    println!("\nfigure store.browsed_rss_mb {last_rss_mb:.0} MB");
    println!("figure store.browsed_peak_rss_mb {:.0} MB", server.peak_rss_mb()?);
    println!("figure store.browsed_idle_rss_mb {:.0} MB", idle.rss_mb);
    Ok(())
}

/// Idle time after which memory is measured again.
const AFTERWARDS: Duration = Duration::from_secs(60);

impl Person {
    fn new(api: SocketAddr) -> anyhow::Result<Self> {
        let mut person = Self {
            client: Client::connect(api)?,
            asked: 0,
            services: Vec::new(),
            traces: Vec::new(),
        };
        let services = person.ask("/api/v1/services")?;
        let names = services["services"].as_array().into_iter().flatten();
        person.services = names.filter_map(|s| Some(s["name"].as_str()?.to_owned())).collect();
        ensure!(!person.services.is_empty(), "there are no services");
        Ok(person)
    }

    fn ask(&mut self, path: &str) -> anyhow::Result<Value> {
        self.asked += 1;
        let reply = self.client.get(path).with_context(|| path.to_owned())?;
        let body = String::from_utf8_lossy(&reply.body);
        ensure!(reply.status == 200, "{path} answered {}: {body}", reply.status);
        Ok(serde_json::from_slice(&reply.body)?)
    }

    /// The current page's requests in this second, and the person's actions.
    fn look(&mut self, second: u64) -> anyhow::Result<()> {
        let at = second % ROUND;
        if second.is_multiple_of(5) {
            self.ask("/api/v1/status")?;
        }
        match at {
            // The live list, and sometimes one of its traces.
            0..120 => {
                if at.is_multiple_of(2) {
                    self.list("")?;
                    self.ask("/api/v1/services")?;
                }
                if at % 20 == 10 {
                    self.open(second)?;
                }
            }
            // Several filters, each for a while.
            120..190 => {
                let service = self.services[second as usize % self.services.len()].clone();
                match at % 10 {
                    0 => drop(self.ask(&format!("/api/v1/operations?service={service}"))?),
                    1 => self.list(&format!("&service={service}&min_duration=10ms"))?,
                    3 => self.list("&status=error")?,
                    5 => self.list("&attribute=http.response.status_code%3D503")?,
                    7 => self.list(&format!("&service={service}&status=ok"))?,
                    9 => self.open(second)?,
                    _ => {}
                }
            }
            190..250 => {
                if at.is_multiple_of(2) {
                    let (start, end) = last_hour()?;
                    self.ask(&format!("/api/v1/graph?start={start}&end={end}"))?;
                }
                if at.is_multiple_of(15) {
                    self.ask("/api/v1/services")?;
                }
            }
            250..280 if at.is_multiple_of(5) => {
                let statement = STATEMENTS[at as usize / 5 % STATEMENTS.len()];
                let body = json!({ "query": statement }).to_string();
                self.asked += 1;
                let reply = self.client.post("/api/v1/sql", "application/json", body.as_bytes())?;
                let answer = String::from_utf8_lossy(&reply.body);
                ensure!(reply.status == 200, "{statement}: {}: {answer}", reply.status);
            }
            _ => {}
        }
        Ok(())
    }

    /// The list of the last hour's newest traces.
    fn list(&mut self, filter: &str) -> anyhow::Result<()> {
        let (start, end) = last_hour()?;
        let found =
            self.ask(&format!("/api/v1/search?start={start}&end={end}&limit=100{filter}"))?;
        let ids = found["traces"].as_array().into_iter().flatten();
        let ids: Vec<String> =
            ids.filter_map(|trace| Some(trace["trace_id"].as_str()?.to_owned())).collect();
        if !ids.is_empty() {
            self.traces = ids;
        }
        Ok(())
    }

    fn open(&mut self, second: u64) -> anyhow::Result<()> {
        if let Some(id) = self.traces.get(second as usize * 7 % self.traces.len().max(1)) {
            let path = format!("/api/v1/traces/{id}");
            self.ask(&path)?;
        }
        Ok(())
    }
}

fn now_unix_nano() -> anyhow::Result<i64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is wrong")?;
    i64::try_from(now.as_nanos()).context("the clock is past the year 2262")
}

fn last_hour() -> anyhow::Result<(i64, i64)> {
    let now = now_unix_nano()?;
    Ok((now - PART_NANO, now))
}
