//! Known call graphs: who calls whom, how often, and what a failure does.

use crate::random::Random;

/// Place of an operation in [`Topology::operations`].
pub(crate) type OperationAt = usize;

/// How a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A request that is answered.
    Request,
    /// A message over a broker. Nobody waits for the consumer.
    Message,
    /// A request to something that reports no spans, such as a database.
    Unseen,
}

/// Something that an operation calls.
#[derive(Debug, Clone)]
pub(crate) struct Edge {
    pub(crate) to: OperationAt,
    pub(crate) mode: Mode,
    /// That the call is made at all: 1 less the share of cache hits.
    pub(crate) probability: f64,
    /// The least and the most items that are called for, one after another.
    pub(crate) fan_out: (u32, u32),
    /// Attempts after a failed one.
    pub(crate) retries: u32,
    /// Whether a failure ends the caller with a failure.
    pub(crate) is_strong: bool,
    /// Edges with one group run at the same time.
    pub(crate) group: u32,
}

/// An operation of a service.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) service: String,
    pub(crate) name: String,
    /// That a call of it fails by itself.
    pub(crate) failure: f64,
    /// Its own work in nanoseconds, on average, for each part between groups of calls.
    pub(crate) work_nano: f64,
    /// By group, ascending.
    pub(crate) edges: Vec<Edge>,
}

/// A call graph without cycles: operations call only later ones.
#[derive(Debug, Clone)]
pub(crate) struct Topology {
    pub(crate) name: String,
    pub(crate) services: usize,
    pub(crate) operations: Vec<Operation>,
    /// The first calls, and their rates in runs per second.
    pub(crate) entrances: Vec<(OperationAt, f64)>,
}

/// What one entrance may call in one run, so that runs stay as large as real ones.
const MOST_CALLS: f64 = 60.0;

impl Topology {
    /// A web service above services with three callees each: 4 services in 2 levels, 11 in 3 and
    /// 28 in 4, as in the thesis.
    pub(crate) fn thesis(services: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut operations: Vec<Operation> = (0..services)
            .map(|number| {
                operation(
                    if number == 0 { "ms-web".into() } else { format!("ms-service-{number}") },
                    "GET /rest/",
                )
            })
            .collect();
        for at in 1..services {
            let caller = (at - 1) / 3;
            let edge = any_edge(&mut random, at, ((at - 1) % 3) as u32);
            operations[caller].edges.push(edge);
            operations[at].failure = 0.004 + 0.012 * random.share();
        }
        let database = operations.len();
        operations.push(operation("mysql".into(), "SELECT rest"));
        operations[database].failure = 0.01;
        for caller in (1..services).step_by(3) {
            let mut edge = any_edge(&mut random, database, 9);
            edge.mode = Mode::Unseen;
            operations[caller].edges.push(edge);
        }
        let name = format!("thesis, {services} services");
        Self { name, services, operations, entrances: vec![(0, 100.0)] }
    }

    /// Six levels of services with one or two operations each, popular ones with many callers,
    /// and databases below the last. Every service is reached.
    pub(crate) fn layers(services: usize, seed: u64) -> Self {
        const SHARES: [f64; 6] = [0.08, 0.17, 0.22, 0.23, 0.2, 0.1];
        let mut random = Random::new(seed);
        let mut operations: Vec<Operation> = Vec::new();
        let mut levels: Vec<Vec<OperationAt>> = Vec::new();
        let mut made = 0;
        for (level, share) in SHARES.iter().enumerate() {
            let count = if level + 1 == SHARES.len() {
                services - made
            } else {
                (share * services as f64) as usize
            };
            let mut places = Vec::new();
            for number in made..made + count {
                let both = random.happens(0.3);
                for name in ["GET /items/{id}", "POST /items"].iter().take(1 + usize::from(both)) {
                    places.push(operations.len());
                    let mut operation =
                        operation(format!("team-{}/service-{number:05}", number % 97), name);
                    operation.failure = 0.002 + 0.006 * random.share();
                    operation.work_nano = 2e5 + 3e6 * random.share();
                    operations.push(operation);
                }
            }
            made += count;
            levels.push(places);
        }
        let mut databases = Vec::new();
        for name in ["SELECT orders", "INSERT orders", "SELECT users", "UPDATE stock"] {
            databases.push(operations.len());
            let mut database = operation("mysql".into(), name);
            database.failure = 0.002;
            operations.push(database);
        }
        // Expected calls below an operation, from the last level up.
        let mut below: Vec<f64> = vec![0.0; operations.len()];
        for level in (0..SHARES.len()).rev() {
            let callees = levels.get(level + 1).unwrap_or(&databases).clone();
            let callers = levels[level].clone();
            // Every callee has a caller; the callers take them in turns.
            let mut taken: Vec<Vec<OperationAt>> = vec![Vec::new(); callers.len()];
            if level + 1 < SHARES.len() {
                for (number, callee) in callees.iter().enumerate() {
                    taken[number % callers.len()].push(*callee);
                }
            }
            for (caller, mut chosen) in callers.into_iter().zip(taken) {
                for _ in 0..random.below(3) {
                    // A few are called by many.
                    let popular = (random.share().powi(3) * callees.len() as f64) as usize;
                    chosen.push(callees[popular]);
                }
                chosen.sort_unstable();
                chosen.dedup();
                let mut edges: Vec<Edge> = Vec::new();
                for callee in chosen {
                    let mut edge = any_edge(&mut random, callee, edges.len() as u32);
                    if level + 1 == SHARES.len() {
                        edge.mode = Mode::Unseen;
                    }
                    let calls = edge.probability * f64::from(edge.fan_out.0 + edge.fan_out.1) / 2.0;
                    let added = calls * (1.0 + below[callee]);
                    if below[caller] + added > MOST_CALLS && !edges.is_empty() {
                        continue;
                    }
                    below[caller] += added;
                    edges.push(edge);
                }
                operations[caller].edges = edges;
            }
        }
        let entrances = levels[0].iter().map(|at| (*at, 1.0 + 9.0 * random.share())).collect();
        Self { name: format!("{services} services"), services, operations, entrances }
    }
}

fn operation(service: String, name: &str) -> Operation {
    Operation { service, name: name.into(), failure: 0.0, work_nano: 2e6, edges: Vec::new() }
}

/// An edge with one of the ways in which services call others.
fn any_edge(random: &mut Random, to: OperationAt, group: u32) -> Edge {
    let mut edge = Edge {
        to,
        mode: Mode::Request,
        probability: 1.0,
        fan_out: (1, 1),
        retries: 0,
        is_strong: random.happens(0.55),
        // Some run at the same time as the one before.
        group: if random.happens(0.2) { group.saturating_sub(1) } else { group },
    };
    match random.below(10) {
        // A cache before it.
        0 | 1 => edge.probability = 0.3 + 0.4 * random.share(),
        // A rare case.
        2 => edge.probability = 0.1,
        3 => edge.fan_out = (1, 5),
        4 | 5 => edge.retries = 2,
        6 => (edge.mode, edge.is_strong) = (Mode::Message, false),
        _ => {}
    }
    edge
}
