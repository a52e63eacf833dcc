//! The parent rules: from a set of spans, the parent of each, with its
//! evidence and confidence. The same function runs on arrival and on query.

use ahash::AHashMap;
use spanwise_model::{Capture, Evidence, Kind, Span, SpanId, TraceId};

/// A span's place in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Link {
    /// Index of the parent among the spans given; `None` for a root.
    pub parent: Option<usize>,
    /// Why that one; [`Evidence::Ambiguous`] with no parent where several could be it.
    pub evidence: Option<Evidence>,
    /// How sure, 0 to 1.
    pub confidence: Option<f32>,
}

impl Link {
    fn to(parent: usize, evidence: Evidence, confidence: f32) -> Option<Self> {
        Some(Self { parent: Some(parent), evidence: Some(evidence), confidence: Some(confidence) })
    }

    const AMBIGUOUS: Self =
        Self { parent: None, evidence: Some(Evidence::Ambiguous), confidence: Some(0.0) };
}

/// Clocks of one host differ by nothing, yet the two ends of a hop read them at
/// different moments; beyond this, equal sequence numbers are another call's.
const SAME_HOST_SLACK_NANO: i64 = 50_000_000;
const OTHER_HOST_SLACK_NANO: i64 = 1_000_000_000;
/// An SDK's span may begin and end this much outside the request it belongs to.
const ENCLOSING_SLACK_NANO: i64 = 2_000_000;

type ProcessKey<'a> = (&'a str, u32);

/// The spans by everything that a rule looks them up by.
#[derive(Default)]
struct Index<'a> {
    servers_by_fragment: AHashMap<u64, usize>,
    clients_by_hop: AHashMap<(u32, u32), Vec<usize>>,
    apps: AHashMap<(TraceId, SpanId), usize>,
    servers_by_header: AHashMap<(TraceId, SpanId), Vec<usize>>,
    clients_by_trace: AHashMap<TraceId, Vec<usize>>,
    servers_by_request_id: AHashMap<(ProcessKey<'a>, &'a str), Vec<usize>>,
    servers_by_process: AHashMap<ProcessKey<'a>, Vec<usize>>,
    app_clients_by_process: AHashMap<ProcessKey<'a>, Vec<usize>>,
}

fn process(span: &Span) -> Option<ProcessKey<'_>> {
    Some((span.host.as_deref().unwrap_or_default(), span.process_id?))
}

fn hop(span: &Span) -> Option<(u32, u32)> {
    Some((span.request_tcp_seq?, span.response_tcp_seq?))
}

fn header(span: &Span) -> Option<(TraceId, SpanId)> {
    Some((span.trace_id?, span.parent_span_id?))
}

impl<'a> Index<'a> {
    fn of(spans: &'a [&'a Span]) -> Self {
        let mut index = Self::default();
        for (i, span) in spans.iter().enumerate() {
            match span.capture {
                Capture::ServerProcess => {
                    if let Some(fragment) = span.fragment_id {
                        index.servers_by_fragment.entry(fragment).or_insert(i);
                    }
                    if let Some(header) = header(span) {
                        index.servers_by_header.entry(header).or_default().push(i);
                    }
                    if let Some(process) = process(span) {
                        index.servers_by_process.entry(process).or_default().push(i);
                        if let Some(id) = span.x_request_id.as_deref() {
                            index.servers_by_request_id.entry((process, id)).or_default().push(i);
                        }
                    }
                }
                Capture::ClientProcess => {
                    if let Some(hop) = hop(span) {
                        index.clients_by_hop.entry(hop).or_default().push(i);
                    }
                    if let Some(trace) = span.trace_id {
                        index.clients_by_trace.entry(trace).or_default().push(i);
                    }
                }
                Capture::App => {
                    if let Some(trace) = span.trace_id {
                        index.apps.entry((trace, span.span_id)).or_insert(i);
                    }
                    if span.kind == Kind::Client
                        && let Some(process) = process(span)
                    {
                        index.app_clients_by_process.entry(process).or_default().push(i);
                    }
                }
                _ => {}
            }
        }
        index
    }
}

/// The parent of every span, by the first of [`RULES`] that decides.
///
/// No cycle can arise: after the rules, any that bad input made is cut at its
/// weakest link.
pub fn links(spans: &[&Span]) -> Vec<Link> {
    let index = Index::of(spans);
    let mut links: Vec<Link> = (0..spans.len())
        .map(|child| {
            let given = Given { spans, index: &index, child, span: spans[child] };
            RULES
                .iter()
                .filter(|rule| rule.applies_to == given.span.capture)
                .find_map(|rule| (rule.decide)(&given))
                .filter(|link| link.parent != Some(child))
                .unwrap_or_default()
        })
        .collect();
    cut_cycles(&mut links);
    links
}

