//! The service graph: which service calls which, with rates, errors and durations.

use std::cmp::Reverse;

use ahash::{AHashMap, AHashSet};
use spanwise_model::{Capture, Evidence, Kind, ServiceKind, SpanId, System};

use crate::names::{Name, Names};
use crate::network::{CallNetwork, EdgeNetwork, NetworkTally, Steps};
use crate::quantile::quantile;

/// The parts of a span that the graph needs.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// `span_id`.
    pub span_id: SpanId,
    /// `assembled_parent`.
    pub parent: Option<SpanId>,
    /// `start_unix_nano`.
    pub start_unix_nano: i64,
    /// `service`.
    pub service: Name,
    /// `kind`.
    pub kind: Kind,
    /// `capture`.
    pub capture: Capture,
    /// `protocol`.
    pub protocol: Option<Name>,
    /// Whether `status` is an error.
    pub error: bool,
    /// `duration_nano`.
    pub duration_nano: i64,
    /// `confidence`.
    pub confidence: Option<f32>,
    /// `server_address` and `server_port`, if known.
    pub server: Option<Address>,
    /// What a kernel saw of its connection; `None` if none did.
    pub network: Option<CallNetwork>,
}

/// An address and a port.
pub type Address = (Name, Option<u16>);

/// A service graph.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// Nodes, sorted by name.
    pub nodes: Vec<GraphNode>,
    /// Edges, sorted by names and protocol.
    pub edges: Vec<GraphEdge>,
}

/// A service, or something that services call.
#[derive(Debug, Clone)]
pub struct GraphNode {
    /// The service's name, or `PROTOCOL ADDRESS:PORT` of a peer that was not captured.
    pub name: String,
    /// The kind of service, according to the protocols by which it is called.
    pub kind: ServiceKind,
    /// OpenTelemetry's name of the database or messaging system.
    pub system: Option<&'static str>,
    /// Protocols by which it was called.
    pub protocols: Vec<String>,
    /// Figures of the requests to it.
    pub figures: Figures,
}

/// Calls between two nodes by one protocol. Messages have an edge from the producer to the broker,
/// and one from the broker to the consumer.
#[derive(Debug, Clone)]
pub struct GraphEdge {
    /// The caller.
    pub client: String,
    /// The called node.
    pub server: String,
    /// The protocol; empty if unknown.
    pub protocol: String,
    /// Figures from the caller's side.
    pub figures: Figures,
    /// Share of calls whose link to the other side is certain.
    pub certain_share: f64,
    /// What kernels saw of the connections; `None` if none saw any.
    pub network: Option<EdgeNetwork>,
}

/// A service whose calls are asked for in steps of time.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// The node's name.
    pub service: &'a str,
    /// The steps; `None` for figures of the whole time alone.
    pub steps: Option<Steps>,
}

/// Rate, errors and durations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Requests.
    pub requests: u64,
    /// Failed requests.
    pub errors: u64,
    /// Median duration.
    pub p50_nano: i64,
    /// 95th percentile.
    pub p95_nano: i64,
    /// 99th percentile.
    pub p99_nano: i64,
}

#[derive(Default)]
struct Tally {
    durations: Vec<i64>,
    errors: u64,
    certain: u64,
    network: NetworkTally,
}

impl Tally {
    fn count(&mut self, call: &Call, certain: bool) {
        self.durations.push(call.duration_nano);
        self.errors += u64::from(call.error);
        self.certain += u64::from(certain);
    }

    fn figures(&mut self) -> Figures {
        self.durations.sort_unstable();
        Figures {
            requests: self.durations.len() as u64,
            errors: self.errors,
            p50_nano: quantile(&self.durations, 0.5),
            p95_nano: quantile(&self.durations, 0.95),
            p99_nano: quantile(&self.durations, 0.99),
        }
    }
}

/// A node during counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    Service(Name),
    /// A peer that was not captured, by protocol and address.
    Unseen(Option<Name>, Option<Address>),
}

