//! Exceptions with stack traces as the runtimes print them.

use std::fmt::Write as _;

use super::zipf;
use crate::ids::Hex;
use crate::random::Random;
use crate::runtimes::Runtime;
use crate::services::SERVICES;

/// Type and message of exceptions. Braces stand for an identifier.
const FAILURES: [(&str, &str); 12] = [
    ("java.net.SocketTimeoutException", "Read timed out"),
    ("java.lang.IllegalStateException", "stock level of {} changed during reservation"),
    ("ConnectionResetError", "[Errno 104] Connection reset by peer"),
    ("TypeError", "Cannot read properties of undefined (reading 'price')"),
    ("org.postgresql.util.PSQLException", "ERROR: deadlock detected, process {}"),
    ("io.grpc.StatusRuntimeException", "DEADLINE_EXCEEDED: deadline exceeded after 1.99s"),
    ("context.deadlineExceededError", "context deadline exceeded"),
    ("ValidationError", "cart {} has no items"),
    ("redis.exceptions.ConnectionError", "Error 111 connecting to redis:6379"),
    ("com.fasterxml.jackson.core.JsonParseException", "Unexpected character at {}"),
    ("KeyError", "'{}'"),
    ("net.OpError", "dial tcp: lookup ledger on 10.96.0.10:53: no such host"),
];

const PARTS: [&str; 24] = [
    "handler",
    "service",
    "repository",
    "client",
    "mapper",
    "validator",
    "cache",
    "pool",
    "retry",
    "middleware",
    "router",
    "codec",
    "session",
    "transaction",
    "dispatch",
    "executor",
    "filter",
    "interceptor",
    "controller",
    "gateway",
    "loop",
    "stream",
    "buffer",
    "socket",
];
const ACTIONS: [&str; 16] = [
    "handle", "invoke", "execute", "apply", "fetch", "load", "send", "receive", "proceed", "run",
    "process", "call", "commit", "acquire", "decode", "dispatch",
];
/// Number of places where a service fails.
const PLACES: u64 = 14;

/// An exception.
pub(super) struct Failure {
    pub(super) kind: &'static str,
    pub(super) message: String,
}

impl Failure {
    /// An exception. Some are frequent.
    pub(super) fn of(random: &mut Random) -> Self {
        let (kind, text) = FAILURES[zipf(random, FAILURES.len() as u64) as usize];
        let message = match text.split_once("{}") {
            Some((before, after)) => format!("{before}{}{after}", Hex(random.next(), 12)),
            None => text.to_owned(),
        };
        Self { kind, message }
    }

    /// Writes the stack trace for one of the places where the service fails.
    pub(super) fn stack(&self, into: &mut String, service: usize, random: &mut Random) {
        into.clear();
        let place = zipf(random, PLACES) + PLACES * service as u64;
        let mut own = Random::new(place);
        let (name, runtime) = (SERVICES[service].name, SERVICES[service].runtime);
        let _ = writeln!(into, "{}: {}", self.kind, self.message);
        for depth in 0..10 + own.below(14) {
            // The outer frames belong to the framework and are the same for all.
            let mut of_all = Random::new(runtime as u64 * 100 + depth);
            let of = if depth < 6 { &mut own } else { &mut of_all };
            let part = *of.of(&PARTS);
            let (action, line) = (*of.of(&ACTIONS), 10 + of.below(900));
            let whose = if depth < 6 { name } else { "framework" };
            let _ = match runtime {
                Runtime::Java => writeln!(
                    into,
                    "\tat com.company.{whose}.{part}.Default{part}.{action}(Default{part}.java:{line})"
                ),
                Runtime::Go => writeln!(
                    into,
                    "company.example/{whose}/internal/{part}.(*{part}).{action}(...)\n\t/src/{whose}/\
                     internal/{part}/{part}.go:{line} +0x{:x}",
                    of.below(4096)
                ),
                Runtime::Node => writeln!(
                    into,
                    "    at {part}.{action} (/app/node_modules/{whose}/dist/{part}.js:{line}:{})",
                    1 + of.below(80)
                ),
                Runtime::Python => writeln!(
                    into,
                    "  File \"/srv/{whose}/{part}.py\", line {line}, in {action}\n    return await \
                     self.{part}.{action}(request)"
                ),
            };
        }
    }
}
