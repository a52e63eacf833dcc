//! Parameters that are refused.

use super::*;

#[tokio::test]
async fn bad_parameters_are_refused_with_an_example() {
    let api = Api::empty().await;
    for (path, name, example) in [
        ("search?min_duration=10", "min_duration", "10ms"),
        ("search?max_duration=soon", "max_duration", "1.5s"),
        ("search?start=yesterday", "start", "-15m"),
        ("search?end=2026-13-01", "end", "2026-11-26T09:30:00Z"),
        ("search?sort=best", "sort", "slowest"),
        ("search?sort=slowest&sort=newest", "sort", "write one"),
        ("search?start=now&end=-1h", "start", "end"),
        ("search?limit=0", "limit", "1 to 500"),
        ("search?limit=501", "limit", "1 to 500"),
        ("search?status=bad", "status", "error or ok"),
        ("search?attribute=%3Dx", "attribute", "http.request.method=POST"),
        ("search?attribute=x%3Efast", "x>fast", "no number"),
        ("attributes/values", "key", "http.request.method"),
        ("attributes?nothing=1", "nothing", "prefix"),
        ("search?servce=x", "servce", "service"),
        ("graph?end=never", "end", "now"),
        ("traces/xyz", "xyz", "32 hexadecimal"),
        ("traces/00000000000000ff?limit=0", "limit", "1 to 20000"),
        ("traces/00000000000000ff?after=-1", "after", "next_after"),
        ("traces/00000000000000ff?around=x", "around", "16 hexadecimal"),
        ("traces/00000000000000ff?download=perhaps", "download", "1 or 0"),
        ("sql", "query", "SELECT"),
        ("sql?query=DROP%20TABLE%20spans", "", "SELECT"),
        ("sql?query=SELECT%20nothing%20FROM%20spans", "nothing", ""),
    ] {
        let detail = api.refused(path, StatusCode::BAD_REQUEST).await;
        assert!(detail.contains(name) && detail.contains(example), "{path}: {detail}");
    }
    let detail = api.refused("nothing", StatusCode::NOT_FOUND).await;
    assert!(detail.contains("/api/v1"), "{detail}");
}
