//! Lists of names: services, spans, remote services, dependencies, keys and values of tags.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{Query as UrlQuery, State};
use serde::Serialize;
use spanwise_analyze::GraphNode;
use spanwise_model::ServiceKind;
use spanwise_query::{AttributeQuery, Queries, now_unix_nano};
use spanwise_store::TimeRange;

use super::parameters::{Pairs, Parameters};
use super::{Answer, Failure, json};

/// How far back keys, values and remote services are looked for.
const NAMES_NANO: i64 = 3_600_000_000_000;
/// How far back calls are looked at, of which there may be very many.
const CALLS_NANO: i64 = 15 * 60_000_000_000;
/// The most keys, and the most values of one.
const MOST_NAMES: usize = 500;
/// The default of `lookback`.
pub(super) const LOOKBACK_MILLIS: i64 = 86_400_000;

/// `GET /api/v2/services`
pub(super) async fn services(State(queries): State<Queries>) -> Answer {
    let services = queries.services().await?;
    json(&services.into_iter().map(|total| total.name).collect::<BTreeSet<_>>())
}

/// `GET /api/v2/spans`
pub(super) async fn spans(
    State(queries): State<Queries>,
    UrlQuery(pairs): UrlQuery<Pairs>,
) -> Answer {
    let parameters = Parameters::new(pairs);
    let service = parameters.required("serviceName")?;
    let service = service_named(&queries, service).await?;
    let operations = queries.operations(Some(&service)).await?;
    json(&operations.into_iter().map(|total| total.name).collect::<BTreeSet<_>>())
}

/// `GET /api/v2/remoteServices`: what spans of the service name themselves, and whom it called
/// as far as is known without them.
pub(super) async fn remote_services(
    State(queries): State<Queries>,
    UrlQuery(pairs): UrlQuery<Pairs>,
) -> Answer {
    let parameters = Parameters::new(pairs);
    let service = parameters.required("serviceName")?;
    let service = service_named(&queries, service).await?;
    let query = lately(Some(service.clone()));
    let named = queries.attribute_values("peer.service", &query).await?;
    let mut names: BTreeSet<String> = named.entries.into_iter().map(|one| one.value).collect();
    let time = TimeRange {
        from_unix_nano: query.time.to_unix_nano.saturating_sub(CALLS_NANO),
        ..query.time
    };
    let graph = queries.graph(time).await?.graph;
    for edge in graph.edges.iter().filter(|edge| edge.client == service) {
        let node = graph.nodes.iter().find(|node| node.name == edge.server);
        names.extend(node.map(remote_name));
    }
    json(&names)
}

/// The name of a node as a remote service: spans that nobody sent name a database by its kind.
fn remote_name(node: &GraphNode) -> String {
    match (node.kind, node.system) {
        (ServiceKind::Service | ServiceKind::External, _) | (_, None) => node.name.clone(),
        (_, Some(_)) => match node.protocols.first() {
            Some(protocol) if node.name.starts_with(protocol.as_str()) => protocol.clone(),
            _ => node.name.clone(),
        },
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DependencyLink {
    parent: String,
    child: String,
    call_count: u64,
    #[serde(skip_serializing_if = "is_zero")]
    error_count: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// `GET /api/v2/dependencies`
pub(super) async fn dependencies(
    State(queries): State<Queries>,
    UrlQuery(pairs): UrlQuery<Pairs>,
) -> Answer {
    let parameters = Parameters::new(pairs);
    parameters.required("endTs")?;
    let answer = queries.graph(time(&parameters)?).await?;
    let mut links: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for edge in answer.graph.edges {
        let (calls, errors) = links.entry((edge.client, edge.server)).or_default();
        *calls += edge.figures.requests;
        *errors += edge.figures.errors;
    }
    let links = links.into_iter().map(|((parent, child), (call_count, error_count))| {
        DependencyLink { parent, child, call_count, error_count }
    });
    let body = json(&links.collect::<Vec<_>>())?;
    Ok(crate::dialect::with_warnings(body, &answer.warnings))
}

/// `endTs` and `lookback`. Zipkin counts the last millisecond in.
pub(super) fn time(parameters: &Parameters) -> Result<TimeRange, Failure> {
    let now = now_unix_nano() / 1_000_000;
    let end = parameters.number("endTs")?.unwrap_or(now);
    let lookback = parameters.number("lookback")?.unwrap_or(LOOKBACK_MILLIS);
    let nano = |millis: i64| millis.saturating_mul(1_000_000);
    Ok(TimeRange {
        from_unix_nano: nano(end.saturating_sub(lookback)),
        to_unix_nano: nano(end).saturating_add(1_000),
    })
}

/// `GET /api/v2/autocompleteKeys`
pub(super) async fn autocomplete_keys(State(queries): State<Queries>) -> Answer {
    let keys = queries.attribute_keys(&lately(None)).await?;
    json(&keys.entries.into_iter().map(|one| one.key).collect::<BTreeSet<_>>())
}

/// `GET /api/v2/autocompleteValues`
pub(super) async fn autocomplete_values(
    State(queries): State<Queries>,
    UrlQuery(pairs): UrlQuery<Pairs>,
) -> Answer {
    let parameters = Parameters::new(pairs);
    let values = queries.attribute_values(parameters.required("key")?, &lately(None)).await?;
    json(&values.entries.into_iter().map(|one| one.value).collect::<BTreeSet<_>>())
}

fn lately(service: Option<String>) -> AttributeQuery {
    let now = now_unix_nano();
    let time = TimeRange {
        from_unix_nano: now.saturating_sub(NAMES_NANO),
        to_unix_nano: now.saturating_add(60_000_000_000),
    };
    AttributeQuery { service, time, prefix: String::new(), limit: MOST_NAMES }
}

/// The service that a request names. Zipkin writes all names in small letters, and so do its
/// clients; here they keep theirs.
pub(super) async fn service_named(queries: &Queries, name: &str) -> Result<String, Failure> {
    let services = queries.services().await?;
    Ok(written(name, services.into_iter().map(|total| total.name)))
}

/// The name as it is stored: itself, or one that differs only in its case.
pub(super) fn written(name: &str, known: impl Iterator<Item = String>) -> String {
    let small = name.to_lowercase();
    let mut similar = None;
    for one in known {
        if one == name {
            return one;
        }
        if similar.is_none() && one.to_lowercase() == small {
            similar = Some(one);
        }
    }
    similar.unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_whatever_their_case() {
        let known = || ["Cart", "cart", "Émile"].map(str::to_owned).into_iter();
        for (asked, found) in [
            ("cart", "cart"),
            ("Cart", "Cart"),
            ("CART", "Cart"),
            ("émile", "Émile"),
            ("other", "other"),
        ] {
            assert_eq!(written(asked, known()), found);
        }
    }
}
