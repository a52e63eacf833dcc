//! Why a search found nothing, from what is stored.

use spanwise_model::schema::column;
use spanwise_store::{AttributeCondition, AttributeTest, Order, Predicate, Query, TimeRange};

use super::query::SearchPlan;
use crate::{Queries, QueryError};

impl Queries {
    /// Sentences about a search that found nothing.
    pub(super) async fn advice(&self, plan: &SearchPlan) -> Result<Vec<String>, QueryError> {
        let time = plan.time;
        let status = self.store.status();
        if status.recent_rows + status.file_rows == 0 {
            return Ok(vec![
                "no spans are stored yet: send a request to a traced process, or spans by OTLP"
                    .to_owned(),
            ]);
        }
        let mut advice = Vec::new();
        if !self.exists(Predicate::default(), time).await? {
            advice.push("no span at all began in this time".to_owned());
        } else {
            let named = alone(&plan.rows);
            for steps in &named {
                for (what, predicate) in steps {
                    if !self.exists(predicate.clone(), time).await? {
                        advice.push(format!("no span of this time has {what}"));
                        break;
                    }
                }
            }
            let with_assembled = |assembled| Predicate { assembled, ..plan.rows.clone() };
            let fits = self.exists(with_assembled(false), time).await?;
            if fits && !self.exists(with_assembled(true), time).await? {
                advice.push(
                    "what fits came just now, and is not in its trace yet: ask again".to_owned(),
                );
            } else if !fits && advice.is_empty() && named.len() > 1 {
                advice.push(
                    "each of these is met by some span of this time, but all of them by none"
                        .to_owned(),
                );
            }
        }
        let before = TimeRange { from_unix_nano: i64::MIN, to_unix_nano: time.from_unix_nano };
        let mut predicate = plan.rows.clone();
        (predicate.assembled, predicate.root) = (false, false);
        if self.exists(predicate, before).await? {
            advice.push("there are some further back: choose an earlier start".to_owned());
        }
        Ok(advice)
    }

    async fn exists(&self, predicate: Predicate, time: TimeRange) -> Result<bool, QueryError> {
        let columns = vec![column::START_UNIX_NANO];
        let query =
            Query { predicate, time, columns, keys: None, limit: 1, order: Order::NewestFirst };
        Ok(self.store.find(&query).await?.iter().any(|batch| batch.num_rows() > 0))
    }
}

/// Each property of the predicate by itself, as steps: the first step that nothing meets is
/// reported.
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
