//! Why nothing was found: what is true of the store, and not what often is.

use spanwise_model::schema::column;
use spanwise_store::{AttributeCondition, AttributeTest, Order, Predicate, Query, TimeRange};

use super::Wanted;
use crate::ApiState;
use crate::problem::Problem;

/// Sentences for who found nothing.
pub(super) async fn advice(
    state: &ApiState,
    wanted: &Wanted,
    time: TimeRange,
) -> Result<Vec<String>, Problem> {
    let status = state.store.status();
    if status.recent_rows + status.file_rows == 0 {
        return Ok(vec![
            "no spans are stored yet: send a request to a traced process, or spans by OTLP"
                .to_owned(),
        ]);
    }
    let mut advice = Vec::new();
    if !exists(state, Predicate::default(), time).await? {
        advice.push("no span at all began in this time".to_owned());
    } else {
        let named = alone(&wanted.predicate);
        for steps in &named {
            for (what, predicate) in steps {
                if !exists(state, predicate.clone(), time).await? {
                    advice.push(format!("no span of this time has {what}"));
                    break;
                }
            }
        }
        let as_wanted = |assembled| Predicate { assembled, ..wanted.predicate.clone() };
        let fits = exists(state, as_wanted(false), time).await?;
        if fits && !exists(state, as_wanted(true), time).await? {
            advice
                .push("what fits came just now, and is not in its trace yet: ask again".to_owned());
        } else if !fits && advice.is_empty() && named.len() > 1 {
            advice.push(
                "each of these is met by some span of this time, but all of them by none"
                    .to_owned(),
            );
        }
    }
    let before = TimeRange { from_unix_nano: i64::MIN, to_unix_nano: time.from_unix_nano };
    let mut predicate = wanted.predicate.clone();
    (predicate.assembled, predicate.root) = (false, false);
    if exists(state, predicate, before).await? {
        advice.push("there are some further back: choose an earlier start".to_owned());
    }
    Ok(advice)
}

/// Each thing that is named, by itself; where it says several, the first one that does
/// not hold tells enough.
fn alone(predicate: &Predicate) -> Vec<Vec<(String, Predicate)>> {
    let mut all = Vec::new();
    let none = Predicate::default;
    if let Some(service) = &predicate.service {
        let service = Some(service.clone());
        all.push(vec![("this service".to_owned(), Predicate { service, ..none() })]);
    }
    if let Some(operation) = &predicate.operation {
        let operation = Some(operation.clone());
        all.push(vec![("this operation".to_owned(), Predicate { operation, ..none() })]);
    }
    for condition in &predicate.attributes {
        let key: String = condition.key.chars().take(64).collect();
        let attributes = vec![condition.clone()];
        let mut steps = Vec::new();
        let what = match condition.test {
            AttributeTest::Exists => format!("an attribute `{key}`"),
            AttributeTest::Absent => format!("no attribute `{key}`"),
            _ => {
                let exists =
                    AttributeCondition { test: AttributeTest::Exists, ..condition.clone() };
                let attributes = vec![exists];
                steps.push((format!("an attribute `{key}`"), Predicate { attributes, ..none() }));
                format!("an attribute `{key}` that is so")
            }
        };
        steps.push((what, Predicate { attributes, ..none() }));
        all.push(steps);
    }
    if let Some(status) = predicate.status {
        let what = format!("the status {status}");
        all.push(vec![(what, Predicate { status: Some(status), ..none() })]);
    }
    all
}

async fn exists(state: &ApiState, predicate: Predicate, time: TimeRange) -> Result<bool, Problem> {
    let columns = vec![column::START_UNIX_NANO];
    let query = Query { predicate, time, columns, limit: 1, order: Order::NewestFirst };
    Ok(state.store.find(&query).await?.iter().any(|batch| batch.num_rows() > 0))
}