/// A call between two nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hop<'a> {
    pub(crate) from: Node,
    pub(crate) to: Node,
    /// The span that counts.
    pub(crate) call: &'a Call,
    /// The other side's span, if there is one.
    pub(crate) callee: Option<&'a Call>,
    /// Whether the link to the other side is certain.
    is_certain: bool,
    /// Whether it is a message that a broker handed over.
    is_delivery: bool,
}

#[derive(Default)]
struct Served {
    tally: Tally,
    protocols: AHashSet<Name>,
}

/// The calls with their relations. Calls are referred to by index.
pub(crate) struct Calls<'a> {
    calls: &'a [Call],
    names: &'a Names,
    related: Vec<Related>,
}

/// The relations of a call. Descendants are the first of their kind.
#[derive(Debug, Clone, Copy, Default)]
struct Related {
    parent: Option<u32>,
    /// The child that the kernel captured at a server.
    at_server: Option<u32>,
    /// The child that the kernel captured at a client.
    at_client: Option<u32>,
    /// The child that another service's SDK reported.
    of_other: Option<u32>,
}

impl<'a> Calls<'a> {
    /// Removes spans that were reported twice.
    pub(crate) fn of(calls: &'a mut Vec<Call>, names: &'a Names) -> Self {
        let (mut ids, repeated) = Ids::of(calls);
        if repeated && remove_repeated(calls) {
            ids = Ids::of(calls).0;
        }
        let calls = &*calls;
        let mut related = vec![Related::default(); calls.len()];
        for (place, call) in (0..).zip(calls) {
            let parent = call.parent.and_then(|parent| ids.find(parent, calls));
            related[place as usize].parent = parent;
            let Some(parent) = parent.map(|parent| parent as usize) else { continue };
            let first = match call.capture {
                Capture::ServerProcess => &mut related[parent].at_server,
                Capture::ClientProcess => &mut related[parent].at_client,
                Capture::App | Capture::Jvm if call.service != calls[parent].service => {
                    &mut related[parent].of_other
                }
                _ => continue,
            };
            first.get_or_insert(place);
        }
        Self { calls, names, related }
    }

    /// The number of calls.
    pub(crate) const fn len(&self) -> usize {
        self.calls.len()
    }

    /// A call.
    pub(crate) fn call(&self, place: usize) -> &'a Call {
        &self.calls[place]
    }

    fn get(&self, place: Option<u32>) -> Option<&'a Call> {
        self.calls.get(place? as usize)
    }

    fn system(&self, call: &Call) -> Option<&'static System> {
        self.names.system(call.protocol?)
    }

    fn is_of_broker(&self, call: &Call) -> bool {
        self.system(call).is_some_and(|system| system.kind == ServiceKind::Broker)
    }

    /// Whether the call is a request that the service answered: captured by the kernel, or reported
    /// by an SDK if the kernel did not capture it.
    pub(crate) fn is_served(&self, place: usize) -> bool {
        let call = &self.calls[place];
        match call.capture {
            Capture::ServerProcess => true,
            Capture::App | Capture::Jvm if call.kind == Kind::Server => self
                .get(self.related[place].parent)
                .is_none_or(|parent| parent.capture != Capture::ServerProcess),
            _ => false,
        }
    }

    /// The called node, and its span. Returns `None` if the span is no call, or is an SDK's span of
    /// a call that the kernel captured, too. Then the kernel's span counts.
    fn called(&self, place: usize) -> Option<(Node, Option<&'a Call>)> {
        let call = &self.calls[place];
        let is_call = matches!(call.kind, Kind::Client | Kind::Producer)
            || (call.kind == Kind::Consumer && call.capture == Capture::ClientProcess);
        let seen_twice = call.capture.is_reported() && self.related[place].at_client.is_some();
        if !is_call || seen_twice || call.capture == Capture::ServerProcess {
            return None;
        }
        if let Some(callee) = self.get(self.related[place].at_server) {
            return Some((Node::Service(callee.service), Some(callee)));
        }
        // The consumer of a message is not the called node; the broker is.
        let other = self.get(self.related[place].of_other).filter(|_| !self.is_of_broker(call));
        match other {
            Some(callee) => Some((Node::Service(callee.service), Some(callee))),
            None if call.kind == Kind::Producer && call.protocol.is_none() => None,
            None => Some((Node::Unseen(call.protocol, call.server), None)),
        }
    }

    /// The calls between nodes that a span is: a call that its service made, or a message that it
    /// took from a broker.
    pub(crate) fn hops(&self, place: usize) -> impl Iterator<Item = Hop<'a>> {
        let call = &self.calls[place];
        let own = Node::Service(call.service);
        let taken = self.taken_from(place).map(|broker| Hop {
            from: broker,
            to: own,
            call,
            callee: None,
            is_certain: false,
            is_delivery: true,
        });
        let made = self.called(place).map(|(other, callee)| {
            let is_certain = callee.is_some_and(|it| it.confidence >= Some(Evidence::CERTAIN));
            let (from, to) = match call.kind {
                Kind::Consumer => (other, own),
                _ => (own, other),
            };
            Hop { from, to, call, callee, is_certain, is_delivery: false }
        });
        taken.into_iter().chain(made)
    }

    /// The broker from which a message was consumed, if the broker itself was not captured.
    fn taken_from(&self, place: usize) -> Option<Node> {
        let call = &self.calls[place];
        let is_handed =
            call.capture == Capture::ServerProcess && self.related[place].parent.is_none();
        let is_taking = call.kind == Kind::Consumer && (call.capture.is_reported() || is_handed);
        if !is_taking || !self.is_of_broker(call) {
            return None;
        }
        // The broker to which it was sent, if that was captured.
        let sender = self.related[place].parent.map(|parent| parent as usize);
        let sent = sender.and_then(|sender| {
            let kernel = self.related[sender].at_client.map_or(sender, |kernel| kernel as usize);
            let is_it = self.calls[kernel].kind == Kind::Producer;
            self.called(kernel).filter(|_| is_it)
        });
        Some(sent.map_or(Node::Unseen(call.protocol, None), |(broker, _)| broker))
    }
}

