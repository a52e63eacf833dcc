//! A span's name and its 8 to 12 attributes.

use std::fmt::Write as _;

use super::resource::address;
use crate::attributes::Attributes;
use crate::ids::{SessionId, Uuid, uuid};
use crate::random::Random;
use crate::services::{Datastore, Endpoint, SERVICES};
use crate::span::{
    Exception, Recording, code, endpoint, ephemeral, function, java_thread, message_of, rpc,
    status_code,
};
use crate::trace::{Node, Role, Trace};

const PRODUCTS: u64 = 40_000;

const AGENTS: [&str; 8] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
    "Mozilla/5.0 (X11; Linux x86_64; rv:139.0) Gecko/20100101 Firefox/139.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0.0.0 Mobile Safari/537.36",
    "ShopApp/8.14.2 (Android 15; sdk 35)",
    "ShopApp/8.14.1 (iOS 18.5; iPhone16,2)",
    "Googlebot/2.1 (+http://www.google.com/bot.html)",
];

const FLAGS: [&str; 3] = ["new-ranking-model", "one-page-checkout", "dark-launch-prices"];

const FAILURES: [(&str, &str); 5] = [
    ("java.net.SocketTimeoutException", "Read timed out"),
    ("java.lang.IllegalStateException", "stock level changed during reservation"),
    ("ConnectionResetError", "[Errno 104] Connection reset by peer"),
    ("TypeError", "Cannot read properties of undefined (reading 'price')"),
    ("org.postgresql.util.PSQLException", "ERROR: deadlock detected"),
];

fn statement(node: &Node) -> [&'static str; 3] {
    let store = SERVICES[node.service].store.unwrap_or(Datastore::PostgreSql);
    let statements = store.statements();
    statements[node.choice % statements.len()]
}

/// Operation and collection of a node's statement.
pub(crate) fn statement_name(node: &Node) -> [&'static str; 2] {
    let [operation, collection, _] = statement(node);
    [operation, collection]
}

