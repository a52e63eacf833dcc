//! The example plugin with the real agent.

mod support;

use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use spanwise_capture_agent::{Agent, AgentConfig};
use spanwise_capture_protocols::plugins::Plugin;
use spanwise_model::{Capture, Kind, Span, SpanBatch};
use support::programs::{Running, free_port, wait_for};
use support::recorded::plugins::{built, example, loaded};
use support::recorded::render;

static STASH: LazyLock<Plugin> = LazyLock::new(|| loaded(&built(&example().join("stash.c"), &[])));
const TRACE_PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The real server, the real client and the real agent.
#[test]
fn a_running_server_is_traced_by_the_example() {
    let port = free_port();
    let stash = |what: &str| {
        let mut command = Command::new("python3");
        command.arg(example().join("stash.py")).arg(what).arg(port.to_string());
        command
    };
    let (send, batches) = channel();
    let deliver = Box::new(move |batch| {
        let _ = send.send(batch);
    });
    let config = AgentConfig { plugins: vec![STASH.clone()], ..AgentConfig::default() };
    let agent = Agent::start(config, deliver).expect("BPF is allowed here");
    let _server = Running(stash("serve").stderr(Stdio::null()).spawn().expect("python3 runs"));
    wait_for(port);
    let used = stash("use").status().expect("python3 runs");
    assert!(used.success());

    let mut found: Vec<Span> = Vec::new();
    let end = Instant::now() + Duration::from_secs(20);
    while found.len() < 18 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
        for batch in batches.try_iter() {
            let batch = SpanBatch::try_from(batch).expect("the span schema");
            found.extend(batch.spans().map(|span| span.expect("a span")).filter(|span| {
                span.flow.server_port == Some(port) && span.protocol.as_deref() == Some("stash")
            }));
        }
    }
    let facts = agent.facts();
    agent.stop();
    assert_eq!((facts.plugins[0].name, facts.plugins[0].failures), ("stash", 0));
    let expected = [
        ("put", Some("apples"), None),
        ("get", Some("apples"), None),
        ("get", Some("pears"), Some("no_such_bucket")),
        ("scan", Some("apples"), None),
        ("forget", Some("apples"), None),
        ("watch", Some("a"), None),
        ("watch", Some("b"), None),
        ("get", Some("apples"), None),
        ("dance", None, Some("unknown_operation")),
    ];
    let of = |capture| {
        let mut of: Vec<&Span> = found.iter().filter(|span| span.capture == capture).collect();
        // Pipelined requests, in order.
        of.sort_by_key(|span| span.request_tcp_seq);
        of
    };
    for capture in [Capture::ClientProcess, Capture::ServerProcess] {
        let told: Vec<_> = of(capture)
            .iter()
            .map(|span| {
                let bucket = span.attribute("stash.bucket").and_then(|bucket| bucket.as_str());
                (span.operation.as_str(), bucket, span.error.as_deref())
            })
            .collect();
        assert_eq!(told, expected, "{capture}: {}", render(&found));
    }
    let hop =
        |span: &&Span| (span.request_tcp_seq, span.response_tcp_seq, span.network.request_bytes);
    let hops = |capture| of(capture).iter().map(hop).collect::<Vec<_>>();
    assert_eq!(hops(Capture::ClientProcess), hops(Capture::ServerProcess), "{}", render(&found));
    // The first of three was answered last. Each has its own response.
    let client = of(Capture::ClientProcess);
    let answered = |at: usize| client[at].response_tcp_seq;
    assert!(answered(7) < answered(6) && answered(6) < answered(5), "{}", render(&found));
    assert!(client[7].end_unix_nano() <= client[5].end_unix_nano());
    assert!(client.iter().all(|span| span.kind == Kind::Client));
    let put = client[0];
    assert_eq!(put.trace_id.map(|id| id.to_string()).as_deref(), TRACE_PARENT.get(3..35));
    assert!(put.network.request_bytes > Some(5000));
    assert!(client[3].network.response_bytes > Some(6000));
}