/// The index of each span id. If two halves share an id, the calling one counts: the other half is
/// its child, and children of the other half refer to the same id.
enum Ids {
    /// Indexes of few calls, from 1, in a small hash table. Ids are random enough for it.
    Few([u8; FEW_PLACES]),
    Many(AHashMap<SpanId, u32>),
}

/// So many calls are few.
const FEW: usize = 64;
const FEW_PLACES: usize = 2 * FEW;

impl Ids {
    /// The ids, and whether any is there twice.
    fn of(calls: &[Call]) -> (Self, bool) {
        if calls.len() > FEW {
            let mut by_id = AHashMap::with_capacity(calls.len());
            for (place, call) in (0u32..).zip(calls) {
                let first = *by_id.entry(call.span_id).or_insert(place);
                if is_calling(call) && !is_calling(&calls[first as usize]) {
                    by_id.insert(call.span_id, place);
                }
            }
            let repeated = by_id.len() < calls.len();
            return (Self::Many(by_id), repeated);
        }
        let mut ids = [0; FEW_PLACES];
        let mut repeated = false;
        for (number, call) in (1..).zip(calls) {
            let place = few_place(&ids, call.span_id, calls);
            let first = ids[place];
            repeated |= first != 0;
            if first == 0 || is_calling(call) && !is_calling(&calls[usize::from(first) - 1]) {
                ids[place] = number;
            }
        }
        (Self::Few(ids), repeated)
    }

    fn find(&self, id: SpanId, calls: &[Call]) -> Option<u32> {
        match self {
            Self::Many(by_id) => by_id.get(&id).copied(),
            Self::Few(ids) => u32::from(ids[few_place(ids, id, calls)]).checked_sub(1),
        }
    }
}

/// Where an id is in the table, or would be. At least half of the table is empty.
fn few_place(ids: &[u8; FEW_PLACES], id: SpanId, calls: &[Call]) -> usize {
    let mut place = id.as_u64() as usize % FEW_PLACES;
    while ids[place] != 0 && calls[usize::from(ids[place]) - 1].span_id != id {
        place = (place + 1) % FEW_PLACES;
    }
    place
}