/// What a rule may look at.
struct Given<'a> {
    spans: &'a [&'a Span],
    index: &'a Index<'a>,
    child: usize,
    span: &'a Span,
}

/// One row of the table of parent rules.
struct Rule {
    name: &'static str,
    applies_to: Capture,
    decide: fn(&Given<'_>) -> Option<Link>,
}

const fn rule(
    name: &'static str,
    applies_to: Capture,
    decide: fn(&Given<'_>) -> Option<Link>,
) -> Rule {
    Rule { name, applies_to, decide }
}

/// The parent rules. Of those for a capture point, the first that decides counts.
const RULES: &[Rule] = &[
    rule("local parent of an SDK span", Capture::App, local_app_parent),
    rule("request with the same trace header", Capture::App, header_of_own_process),
    rule("request on the same connection", Capture::App, same_connection),
    rule("request of the fragment that carries this trace on", Capture::App, fragment_of_trace),
    rule("remote SDK span", Capture::App, named_app),
    rule("the only request that encloses it", Capture::App, only_enclosing),
    rule("other end of the hop", Capture::ServerProcess, other_end),
    rule("SDK span in the trace header", Capture::ServerProcess, named_app),
    rule("SDK span in the trace header", Capture::ClientProcess, named_app),
    rule("SDK span around the call", Capture::ClientProcess, app_around_call),
    rule("certain fragment", Capture::ClientProcess, certain_fragment),
    rule("same X-Request-ID", Capture::ClientProcess, same_request_id),
    rule("fragment", Capture::ClientProcess, fragment),
    rule("several candidates", Capture::ClientProcess, ambiguous),
];

/// Names of the parent rules with the capture point to which each applies, in
/// the order in which they are tried.
pub fn rule_names() -> impl Iterator<Item = (&'static str, Capture)> {
    RULES.iter().map(|rule| (rule.name, rule.applies_to))
}

fn covers(outer: &Span, inner: &Span, slack_nano: i64) -> bool {
    outer.start_unix_nano.saturating_sub(slack_nano) <= inner.start_unix_nano
        && inner.end_unix_nano() <= outer.end_unix_nano().saturating_add(slack_nano)
}

impl<'a> Given<'a> {
    /// The one candidate that covers this span, or `None` for none; `Err` for several.
    fn only_cover(
        &self,
        candidates: Option<&'a Vec<usize>>,
        fits: impl Fn(&Span) -> bool,
    ) -> Result<Option<usize>, ()> {
        let mut found = None;
        for &i in candidates.into_iter().flatten() {
            let candidate = self.spans[i];
            if i != self.child
                && covers(candidate, self.span, ENCLOSING_SLACK_NANO)
                && fits(candidate)
            {
                if found.is_some() {
                    return Err(());
                }
                found = Some(i);
            }
        }
        Ok(found)
    }

    fn own_servers(&self) -> Option<&'a Vec<usize>> {
        self.index.servers_by_process.get(&process(self.span)?)
    }

    /// An SDK's span that stands for a request from outside its process.
    fn is_entry(&self) -> bool {
        matches!(self.span.kind, Kind::Server | Kind::Consumer)
    }

    fn app_parent(&self) -> Option<usize> {
        self.index.apps.get(&header(self.span)?).copied()
    }
}

fn same_process(a: &Span, b: &Span) -> bool {
    match (process(a), process(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a.service == b.service,
    }
}

fn local_app_parent(given: &Given<'_>) -> Option<Link> {
    let parent = given.app_parent()?;
    let local = !given.is_entry() && same_process(given.spans[parent], given.span);
    local.then(|| Link::to(parent, Evidence::SpanContext, 1.0)).flatten()
}

fn header_of_own_process(given: &Given<'_>) -> Option<Link> {
    if !given.is_entry() {
        return None;
    }
    let candidates = given.index.servers_by_header.get(&header(given.span)?);
    let parent = given.only_cover(candidates, |c| same_process(c, given.span)).ok()??;
    Link::to(parent, Evidence::TraceHeader, 1.0)
}

fn same_connection(given: &Given<'_>) -> Option<Link> {
    let port = given.span.flow.client_port?;
    if !given.is_entry() {
        return None;
    }
    let parent =
        given.only_cover(given.own_servers(), |c| c.flow.client_port == Some(port)).ok()??;
    Link::to(parent, Evidence::Enclosing, 1.0)
}

fn fragment_of_trace(given: &Given<'_>) -> Option<Link> {
    if given.app_parent().is_some() && !given.is_entry() {
        return None;
    }
    let calls = given.index.clients_by_trace.get(&given.span.trace_id?)?;
    calls.iter().find_map(|&i| {
        let call = given.spans[i];
        let server = *given.index.servers_by_fragment.get(&call.fragment_id?)?;
        let fits = same_process(call, given.span)
            && covers(given.spans[server], given.span, ENCLOSING_SLACK_NANO);
        fits.then(|| Link::to(server, Evidence::Enclosing, call.confidence.unwrap_or(0.9)))
            .flatten()
    })
}

fn only_enclosing(given: &Given<'_>) -> Option<Link> {
    if !given.is_entry() && given.span.parent_span_id.is_some() {
        return None;
    }
    let text = |span: &Span, key: &str| {
        span.attribute(key).and_then(|value| value.as_str().map(str::to_owned))
    };
    let agrees = |candidate: &Span| {
        ["http.request.method", "url.path"].iter().all(|key| {
            match (text(candidate, key), text(given.span, key)) {
                (Some(a), Some(b)) => a == b,
                _ => true,
            }
        })
    };
    match given.only_cover(given.own_servers(), agrees) {
        Ok(None) => None,
        Ok(Some(parent)) => Link::to(parent, Evidence::Enclosing, 0.9),
        Err(()) => Some(Link::AMBIGUOUS),
    }
}

fn named_app(given: &Given<'_>) -> Option<Link> {
    let parent = given.app_parent()?;
    let evidence = match given.span.capture {
        Capture::App => Evidence::SpanContext,
        _ => Evidence::TraceHeader,
    };
    Link::to(parent, evidence, 1.0)
}

fn other_end(given: &Given<'_>) -> Option<Link> {
    let candidates = given.index.clients_by_hop.get(&hop(given.span)?)?;
    let parent = candidates.iter().copied().find(|&i| {
        let client = given.spans[i];
        let slack = if client.host == given.span.host {
            SAME_HOST_SLACK_NANO
        } else {
            OTHER_HOST_SLACK_NANO
        };
        client.protocol == given.span.protocol && covers(client, given.span, slack)
    })?;
    Link::to(parent, Evidence::TcpSequence, 1.0)
}

fn app_around_call(given: &Given<'_>) -> Option<Link> {
    if given.span.trace_id.is_some() {
        return None;
    }
    let candidates = given.index.app_clients_by_process.get(&process(given.span)?)?;
    let fits = |app: &Span| app.protocol.is_some() && app.protocol == given.span.protocol;
    let parent = given.only_cover(Some(candidates), fits).ok()??;
    Link::to(parent, Evidence::Enclosing, 0.9)
}

fn certain_fragment(given: &Given<'_>) -> Option<Link> {
    fragment(given).filter(|link| link.confidence >= Some(Evidence::CERTAIN))
}

fn same_request_id(given: &Given<'_>) -> Option<Link> {
    let key = (process(given.span)?, given.span.x_request_id.as_deref()?);
    let candidates = given.index.servers_by_request_id.get(&key)?;
    let parent = given.only_cover(Some(candidates), |_| true).ok()??;
    Link::to(parent, Evidence::RequestId, 1.0)
}

fn fragment(given: &Given<'_>) -> Option<Link> {
    let parent = *given.index.servers_by_fragment.get(&given.span.fragment_id?)?;
    Link::to(parent, given.span.evidence?, given.span.confidence.unwrap_or(0.9))
}

fn ambiguous(given: &Given<'_>) -> Option<Link> {
    (given.span.evidence == Some(Evidence::Ambiguous)).then_some(Link::AMBIGUOUS)
}

/// Makes a root of the least sure member of every cycle.
fn cut_cycles(links: &mut [Link]) {
    // 0: not visited; n: visited in walk n.
    let mut walk_of = vec![0usize; links.len()];
    for start in 0..links.len() {
        let walk = start + 1;
        let mut at = start;
        while walk_of[at] == 0 {
            walk_of[at] = walk;
            match links[at].parent {
                Some(parent) => at = parent,
                None => break,
            }
        }
        if walk_of[at] != walk || links[at].parent.is_none() {
            continue;
        }
        // `at` was met twice in this walk: it lies on a cycle.
        let (mut weakest, mut member) = (at, at);
        loop {
            if links[member].confidence < links[weakest].confidence {
                weakest = member;
            }
            match links[member].parent {
                Some(parent) if parent != at => member = parent,
                _ => break,
            }
        }
        links[weakest] = Link::AMBIGUOUS;
    }
}
