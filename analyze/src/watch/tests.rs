use std::collections::BTreeMap;

use spanwise_model::{
    Assembled, Capture, Evidence, Kind, RowRef, Span, SpanBatchBuilder, SpanId, Status, TraceId,
};

use super::broken::StrongEdge;
use super::*;
use crate::forecast::{Forecast, ForecastMethod};
use crate::red::{Now, Red, RedConfig};

const SECOND: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;

fn rule(text: &str) -> Option<Rule> {
    fn duration(text: &str) -> Option<i64> {
        let (number, unit) = match text.strip_suffix("ms") {
            Some(number) => (number, MS),
            None => (text.strip_suffix('s')?, SECOND),
        };
        Some(number.parse::<i64>().ok()? * unit)
    }
    Rule::read(text, duration)
}

fn subjects(text: &str, now: &Figures, before: Option<&Figures>) -> Vec<String> {
    let broken = rule(text).expect(text).broken(text, now, before);
    broken.into_iter().map(|alert| alert.subject).collect()
}

fn figures(services: &[(&str, u64, u64, i64)], calls: &[(&str, &str, u64)]) -> Figures {
    let mut figures = Figures { seconds: 300.0, ..Figures::default() };
    for (name, requests, errors, p95) in services {
        let of = ServiceFigures { requests: *requests, errors: *errors, p95_nano: *p95 };
        figures.services.insert((*name).to_owned(), of);
    }
    for (client, server, calls) in calls {
        figures.calls.insert(((*client).to_owned(), (*server).to_owned()), *calls);
    }
    figures
}

#[test]
fn rules_are_broken_by_what_they_say() {
    let now = figures(
        &[("cart", 100, 12, 300 * MS), ("web", 100, 1, 10 * MS), ("rare", 3, 3, 900 * MS)],
        &[("web", "cart", 50), ("web", "ads", 9)],
    );
    let mut before = figures(
        &[("web", 1_200, 0, 0), ("night", 1_000, 0, 0)],
        &[("web", "cart", 500), ("web", "stock", 800), ("web", "once", 20), ("night", "x", 900)],
    );
    before.seconds = 3_600.0;
    assert_eq!(subjects("latency cart > 250ms", &now, None), ["cart"]);
    assert_eq!(subjects("latency * > 5ms", &now, None), ["cart", "web"]);
    assert!(subjects("latency cart > 1s", &now, None).is_empty());
    assert_eq!(subjects("errors * > 5%", &now, None), ["cart"]);
    assert!(subjects("errors * > 9%", &now, None).is_empty(), "12 of 100 may be chance");
    assert_eq!(subjects("new-edge", &now, Some(&before)), ["web -> ads"]);
    // 800 calls for 1,200 requests make 67 for the 100 of now; 20 make fewer than two. What gets no
    // load calls nothing.
    assert_eq!(subjects("vanished-edge", &now, Some(&before)), ["web -> stock"]);
    assert!(subjects("new-edge", &now, None).is_empty(), "nothing is known of before");
    assert!(subjects("new-edge", &now, Some(&figures(&[], &[]))).is_empty());
    for wrong in [
        "",
        "latency cart",
        "latency cart > 0ms",
        "errors cart > 5",
        "errors a > 200%",
        "weak *",
        "rate web < 150%",
        "rate web > 50%",
        "rate web > -5%",
    ] {
        assert_eq!(rule(wrong), None, "{wrong}");
    }
}

