//! `GET /api/v1/attributes` and `/api/v1/attributes/values`

use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use spanwise_api::endpoints::{ATTRIBUTE_VALUES, ATTRIBUTES};
use spanwise_api::{
    AttributeKey, AttributeKeys, AttributePlace, AttributeValue, AttributeValues, CoveredRange,
    Nano,
};
use spanwise_query::{AttributeQuery, Covered, KeyTotal, Queries, ValueTotal};

use super::page::page;
use super::parameters::Parameters;
use crate::problem::Problem;

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;

pub(super) async fn keys(
    State(queries): State<Queries>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<AttributeKeys>, Problem> {
    Ok(Json(keys_of(&queries, &Parameters::of(&ATTRIBUTES, pairs)?).await?))
}

/// The keys of the newest spans' attributes.
pub(crate) async fn keys_of(
    queries: &Queries,
    parameters: &Parameters,
) -> Result<AttributeKeys, Problem> {
    let (query, limit) = query(parameters)?;
    let answer = queries.attribute_keys(&query).await?;
    let place = |total: &KeyTotal| (total.spans, format!("{}:{:?}", total.key, total.place));
    let (entries, next_cursor) = page(answer.entries, parameters, limit, place)?;
    let keys = entries.into_iter().map(|KeyTotal { key, place, spans }| {
        let on = match place {
            spanwise_query::AttributePlace::Span => AttributePlace::Span,
            spanwise_query::AttributePlace::Resource => AttributePlace::Resource,
            spanwise_query::AttributePlace::Label => AttributePlace::Label,
        };
        AttributeKey { key, on, spans }
    });
    let covered = covered(answer.covered, &query);
    Ok(AttributeKeys { covered, keys: keys.collect(), next_cursor })
}

pub(super) async fn values(
    State(queries): State<Queries>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<AttributeValues>, Problem> {
    Ok(Json(values_of(&queries, &Parameters::of(&ATTRIBUTE_VALUES, pairs)?).await?))
}

/// The values of an attribute of the newest spans.
pub(crate) async fn values_of(
    queries: &Queries,
    parameters: &Parameters,
) -> Result<AttributeValues, Problem> {
    let (query, limit) = query(parameters)?;
    let key = parameters.text("key").ok_or_else(|| {
        Problem::invalid("there is no `key`; write for example key=http.request.method")
    })?;
    let answer = queries.attribute_values(key, &query).await?;
    let place = |total: &ValueTotal| (total.spans, total.value.clone());
    let (entries, next_cursor) = page(answer.entries, parameters, limit, place)?;
    let value = |ValueTotal { value, spans }| AttributeValue { spans, value };
    Ok(AttributeValues {
        covered: covered(answer.covered, &query),
        next_cursor,
        values: entries.into_iter().map(value).collect(),
    })
}

/// The question for all entries, and how many of them a page has.
fn query(parameters: &Parameters) -> Result<(AttributeQuery, usize), Problem> {
    let query = AttributeQuery {
        service: parameters.text("service").map(str::to_owned),
        time: parameters.time_range()?,
        prefix: parameters.text("prefix").unwrap_or_default().to_owned(),
        limit: usize::MAX,
    };
    Ok((query, parameters.count("limit", DEFAULT_LIMIT, MAX_LIMIT)?))
}

const fn covered(covered: Covered, query: &AttributeQuery) -> CoveredRange {
    CoveredRange {
        complete: covered.complete,
        end_unix_nano: Nano(query.time.to_unix_nano),
        start_unix_nano: Nano(covered.from_unix_nano),
    }
}
