//! A span's name and its 8 to 14 attributes.

use super::resource::{address, namespace, pod_name};
use super::stacks::Failure;
use super::texts::{Statement, fill, statements, user_agent};
use super::{pods, zipf};
use crate::attributes::Attributes;
use crate::ids::{Hex, Uuid};
use crate::random::Random;
use crate::services::{Datastore, Endpoint, SERVICES};
use crate::span::{
    Exception, Recording, code, endpoint, ephemeral, java_thread, message_of, rpc, status_code,
};
use crate::trace::{Node, Role, Trace};

/// Number of tenants. Each user belongs to one.
const TENANTS: u64 = 400;

/// The request id of all spans of a trace.
const fn request(trace: &Trace) -> u64 {
    trace.session.rotate_left(17) ^ 0x00c0_ffee
}

fn statement(node: &Node) -> &'static Statement {
    let store = SERVICES[node.service].store.unwrap_or(Datastore::PostgreSql);
    let statements = statements(store);
    let place = zipf(&mut Random::new(node.choice as u64), statements.len() as u64);
    // Each service has its own frequent statements.
    &statements[(place as usize + node.service * 3) % statements.len()]
}

/// Operation and collection of a node's statement.
pub(crate) fn statement_name(node: &Node) -> [&'static str; 2] {
    let Statement(operation, collection, _) = statement(node);
    [operation, collection]
}

/// Writes the attributes of a node.
pub(crate) fn attributes(
    to: &mut Attributes<'_>,
    path: &mut String,
    trace: &Trace,
    node: &Node,
    random: &mut Random,
) {
    match node.role {
        Role::Server => server(to, path, trace, node, random),
        Role::Client { callee } => client(to, path, trace, node, callee, random),
        Role::Store => store(to, path, trace, node, random),
        Role::App => app(to, trace, node, random),
        Role::Producer { .. } | Role::Consumer => messaging(to, trace, node, random),
    }
}

fn peer(to: &mut Attributes<'_>, service: usize, pod: usize, port: u64) {
    let [a, b, c, d] = address(service, pod);
    to.format("network.peer.address", format_args!("{a}.{b}.{c}.{d}"));
    to.int("network.peer.port", port);
}

fn server(
    to: &mut Attributes<'_>,
    path: &mut String,
    trace: &Trace,
    node: &Node,
    random: &mut Random,
) {
    let caller = node.parent.map(|parent| &trace.nodes[parent]);
    let host = SERVICES[node.service].name;
    match endpoint(node.service, node) {
        Endpoint::Http(method, route) => {
            fill(path, route, trace, node.start_unix_nano, random);
            to.text("http.request.method", method);
            to.text("http.route", route);
            to.int("http.response.status_code", status_code(node, method, random));
            if let Some(caller) = caller {
                to.text("url.path", path);
                to.format("server.address", format_args!("{host}.{}", namespace(node.service)));
                peer(to, caller.service, caller.instance, ephemeral(random));
                to.text("user_agent.original", SERVICES[caller.service].runtime.user_agent());
            } else {
                to.format(
                    "url.full",
                    format_args!(
                        "https://www.shop.example{path}?utm_source=newsletter&utm_campaign=c{}&sid={}",
                        random.skewed(60),
                        Hex(trace.session, 32)
                    ),
                );
                user_agent(path, trace.user);
                to.text("user_agent.original", path);
                let [a, b] = [trace.user >> 8 & 0xff, trace.user & 0xff];
                to.format("client.address", format_args!("203.{}.{a}.{b}", trace.user >> 16));
            }
            to.int("http.response.body.size", 60 + random.skewed(90_000));
        }
        Endpoint::Rpc(package, method) => {
            rpc(to, package, method, node, random);
            to.format("server.address", format_args!("{host}.{}", namespace(node.service)));
            to.int("server.port", 9090);
            if let Some(caller) = caller {
                peer(to, caller.service, caller.instance, ephemeral(random));
            }
        }
    }
    to.format("request.id", format_args!("{}", Uuid(request(trace))));
    to.format("user.id", format_args!("{}", Uuid(trace.user)));
    to.format("tenant.id", format_args!("t-{}", Hex(trace.user % TENANTS, 12)));
    if let Some(order) = trace.order.filter(|_| node.choice.is_multiple_of(3) || caller.is_none()) {
        to.format("app.order.id", format_args!("{order}"));
    }
}

