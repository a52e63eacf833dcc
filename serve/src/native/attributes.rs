//! `GET /api/v1/attributes` and `/api/v1/attributes/values`

use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use spanwise_api::endpoints::{ATTRIBUTE_VALUES, ATTRIBUTES};
use spanwise_api::{
    AttributeKey, AttributeKeys, AttributePlace, AttributeValue, AttributeValues, CoveredRange,
    Nano,
};
use spanwise_query::{AttributeQuery, Covered, KeyTotal, Queries, ValueTotal};

use super::parameters::Parameters;
use crate::problem::Problem;

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;

pub(super) async fn keys(
    State(queries): State<Queries>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<AttributeKeys>, Problem> {
    let query = query(&Parameters::of(&ATTRIBUTES, pairs)?)?;
    let answer = queries.attribute_keys(&query).await?;
    let keys = answer.entries.into_iter().map(|KeyTotal { key, place, spans }| {
        let on = match place {
            spanwise_query::AttributePlace::Span => AttributePlace::Span,
            spanwise_query::AttributePlace::Resource => AttributePlace::Resource,
            spanwise_query::AttributePlace::Label => AttributePlace::Label,
        };
        AttributeKey { key, on, spans }
    });
    Ok(Json(AttributeKeys { covered: covered(answer.covered, &query), keys: keys.collect() }))
}

pub(super) async fn values(
    State(queries): State<Queries>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<AttributeValues>, Problem> {
    let parameters = Parameters::of(&ATTRIBUTE_VALUES, pairs)?;
    let query = query(&parameters)?;
    let key = parameters.text("key").ok_or_else(|| {
        Problem::invalid("there is no `key`; write for example key=http.request.method")
    })?;
    let answer = queries.attribute_values(key, &query).await?;
    let value = |ValueTotal { value, spans }| AttributeValue { spans, value };
    Ok(Json(AttributeValues {
        covered: covered(answer.covered, &query),
        values: answer.entries.into_iter().map(value).collect(),
    }))
}

fn query(parameters: &Parameters) -> Result<AttributeQuery, Problem> {
    Ok(AttributeQuery {
        service: parameters.text("service").map(str::to_owned),
        time: parameters.time_range()?,
        prefix: parameters.text("prefix").unwrap_or_default().to_owned(),
        limit: parameters.count("limit", DEFAULT_LIMIT, MAX_LIMIT)?,
    })
}

const fn covered(covered: Covered, query: &AttributeQuery) -> CoveredRange {
    CoveredRange {
        complete: covered.complete,
        end_unix_nano: Nano(query.time.to_unix_nano),
        start_unix_nano: Nano(covered.from_unix_nano),
    }
}
