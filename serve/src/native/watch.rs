//! `GET /api/v1/watch`

use axum::extract::State;
use axum::response::Json;
use spanwise_api as api;

use crate::ApiState;

/// Without rules, an answer that says how to write one.
pub(super) async fn watch(State(state): State<ApiState>) -> Json<api::Watch> {
    Json(state.status.watch().unwrap_or_else(|| api::Watch {
        before_seconds: 0.0,
        errors_left_out: 0_u64.into(),
        evaluation_milliseconds: 0.0,
        evaluations: 0_u64.into(),
        every_seconds: 0.0,
        rules: Vec::new(),
        warnings: vec![format!(
            "no rule is watched; add some to the configuration file: [watch] rules = [\"errors * > \
             5%\"]; they are written {}",
            spanwise_analyze::watch::RULE_FORMS
        )],
        webhook: None,
        window_seconds: 0.0,
    }))
}
