use arrow::array::RecordBatch;
use spanwise_model::{Span, SpanBatch, SpanBatchBuilder, SpanId};

use super::*;

fn batch(spans: &[Span]) -> RecordBatch {
    spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch")
}

/// The names of the spans after they have passed.
fn passed(names: &Names, spans: &[Span]) -> Vec<String> {
    let rows = names.rename(batch(spans).into()).expect("rows");
    let batch = SpanBatch::try_from(rows).expect("the schema");
    batch.spans().map(|span| span.expect("a span").operation).collect()
}

/// Both ends of a call, the called one first.
fn call(number: u32, service: &str, port: u16, protocol: &str, operation: &str) -> [Span; 2] {
    let end = |capture, kind, service: &str| {
        let id = SpanId::from_u64(u64::from(number) + 1).expect("not zero");
        let mut span = Span::new(id, capture, kind, service, operation, 1, 1);
        span.protocol = Some(protocol.to_owned());
        span.request_tcp_seq = Some(number * 100);
        span.response_tcp_seq = Some(number * 100 + 7);
        span.flow.client_port = Some(40_000);
        span.flow.server_port = Some(port);
        span.flow.server_address = Some("10.0.0.1".to_owned());
        span
    };
    [
        end(Capture::ServerProcess, Kind::Server, service),
        end(Capture::ClientProcess, Kind::Client, "front"),
    ]
}

fn slug(number: u32) -> String {
    let word =
        |number: u32| ["red", "green", "blue", "old", "new", "big", "dry"][number as usize % 7];
    format!("{}-{}-{}", word(number), word(number / 7), word(number / 49))
}

#[test]
fn both_ends_of_each_call_have_the_same_name_in_whatever_order_they_come() {
    let calls: Vec<[Span; 2]> = (0..300)
        .map(|number| call(number, "shop", 80, "http", &format!("GET /posts/{}", slug(number))))
        .collect();
    // Together; the called ends in other batches, before or after; one by one.
    for lead in [0, 1, 7, 90] {
        let names = Names::default();
        let mut called = Vec::new();
        let mut calling = Vec::new();
        for chunk in calls.chunks(lead.max(1)) {
            let ends = |end: usize| chunk.iter().map(|call| call[end].clone()).collect::<Vec<_>>();
            if lead == 0 {
                let both = passed(&names, &chunk.concat());
                called.push(both[0].clone());
                calling.push(both[1].clone());
            } else if calling.len() % 2 == 0 {
                called.extend(passed(&names, &ends(0)));
                calling.extend(passed(&names, &ends(1)));
            } else {
                calling.extend(passed(&names, &ends(1)));
                called.extend(passed(&names, &ends(0)));
            }
        }
        assert_eq!(called, calling);
        assert_eq!(called[299], "GET /posts/{id}");
        let different: AHashSet<_> = called.iter().collect();
        assert!(different.len() <= 91, "{}", different.len());
    }
}

#[test]
fn services_learn_apart_and_what_applications_say_stays() {
    let names = Names::default();
    for number in 0..100 {
        let path = format!("GET /api/{}", slug(number));
        passed(&names, &call(number, "blog", 80, "http", &path));
        let spans = call(number + 1000, "shop", 81, "http", "GET /api/carts");
        assert_eq!(passed(&names, &spans), ["GET /api/carts"; 2]);
    }
    let spans = call(5000, "blog", 80, "http", "GET /api/carts");
    assert_eq!(passed(&names, &spans), ["GET /api/{id}"; 2]);
    let mut app = call(6000, "blog", 80, "http", "GET /api/carts")[0].clone();
    app.capture = Capture::App;
    assert_eq!(passed(&names, &[app]), ["GET /api/carts"]);
}

#[test]
fn routes_of_applications_win() {
    let names = Names::default();
    let spans = |number| call(number, "shop", 80, "http", "POST /gh/spanwise/spanwise/issues");
    assert_eq!(passed(&names, &spans(1))[0], "POST /gh/spanwise/spanwise/issues");
    let mut app = spans(2)[0].clone();
    app.capture = Capture::App;
    app.operation = "create issue".to_owned();
    app.attributes.push(("http.route".to_owned(), "/gh/:owner/:repo/issues".into()));
    assert_eq!(passed(&names, &[app]), ["create issue"]);
    assert_eq!(passed(&names, &spans(3)), ["POST /gh/:owner/:repo/issues"; 2]);
}

#[test]
fn destinations_and_tables_are_learned_for_all_services() {
    let names = Names::default();
    let mut last = Vec::new();
    for day in 1..20 {
        let topic = format!("publish audit.{}.day-{day}", slug(day));
        let table = format!("SELECT events_2026_11_{day:02}");
        let service = ["a", "b"][day as usize % 2];
        last = passed(&names, &call(day, service, 9092, "kafka", &topic));
        last.extend(passed(&names, &call(day + 100, service, 5432, "postgresql", &table)));
    }
    let table = "SELECT events_{id}";
    let topic = format!("publish audit.{}.day-19", slug(19));
    assert_eq!(last, [&*topic, &*topic, table, table]);
    for day in 20..80 {
        let topic = format!("publish audit.{}.day-{day}", slug(day));
        last = passed(&names, &call(day, "a", 9092, "kafka", &topic));
    }
    assert_eq!(last, ["publish audit.{id}.day-{id}"; 2]);
    // A command without a table, and other protocols.
    assert_eq!(passed(&names, &call(900, "a", 1, "redis", "GET"))[0], "GET");
    assert_eq!(passed(&names, &call(901, "a", 1, "dubbo", "A1/b2"))[0], "A1/b2");
}

#[test]
fn a_batch_whose_names_stay_is_not_copied() {
    let names = Names::default();
    let batch = batch(&call(1, "shop", 80, "http", "GET /carts"));
    let rows = names.rename(batch.clone().into()).expect("rows");
    let column = |batch: &RecordBatch| {
        let index = batch.schema().index_of(column::OPERATION).expect("a column");
        batch.column(index).to_data().buffers()[0].as_ptr()
    };
    assert_eq!(column(rows.columns()), column(&batch));
}