fn client(
    to: &mut Attributes<'_>,
    path: &mut String,
    trace: &Trace,
    node: &Node,
    callee: usize,
    random: &mut Random,
) {
    let host = SERVICES[callee].name;
    let pod = zipf(random, pods(callee) as u64) as usize;
    match endpoint(callee, node) {
        Endpoint::Http(method, route) => {
            fill(path, route, trace, node.start_unix_nano, random);
            to.text("http.request.method", method);
            to.format(
                "url.full",
                format_args!(
                    "http://{host}.{}.svc.cluster.local:8080{path}?limit={}&fields=id,name,price,stock",
                    namespace(callee),
                    [10, 20, 50, 100][random.skewed(4) as usize]
                ),
            );
            to.int("http.response.status_code", status_code(node, method, random));
            to.format(
                "server.address",
                format_args!("{host}.{}.svc.cluster.local", namespace(callee)),
            );
            to.int("server.port", 8080);
            peer(to, callee, pod, 8080);
            if matches!(*method, "POST" | "PUT") {
                to.format("idempotency.key", format_args!("{}", Uuid(random.next())));
                to.int("http.request.body.size", 40 + random.skewed(9_000));
            }
        }
        Endpoint::Rpc(package, method) => {
            rpc(to, package, method, node, random);
            to.format(
                "server.address",
                format_args!("{host}.{}.svc.cluster.local", namespace(callee)),
            );
            to.int("server.port", 9090);
            peer(to, callee, pod, 9090);
        }
    }
    to.format("request.id", format_args!("{}", Uuid(request(trace))));
    java_thread(to, node, (30, 64), random);
}

fn store(
    to: &mut Attributes<'_>,
    path: &mut String,
    trace: &Trace,
    node: &Node,
    random: &mut Random,
) {
    let service = &SERVICES[node.service];
    let store = service.store.unwrap_or(Datastore::PostgreSql);
    let Statement(operation, collection, text) = statement(node);
    to.text("db.system.name", store.system());
    to.text("db.operation.name", operation);
    fill(path, text, trace, node.start_unix_nano, random);
    to.text("db.query.text", path);
    to.format("db.namespace", format_args!("{}_prod", service.name));
    if !collection.is_empty() {
        to.text("db.collection.name", collection);
    }
    to.format("db.query.hash", format_args!("{}", Hex(text.len() as u64, 16)));
    let replica = node.choice % 3;
    to.format(
        "server.address",
        format_args!(
            "{}-{}-{replica}.cx4v1qk.eu-central-1.rds.example.com",
            service.name,
            store.system()
        ),
    );
    to.int("server.port", store.port());
    to.format("network.peer.address", format_args!("10.64.{}.{}", node.service, 10 + replica));
    to.int("db.response.returned_rows", random.skewed(100));
    java_thread(to, node, (30, 64), random);
}

fn app(to: &mut Attributes<'_>, trace: &Trace, node: &Node, random: &mut Random) {
    code(to, node, random);
    to.format("thread.name", format_args!("worker-{}", random.below(32)));
    to.format("user.id", format_args!("{}", Uuid(trace.user)));
    to.format("session.id", format_args!("{}", Hex(trace.session, 32)));
    to.format(
        "cache.key",
        format_args!("v2:{}:{}", SERVICES[node.service].name, Hex(random.skewed(60_000), 16)),
    );
    to.int("app.items", random.skewed(40));
    to.flag("app.cache.hit", random.chance(0.8));
}

fn messaging(to: &mut Attributes<'_>, trace: &Trace, node: &Node, random: &mut Random) {
    let service = &SERVICES[node.service];
    let sent = message_of(to, trace, node);
    to.format("messaging.client.id", format_args!("{}", pod_name(node.service, node.instance)));
    to.format("messaging.destination.partition.id", format_args!("{}", random.below(48)));
    to.int("messaging.kafka.offset", 1_480_000_000 + trace.session % 9_000_000);
    to.format(
        "messaging.message.id",
        format_args!("{}", Uuid(trace.session ^ node.service as u64)),
    );
    to.format("messaging.message.conversation_id", format_args!("{}", Uuid(request(trace))));
    to.int("messaging.message.body.size", 200 + random.skewed(14_000));
    if !sent {
        to.format("messaging.consumer.group.name", format_args!("{}-workers", service.name));
    }
}

/// The exception in a node. Its stack trace is written to `stack`.
pub(crate) fn exception(stack: &mut String, node: &Node, random: &mut Random) -> Exception {
    let failure = Failure::of(random);
    failure.stack(stack, node.service, random);
    let Failure { kind, message } = failure;
    Exception { kind, message: message.into(), recording: Recording::NotEscaped }
}
