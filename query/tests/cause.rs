//! Causes over stored spans: an hour of a small shop in which something goes wrong.

use spanwise_model::{
    AttributeValue, Attributes, Capture, Kind, Span, SpanBatch, SpanBatchBuilder, SpanId, Status,
    TraceId,
};
use spanwise_query::{CauseAnswer, CauseKind, CauseQuery, Queries, now_unix_nano};
use spanwise_store::embedded::{EmbeddedConfig, EmbeddedStore};
use spanwise_store::{Store, TimeRange};

const MS: i64 = 1_000_000;
const MINUTE: i64 = 60_000 * MS;

/// What is wrong in the last minutes.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Nothing,
    /// A query of one tenant's carts is slow, on one of two hosts, a third of all requests.
    SlowQuery,
    /// The cart asks once for each of its entries.
    ManyQueries,
    /// The stock fails.
    Failures,
    /// The way to the stock is slow.
    SlowWay,
    /// The shop asks the stock no more.
    NoCall,
}

struct Traffic {
    spans: Vec<Span>,
    number: u64,
    random: u64,
}

impl Traffic {
    /// Up to a fifth more than it is.
    fn varied(&mut self, micros: i64) -> i64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        micros * 1_000 + micros * 200 * ((self.random >> 33) % 100) as i64 / 100
    }

    #[expect(clippy::too_many_arguments, reason = "a span has as many")]
    fn span(
        &mut self,
        trace: u64,
        parent: Option<usize>,
        service: &str,
        operation: &str,
        kind: Kind,
        start: i64,
        duration: i64,
    ) -> usize {
        self.number += 1;
        let id = SpanId::from_u64(self.number).expect("not zero");
        let mut span = Span::new(id, Capture::App, kind, service, operation, start, duration);
        let mut bytes = [7; 16];
        bytes[8..].copy_from_slice(&trace.to_be_bytes());
        span.assembled_trace_id = Some(TraceId(bytes));
        span.assembled_parent = parent.map(|parent| self.spans[parent].span_id);
        self.spans.push(span);
        self.spans.len() - 1
    }

    /// A request to the shop, which asks the cart and the stock.
    fn request(&mut self, number: u64, start: i64, fault: Fault) {
        let slow = fault == Fault::SlowQuery && number.is_multiple_of(3);
        let host = if number.is_multiple_of(3) { "host-a" } else { "host-b" };
        let queries = if fault == Fault::ManyQueries { 12 } else { 1 };
        let query = if slow { self.varied(200_000) } else { self.varied(4_000) };
        let way = self.varied(if fault == Fault::SlowWay { 40_000 } else { 500 });
        let (cart, own, stock) = (self.varied(2_000), self.varied(3_000), self.varied(2_000));
        let cart = cart + queries * query;
        let asks_stock = fault != Fault::NoCall;
        let total = own + cart + if asks_stock { stock + way } else { 0 };
        let shop = self.span(number, None, "shop", "GET /", Kind::Server, start, total);
        let call = self.span(number, Some(shop), "shop", "get cart", Kind::Client, start, cart);
        let served = self.span(number, Some(call), "cart", "GET /cart", Kind::Server, start, cart);
        self.spans[served].host = Some(host.to_owned());
        for index in 0..queries {
            let at = start + index * query;
            let sql =
                self.span(number, Some(served), "cart", "SELECT carts", Kind::Client, at, query);
            let span = &mut self.spans[sql];
            span.host = Some(host.to_owned());
            span.protocol = Some("postgresql".to_owned());
            span.flow.server_address = Some("10.0.0.9".to_owned());
            span.flow.server_port = Some(5432);
            let tenant = if number.is_multiple_of(3) { "acme" } else { "other" };
            span.attributes = Attributes::from_iter([(
                "tenant".to_owned(),
                AttributeValue::String(tenant.to_owned()),
            )]);
        }
        if asks_stock {
            let at = start + cart;
            let call =
                self.span(number, Some(shop), "shop", "get stock", Kind::Client, at, stock + way);
            let at = at + way / 2;
            let served =
                self.span(number, Some(call), "stock", "GET /stock", Kind::Server, at, stock);
            if fault == Fault::Failures && number.is_multiple_of(3) {
                for span in [shop, call, served] {
                    self.spans[span].status = Status::Error;
                }
                self.spans[served].error = Some("out of shelves".to_owned());
            }
        }
    }
}

/// Forty minutes of traffic, of which the last five have a fault; the answer, and when it began.
async fn answer(fault: Fault, given: bool, service: Option<&str>) -> (CauseAnswer, i64) {
    let directory = tempfile::tempdir().expect("a directory");
    let config = EmbeddedConfig::new(directory.path().join("data"));
    let store = EmbeddedStore::open(config).await.expect("a store");
    let now = now_unix_nano();
    let began = now - 5 * MINUTE;
    let mut traffic = Traffic { spans: Vec::new(), number: 0, random: 1 };
    for number in 0..4_800 {
        let start = now - 40 * MINUTE + number * 500 * MS;
        let fault = if start >= began { fault } else { Fault::Nothing };
        traffic.request(number.cast_unsigned(), start, fault);
    }
    for part in traffic.spans.chunks(10_000) {
        let batch = part.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
        let batch = SpanBatch::try_from(batch).expect("spans").into_record_batch();
        store.append(batch.into(), None).await.expect("stored");
    }
    // The end may be in the future.
    let to_unix_nano = now + 10 * MINUTE;
    let time = given.then_some(TimeRange { from_unix_nano: began, to_unix_nano });
    let query = CauseQuery { time, service: service.map(str::to_owned) };
    let queries = Queries::new(store);
    let answer = queries.cause(&query).await.expect("an answer");
    assert!(answer.time.to_unix_nano <= now_unix_nano());
    (answer, began)
}

