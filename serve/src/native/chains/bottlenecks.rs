//! `GET /api/v1/bottlenecks`

use std::sync::Arc;

use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use spanwise_analyze::bottlenecks::{Found, Place};
use spanwise_api as api;
use spanwise_api::Nano;
use spanwise_api::endpoints::BOTTLENECKS;
use spanwise_query::{ObservedRuns, Queries, RunFigures};

use super::convert::{self, name};
use super::{Pairs, computed, observed, rows};
use crate::answer_limits::AnswerLimits;
use crate::native::parameters::Parameters;
use crate::problem::Problem;

pub(crate) async fn bottlenecks(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    UrlQuery(pairs): Pairs,
) -> Result<Json<api::Bottlenecks>, Problem> {
    let parameters = Parameters::of(&BOTTLENECKS, pairs)?;
    let limit = rows(&parameters)?;
    let entrance = parameters.text("entrance").map(str::to_owned);
    let runs =
        observed(&queries, &limits, parameters.time_range()?, RunFigures::Everything).await?;
    let list = move || {
        let is_asked = |name: &spanwise_analyze::Operation| {
            entrance.as_ref().is_none_or(|service| name.service == *service)
        };
        let found = runs.bottlenecks.found(&runs.chains, is_asked);
        converted(found, &runs, limit)
    };
    Ok(Json(computed(list).await?))
}

/// At most so many of each kind. A warning says where there are more.
fn converted(found: Found, runs: &ObservedRuns, limit: usize) -> api::Bottlenecks {
    let mut warnings = runs.warnings.clone();
    let mut cut = |what: &str, total: usize| {
        if total > limit {
            warnings.push(format!("{limit} of {total} {what} are listed; raise `limit` for more"));
        }
    };
    cut("shares of time", found.shares.len());
    cut("repeated calls", found.repeated.len());
    cut("retried calls", found.retried.len());
    cut("fan-outs", found.fan_outs.len());
    cut("sequential calls", found.sequential.len());
    let fan_outs = found.fan_outs.into_iter().take(limit).map(|found| api::FanOut {
        caller: name(found.place.called),
        callers: found.callers,
        entrance: name(found.place.entrance),
        example_trace: found.most.1.to_string(),
        most: found.most.0,
    });
    let repeated = found.repeated.into_iter().take(limit).map(|found| {
        let (entrance, caller, called) = names(found.place);
        let (callers, calls, share) = (found.callers, found.calls, found.share);
        let (most, example_trace) = (found.most.0, found.most.1.to_string());
        api::RepeatedCalls { called, caller, callers, calls, entrance, example_trace, most, share }
    });
    let retried = found.retried.into_iter().take(limit).map(|found| {
        let (entrance, caller, called) = names(found.place);
        api::RetriedCalls {
            attempts: found.attempts,
            called,
            caller,
            calls: found.calls,
            entrance,
            example_trace: found.most.1.to_string(),
            most: found.most.0,
            rescued: found.rescued,
            share: found.share,
        }
    });
    let sequential = found.sequential.into_iter().take(limit).map(|found| api::SequentialCalls {
        after_failure: found.after_failure,
        caller: name(found.caller),
        entrance: name(found.entrance),
        example_trace: found.example.to_string(),
        first: name(found.first),
        proven: found.is_proven,
        reversed: found.reversed,
        saved_share: found.saved_share,
        second: name(found.second),
        times: found.times,
    });
    let shares = found.shares.into_iter().take(limit).map(|found| {
        let mean_self = found.self_nano / u128::from(found.calls.max(1));
        api::TimeShare {
            called: name(found.place.called),
            caller: found.place.caller.map(name),
            calls: found.calls,
            critical_share: found.critical_share,
            entrance: name(found.place.entrance),
            mean_self_nano: Nano(i64::try_from(mean_self).unwrap_or(i64::MAX)),
        }
    });
    api::Bottlenecks {
        fan_outs: fan_outs.collect(),
        observed: convert::observed(runs),
        repeated: repeated.collect(),
        retried: retried.collect(),
        sequential: sequential.collect(),
        shares: shares.collect(),
        warnings,
    }
}

/// Entrance, caller and called. Only the entrance itself has no caller.
fn names(place: Place) -> (api::OperationName, api::OperationName, api::OperationName) {
    let caller = place.caller.unwrap_or_default();
    (name(place.entrance), name(caller), name(place.called))
}