#[test]
fn errors_dependencies_and_rates_break_rules() {
    let mut now = figures(&[], &[]);
    let errors = |count| ErrorFigures { count, operation: "GET /".to_owned() };
    let kind = |name: &str| ("cart".to_owned(), name.to_owned());
    now.errors = BTreeMap::from([(kind("old"), errors(9)), (kind("new"), errors(3))]);
    now.errors.insert(kind("once"), errors(1));
    let mut before = figures(&[], &[]);
    before.errors = BTreeMap::from([(kind("old"), errors(1))]);
    assert_eq!(subjects("new-error *", &now, Some(&before)), ["cart: new"]);
    assert!(subjects("new-error web", &now, Some(&before)).is_empty());
    assert!(subjects("new-error *", &now, None).is_empty());

    let strong = |server: &str, failures, confidence| StrongEdge {
        edge: ("web".to_owned(), server.to_owned()),
        failures,
        confidence,
    };
    now.strong = vec![strong("ads", 40, 0.99), strong("stock", 40, 0.99), strong("ads", 3, 0.99)];
    assert_eq!(subjects("weak ads", &now, None), ["web -> ads"]);
    assert!(subjects("weak cart", &now, None).is_empty());

    let forecast = |per_second, confidence| Forecast {
        per_second,
        range: (per_second * 0.8, per_second * 1.2),
        method: ForecastMethod::FormerDays,
        hours: 7,
        confidence,
    };
    let entrance = |per_second| Entrance { per_second, seconds: 300.0 };
    now.entrances = BTreeMap::from([
        ("web".to_owned(), entrance(4.0)),
        ("app".to_owned(), entrance(30.0)),
        ("new".to_owned(), entrance(100.0)),
    ]);
    now.forecasts = BTreeMap::from([
        ("web".to_owned(), forecast(10.0, 0.8)),
        ("app".to_owned(), forecast(10.0, 0.8)),
        ("new".to_owned(), forecast(1.0, 0.0)),
        ("gone".to_owned(), forecast(10.0, 0.8)),
    ]);
    assert_eq!(subjects("rate * < 50%", &now, None), ["gone", "web"]);
    assert_eq!(
        subjects("rate * > 200%", &now, None),
        ["app"],
        "a forecast that is not sure is none"
    );
}

#[test]
fn an_alert_begins_when_it_is_found_twice_and_ends_likewise() {
    let alert = |text: &str| Alert {
        rule: "r".to_owned(),
        subject: "s".to_owned(),
        text: text.to_owned(),
        value: 1.0,
        bound: 0.0,
    };
    let mut alerts = Alerts::default();
    let mut follow = |now: Vec<Alert>, at| {
        let (began, ended) = alerts.follow(now, at);
        (began.len(), ended.len())
    };
    assert_eq!(follow(vec![alert("a")], 1), (0, 0));
    assert_eq!(follow(Vec::new(), 2), (0, 0), "it was chance");
    assert_eq!(follow(vec![alert("a")], 3), (0, 0));
    assert_eq!(follow(vec![alert("b")], 4), (1, 0));
    assert_eq!(follow(vec![alert("c")], 5), (0, 0));
    assert_eq!(follow(Vec::new(), 6), (0, 0));
    assert_eq!(follow(vec![alert("c")], 7), (0, 0), "it goes on");
    assert_eq!(follow(Vec::new(), 8), (0, 0));
    assert_eq!(follow(Vec::new(), 9), (0, 1));
    assert_eq!(follow(vec![alert("d")], 10), (0, 0));
}

/// A shop that is counted as spans come: `web` serves users and calls `cart` and `ads`.
struct Shop {
    red: Red,
    kinds: ErrorKinds,
    history: History,
    alerts: Alerts,
    rules: Vec<(String, Rule)>,
    at: i64,
    batch: u64,
    random: u64,
    began: Vec<String>,
    ended: Vec<String>,
}

impl Shop {
    fn new(rules: &[&str]) -> Self {
        let began = 1_000_000 * SECOND;
        let config = HistoryConfig { window_nano: 300 * SECOND, before_nano: 3_600 * SECOND };
        Self {
            red: Red::new(&RedConfig::default()),
            kinds: ErrorKinds::default(),
            history: History::new(config, began),
            alerts: Alerts::default(),
            rules: rules.iter().map(|text| ((*text).to_owned(), rule(text).expect(text))).collect(),
            at: began,
            batch: 0,
            random: 7,
            began: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// From 0 to below 1.
    fn random(&mut self) -> f64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) as f64 / (1u64 << 31) as f64
    }

