//! Inputs as people have them: ids from logs, attributes as displayed, times with a zone.

use spanwise_model::ResourceJson;

use super::*;

/// A trace with a 64-bit id, as Zipkin's tracers generate them.
async fn short() -> Api {
    let api = Api::empty().await;
    let id: TraceId = "0000000000000000a7890b687652000e".parse().expect("an id");
    let mut spans = Vec::new();
    for (number, parent) in [(1, 0), (2, 1)] {
        let mut span = span(number, Capture::App, "old", "work", now() - 30 * MS, 5);
        (span.trace_id, span.parent_span_id) = (Some(id), SpanId::from_u64(parent));
        spans.push(span);
    }
    // A span of another trace with the same id.
    let mut other = span(0xa789_0b68_7652_000e, Capture::App, "other", "work", now(), 5);
    other.trace_id = Some(TraceId([9; 16]));
    spans.push(other);
    let mut zeros = span(0x00f0_0000_0000_0015, Capture::App, "zeros", "work", now(), 5);
    zeros.trace_id = Some("008efff798038103d269b633813fc703".parse().expect("an id"));
    spans.push(zeros);
    api.add(&spans).await;
    api
}

#[tokio::test]
async fn a_trace_is_found_by_what_the_log_has() {
    let api = short().await;
    for text in [
        "a7890b687652000e",
        "A7890B687652000E",
        "0xa7890b687652000e",
        "%22a7890b687652000e%22",
        "%20a7890b687652000e%0A",
        "0000000000000000a7890b687652000e",
        "a7890b687652000e-0000000000000001-1",
    ] {
        let trace = api.get(&format!("traces/{text}")).await;
        assert_eq!(trace["trace_id"], "0000000000000000a7890b687652000e", "{text}");
        assert_eq!(trace["span_count"], 2, "{text}");
    }
    // Without leading zeros, and as span ids.
    for text in [
        "8efff798038103d269b633813fc703",
        "00-008efff798038103d269b633813fc703-00f0000000000015-01",
        "00f0000000000015",
        "f0000000000015",
    ] {
        let trace = api.get(&format!("traces/{text}")).await;
        assert_eq!(trace["trace_id"], "008efff798038103d269b633813fc703", "{text}");
    }
    let detail = api.refused("traces/f9965485593768ce", StatusCode::NOT_FOUND).await;
    assert!(detail.contains("no trace with the id f9965485593768ce"), "{detail}");
    let deletion = Request::delete("/api/v1/traces/A7890B687652000E").body(Body::empty());
    let (status, _, body) = api.ask(deletion.expect("a request")).await;
    assert_eq!((status, body.as_slice()), (StatusCode::OK, b"{\"deleted_spans\":2}".as_slice()));
}

/// Two spans with different attributes and resources.
async fn described() -> Api {
    let api = Api::empty().await;
    let mut spans = Vec::new();
    for (number, environment) in [(1, "prod"), (2, "test")] {
        let mut span = span(number, Capture::App, "c28", "t", now() - 30 * MS, 5);
        span.trace_id = Some(TraceId([u8::try_from(number).expect("small"); 16]));
        let resource = format!(
            r#"{{"big":9007199254740993,"deployment.environment":"{environment}","res.flag":true}}"#
        );
        span.resource = ResourceJson::from_column(&resource);
        span.attributes = vec![("number".into(), AttributeValue::Int(number.cast_signed() * 100))];
        if number == 1 {
            span.attributes.extend([
                ("ratio".into(), AttributeValue::Double(0.5)),
                ("whole".into(), AttributeValue::Double(3.0)),
                ("large".into(), AttributeValue::Double(1e21)),
                ("statement".into(), "SELECT 1".into()),
                ("ratio".into(), AttributeValue::Double(0.25)),
                ("url".into(), "/a=b?c<d".into()),
            ]);
        }
        spans.push(span);
    }
    api.add(&spans).await;
    api
}

#[tokio::test]
async fn conditions_reach_attributes_resources_and_labels() {
    let api = described().await;
    for (condition, found) in [
        ("deployment.environment=prod", [1].as_slice()),
        ("deployment.environment!=prod", &[2]),
        ("deployment.environment~RO", &[1]),
        ("res.flag=true", &[1, 2]),
        ("big=9007199254740993", &[1, 2]),
        ("big=9007199254740992", &[]),
        ("number>100", &[2]),
        ("number>=100", &[1, 2]),
        ("number < 200", &[1]),
        ("number<=99.5", &[]),
        ("ratio=0.5", &[1]),
        ("whole=3", &[1]),
        ("whole=3.0", &[1]),
        ("large=1e21", &[1]),
        ("large=1000000000000000000000", &[1]),
        ("statement~select", &[1]),
        ("statement", &[1]),
        ("!statement", &[2]),
        ("url=/a=b?c<d", &[1]),
        ("nothing", &[]),
    ] {
        let encoded: String = condition.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = api.get(&format!("search?attribute={encoded}")).await;
        let mut ids: Vec<u64> = answer["traces"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|trace| trace["trace_id"].as_str().expect("an id")[..2].parse().expect("digits"))
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, found, "{condition}");
    }
    let page = api.get(&format!("traces/{}", TraceId([1; 16]))).await;
    assert_eq!(page["spans"][0]["resource"]["big"], "9007199254740993", "exact for all readers");
}

#[tokio::test]
async fn attributes_and_their_values_complete_a_search() {
    let api = described().await;
    let answer = api.get("attributes").await;
    let keys: Vec<_> = answer["keys"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|key| json!([key["key"], key["on"], key["spans"]]))
        .collect();
    for key in [
        json!(["deployment.environment", "resource", 2]),
        json!(["number", "span", 2]),
        json!(["ratio", "span", 1]),
        json!(["res.flag", "label", 2]),
    ] {
        assert!(keys.contains(&key), "{keys:?}");
    }
    assert_eq!(answer["covered"]["complete"], true);
    let some = api.get("attributes?prefix=RE&service=c28&limit=1").await;
    assert_eq!(some["keys"], json!([{"key": "res.flag", "on": "label", "spans": 2}]));
    let values = api.get("attributes/values?key=deployment.environment&prefix=p").await;
    assert_eq!(values["values"], json!([{"value": "prod", "spans": 1}]));
    let values = api.get("attributes/values?key=number").await;
    assert_eq!(values["values"].as_array().expect("a list").len(), 2);
    assert_eq!(api.get("attributes?service=nobody").await["keys"], json!([]));
}

#[tokio::test]
async fn times_are_taken_as_people_write_them() {
    let api = described().await;
    for (range, found) in [
        ("start=2026-01-01T00:00:00Z", 2),
        ("start=2026-01-01&end=2100-01-01T00:00:00%2B02:00", 2),
        ("start=2026-01-01T00:00:00+02:00", 2),
        ("start=2020-01-01&end=2020-01-02", 0),
    ] {
        assert_eq!(api.found(range).await.len(), found, "{range}");
    }
}