fn first(answer: &CauseAnswer) -> &spanwise_query::CauseSuspect {
    assert!(answer.stands_out, "{answer:#?}");
    &answer.suspects[0]
}

#[tokio::test]
async fn a_slow_query_is_told_with_its_place_its_beginning_and_its_tenant() {
    for (given, service) in [(true, None), (false, None), (true, Some("cart"))] {
        let (answer, began) = answer(Fault::SlowQuery, given, service).await;
        let cart = first(&answer);
        assert_eq!(cart.service, "cart");
        assert_eq!(cart.operation.as_deref(), Some("SELECT carts"));
        let evidence = &cart.evidence[0];
        assert_eq!(evidence.kind, CauseKind::OwnTime);
        assert!(
            evidence.text.contains(
                "95th percentile of calls `SELECT carts` to postgresql at 10.0.0.9:5432 rose from"
            ),
            "{}",
            evidence.text
        );
        assert!(evidence.value > 190.0 && evidence.usual < 6.0, "{evidence:?}");
        assert!(cart.places.iter().any(|place| place.starts_with("only host host-a")), "{cart:#?}");
        let since = cart.began_unix_nano.expect("it began");
        assert!((since - began).abs() < 20_000 * MS, "{}", (since - began) / MS);
        assert_eq!(
            (cart.attributes[0].key.as_str(), cart.attributes[0].value.as_str()),
            ("tenant", "acme")
        );
        assert_eq!((cart.bad_traces.len(), cart.usual_traces.len()), (3, 1));
        assert!(answer.summary.starts_with("cart is suspected first"), "{}", answer.summary);
        assert_eq!(answer.found, !given);
    }
}

#[tokio::test]
async fn more_calls_failures_and_a_slow_way_are_told_in_words() {
    let (many, _) = answer(Fault::ManyQueries, true, None).await;
    let cart = first(&many);
    assert_eq!((cart.service.as_str(), cart.operation.as_deref()), ("cart", Some("GET /cart")));
    assert_eq!(
        cart.evidence[0].text,
        "calls of `GET /cart` rose from 1 to 12 for each run, most of all `SELECT carts` from 1 to \
         12"
    );
    let (failing, _) = answer(Fault::Failures, false, None).await;
    let stock = first(&failing);
    assert_eq!(stock.service, "stock");
    let text = &stock.evidence[0].text;
    assert!(text.starts_with("own errors of `GET /stock` rose from 0 % to 3"), "{text}");
    assert!(text.ends_with(", most of them \"out of shelves\""), "{text}");
    assert_eq!(stock.callers, ["shop"]);
    let (slow, _) = answer(Fault::SlowWay, true, None).await;
    let stock = first(&slow);
    assert_eq!(stock.service, "stock");
    assert!(stock.evidence[0].text.contains("time between shop and stock rose from"));
}

#[tokio::test]
async fn calls_that_vanished_are_told_and_quiet_hours_blame_nobody() {
    let (gone, _) = answer(Fault::NoCall, true, None).await;
    let texts: Vec<&str> = gone.changes.iter().map(|change| change.text.as_str()).collect();
    // What a suspect did comes first.
    assert_eq!(texts[0], "shop does not call stock any more");
    assert!(texts.contains(&"no span of stock any more"), "{texts:?}");
    assert_eq!(first(&gone).service, "shop");
    for given in [true, false] {
        let (quiet, _) = answer(Fault::Nothing, given, None).await;
        assert!(!quiet.stands_out, "{quiet:#?}");
        assert!(quiet.summary.starts_with("Nothing stands out"), "{}", quiet.summary);
        assert!(quiet.changes.is_empty() && !quiet.found && quiet.usual_ranges >= 3);
    }
}

#[tokio::test]
async fn without_spans_nothing_is_claimed() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = EmbeddedConfig::new(directory.path().join("data"));
    let queries = Queries::new(EmbeddedStore::open(config).await.expect("a store"));
    for time in [None, Some(TimeRange { from_unix_nano: 0, to_unix_nano: MINUTE })] {
        let query = CauseQuery { time, service: None };
        let answer = queries.cause(&query).await.expect("an answer");
        assert!(!answer.stands_out && answer.suspects.is_empty() && !answer.warnings.is_empty());
    }
    let query = CauseQuery { time: Some(TimeRange::ALL), service: Some("nobody".to_owned()) };
    assert!(!queries.cause(&query).await.expect("an answer").stands_out);
}
