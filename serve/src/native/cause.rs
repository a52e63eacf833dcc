//! `GET /api/v1/cause`

use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use spanwise_api as api;
use spanwise_api::Nano;
use spanwise_api::endpoints::CAUSE;
use spanwise_query::{
    CauseAnswer, CauseAttribute, CauseChange, CauseEvidence, CauseKind, CauseQuery, CauseSuspect,
    CauseTrace, Queries,
};
use spanwise_store::TimeRange;

use super::parameters::Parameters;
use crate::problem::Problem;

pub(crate) async fn cause(
    State(queries): State<Queries>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<api::Causes>, Problem> {
    Ok(Json(answer(&queries, &Parameters::of(&CAUSE, pairs)?).await?))
}

pub(crate) async fn answer(
    queries: &Queries,
    parameters: &Parameters,
) -> Result<api::Causes, Problem> {
    let is_given = parameters.text("start").is_some() || parameters.text("end").is_some();
    let query = CauseQuery {
        time: is_given.then(|| parameters.time_range()).transpose()?,
        service: parameters.text("service").map(str::to_owned),
    };
    Ok(causes(queries.cause(&query).await?))
}

fn causes(answer: CauseAnswer) -> api::Causes {
    let range = |time: TimeRange| api::Range {
        end_unix_nano: Nano(time.to_unix_nano),
        start_unix_nano: Nano(time.from_unix_nano),
    };
    let change = |CauseChange { text, service, since_unix_nano }| api::CauseChange {
        service,
        since_unix_nano: since_unix_nano.map(Nano),
        text,
    };
    api::Causes {
        changes: answer.changes.into_iter().map(change).collect(),
        found: answer.found,
        range: range(answer.time),
        spans: answer.spans as u64,
        stands_out: answer.stands_out,
        summary: answer.summary,
        suspects: answer.suspects.into_iter().map(suspect).collect(),
        usual_range: answer.usual_time.map(range),
        usual_ranges: answer.usual_ranges as u64,
        usual_spans: answer.usual_spans as u64,
        warnings: answer.warnings,
    }
}

fn suspect(suspect: CauseSuspect) -> api::CauseSuspect {
    let attribute = |CauseAttribute { key, value, bad_share, good_share }| api::CauseAttribute {
        bad_share,
        good_share,
        key,
        value,
    };
    let trace = |CauseTrace { trace, start_unix_nano, text }| api::CauseTrace {
        shows: text,
        start_unix_nano: Nano(start_unix_nano),
        trace_id: trace.to_string(),
    };
    let evidence = |CauseEvidence { kind, text, value, usual }| api::CauseEvidence {
        kind: match kind {
            CauseKind::OwnTime => api::CauseKind::OwnTime,
            CauseKind::TimeBetween => api::CauseKind::TimeBetween,
            CauseKind::Calls => api::CauseKind::Calls,
            CauseKind::Errors => api::CauseKind::Errors,
            CauseKind::Retransmits => api::CauseKind::Retransmits,
        },
        text,
        usual,
        value,
    };
    api::CauseSuspect {
        attributes: suspect.attributes.into_iter().map(attribute).collect(),
        bad_traces: suspect.bad_traces.into_iter().map(trace).collect(),
        began_unix_nano: suspect.began_unix_nano.map(Nano),
        callers: suspect.callers,
        evidence: suspect.evidence.into_iter().map(evidence).collect(),
        operation: suspect.operation,
        places: suspect.places,
        score: suspect.score,
        service: suspect.service,
        stands_out: suspect.stands_out,
        usual_traces: suspect.usual_traces.into_iter().map(trace).collect(),
    }
}
