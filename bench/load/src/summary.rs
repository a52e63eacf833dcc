//! What is known of the load without asking a server: the other side of
//! questions that benchmarks ask.

use serde::Serialize;

use crate::ids::Uuid;
use crate::random::Random;
use crate::services::SERVICES;
use crate::trace::Trace;

/// What can be asked for.
#[derive(Debug, Clone, Serialize)]
pub struct LoadSummary {
    /// All services.
    pub services: Vec<&'static str>,
    /// Some traces, of any time of the load alike.
    pub traces: Vec<SampleTrace>,
    /// Traces so far.
    pub trace_count: u64,
    /// Spans so far.
    pub span_count: u64,
    /// Spans with an error so far.
    pub error_count: u64,
}

/// A trace of the load.
#[derive(Debug, Clone, Serialize)]
pub struct SampleTrace {
    /// Its id, in hexadecimal.
    pub trace_id: String,
    /// The id of one of its spans, any, in hexadecimal.
    pub span_id: String,
    /// Number of its spans.
    pub spans: usize,
    /// Names of the services that took part, each once.
    pub services: Vec<&'static str>,
    /// When its first span starts.
    pub start_unix_nano: i64,
    /// How long its first span takes.
    pub duration_nano: i64,
    /// `user.id` of its spans; few traces share one.
    pub user_id: String,
    /// `app.order.id` of its first span, which no other trace has; on three of
    /// ten traces.
    pub order_id: Option<String>,
}

impl LoadSummary {
    pub(crate) fn new() -> Self {
        Self {
            services: SERVICES.iter().map(|service| service.name).collect(),
            traces: Vec::new(),
            trace_count: 0,
            span_count: 0,
            error_count: 0,
        }
    }

    /// Notes a trace, and keeps it as one of at most `most` with the same
    /// chance as every other.
    pub(crate) fn note(&mut self, trace: &Trace, most: usize, random: &mut Random) {
        self.trace_count += 1;
        self.span_count += trace.nodes.len() as u64;
        self.error_count += trace.nodes.iter().filter(|node| node.failed).count() as u64;
        if self.traces.len() < most {
            self.traces.push(SampleTrace::of(trace, random));
        } else if let place = random.below(self.trace_count)
            && let Some(kept) = self.traces.get_mut(place as usize)
        {
            *kept = SampleTrace::of(trace, random);
        }
    }
}

impl SampleTrace {
    fn of(trace: &Trace, random: &mut Random) -> Self {
        let root = &trace.nodes[0];
        let any = &trace.nodes[random.below(trace.nodes.len() as u64) as usize];
        let mut services: Vec<&'static str> =
            trace.nodes.iter().map(|node| SERVICES[node.service].name).collect();
        services.sort_unstable();
        services.dedup();
        Self {
            trace_id: hex::encode(trace.trace_id),
            span_id: hex::encode(any.span_id),
            spans: trace.nodes.len(),
            services,
            start_unix_nano: root.start_unix_nano,
            duration_nano: root.duration_nano,
            user_id: Uuid(trace.user).to_string(),
            order_id: trace.order.map(|order| order.to_string()),
        }
    }
}