    /// So many seconds of this load. `web` calls `cart` and, besides, these.
    fn run(&mut self, seconds: i64, load: &Load, besides: &[&str]) {
        let end = self.at + seconds * SECOND;
        while self.at < end {
            self.at += 15 * SECOND;
            self.batch += 1;
            let mut batch = Batch { number: self.batch, spans: Vec::new(), placed: Vec::new() };
            let count = (load.per_second * 15.0 * (0.7 + 0.6 * self.random())) as u64;
            for request in 0..count {
                let took = load.ms * (0.5 - self.random().max(1e-9).ln());
                let mut span = Span::new(
                    SpanId([0; 8]),
                    Capture::App,
                    Kind::Server,
                    "web",
                    "GET",
                    self.at,
                    (took * MS as f64) as i64 + 1,
                );
                if self.random() < load.failing {
                    (span.status, span.error) = (Status::Error, Some(load.error.into()));
                }
                let mut id = [0; 16];
                id[..8].copy_from_slice(&(self.batch + 1).to_be_bytes());
                id[8..].copy_from_slice(&request.to_be_bytes());
                let trace = TraceId(id);
                let root = batch.add(&span, trace, None);
                for server in ["cart"].iter().chain(besides) {
                    span.kind = Kind::Client;
                    span.service = "web".into();
                    let call = batch.add(&span, trace, Some(root));
                    span.kind = Kind::Server;
                    span.service = (*server).into();
                    batch.add(&span, trace, Some(call));
                }
            }
            self.count(&batch);
        }
    }

    fn count(&mut self, batch: &Batch) {
        let rows = batch.spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
        let now = Now { nano: self.at as u64, unix_nano: self.at };
        self.red.push(batch.number, &rows, now).expect("counted");
        self.kinds.push(&rows).expect("counted");
        self.red.place(&batch.placed, now);
        self.red.settle_all(now);
        self.history.add(&self.red.snapshot(), &self.kinds, self.at);
        let (window, before) = (self.history.window(), self.history.before());
        let rules = self.rules.iter();
        let found = rules.flat_map(|(text, rule)| rule.broken(text, &window, before.as_ref()));
        let (began, ended) = self.alerts.follow(found.collect(), self.at);
        let said = |open: OpenAlert| format!("{}: {}", open.alert.rule, open.alert.subject);
        self.began.extend(began.into_iter().map(said));
        self.ended.extend(ended.into_iter().map(said));
    }
}

struct Load {
    per_second: f64,
    ms: f64,
    failing: f64,
    error: &'static str,
}

/// Two requests a second of 20 ms, of which one per cent fails.
const USUAL: Load = Load { per_second: 2.0, ms: 20.0, failing: 0.01, error: "500" };

struct Batch {
    number: u64,
    spans: Vec<Span>,
    placed: Vec<Assembled>,
}

impl Batch {
    fn add(&mut self, span: &Span, trace_id: TraceId, parent: Option<SpanId>) -> SpanId {
        let row = self.spans.len() as u32;
        let id = SpanId::from_u64(self.number << 32 | u64::from(row + 1)).expect("not zero");
        self.spans.push(Span { span_id: id, ..span.clone() });
        self.placed.push(Assembled {
            row: RowRef { batch: self.number, row },
            trace_id,
            parent,
            evidence: parent.map(|_| Evidence::SpanContext),
            confidence: parent.map(|_| 1.0),
        });
        id
    }
}

const RULES: [&str; 6] = [
    "latency * > 200ms",
    "errors * > 5%",
    "new-edge",
    "vanished-edge",
    "new-error *",
    "latency web > 90ms",
];

#[test]
fn a_quiet_day_raises_no_alarm() {
    let mut shop = Shop::new(&RULES);
    // Twelve hours by day, six at night with a twentieth of the load, and day again.
    let night = Load { per_second: 0.1, ..USUAL };
    for (hours, load) in [(12, &USUAL), (6, &night), (6, &USUAL)] {
        shop.run(hours * 3_600, load, &["ads"]);
    }
    assert!(shop.history.before().is_some(), "it has learned");
    assert_eq!(shop.began, [""; 0]);
}

