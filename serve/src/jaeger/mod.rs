//! Jaeger's query APIs: version 1 as its own UI of old and Grafana's data source ask it, version
//! 3 as its UI of today does, both also by gRPC, and the API by which a Jaeger reads a storage
//! that is elsewhere.

mod grpc;
mod search;
mod summary;
mod tags;
mod v1;
mod v3;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use spanwise_model::WrittenId;
use spanwise_query::{
    GraphAnswer, OperationTotal, PagePosition, Queries, QueryError, TraceQuery, TraceTree,
};
use spanwise_store::TimeRange;

use crate::Shared;

pub(crate) use grpc::router as grpc_router;

/// The routes below `/jaeger`.
pub(crate) fn router() -> Router<Shared> {
    v1::router().merge(v3::router())
}

/// The names of all services.
async fn services(queries: &Queries) -> Result<Vec<String>, QueryError> {
    Ok(queries.services().await?.into_iter().map(|total| total.name).collect())
}

/// The operations of a service, by name: all of them, or those of this kind.
async fn operations(
    queries: &Queries,
    service: &str,
    kind: &str,
) -> Result<Vec<OperationTotal>, QueryError> {
    let mut operations = queries.operations(Some(service)).await?;
    operations.retain(|operation| kind.is_empty() || operation.kind.as_str() == kind);
    operations.sort_by(|one, other| (&one.name, one.kind).cmp(&(&other.name, other.kind)));
    Ok(operations)
}

/// The whole trace with this id; `None` where there is none.
async fn trace(queries: &Queries, id: WrittenId) -> Result<Option<Arc<TraceTree>>, QueryError> {
    let query = TraceQuery { id, page: PagePosition::Whole, limit: usize::MAX, snapshot: None };
    match queries.trace(&query).await {
        Ok(answer) => Ok(Some(answer.tree)),
        Err(QueryError::TraceNotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// How often one service called another.
struct Dependency {
    parent: String,
    child: String,
    calls: u64,
}

/// Who called whom in this time, and what limits that.
async fn dependencies(
    queries: &Queries,
    time: TimeRange,
) -> Result<(Vec<Dependency>, Vec<String>), QueryError> {
    let GraphAnswer { graph, warnings, .. } = queries.graph(time).await?;
    let mut calls: BTreeMap<(String, String), u64> = BTreeMap::new();
    for edge in graph.edges {
        *calls.entry((edge.client, edge.server)).or_default() += edge.figures.requests;
    }
    let links =
        calls.into_iter().map(|((parent, child), calls)| Dependency { parent, child, calls });
    Ok((links.collect(), warnings))
}

/// A trace id as Jaeger reads it: up to 32 hexadecimal digits.
fn read_id(text: &str) -> Result<WrittenId, String> {
    let is_id = (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let shown: String = text.chars().take(64).collect();
    WrittenId::read(text).filter(|_| is_id).ok_or_else(|| {
        format!("`{shown}` is no trace id; write 1 to 32 hexadecimal digits, not all zero")
    })
}
