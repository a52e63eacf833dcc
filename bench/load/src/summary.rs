//! What is known about a load without asking a server: the expected answers for benchmarks'
//! queries.

use serde::Serialize;

use crate::ids::Uuid;
use crate::random::Random;
use crate::services::SERVICES;
use crate::trace::Trace;

/// The summary of a load.
#[derive(Debug, Clone, Serialize)]
pub struct LoadSummary {
    /// All services.
    pub services: Vec<&'static str>,
    /// A uniform sample of traces.
    pub traces: Vec<SampleTrace>,
    /// Number of traces so far.
    pub trace_count: u64,
    /// Number of spans so far.
    pub span_count: u64,
    /// Number of spans with an error so far.
    pub error_count: u64,
}

/// A trace of the load.
#[derive(Debug, Clone, Serialize)]
pub struct SampleTrace {
    /// Its id, in hexadecimal.
    pub trace_id: String,
    /// The id of any of its spans, in hexadecimal.
    pub span_id: String,
    /// Number of its spans.
    pub spans: usize,
    /// Names of the participating services, each once.
    pub services: Vec<&'static str>,
    /// Start of its first span.
    pub start_unix_nano: i64,
    /// Duration of its first span.
    pub duration_nano: i64,
    /// `user.id` of its spans, which few traces share.
    pub user_id: String,
    /// `app.order.id` of its first span, unique to the trace. Three of ten traces have one.
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

    /// Adds a trace. Each trace has the same chance to be among the `most` samples.
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