/// The exception in a node. Its stack trace is written to `stack`.
pub(crate) fn exception(stack: &mut String, node: &Node, random: &mut Random) -> Exception {
    let (kind, message) = *random.of(&FAILURES);
    // Half of the libraries also record the exception.
    let recording = if random.chance(0.5) { Recording::Plain } else { Recording::Not };
    let (function, file) = function(node);
    let (line, outer_line) = (node.choice % 400, node.choice % 700);
    stack.clear();
    // Writing to a String cannot fail.
    let _ = write!(
        stack,
        "{kind}: {message}\n\tat {function}({file}:{line})\n\tat {file}:{outer_line}\n\tat \
         java.base/java.lang.Thread.run(Thread.java:1583)",
    );
    Exception { kind, message: message.into(), recording }
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

/// The route with ids.
fn fill(path: &mut String, route: &str, trace: &Trace, random: &mut Random) {
    path.clear();
    let mut rest = route;
    while let Some((before, after)) = rest.split_once('{') {
        path.push_str(before);
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        // Writing to a String cannot fail.
        let _ = match name {
            "user" => write!(path, "{}", Uuid(trace.user)),
            "order" => write!(path, "{}", trace.order.unwrap_or(trace.session >> 32)),
            "product" => write!(path, "sku-{:05}", random.skewed(PRODUCTS)),
            "category" => write!(path, "{}", random.below(120)),
            _ => uuid(path, random),
        };
        rest = after;
    }
    path.push_str(rest);
}

fn peer(to: &mut Attributes<'_>, service: usize, instance: usize, port: u64) {
    let (low, high) = address(service, instance);
    to.format("network.peer.address", format_args!("10.42.{high}.{low}"));
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
    let name = SERVICES[node.service].name;
    match endpoint(node.service, node) {
        Endpoint::Http(method, route) => {
            fill(path, route, trace, random);
            to.text("http.request.method", method);
            to.text("http.route", route);
            to.text("url.path", path);
            to.format("session.id", format_args!("{}", SessionId(trace.session)));
            to.format("server.address", format_args!("{name}.shop-production.svc.cluster.local"));
            to.int("server.port", 8080);
            to.int("http.response.status_code", status_code(node, method, random));
            match caller {
                Some(caller) => {
                    let runtime = SERVICES[caller.service].runtime;
                    peer(to, caller.service, caller.instance, ephemeral(random));
                    to.text("user_agent.original", runtime.user_agent());
                }
                None => {
                    to.format(
                        "client.address",
                        format_args!("198.51.{}.{}", trace.user >> 10, trace.user & 0xff),
                    );
                    to.text("user_agent.original", AGENTS[(trace.user % 8) as usize]);
                    to.text("url.scheme", "https");
                }
            }
        }
        Endpoint::Rpc(package, method) => {
            rpc(to, package, method, node, random);
            to.format("server.address", format_args!("{name}.shop-production.svc.cluster.local"));
            to.int("server.port", 9090);
            to.format("session.id", format_args!("{}", SessionId(trace.session)));
            if let Some(caller) = caller {
                peer(to, caller.service, caller.instance, ephemeral(random));
            }
        }
    }
    to.format("user.id", format_args!("{}", Uuid(trace.user)));
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
    let (name, instance) = (SERVICES[callee].name, node.choice % 3);
    match endpoint(callee, node) {
        Endpoint::Http(method, route) => {
            fill(path, route, trace, random);
            to.text("http.request.method", method);
            to.format(
                "url.full",
                format_args!(
                    "http://{name}.shop-production.svc.cluster.local:8080{path}?locale=de-DE&currency=EUR\
                     &fields=id,name,price,stock,images"
                ),
            );
            to.format("server.address", format_args!("{name}.shop-production.svc.cluster.local"));
            to.int("server.port", 8080);
            to.int("http.response.status_code", status_code(node, method, random));
            to.text("network.protocol.version", "1.1");
            peer(to, callee, instance, 8080);
            to.text("url.template", route);
            to.int("http.response.body.size", 90 + random.skewed(60_000));
        }
        Endpoint::Rpc(package, method) => {
            rpc(to, package, method, node, random);
            to.format("server.address", format_args!("{name}.shop-production.svc.cluster.local"));
            to.int("server.port", 9090);
            to.text("network.transport", "tcp");
            peer(to, callee, instance, 9090);
            to.text("user_agent.original", "grpc-go/1.72.2");
        }
    }
    java_thread(to, node, (20, 200), random);
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
    let [operation, collection, text] = statement(node);
    to.text("db.system.name", store.system());
    to.text("db.operation.name", operation);
    if store == Datastore::Redis {
        fill(path, text, trace, random);
        to.text("db.query.text", path);
        to.text("db.namespace", "0");
    } else {
        to.text("db.query.text", text);
        to.text("db.namespace", service.name);
        to.text("db.collection.name", collection);
        to.format("db.query.summary", format_args!("{operation} {collection}"));
    }
    to.format(
        "server.address",
        format_args!("{}-{}.shop-production-data.svc.cluster.local", store.system(), service.name),
    );
    to.int("server.port", store.port());
    to.format("network.peer.address", format_args!("10.43.{}.{}", node.service, node.choice % 2));
    to.int("network.peer.port", store.port());
    to.int("db.response.returned_rows", random.skewed(100));
    to.format(
        "db.client.connection.pool.name",
        format_args!("{}-primary-{}", service.name, node.instance),
    );
}

fn app(to: &mut Attributes<'_>, trace: &Trace, node: &Node, random: &mut Random) {
    code(to, node, random);
    to.format(
        "thread.name",
        format_args!("{}-worker-{}", SERVICES[node.service].name, random.below(64)),
    );
    to.format("user.id", format_args!("{}", Uuid(trace.user)));
    to.format("session.id", format_args!("{}", SessionId(trace.session)));
    to.format("app.product.id", format_args!("sku-{:05}", random.skewed(PRODUCTS)));
    to.int("app.items", random.skewed(40));
    to.flag("app.cache.hit", random.chance(0.8));
    if node.choice.is_multiple_of(2) {
        to.text("feature_flag.key", FLAGS[node.choice % 3]);
        to.text("feature_flag.result.variant", ["on", "off", "control"][node.choice % 3]);
    }
}

fn messaging(to: &mut Attributes<'_>, trace: &Trace, node: &Node, random: &mut Random) {
    let service = &SERVICES[node.service];
    let sent = message_of(to, trace, node);
    to.format("messaging.client.id", format_args!("{}-{}", service.name, node.instance));
    to.format("messaging.destination.partition.id", format_args!("{}", random.below(24)));
    to.int("messaging.kafka.offset", 80_000_000 + trace.session % 1_000_000);
    to.format("messaging.kafka.message.key", format_args!("{}", Uuid(trace.user)));
    to.int("messaging.message.body.size", 200 + random.skewed(4_000));
    if !sent {
        to.format("messaging.consumer.group.name", format_args!("{}-workers", service.name));
    }
    to.text("server.address", "kafka-bootstrap.shop-production-data.svc.cluster.local");
    to.int("server.port", 9092);
}
