//! The timeline of a logical chain.

use ahash::AHashMap;
use spanwise_model::{Kind, TraceId};

/// The most steps of a timeline.
pub const MAX_STEPS: usize = 10_000;

/// A span with the key.
#[derive(Debug, Clone, Copy)]
pub struct Visit<'a> {
    /// Its trace.
    pub trace_id: TraceId,
    /// Its service.
    pub service: &'a str,
    /// Its operation.
    pub operation: &'a str,
    /// Its kind.
    pub kind: Kind,
    /// Its start.
    pub start_unix_nano: i64,
    /// Its end.
    pub end_unix_nano: i64,
    /// Whether it failed.
    pub failed: bool,
    /// Traces that it is linked to: it received a message of theirs, or says so itself.
    pub links: &'a [TraceId],
}

/// What one service did for the key in one go: a span with the key, and those of the same service
/// and trace within its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step<'a> {
    /// Place of the first span in the list that was given.
    pub visit: usize,
    /// The trace.
    pub trace_id: TraceId,
    /// The service.
    pub service: &'a str,
    /// The operation of the first span.
    pub operation: &'a str,
    /// Start of the first span.
    pub start_unix_nano: i64,
    /// End of the first span.
    pub end_unix_nano: i64,
    /// Spans.
    pub spans: usize,
    /// Whether the first span failed.
    pub failed: bool,
    /// 1, or more if earlier steps of the same service and operation failed and this one does it
    /// again.
    pub attempt: usize,
    /// Whether it began with a message.
    pub is_message: bool,
    /// Traces that the first span is linked to.
    pub links: &'a [TraceId],
}

/// A time in which nothing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Place of the step after which it begins: the one that ended last.
    pub after: usize,
    /// Place of the step that ends it.
    pub before: usize,
    /// Its length.
    pub nano: i64,
}

/// The key passes from one service to another without a call that is waited for: to another trace,
/// or by a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandOff {
    /// Place of the step that came before.
    pub from: usize,
    /// Place of the step that goes on.
    pub to: usize,
    /// From the start of the one to the start of the other.
    pub nano: i64,
    /// How it is known.
    pub evidence: HandOffEvidence,
}

/// How a hand-off is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandOffEvidence {
    /// The two are linked: one received the message that the other sent.
    Link,
    /// It goes on with a message, within the same trace.
    Message,
    /// It goes on with a message. That what came before has sent it is a guess.
    MessageInTime,
    /// It only follows in time, which is a guess.
    Time,
}

/// What happened to a key, in the order of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline<'a> {
    /// Steps by start.
    pub steps: Vec<Step<'a>>,
    /// Long times without any step.
    pub gaps: Vec<Gap>,
    /// Hand-offs.
    pub hand_offs: Vec<HandOff>,
    /// Traces.
    pub traces: usize,
    /// Time in which some step ran.
    pub busy_nano: i64,
    /// Visits after the last step for which there was room.
    pub left_out: usize,
}

impl<'a> Timeline<'a> {
    /// The timeline of these spans. A time without steps is a gap from this length on.
    pub fn of(visits: &[Visit<'a>], gap_nano: i64) -> Self {
        let mut order: Vec<(usize, &Visit<'a>)> = visits.iter().enumerate().collect();
        order.sort_by_key(|(_, visit)| {
            let longest_first = visit.start_unix_nano.saturating_sub(visit.end_unix_nano);
            (visit.start_unix_nano, longest_first, visit.trace_id, visit.service, visit.operation)
        });
        let mut timeline = Self::default();
        // The last step of a service in a trace.
        let mut last: AHashMap<(TraceId, &str), usize> = AHashMap::new();
        for (place, visit) in order {
            let end = visit.end_unix_nano.max(visit.start_unix_nano);
            let key = (visit.trace_id, visit.service);
            let within = last.get(&key).map(|at| &mut timeline.steps[*at]);
            if let Some(step) = within.filter(|step| visit.start_unix_nano < step.end_unix_nano) {
                step.spans += 1;
                continue;
            }
            if timeline.steps.len() == MAX_STEPS {
                timeline.left_out += 1;
                continue;
            }
            last.insert(key, timeline.steps.len());
            timeline.steps.push(Step {
                visit: place,
                trace_id: visit.trace_id,
                service: visit.service,
                operation: visit.operation,
                start_unix_nano: visit.start_unix_nano,
                end_unix_nano: end,
                spans: 1,
                failed: visit.failed,
                attempt: 1,
                is_message: visit.kind == Kind::Consumer,
                links: visit.links,
            });
        }
        timeline.find_attempts();
        timeline.find_gaps(gap_nano);
        timeline.find_hand_offs();
        timeline
    }

    fn find_attempts(&mut self) {
        // Failed attempts so far, and the end of the last one.
        let mut failed: AHashMap<(&str, &str), (usize, i64)> = AHashMap::new();
        for step in &mut self.steps {
            let key = (step.service, step.operation);
            if let Some((attempts, end)) = failed.get(&key) {
                if step.start_unix_nano < *end {
                    continue;
                }
                step.attempt = attempts + 1;
            }
            if step.failed {
                failed.insert(key, (step.attempt, step.end_unix_nano));
            } else {
                failed.remove(&key);
            }
        }
    }

    fn find_gaps(&mut self, gap_nano: i64) {
        let mut reached: Option<(usize, i64)> = None;
        let mut traces: Vec<TraceId> = Vec::with_capacity(self.steps.len());
        for (place, step) in self.steps.iter().enumerate() {
            traces.push(step.trace_id);
            let (after, end) = reached.unwrap_or((place, step.start_unix_nano));
            let nano = step.start_unix_nano.saturating_sub(end);
            if nano >= gap_nano.max(1) {
                self.gaps.push(Gap { after, before: place, nano });
            }
            let busy = step.end_unix_nano.saturating_sub(end.max(step.start_unix_nano));
            self.busy_nano = self.busy_nano.saturating_add(busy.max(0));
            if reached.is_none() || step.end_unix_nano > end {
                reached = Some((place, step.end_unix_nano));
            }
        }
        traces.sort_unstable();
        traces.dedup();
        self.traces = traces.len();
    }

    fn find_hand_offs(&mut self) {
        // The last step of each trace so far.
        let mut seen: AHashMap<TraceId, usize> = AHashMap::new();
        for place in 1..self.steps.len() {
            let step = &self.steps[place];
            seen.insert(self.steps[place - 1].trace_id, place - 1);
            let own = seen.get(&step.trace_id).copied();
            let linked = step.links.iter().filter(|id| **id != step.trace_id);
            let linked = linked.filter_map(|id| seen.get(id).copied()).max();
            let (from, evidence) = match (own, linked) {
                (None, Some(linked)) => (linked, HandOffEvidence::Link),
                // A message within a trace comes from the trace.
                (Some(own), _) if step.is_message => (own, HandOffEvidence::Message),
                (Some(_), _) => continue,
                // The trace is new for the key.
                (None, None) if step.is_message => (place - 1, HandOffEvidence::MessageInTime),
                (None, None) => (place - 1, HandOffEvidence::Time),
            };
            let sender = &self.steps[from];
            if sender.service == step.service && evidence == HandOffEvidence::Time {
                continue;
            }
            self.hand_offs.push(HandOff {
                from,
                to: place,
                nano: step.start_unix_nano.saturating_sub(sender.start_unix_nano),
                evidence,
            });
        }
    }
}