#[test]
fn each_change_raises_its_alarm_and_nothing_else() {
    let mut shop = Shop::new(&RULES);
    shop.run(2 * 3_600, &USUAL, &["ads"]);
    assert_eq!(shop.began, [""; 0]);
    // `ads` is not called any more, and `search` is.
    shop.run(400, &Load { failing: 0.0, ..USUAL }, &["search"]);
    shop.began.sort();
    assert_eq!(shop.began, ["new-edge: web -> search", "vanished-edge: web -> ads"]);
    shop.began.clear();
    shop.run(3_600, &USUAL, &["ads"]);
    assert!(shop.ended.contains(&"vanished-edge: web -> ads".to_owned()), "{:?}", shop.ended);
    shop.began.clear();
    // Slow, and back again.
    shop.run(400, &Load { ms: 150.0, ..USUAL }, &["ads"]);
    let slow = ["latency * > 200ms: ads", "latency * > 200ms: cart", "latency * > 200ms: web"];
    shop.began.sort();
    assert_eq!(shop.began, [&slow[..], &["latency web > 90ms: web"]].concat());
    shop.ended.clear();
    shop.run(600, &USUAL, &["ads"]);
    assert_eq!(shop.ended.len(), 4, "{:?}", shop.ended);
    shop.began.clear();
    // Failing, with an error that was never seen.
    let failing = Load { failing: 0.3, error: "no stock", ..USUAL };
    shop.run(400, &failing, &["ads"]);
    let firing: Vec<&str> = shop.began.iter().map(String::as_str).collect();
    assert!(firing.contains(&"errors * > 5%: cart"), "{firing:?}");
    assert!(firing.contains(&"new-error *: cart: no stock"), "{firing:?}");
    assert_eq!(firing.len(), 6, "three services, twice: {firing:?}");
}

#[test]
fn figures_of_the_window_are_those_of_its_spans() {
    let mut shop = Shop::new(&[]);
    shop.run(3_600, &Load { ms: 500.0, failing: 0.5, ..USUAL }, &[]);
    shop.run(600, &USUAL, &[]);
    let window = shop.history.window();
    let web = window.services["web"];
    assert!((450..750).contains(&web.requests), "{web:?}");
    assert!(web.errors < 30, "{web:?}");
    // 20 ms times (0.5 + an exponential deviate): its 95th percentile is at 3.5 times.
    assert!((60 * MS..80 * MS).contains(&web.p95_nano), "{web:?}");
    assert_eq!(window.calls.keys().count(), 1, "users are no service");
    let entrance = window.entrances["web"];
    assert!((1.5..2.5).contains(&entrance.per_second), "{entrance:?}");
}

#[test]
fn rules_are_written_in_prometheus_own_form() {
    let rules = [
        "latency ca\"rt > 250ms",
        "errors * > 5%",
        "vanished-edge",
        "new-error *",
        "weak ads",
        "rate * < 50%",
    ];
    let rules = rules.map(|text| (text.to_owned(), rule(text).expect("a rule")));
    let text = alerting_rules(&rules, "5m", "1h");
    let wanted = r#"        expr: "histogram_quantile(0.95, sum by (le, service) (rate(traces_spanmetrics_latency_bucket{service=\"ca\\\"rt\",span_kind=\"SPAN_KIND_SERVER\"}[5m]))) > 0.25""#;
    assert!(text.contains(wanted), "{text}");
    assert!(text.contains(r#"status_code=\"STATUS_CODE_ERROR\"}[5m])) / sum"#), "{text}");
    assert!(text.contains("request_total[1h] offset 5m)) >= 20 unless"), "{text}");
    assert!(text.contains(r#"spanwise_watch_alerts{rule=\"weak ads\"} > 0"#), "{text}");
    assert_eq!(text.matches("- alert: ").count(), 6);
}
