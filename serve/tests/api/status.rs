//! The status.

use super::*;

#[tokio::test]
async fn status_unites_the_parts_and_the_store() {
    let api = Api::shop().await;
    let status = api.get("status").await;
    assert_eq!(status["agent"]["state"], "off");
    assert_eq!(status["store"]["recent_rows"], 12);
    assert_eq!(status["warnings"][0], "the agent is off");
    assert_eq!(status["attention"], true, "there is a warning");
    let oldest = status["store"]["oldest_unix_nano"].as_str().expect("beyond 2^53, so a text");
    assert!(oldest.parse::<i64>().expect("digits") > 1 << 53);
    assert_eq!(status["counters"], json!([]));
}
