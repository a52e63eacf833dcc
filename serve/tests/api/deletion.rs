//! Deletions.

use super::*;

#[tokio::test]
async fn what_is_deleted_is_in_no_answer() {
    let api = Api::shop().await;
    let delete = async |path: &str| {
        let request =
            Request::delete(format!("/api/v1/{path}")).body(Body::empty()).expect("valid");
        let (status, _, body) = api.ask(request).await;
        (status, serde_json::from_slice::<Value>(&body).expect("JSON"))
    };
    let (status, answer) = delete(&format!("traces/{HEADER_TRACE}")).await;
    assert_eq!((status, &answer["deleted_spans"]), (StatusCode::OK, &json!(4)));
    api.refused(&format!("traces/{HEADER_TRACE}"), StatusCode::NOT_FOUND).await;
    assert_eq!(api.found("").await.len(), 2);
    let (_, answer) = delete("services/cart").await;
    assert_eq!(answer["deleted_spans"], 4);
    let services = api.get("services").await;
    let names: Vec<&Value> =
        services["services"].as_array().expect("a list").iter().map(|s| &s["name"]).collect();
    assert_eq!(names, ["web"]);
    let (_, answer) = delete("services/cart").await;
    assert_eq!(answer["deleted_spans"], 0);
    let (status, problem) = delete("traces/zz").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(problem["detail"].as_str().expect("a detail").contains("32 hexadecimal digits"));
}
