//! Services and operations.

use super::*;

#[tokio::test]
async fn services_and_operations() {
    let api = Api::shop().await;
    let answer = api.get("services").await;
    let names: Vec<_> = answer["services"].as_array().expect("a list").iter().collect();
    assert_eq!(names.len(), 2);
    assert_eq!(
        (&names[0]["name"], &names[0]["spans"], &names[0]["errors"]),
        (&json!("cart"), &json!(6), &json!(1))
    );
    assert_eq!(names[0]["kinds"], json!(["client-process", "server-process"]));
    assert!(names[1]["last_seen_unix_nano"].as_str().expect("text").parse::<i64>().is_ok());

    let answer = api.get("operations?service=cart").await;
    let operations = answer["operations"].as_array().expect("a list");
    assert!(operations.contains(&json!({"name": "SELECT", "kind": "client", "spans": 3})));
    assert_eq!(operations.len(), 2);
    let none = api.get("operations?service=it%27s").await;
    assert_eq!(
        none,
        json!({"next_cursor": null, "operations": []}),
        "a quote in a name is only a quote"
    );
}
