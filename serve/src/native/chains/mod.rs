//! `GET /api/v1/chains` and the analyses of chains.

mod bottlenecks;
mod capacity;
mod convert;
mod scale;

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Query as UrlQuery, State};
use axum::response::Json;
use spanwise_analyze::{Chain, ShapeId};
use spanwise_api as api;
use spanwise_api::endpoints::{CHAIN, CHAINS, DEPENDS, ENTRANCES, SOURCES};
use spanwise_query::traceql::Bounds;
use spanwise_query::{ObservedRuns, Queries, RunFigures};
use spanwise_store::TimeRange;

pub(crate) use bottlenecks::bottlenecks;
pub(crate) use capacity::capacity;

use super::parameters::{Parameters, brief};
use crate::answer_limits::AnswerLimits;
use crate::problem::Problem;

/// What an analysis may read.
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(15), traces: 500_000, spans: 5_000_000 };
const DEFAULT_ROWS: usize = 100;
const MAX_ROWS: usize = 10_000;
/// The most rows of a chain's table.
const MAX_CALLS: usize = 10_000;
const MAX_DEPTH: usize = 128;

type Pairs = UrlQuery<Vec<(String, String)>>;

/// The runs that a request is about.
async fn observed(
    queries: &Queries,
    limits: &AnswerLimits,
    time: TimeRange,
    what: RunFigures,
) -> Result<Arc<ObservedRuns>, Problem> {
    let _evaluating = limits.to_evaluate().await?;
    Ok(queries.observed_runs(time, BOUNDS, what).await?)
}

/// Runs what takes long with large answers on another thread.
async fn computed<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::internal(format!("an analysis ended: {error}")))
}

fn rows(parameters: &Parameters) -> Result<usize, Problem> {
    parameters.count("limit", DEFAULT_ROWS, MAX_ROWS)
}

pub(crate) async fn chains(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    UrlQuery(pairs): Pairs,
) -> Result<Json<api::ChainList>, Problem> {
    let parameters = Parameters::of(&CHAINS, pairs)?;
    let limit = rows(&parameters)?;
    let named = |name| parameters.text(name).map(str::to_owned);
    let (service, entrance) = (named("service"), named("entrance"));
    let runs = observed(&queries, &limits, parameters.time_range()?, RunFigures::Chains).await?;
    let list = move || {
        let mut chains = runs.chains.chains();
        chains.retain(|chain| {
            let calls = |name: &String| chain.nodes.iter().any(|node| node.service == *name);
            service.as_ref().is_none_or(calls)
                && entrance.as_ref().is_none_or(|name| chain.service == *name)
        });
        api::ChainList {
            chains: chains.iter().take(limit).map(|chain| convert::summary(chain, &runs)).collect(),
            observed: convert::observed(&runs),
            total: chains.len() as u64,
            warnings: runs.warnings.clone(),
        }
    };
    Ok(Json(computed(list).await?))
}

pub(crate) async fn chain(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    Path(id): Path<String>,
    UrlQuery(pairs): Pairs,
) -> Result<Json<api::ChainPage>, Problem> {
    let parameters = Parameters::of(&CHAIN, pairs)?;
    let shape = ShapeId::read(&id).ok_or_else(|| {
        Problem::invalid(format!(
            "`{}` is no id of a chain; write its 16 hexadecimal digits, which {}/chains lists",
            brief(&id),
            api::endpoints::BASE
        ))
    })?;
    let runs = observed(&queries, &limits, parameters.time_range()?, RunFigures::ChainsWith(shape))
        .await?;
    let page = move || {
        let chains = runs.chains.chains();
        let chain: &Chain = chains.iter().find(|chain| chain.shapes.contains(&shape))?;
        Some(api::ChainPage {
            calls: chain.nodes.iter().take(MAX_CALLS).map(convert::call).collect(),
            chain: convert::summary(chain, &runs),
            observed: convert::observed(&runs),
            total: chain.nodes.len() as u64,
            warnings: runs.warnings.clone(),
        })
    };
    let page = computed(page).await?;
    page.map(Json).ok_or_else(|| {
        Problem::not_found(format!(
            "no run of this time is of chain {shape}; choose another time, or list the chains"
        ))
    })
}

pub(crate) async fn depends(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    UrlQuery(pairs): Pairs,
) -> Result<Json<api::Dependencies>, Problem> {
    let parameters = Parameters::of(&DEPENDS, pairs)?;
    let limit = rows(&parameters)?;
    let service = parameters.text("service").map(str::to_owned);
    let runs = observed(&queries, &limits, parameters.time_range()?, RunFigures::Chains).await?;
    let list = move || {
        let is_asked = |edge: &api::DependencyEdge| {
            service
                .as_ref()
                .is_none_or(|name| edge.caller.service == *name || edge.called.service == *name)
        };
        let mut edges: Vec<_> = runs.chains.strengths().into_iter().map(convert::edge).collect();
        edges.retain(is_asked);
        edges.sort_by_key(|edge| Reverse((edge.dependency.failures, edge.calls)));
        let total = edges.len() as u64;
        edges.truncate(limit);
        let (observed, warnings) = (convert::observed(&runs), runs.warnings.clone());
        api::Dependencies { edges, observed, total, warnings }
    };
    Ok(Json(computed(list).await?))
}

pub(crate) async fn entrances(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    UrlQuery(pairs): Pairs,
) -> Result<Json<api::Entrances>, Problem> {
    let parameters = Parameters::of(&ENTRANCES, pairs)?;
    let limit = rows(&parameters)?;
    let time = parameters.time_range()?;
    let evaluating = limits.to_evaluate().await?;
    let runs = queries.observed_runs(time, BOUNDS, RunFigures::Chains).await?;
    let before = queries.observed_runs_before(time, BOUNDS, RunFigures::Chains).await?;
    drop(evaluating);
    let list = move || {
        let mut entrances = convert::entrances(&runs, &before);
        let total = entrances.len() as u64;
        entrances.truncate(limit);
        let (observed, observed_before) = (convert::observed(&runs), convert::observed(&before));
        let of_before = before.warnings.iter().map(|why| format!("of the period before: {why}"));
        let warnings = runs.warnings.iter().cloned().chain(of_before).collect();
        api::Entrances { entrances, observed, observed_before, total, warnings }
    };
    Ok(Json(computed(list).await?))
}

pub(crate) async fn sources(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    UrlQuery(pairs): Pairs,
) -> Result<Json<api::Sources>, Problem> {
    let parameters = Parameters::of(&SOURCES, pairs)?;
    let limit = rows(&parameters)?;
    let depth = parameters.count("depth", MAX_DEPTH, MAX_DEPTH)?;
    let operation = parameters.text("operation").map(str::to_owned);
    let service = parameters.text("service").map(str::to_owned).ok_or_else(|| {
        Problem::invalid("`service` is missing; write the service that is called, or `mysql`")
    })?;
    let runs = observed(&queries, &limits, parameters.time_range()?, RunFigures::Chains).await?;
    let list = move || convert::sources(&runs, &service, operation.as_deref(), depth, limit);
    Ok(Json(computed(list).await?))
}
