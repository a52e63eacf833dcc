//! `GET /api/v1/journey`

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use spanwise_analyze::logical::{Gap, HandOff, HandOffEvidence};
use spanwise_api as api;
use spanwise_api::Nano;
use spanwise_api::endpoints::JOURNEY;
use spanwise_keys::{KeyHash, KeyRules, LONGEST_KEY};
use spanwise_query::{Journey, JourneyBounds, JourneyQuery, JourneyStep, JourneyTrace, Queries};

use super::parameters::{Parameters, brief};
use crate::ApiState;
use crate::answer_limits::AnswerLimits;
use crate::problem::Problem;

const WEEK_NANO: i64 = 7 * 86_400_000_000_000;
const DEFAULT_GAP_NANO: i64 = 60_000_000_000;
/// The most spans with a key that are read.
const MAX_SPANS: usize = 20_000;
const DEFAULT_ROWS: usize = 1_000;
const MAX_ROWS: usize = 10_000;

pub(super) async fn journey(
    State(state): State<ApiState>,
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<api::Journey>, Problem> {
    let parameters = Parameters::of(&JOURNEY, pairs)?;
    let needed = |name: &str, example: &str| {
        parameters.text(name).map(str::trim).filter(|text| !text.is_empty()).ok_or_else(|| {
            Problem::invalid(format!("`{name}` is missing; write for example {name}={example}"))
        })
    };
    let (name, value) = (needed("key", "order")?, needed("value", "4711")?);
    if value.len() > LONGEST_KEY {
        return Err(Problem::invalid(format!(
            "`value` has more than {LONGEST_KEY} bytes; no key is longer"
        )));
    }
    let stored = stored(&state.keys, name, value)?;
    let query = JourneyQuery {
        name: name.to_owned(),
        value: stored,
        time: parameters.time_range_back(WEEK_NANO)?,
        gap_nano: parameters.duration("gap")?.unwrap_or(DEFAULT_GAP_NANO),
        bounds: JourneyBounds {
            spans: MAX_SPANS,
            rows: parameters.count("limit", DEFAULT_ROWS, MAX_ROWS)?,
        },
    };
    let _evaluating = limits.to_evaluate().await?;
    let journey = queries.journey(&query).await?;
    Ok(Json(told(journey, query, &state.keys)))
}

/// The form in which a key is stored.
fn stored(rules: &KeyRules, name: &str, value: &str) -> Result<String, Problem> {
    let is_hashed = rules.named(name).is_some_and(|rule| rule.hash);
    if is_hashed && KeyHash::is_hash(value) {
        return Ok(value.to_ascii_lowercase());
    }
    rules.shown(name, value).ok_or_else(|| {
        let name = brief(name);
        Problem::invalid(format!(
            "keys `{name}` are hashed where they are read, and this server does not have the \
             secret: ask for the hash. With the configuration and the secret of the agent, \
             `spanwise key hash {name}=VALUE` prints it"
        ))
    })
}

fn told(journey: Journey, query: JourneyQuery, rules: &KeyRules) -> api::Journey {
    let JourneyQuery { name, value, time, .. } = query;
    let hashed = rules.named(&name).is_some_and(|rule| rule.hash);
    let configured = rules.rules().iter().map(|rule| rule.name.clone());
    let known: BTreeSet<String> = configured.chain(journey.names).collect();
    let known_keys: Vec<String> = known.into_iter().collect();
    let mut warnings = journey.warnings;
    if journey.total_steps == 0 {
        warnings.push(match known_keys.as_slice() {
            [] => "no key is configured here, and no span of this time has one; docs/keys.md says \
                   how to configure them"
                .to_owned(),
            known if !known.contains(&name) => format!(
                "no span of this time has a key `{}`; there are: {}",
                brief(&name),
                known.join(", ")
            ),
            _ if hashed => "no span of this time has this key; is it the hash by the secret of \
                            today, and was the value written the same?"
                .to_owned(),
            _ => "no span of this time has this key; choose another time, and if an agent hashes \
                  it, ask for its hash (spanwise key hash)"
                .to_owned(),
        });
    }
    api::Journey {
        busy_nano: Nano(journey.busy_nano),
        covered_from_unix_nano: Nano(journey.from_unix_nano),
        end_unix_nano: Nano(time.to_unix_nano),
        gaps: journey.gaps.into_iter().map(gap).collect(),
        hand_offs: journey.hand_offs.into_iter().map(hand_off).collect(),
        hashed,
        key: name,
        known_keys,
        spans: journey.spans as u64,
        start_unix_nano: Nano(time.from_unix_nano),
        steps: journey.steps.into_iter().map(step).collect(),
        total_steps: journey.total_steps as u64,
        total_traces: journey.total_traces as u64,
        traces: journey.traces.into_iter().map(trace).collect(),
        value,
        warnings,
    }
}

fn gap(Gap { after, before, nano }: Gap) -> api::JourneyGap {
    api::JourneyGap { after: after as u64, before: before as u64, duration_nano: Nano(nano) }
}

fn hand_off(HandOff { from, to, nano, evidence }: HandOff) -> api::JourneyHandOff {
    api::JourneyHandOff {
        duration_nano: Nano(nano),
        evidence: match evidence {
            HandOffEvidence::Link => api::JourneyEvidence::Link,
            HandOffEvidence::Message => api::JourneyEvidence::Message,
            HandOffEvidence::MessageInTime => api::JourneyEvidence::MessageInTime,
            HandOffEvidence::Time => api::JourneyEvidence::Time,
        },
        from: from as u64,
        to: to as u64,
    }
}

fn step(step: JourneyStep) -> api::JourneyStep {
    api::JourneyStep {
        attempt: step.attempt as u64,
        duration_nano: Nano(step.duration_nano),
        error: step.error,
        failed: step.failed,
        is_message: step.is_message,
        operation: step.operation,
        service: step.service,
        span_id: step.span_id.to_string(),
        spans: step.spans as u64,
        start_unix_nano: Nano(step.start_unix_nano),
        status_code: step.status_code,
        trace_id: step.trace_id.to_string(),
    }
}

fn trace(JourneyTrace { summary, steps }: JourneyTrace) -> api::JourneyTrace {
    let (service, operation) = summary.root.map(|root| (root.service, root.operation)).unzip();
    api::JourneyTrace {
        duration_nano: Nano(summary.duration_nano),
        errors: summary.errors as u64,
        operation,
        service,
        services: summary.services.into_iter().map(|service| service.name).collect(),
        spans: summary.spans as u64,
        start_unix_nano: Nano(summary.start_unix_nano),
        steps: steps as u64,
        trace_id: summary.trace_id.to_string(),
    }
}
