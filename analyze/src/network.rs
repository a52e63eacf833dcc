//! What kernels saw of the connections between two nodes of the service graph.

use std::cmp::Reverse;

use spanwise_model::SpanId;

use crate::quantile::quantile;

/// The slowest calls with retransmits that an edge names.
const MOST_EXAMPLES: usize = 5;

/// What a kernel saw of the connection of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallNetwork {
    /// `retransmits`.
    pub retransmits: u32,
    /// `connect_nano`, of a call that opened its connection.
    pub connect_nano: Option<i64>,
    /// `rtt_nano`.
    pub rtt_nano: Option<i64>,
}

impl CallNetwork {
    /// What both ends of a call saw: each counts what it sent again itself.
    pub(crate) fn of(client: Option<Self>, server: Option<Self>) -> Option<Self> {
        let (Some(client), Some(server)) = (client, server) else { return client.or(server) };
        Some(Self {
            retransmits: client.retransmits.saturating_add(server.retransmits),
            connect_nano: client.connect_nano.or(server.connect_nano),
            rtt_nano: client.rtt_nano.or(server.rtt_nano),
        })
    }
}

/// Figures of calls whose connections a kernel saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetworkFigures {
    /// Calls whose connections a kernel saw; nothing is known of others.
    pub calls: u64,
    /// Those of which at least one segment was sent again.
    pub resent_calls: u64,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// Calls that opened their connections.
    pub connects: u64,
    /// 95th percentile of the time that this took.
    pub connect_p95_nano: Option<i64>,
    /// Median of the connections' round trips.
    pub rtt_p50_nano: Option<i64>,
}

/// A call of which something was sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResentCall {
    /// The calling span.
    pub span_id: SpanId,
    /// When it started.
    pub start_unix_nano: i64,
    /// How long it took.
    pub duration_nano: i64,
    /// Segments that were sent again.
    pub retransmits: u32,
}

/// The network of an edge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgeNetwork {
    /// Over the whole time.
    pub figures: NetworkFigures,
    /// In each step; empty unless the graph is of one service.
    pub steps: Vec<NetworkFigures>,
    /// The slowest calls with retransmits; empty unless the graph is of one service.
    pub examples: Vec<ResentCall>,
}

/// A range of time in steps of the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// Where the first begins.
    pub from_unix_nano: i64,
    /// Where the last ends.
    pub to_unix_nano: i64,
    /// How many there are.
    pub count: usize,
}

impl Steps {
    /// Where a step begins.
    pub fn start_unix_nano(&self, step: usize) -> i64 {
        let wide = i128::from(self.to_unix_nano) - i128::from(self.from_unix_nano);
        let at = wide * step as i128 / self.count.max(1) as i128 + i128::from(self.from_unix_nano);
        i64::try_from(at).unwrap_or(self.to_unix_nano)
    }

    /// The step that a moment is in.
    fn of(&self, unix_nano: i64) -> Option<usize> {
        let wide = i128::from(self.to_unix_nano) - i128::from(self.from_unix_nano);
        let at = i128::from(unix_nano) - i128::from(self.from_unix_nano);
        if at < 0 || at >= wide {
            return None;
        }
        usize::try_from(at * self.count as i128 / wide).ok()
    }
}

/// Counts calls.
#[derive(Debug, Default)]
struct Tally {
    counted: NetworkFigures,
    connects: Vec<i64>,
    round_trips: Vec<i64>,
}

impl Tally {
    fn count(&mut self, network: CallNetwork) {
        self.counted.calls += 1;
        self.counted.resent_calls += u64::from(network.retransmits > 0);
        self.counted.retransmits += u64::from(network.retransmits);
        self.connects.extend(network.connect_nano);
        self.round_trips.extend(network.rtt_nano);
    }

    fn figures(mut self) -> NetworkFigures {
        self.connects.sort_unstable();
        self.round_trips.sort_unstable();
        let share = |sorted: &[i64], share| (!sorted.is_empty()).then(|| quantile(sorted, share));
        NetworkFigures {
            connects: self.connects.len() as u64,
            connect_p95_nano: share(&self.connects, 0.95),
            rtt_p50_nano: share(&self.round_trips, 0.5),
            ..self.counted
        }
    }
}

/// Counts the calls of an edge.
#[derive(Debug, Default)]
pub(crate) struct NetworkTally {
    all: Tally,
    steps: Vec<Tally>,
    resent: Vec<ResentCall>,
}

impl NetworkTally {
    /// Counts a call; in steps, where these are asked for.
    pub(crate) fn count(
        &mut self,
        span_id: SpanId,
        start_unix_nano: i64,
        duration_nano: i64,
        network: CallNetwork,
        steps: Option<Steps>,
    ) {
        self.all.count(network);
        let Some(steps) = steps else { return };
        self.steps.resize_with(steps.count, Tally::default);
        if let Some(step) = steps.of(start_unix_nano).and_then(|step| self.steps.get_mut(step)) {
            step.count(network);
        }
        if network.retransmits > 0 {
            let CallNetwork { retransmits, .. } = network;
            self.resent.push(ResentCall { span_id, start_unix_nano, duration_nano, retransmits });
        }
    }

    /// What was counted; `None` where no kernel saw any of the calls.
    pub(crate) fn network(mut self) -> Option<EdgeNetwork> {
        if self.all.counted.calls == 0 {
            return None;
        }
        self.resent.sort_unstable_by_key(|call| {
            (Reverse(call.duration_nano), call.start_unix_nano, call.span_id.as_u64())
        });
        self.resent.truncate(MOST_EXAMPLES);
        Some(EdgeNetwork {
            figures: self.all.figures(),
            steps: self.steps.into_iter().map(Tally::figures).collect(),
            examples: self.resent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_share_a_time_without_gaps() {
        let steps = Steps { from_unix_nano: 10, to_unix_nano: 20, count: 3 };
        let all: Vec<_> = (9..=20).map(|at| steps.of(at)).collect();
        let some = |step| Some(step);
        assert_eq!(
            all,
            [
                None,
                some(0),
                some(0),
                some(0),
                some(0),
                some(1),
                some(1),
                some(1),
                some(2),
                some(2),
                some(2),
                None
            ]
        );
        assert_eq!([0, 1, 2].map(|step| steps.start_unix_nano(step)), [10, 13, 16]);
        let endless = Steps { from_unix_nano: i64::MIN, to_unix_nano: i64::MAX, count: 1000 };
        assert_eq!((endless.of(i64::MIN), endless.of(i64::MAX - 1)), (Some(0), Some(999)));
    }
}