const fn is_calling(call: &Call) -> bool {
    matches!(call.kind, Kind::Client | Kind::Producer)
}

/// Removes spans that are there twice. Returns whether there were any.
fn remove_repeated(calls: &mut Vec<Call>) -> bool {
    let before = calls.len();
    let mut known = AHashSet::with_capacity(before);
    // The halves of a call may have the same id and start.
    calls.retain(|call| {
        let Call { span_id, start_unix_nano, duration_nano, .. } = *call;
        let Call { service, kind, capture, .. } = *call;
        known.insert((span_id, start_unix_nano, duration_nano, service, kind, capture))
    });
    calls.len() < before
}

impl Graph {
    /// The graph of these spans. Each call counts once, even if an SDK and the kernel both reported
    /// it, or it was reported twice.
    pub fn of(calls: Vec<Call>, names: &Names) -> Self {
        Self::counted(calls, names, None)
    }

    /// Of the graph of these spans, a node, the edges from and to it, and the nodes at their ends.
    pub fn around(calls: Vec<Call>, names: &Names, around: Around<'_>) -> Self {
        let mut graph = Self::counted(calls, names, Some(around));
        let Around { service, .. } = around;
        graph.edges.retain(|edge| edge.client == service || edge.server == service);
        let near: AHashSet<&str> = (graph.edges.iter())
            .flat_map(|edge| [edge.client.as_str(), edge.server.as_str()])
            .chain([service])
            .collect();
        graph.nodes.retain(|node| near.contains(node.name.as_str()));
        graph
    }

    fn counted(mut calls: Vec<Call>, names: &Names, around: Option<Around<'_>>) -> Self {
        // Only what is answered is counted in steps.
        let mut answered: AHashMap<Node, bool> = AHashMap::new();
        let all = Calls::of(&mut calls, names);
        let mut nodes: AHashMap<Node, Served> = AHashMap::new();
        let mut edges: AHashMap<(Node, Node, Option<Name>), Tally> = AHashMap::new();
        for (place, call) in all.calls.iter().enumerate() {
            let own = Node::Service(call.service);
            if all.is_served(place) {
                let served = nodes.entry(own).or_default();
                served.tally.count(call, true);
                // A service that consumes messages is not a broker.
                served.protocols.extend(call.protocol.filter(|_| call.kind != Kind::Consumer));
            }
            for hop in all.hops(place) {
                nodes.entry(own).or_default();
                let other =
                    nodes.entry(if hop.from == own { hop.to } else { hop.from }).or_default();
                // What hands a message over answers no request.
                if hop.is_delivery {
                    other.protocols.extend(call.protocol);
                } else if matches!(
                    (hop.from, hop.to),
                    (Node::Unseen(..), _) | (_, Node::Unseen(..))
                ) {
                    other.tally.count(call, false);
                    other.protocols.extend(call.protocol);
                }
                let edge = (hop.from, hop.to, call.protocol);
                let tally = edges.entry(edge).or_default();
                tally.count(call, hop.is_certain);
                let seen = CallNetwork::of(call.network, hop.callee.and_then(|it| it.network));
                let Some(seen) = seen else { continue };
                let steps = around.and_then(|Around { service, steps }| {
                    let mut is_asked = |node| {
                        *answered.entry(node).or_insert_with(|| name_of(node, names) == service)
                    };
                    steps.filter(|_| is_asked(hop.from) || is_asked(hop.to))
                });
                let Call { span_id, start_unix_nano, duration_nano, .. } = *call;
                tally.network.count(span_id, start_unix_nano, duration_nano, seen, steps);
            }
        }
        Self { nodes: named_nodes(nodes, names), edges: named_edges(edges, names) }
    }
}

pub(crate) fn name_of(node: Node, names: &Names) -> String {
    let (protocol, place) = match node {
        Node::Service(name) => return names.text(name).to_owned(),
        Node::Unseen(protocol, place) => (protocol.map(|name| names.text(name)), place),
    };
    let place = place.map(|(address, port)| {
        let port = port.map(|port| format!(":{port}"));
        format!("{}{}", names.text(address), port.unwrap_or_default())
    });
    let place = match (place, protocol.and_then(System::named)) {
        (Some(place), _) => place,
        (None, Some(_)) => String::new(),
        (None, None) => "unknown".to_owned(),
    };
    format!("{} {place}", protocol.unwrap_or_default()).trim().to_owned()
}

