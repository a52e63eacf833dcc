use spanwise_model::SpanId;

use super::{CauseRange, CauseSpan, CauseVerdict, Evidence};
use crate::names::{Name, Names};

const MS: i64 = 1_000_000;

/// What one request of a small system takes: `shop` calls `cart` and `stock`, `cart` calls `redis`.
#[derive(Clone, Copy)]
struct Request {
    shop_ms: i64,
    cart_ms: i64,
    between_ms: i64,
    redis_ms: i64,
    stock_calls: usize,
    stock_fails: bool,
    /// One of so many calls of `cart` has retransmits; none if 0.
    lost: usize,
}

const USUAL: Request = Request {
    shop_ms: 2,
    cart_ms: 3,
    between_ms: 1,
    redis_ms: 1,
    stock_calls: 2,
    stock_fails: false,
    lost: 0,
};

struct System {
    names: Names,
    next: u64,
    random: u64,
}

impl System {
    fn new() -> Self {
        Self { names: Names::default(), next: 0, random: 1 }
    }

    /// Some variation: up to a fifth of what it is.
    fn varied(&mut self, ms: i64) -> i64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ms * MS + ms * MS / 5 * ((self.random >> 33) % 100) as i64 / 100
    }

    #[expect(clippy::too_many_arguments, reason = "a span has as many")]
    fn span(
        &mut self,
        spans: &mut Vec<CauseSpan>,
        parent: Option<usize>,
        service: &str,
        operation: &str,
        start: i64,
        duration: i64,
        error: bool,
    ) -> usize {
        self.next += 1;
        spans.push(CauseSpan {
            span_id: SpanId(self.next.to_be_bytes()),
            parent: parent.map(|parent| spans[parent].span_id),
            service: self.names.name(service),
            operation: self.names.name(operation),
            is_call: service == "shop" && operation == "get",
            is_stored: service == "sql",
            start_unix_nano: start,
            duration_nano: duration,
            error,
            retransmits: None,
        });
        spans.len() - 1
    }

    fn range(&mut self, of: Request, requests: usize) -> CauseRange {
        let mut spans = Vec::new();
        for number in 0..requests {
            let start = number as i64 * 1_000 * MS;
            let (own, cart) = (self.varied(of.shop_ms), self.varied(of.cart_ms));
            let (between, redis) = (self.varied(of.between_ms), self.varied(of.redis_ms));
            let stock = self.varied(1);
            let served = cart + redis;
            let call = served + between;
            let stocks = of.stock_calls as i64 * stock;
            let shop =
                self.span(&mut spans, None, "shop", "GET /", start, own + call + stocks, false);
            let client = self.span(&mut spans, Some(shop), "shop", "get", start, call, false);
            let is_lost = of.lost > 0 && number % of.lost == 0;
            spans[client].retransmits = Some(u32::from(is_lost));
            let server = self.span(
                &mut spans,
                Some(client),
                "cart",
                "get",
                start + between / 2,
                served,
                false,
            );
            self.span(&mut spans, Some(server), "redis", "GET", start + between / 2, redis, false);
            for index in 0..of.stock_calls {
                let at = start + call + index as i64 * stock;
                self.span(&mut spans, Some(shop), "stock", "look", at, stock, of.stock_fails);
            }
        }
        CauseRange::of(&spans)
    }

    fn verdict(&mut self, of: Request) -> CauseVerdict {
        let others: Vec<CauseRange> = (0..8).map(|_| self.range(USUAL, 60)).collect();
        let range = self.range(of, 60);
        CauseVerdict::of(&range, &others, &self.names)
    }
}

fn blamed(verdict: &CauseVerdict) -> Option<&str> {
    verdict.suspects.first().filter(|first| first.stands_out).map(|first| first.service.as_str())
}

#[test]
fn nothing_stands_out_where_all_is_usual() {
    for _ in 0..20 {
        let verdict = System::new().verdict(USUAL);
        assert_eq!(blamed(&verdict), None, "{verdict:?}");
        assert_eq!(verdict.usual_ranges, 8);
    }
}

#[test]
fn who_takes_more_time_itself_is_blamed_and_not_who_waits_for_it() {
    let verdict = System::new().verdict(Request { redis_ms: 40, ..USUAL });
    assert_eq!(blamed(&verdict), Some("redis"));
    let evidence = &verdict.suspects[0].evidence[0];
    let Evidence::OwnTime { operation, ms, usual_ms, .. } = evidence else {
        panic!("{evidence:?}")
    };
    assert_eq!(operation, "GET");
    assert!(*ms > 40.0 && *usual_ms < 1.3, "{ms} {usual_ms}");
}

