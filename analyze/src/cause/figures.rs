//! The values that a verdict's evidence is of, span by span: for examples, for the moment when
//! something changed, and for where it did.

use super::shares::{self, Share};
use super::{CauseSpan, Evidence};
use crate::names::{Name, Names};

/// How the time of each span divides. Looks up what evidence is of.
#[derive(Debug, Default)]
pub struct CauseFigures {
    shares: Vec<Share>,
}

/// A span's value of what evidence is of: milliseconds, calls, retransmits, or 1 for a failure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CauseValue {
    /// The span's position.
    pub span: usize,
    /// The value.
    pub value: f64,
}

/// A call of one operation by another, within a service or between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CauseCall {
    /// The calling service and its operation.
    pub client: (Name, Name),
    /// The called service and its operation.
    pub server: (Name, Name),
}

impl CauseFigures {
    /// The figures of these spans.
    pub fn of(spans: &[CauseSpan]) -> Self {
        Self { shares: shares::of(spans) }
    }

    /// The values of what this evidence against a service is of, one for each of its spans.
    /// `spans` are those that the figures were made of.
    pub fn values(
        &self,
        spans: &[CauseSpan],
        names: &Names,
        service: &str,
        evidence: &Evidence,
    ) -> Vec<CauseValue> {
        let is = |name: Name, text: &str| names.text(name) == text;
        let value = |share: &Share| -> Option<f64> {
            let span = &spans[share.span];
            let is_of = |operation: &str, store: &Option<String>| {
                is(span.operation, operation)
                    && match store {
                        Some(store) => {
                            is(span.service, store)
                                && share.client(spans).is_some_and(|client| is(client, service))
                        }
                        None => is(span.service, service),
                    }
            };
            match evidence {
                Evidence::OwnTime { operation, store, .. } => {
                    (share.server.is_none() && is_of(operation, store)).then(|| milliseconds(share))
                }
                Evidence::TimeBetween { client, server, .. } => (is(span.service, client)
                    && share.server.is_some_and(|name| is(name, server)))
                .then(|| milliseconds(share)),
                Evidence::Calls { operation, .. } => {
                    is_of(operation, &None).then_some(share.calls as f64)
                }
                Evidence::Errors { operation, store, .. } => {
                    is_of(operation, store).then(|| f64::from(u8::from(share.own_error)))
                }
                Evidence::Retransmits { client, server, .. } => {
                    let is_hop = is(span.service, client)
                        && share.server.is_some_and(|name| is(name, server));
                    share.retransmits.filter(|_| is_hop).map(f64::from)
                }
            }
        };
        let of = |share: &Share| value(share).map(|value| CauseValue { span: share.span, value });
        self.shares.iter().filter_map(of).collect()
    }

    /// Each span's call, by its caller's span and its own. Roots have none.
    pub fn calls<'a>(
        &'a self,
        spans: &'a [CauseSpan],
    ) -> impl Iterator<Item = (usize, usize, CauseCall)> + 'a {
        self.shares.iter().filter_map(|share| {
            let parent = share.parent?;
            let name = |place: usize| (spans[place].service, spans[place].operation);
            let call = CauseCall { client: name(parent), server: name(share.span) };
            Some((parent, share.span, call))
        })
    }

    /// The span above a span, if it is there.
    pub fn parent(&self, span: usize) -> Option<usize> {
        self.shares.get(span).and_then(|share| share.parent)
    }
}

fn milliseconds(share: &Share) -> f64 {
    share.own_nano as f64 / 1e6
}

/// When values changed: the start of the later part of the two that their squared deviations from
/// their means are least for. Values are given by time, in any order. `None` where the later part
/// is no larger than the earlier.
pub fn change(values: &mut [(i64, f64)]) -> Option<i64> {
    const LEAST: usize = 4;
    if values.len() < 2 * LEAST {
        return None;
    }
    let mut sizes: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    // A few extreme values must not look like a change.
    let most = super::deviation::quantile(&mut sizes, 0.95);
    values.sort_unstable_by_key(|(time, _)| *time);
    let total: f64 = values.iter().map(|(_, value)| value.min(most)).sum();
    let (mut before, mut best) = (0.0, None::<(f64, usize)>);
    for place in 0..values.len() - LEAST {
        before += values[place].1.min(most);
        let (left, right) = ((place + 1) as f64, (values.len() - place - 1) as f64);
        if place + 1 < LEAST {
            continue;
        }
        let after = total - before;
        let gain = before * before / left + after * after / right;
        let is_rise = after / right > before / left;
        if is_rise && best.is_none_or(|(most, _)| gain > most) {
            best = Some((gain, place + 1));
        }
    }
    best.map(|(_, place)| values[place].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_found_where_values_rise() {
        let value = |time: i64| if time < 70 { 4.0 + (time % 3) as f64 } else { 40.0 };
        let mut values: Vec<(i64, f64)> = (0..100).rev().map(|time| (time, value(time))).collect();
        values[40].1 = 1e9;
        assert_eq!(change(&mut values), Some(70));
        let mut failures: Vec<(i64, f64)> = (0..100)
            .map(|time| (time, if time >= 50 && time % 3 == 0 { 1.0 } else { 0.0 }))
            .collect();
        assert_eq!(change(&mut failures), Some(51));
        assert_eq!(change(&mut [(0, 1.0), (1, 9.0)]), None);
        let mut falling: Vec<(i64, f64)> = (0..20).map(|time| (time, -(time as f64))).collect();
        assert_eq!(change(&mut falling), None);
    }
}