fn named_nodes(nodes: AHashMap<Node, Served>, names: &Names) -> Vec<GraphNode> {
    let mut named: Vec<GraphNode> = nodes
        .into_iter()
        .map(|(node, mut served)| {
            let mut protocols: Vec<String> =
                served.protocols.iter().map(|name| names.text(*name).to_owned()).collect();
            protocols.sort_unstable();
            // A database may also answer health checks over HTTP.
            let system = protocols.iter().find_map(|protocol| System::named(protocol));
            let kind = match (system, node) {
                (Some(system), _) => system.kind,
                (None, Node::Service(_)) => ServiceKind::Service,
                (None, Node::Unseen(..)) => ServiceKind::External,
            };
            GraphNode {
                name: name_of(node, names),
                kind,
                system: system.map(|system| system.name),
                protocols,
                figures: served.tally.figures(),
            }
        })
        .collect();
    named.sort_unstable_by(|one, other| {
        (&one.name, Reverse(one.figures.requests))
            .cmp(&(&other.name, Reverse(other.figures.requests)))
    });
    named
}

fn named_edges(
    edges: AHashMap<(Node, Node, Option<Name>), Tally>,
    names: &Names,
) -> Vec<GraphEdge> {
    let mut named: Vec<GraphEdge> = edges
        .into_iter()
        .map(|((client, server, protocol), mut tally)| GraphEdge {
            client: name_of(client, names),
            server: name_of(server, names),
            protocol: protocol.map(|name| names.text(name).to_owned()).unwrap_or_default(),
            certain_share: tally.certain as f64 / tally.durations.len().max(1) as f64,
            figures: tally.figures(),
            network: tally.network.network(),
        })
        .collect();
    let by = |edge: &GraphEdge| (edge.client.clone(), edge.server.clone(), edge.protocol.clone());
    named.sort_by_cached_key(by);
    named
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::NetworkFigures;
    use spanwise_model::protocol;

    struct Made {
        names: Names,
        calls: Vec<Call>,
    }

    impl Made {
        fn new() -> Self {
            Self { names: Names::default(), calls: Vec::new() }
        }

        fn call(
            &mut self,
            id: u64,
            parent: Option<u64>,
            service: &str,
            capture: Capture,
            kind: Kind,
        ) -> &mut Call {
            let call = Call {
                span_id: SpanId::from_u64(id).expect("not zero"),
                parent: parent.and_then(SpanId::from_u64),
                start_unix_nano: 5,
                service: self.names.name(service),
                kind,
                capture,
                protocol: Some(self.names.name(protocol::HTTP)),
                error: false,
                duration_nano: 10,
                confidence: Some(1.0),
                server: Some((self.names.name("10.0.0.1"), Some(80))),
                network: None,
            };
            self.calls.push(call);
            self.calls.last_mut().expect("just pushed")
        }

        fn by(&mut self, protocol: &str) {
            let name = self.names.name(protocol);
            self.calls.last_mut().expect("a call").protocol = Some(name);
        }

        fn graph(self) -> Graph {
            Graph::of(self.calls, &self.names)
        }
    }

    fn edges(graph: &Graph) -> Vec<(&str, &str, u64)> {
        let edge = |edge: &'_ GraphEdge| edge.figures.requests;
        graph.edges.iter().map(|e| (e.client.as_str(), e.server.as_str(), edge(e))).collect()
    }

    fn kinds(graph: &Graph) -> Vec<(&str, &str, Option<&str>)> {
        graph.nodes.iter().map(|n| (n.name.as_str(), n.kind.as_str(), n.system)).collect()
    }

    #[test]
    fn a_call_seen_three_ways_is_one_edge() {
        let mut made = Made::new();
        made.call(1, None, "a", Capture::App, Kind::Client);
        made.call(2, Some(1), "a", Capture::ClientProcess, Kind::Client);
        made.call(3, Some(2), "b", Capture::ServerProcess, Kind::Server);
        made.call(4, Some(3), "b", Capture::App, Kind::Server);
        // Includes a span that was sent again.
        made.call(2, Some(1), "a", Capture::ClientProcess, Kind::Client);
        let graph = made.graph();
        assert_eq!(edges(&graph), [("a", "b", 1)]);
        assert_eq!(graph.edges[0].certain_share, 1.0);
        let b = graph.nodes.iter().find(|node| node.name == "b").expect("a node");
        assert_eq!(b.figures.requests, 1);
    }

    #[test]
    fn halves_with_one_id_are_one_call_whichever_is_said_to_begin_first() {
        let halves = [("a", None, Kind::Client), ("b", Some(1), Kind::Server)];
        for [first, second] in [halves, [halves[1], halves[0]]] {
            for later in [0, 7] {
                let mut made = Made::new();
                for ((service, parent, kind), later) in [(first, 0), (second, later)] {
                    let call = made.call(1, parent, service, Capture::App, kind);
                    call.start_unix_nano += later;
                }
                made.call(2, Some(1), "b", Capture::App, Kind::Internal);
                let graph = made.graph();
                assert_eq!(edges(&graph), [("a", "b", 1)]);
                let requests = |node: &GraphNode| (node.name.clone(), node.figures.requests);
                let requests: Vec<_> = graph.nodes.iter().map(requests).collect();
                assert_eq!(requests, [("a".to_owned(), 0), ("b".to_owned(), 1)]);
            }
        }
    }

    #[test]
    fn what_was_not_seen_itself_is_named_by_its_address() {
        let mut made = Made::new();
        made.call(1, None, "a", Capture::ClientProcess, Kind::Client).error = true;
        made.by(protocol::POSTGRESQL);
        let graph = made.graph();
        let node = graph.nodes.iter().find(|node| node.name != "a").expect("the database");
        assert_eq!(
            (node.name.as_str(), node.kind),
            ("postgresql 10.0.0.1:80", ServiceKind::Database)
        );
        assert_eq!((node.figures.errors, graph.edges[0].certain_share), (1, 0.0));
    }

    #[test]
    fn an_edge_has_the_network_that_kernels_saw_at_both_ends() {
        let seen = |retransmits, connect_nano, rtt_nano| {
            Some(CallNetwork { retransmits, connect_nano, rtt_nano })
        };
        let made = || {
            let mut made = Made::new();
            for (id, start, request, answer) in [
                (1, 0, seen(0, Some(40), Some(7)), seen(0, None, Some(6))),
                (2, 10, seen(2, None, Some(9)), seen(1, None, None)),
                (3, 20, None, seen(1, None, Some(8))),
                // An SDK's call, of which nothing is known.
                (4, 20, None, None),
            ] {
                let capture = [Capture::ClientProcess, Capture::App][usize::from(id == 4)];
                let call = made.call(id, None, "a", capture, Kind::Client);
                (call.start_unix_nano, call.network) = (start, request);
                let capture = [Capture::ServerProcess, Capture::App][usize::from(id == 4)];
                let call = made.call(10 + id, Some(id), "b", capture, Kind::Server);
                (call.start_unix_nano, call.network) = (start, answer);
            }
            made.call(5, Some(11), "b", Capture::App, Kind::Client);
            made.by(protocol::POSTGRESQL);
            made
        };
        let graph = made().graph();
        assert_eq!(edges(&graph), [("a", "b", 4), ("b", "postgresql 10.0.0.1:80", 1)]);
        assert_eq!(graph.edges[1].network, None, "no kernel saw it");
        let network = graph.edges[0].network.clone().expect("kernels saw it");
        let whole = NetworkFigures {
            calls: 3,
            resent_calls: 2,
            retransmits: 4,
            connects: 1,
            connect_p95_nano: Some(40),
            rtt_p50_nano: Some(8),
        };
        assert_eq!(network, EdgeNetwork { figures: whole, ..EdgeNetwork::default() });

        let Made { names, calls } = made();
        let steps = Some(Steps { from_unix_nano: 0, to_unix_nano: 30, count: 3 });
        let graph = Graph::around(calls, &names, Around { service: "a", steps });
        assert_eq!(edges(&graph), [("a", "b", 4)]);
        assert_eq!(graph.nodes.len(), 2);
        let network = graph.edges[0].network.clone().expect("kernels saw it");
        assert_eq!(network.figures, whole);
        let counts: Vec<_> =
            network.steps.iter().map(|step| (step.calls, step.resent_calls)).collect();
        assert_eq!(counts, [(1, 0), (1, 1), (1, 1)]);
        assert_eq!(network.steps[1].connect_p95_nano, None, "none was opened");
        let slowest: Vec<_> =
            network.examples.iter().map(|call| (call.span_id.as_u64(), call.retransmits)).collect();
        assert_eq!(slowest, [(2, 3), (3, 1)]);
    }

    #[test]
    fn databases_and_brokers_are_what_they_are() {
        let mut made = Made::new();
        for (id, protocol) in [(1, "mysql"), (2, "mongodb"), (3, "redis"), (4, "mssql"), (5, "dns")]
        {
            made.call(id, None, "a", Capture::App, Kind::Client);
            made.by(protocol);
        }
        // A captured database that answers HTTP as well.
        made.call(6, None, "mongod", Capture::ServerProcess, Kind::Server);
        made.by("mongodb");
        made.call(7, None, "mongod", Capture::ServerProcess, Kind::Server);
        let graph = made.graph();
        assert_eq!(
            kinds(&graph),
            [
                ("a", "service", None),
                ("dns 10.0.0.1:80", "external", None),
                ("mongod", "database", Some("mongodb")),
                ("mongodb 10.0.0.1:80", "database", Some("mongodb")),
                ("mssql 10.0.0.1:80", "database", Some("microsoft.sql_server")),
                ("mysql 10.0.0.1:80", "database", Some("mysql")),
                ("redis 10.0.0.1:80", "cache", Some("redis")),
            ]
        );
    }

    #[test]
    fn messages_go_through_their_broker() {
        let mut made = Made::new();
        // SDKs do not report the address.
        made.call(1, None, "shop", Capture::App, Kind::Producer).server = None;
        made.by("kafka");
        made.call(2, Some(1), "mail", Capture::App, Kind::Consumer).server = None;
        made.by("kafka");
        let graph = made.graph();
        assert_eq!(edges(&graph), [("kafka", "mail", 1), ("shop", "kafka", 1)]);
        assert_eq!(
            kinds(&graph),
            [
                ("kafka", "broker", Some("kafka")),
                ("mail", "service", None),
                ("shop", "service", None)
            ]
        );
        // The kernel reports it, and may have captured the broker.
        let mut made = Made::new();
        made.call(1, None, "shop", Capture::App, Kind::Producer);
        made.by("kafka");
        made.call(2, Some(1), "shop", Capture::ClientProcess, Kind::Producer);
        made.by("kafka");
        made.call(3, Some(2), "broker-1", Capture::ServerProcess, Kind::Server);
        made.by("kafka");
        made.call(4, Some(1), "mail", Capture::App, Kind::Consumer);
        made.by("kafka");
        made.call(5, None, "old", Capture::ClientProcess, Kind::Consumer);
        made.by("kafka");
        made.call(6, None, "pushed", Capture::ServerProcess, Kind::Consumer);
        made.by("amqp");
        let graph = made.graph();
        assert_eq!(
            edges(&graph),
            [
                ("amqp", "pushed", 1),
                ("broker-1", "mail", 1),
                ("kafka 10.0.0.1:80", "old", 1),
                ("shop", "broker-1", 1),
            ]
        );
        let kinds = kinds(&graph);
        assert!(kinds.contains(&("broker-1", "broker", Some("kafka"))), "{kinds:?}");
        assert!(kinds.contains(&("amqp", "broker", Some("rabbitmq"))), "{kinds:?}");
        assert!(kinds.contains(&("pushed", "service", None)), "{kinds:?}");
    }
}