#[test]
fn time_between_services_is_charged_to_the_one_that_answers() {
    let verdict = System::new().verdict(Request { between_ms: 30, ..USUAL });
    assert_eq!(blamed(&verdict), Some("cart"));
    assert!(
        matches!(&verdict.suspects[0].evidence[0], Evidence::TimeBetween { client, server, .. }
        if client == "shop" && server == "cart")
    );
}

#[test]
fn calls_that_are_no_longer_made_and_errors_are_seen() {
    let verdict = System::new().verdict(Request { stock_calls: 0, ..USUAL });
    assert_eq!(blamed(&verdict), Some("shop"));
    let verdict = System::new().verdict(Request { stock_fails: true, ..USUAL });
    assert_eq!(blamed(&verdict), Some("stock"));
    assert!(
        matches!(&verdict.suspects[0].evidence[0], Evidence::Errors { share, .. } if *share == 1.0)
    );
}

#[test]
fn calls_that_are_not_made_after_a_failure_are_the_matter_of_what_failed() {
    let verdict = System::new().verdict(Request { stock_calls: 1, stock_fails: true, ..USUAL });
    assert_eq!(blamed(&verdict), Some("stock"));
    let others = verdict.suspects.iter().skip(1);
    assert!(
        others.clone().all(|other| !other.stands_out && other.evidence.is_empty()),
        "{verdict:?}"
    );
}

#[test]
fn what_the_network_loses_is_seen_where_times_hardly_move() {
    let verdict = System::new().verdict(Request { lost: 4, ..USUAL });
    assert_eq!(blamed(&verdict), Some("cart"), "{verdict:?}");
    assert!(
        matches!(&verdict.suspects[0].evidence[0], Evidence::Retransmits { client, server, share, usual_share, .. }
        if client == "shop" && server == "cart" && *share == 0.25 && *usual_share == 0.0)
    );
    // One of sixty is not yet loss.
    assert_eq!(blamed(&System::new().verdict(Request { lost: 60, ..USUAL })), None);
}

#[test]
fn with_too_little_to_compare_nobody_is_blamed() {
    let mut system = System::new();
    let others = [system.range(USUAL, 60), system.range(USUAL, 60)];
    let range = system.range(Request { redis_ms: 40, ..USUAL }, 60);
    assert_eq!(blamed(&CauseVerdict::of(&range, &others, &system.names)), None);
    let nothing = CauseRange::of(&[]);
    assert!(CauseVerdict::of(&nothing, &others, &system.names).suspects.is_empty());
}

#[test]
fn own_time_leaves_out_children_that_overlap_or_are_longer() {
    let mut system = System::new();
    let mut spans = Vec::new();
    let top = system.span(&mut spans, None, "a", "top", 0, 100, true);
    system.span(&mut spans, Some(top), "a", "one", 10, 30, false);
    system.span(&mut spans, Some(top), "a", "two", 20, 30, true);
    system.span(&mut spans, Some(top), "a", "three", 90, 50, false);
    let shares = super::shares::of(&spans);
    assert_eq!(shares[0].own_nano, 100 - 40 - 10);
    assert_eq!((shares[0].calls, shares[0].own_error, shares[0].server), (3, false, None));
    assert!(shares[2].own_error);
    let unused: Option<Name> = shares[1].server;
    assert_eq!(unused, None);
}

#[test]
fn a_slow_or_failing_statement_is_the_matter_of_its_client_unless_the_database_is_slow_for_all() {
    let range = |system: &mut System, slow: &[usize], failing: bool| {
        let mut spans = Vec::new();
        for number in 0..60 {
            for (place, client) in ["cart", "stock", "orders"].iter().enumerate() {
                let ms = if slow.contains(&place) { 40 } else { 2 };
                let (start, own) = (number * 1_000 * MS, system.varied(ms));
                let top = system.span(&mut spans, None, client, "do", start, own, false);
                let fails = failing && place == 0;
                let at = Some(top);
                system.span(&mut spans, at, "sql", "INSERT", start, own, fails);
            }
        }
        CauseRange::of(&spans)
    };
    for (slow, failing, wanted) in
        [(&[1][..], false, "stock"), (&[0, 1, 2], false, "sql"), (&[], true, "cart")]
    {
        let mut system = System::new();
        let others: Vec<CauseRange> = (0..8).map(|_| range(&mut system, &[], false)).collect();
        let range = range(&mut system, slow, failing);
        let verdict = CauseVerdict::of(&range, &others, &system.names);
        assert_eq!(blamed(&verdict), Some(wanted), "{verdict:?}");
        let (Evidence::OwnTime { store, .. } | Evidence::Errors { store, .. }) =
            &verdict.suspects[0].evidence[0]
        else {
            panic!("{verdict:?}")
        };
        assert_eq!(store.as_deref(), (wanted != "sql").then_some("sql"));
    }
}
