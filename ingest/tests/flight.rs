//! The agent's sender against the receiver, with all kinds of failures between them.

mod common;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow_flight::FlightData;
use arrow_flight::flight_service_client::FlightServiceClient;
use common::{Memory, Server, until};
use serde_json::json;
use spanwise_ingest::Limits;
use spanwise_model::{Capture, Kind, Span, SpanBatchBuilder, SpanId, SpanRows};
use spanwise_wire::flight::{
    Encoder, FlightSender, Origin, PutReply, Secret, SenderConfig, SenderError, first_message,
    schema_message,
};
use tonic::Code;

fn batch(numbers: std::ops::Range<u64>) -> SpanRows {
    let mut builder = SpanBatchBuilder::new();
    for number in numbers {
        builder.push(&Span::new(
            SpanId::from_u64(number + 1).unwrap(),
            Capture::ServerProcess,
            Kind::Server,
            "cart",
            number.to_string(),
            0,
            1,
        ));
    }
    builder.finish().unwrap().into()
}

fn sender(server: SocketAddr) -> FlightSender {
    FlightSender::spawn(SenderConfig {
        shortest_pause: Duration::from_millis(20),
        longest_pause: Duration::from_millis(200),
        ..SenderConfig::new(format!("http://{server}"))
    })
    .unwrap()
}

fn numbers(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_arrive_in_order_and_facts_are_kept() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let sender = sender(server.grpc);
    sender.set_facts(&json!({"host": "h1", "hook": "sock-length"}));
    for start in (0..1000).step_by(50) {
        sender.send(&batch(start..start + 50));
    }
    until("all are acknowledged", || sender.counters().spans_acknowledged == 1000).await;
    assert_eq!(memory.operations(), numbers(0..1000));

    sender.set_facts(&json!({"host": "h1", "hook": "sys-exit"}));
    until("new facts arrive", || server.ingest.status().agents[0].facts["hook"] == "sys-exit")
        .await;
    let status = server.ingest.status();
    let agent = &status.agents[0];
    assert_eq!((agent.batches, agent.spans, agent.last_sequence), (20, 1000, 20));
    assert!(agent.connected);
    assert_eq!(status.flight_streams, 1);

    let counters = sender.shutdown(Duration::from_secs(5)).await;
    assert_eq!((counters.spans_dropped(), counters.connections), (0, 1));
    until("the stream is closed", || server.ingest.status().flight_streams == 0).await;
    assert!(!server.ingest.status().agents[0].connected);
    sender.send(&batch(0..3));
    assert_eq!(sender.counters().spans_dropped_shutdown, 3);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_loses_nothing_acknowledged_and_keeps_nothing_twice() {
    let memory = Arc::new(Memory::default());
    // Storing is slow, so that the server stops with batches in progress.
    *memory.delay.lock() = Duration::from_millis(3);
    let mut server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let address = server.grpc;
    let sender = sender(address);
    let feeding = tokio::spawn({
        let sender = sender.clone();
        async move {
            for number in 0..400 {
                sender.send(&batch(number..number + 1));
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    });
    for round in 1..=3 {
        let some = round * 40;
        until("some arrive", || sender.counters().spans_acknowledged > some).await;
        let acknowledged = sender.counters().spans_acknowledged;
        server.stop().await;
        assert!(memory.operations().len() as u64 >= acknowledged);
        tokio::time::sleep(Duration::from_millis(30)).await;
        server = Server::start_at(Arc::clone(&memory), Limits::default(), address).await;
    }
    feeding.await.unwrap();
    let counters = sender.shutdown(Duration::from_secs(20)).await;
    assert_eq!((counters.spans_acknowledged, counters.spans_dropped()), (400, 0), "{counters:?}");
    assert!(counters.connections >= 4, "{counters:?}");
    // Each exactly once, in the order in which they were sent.
    assert_eq!(memory.operations(), numbers(0..400));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unanswered_batch_comes_again_under_the_same_name() {
    // The server is killed after it stored a batch and before it replied. The first attempt gets no
    // reply.
    let memory = Arc::new(Memory::default());
    *memory.delay.lock() = Duration::from_millis(300);
    let limits = Limits { drain_time: Duration::from_millis(10), ..Limits::default() };
    let first = Server::start(Arc::clone(&memory), limits).await;
    let address = first.grpc;
    let proxy = Proxy::start(address).await;
    let sender = sender(proxy.address);
    sender.send(&batch(0..5));
    tokio::time::sleep(Duration::from_millis(150)).await;
    // The connection breaks while the batch is being stored.
    proxy.cut();
    until("it is stored", || memory.operations().len() == 5).await;
    *memory.delay.lock() = Duration::ZERO;
    until("it is acknowledged", || sender.counters().spans_acknowledged == 5).await;
    assert_eq!(memory.operations().len(), 5);
    assert_eq!(*memory.duplicates.lock(), 1);
    sender.shutdown(Duration::from_secs(1)).await;
    first.stop().await;
}

/// A connection between sender and server that can be cut.
struct Proxy {
    address: SocketAddr,
    cut: tokio::sync::watch::Sender<u64>,
}

impl Proxy {
    async fn start(to: SocketAddr) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, cuts) = tokio::sync::watch::channel(0);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut cuts = cuts.clone();
                cuts.mark_unchanged();
                tokio::spawn(async move {
                    let mut far = tokio::net::TcpStream::connect(to).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = cuts.changed() => {}
                    }
                });
            }
        });
        Self { address, cut }
    }

    fn cut(&self) {
        self.cut.send_modify(|count| *count += 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_no_server_memory_is_bounded_and_the_newest_are_dropped() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let sender = FlightSender::spawn(SenderConfig {
        queue_bytes: 100_000,
        shortest_pause: Duration::from_millis(20),
        longest_pause: Duration::from_millis(100),
        ..SenderConfig::new(format!("http://{address}"))
    })
    .unwrap();
    for start in (0..10_000).step_by(100) {
        sender.send(&batch(start..start + 100));
        assert!(sender.counters().queue_bytes <= 100_000);
    }
    let counters = sender.counters();
    assert_eq!(counters.spans_offered, 10_000);
    assert!(counters.spans_dropped_queue_full > 0);
    assert_eq!(counters.spans_dropped_queue_full + counters.queue_spans, 10_000);
    until("it tries", || sender.counters().connections_failed > 1).await;

    // When the server starts, the waiting batches are delivered: the oldest ones.
    let memory = Arc::new(Memory::default());
    let server = Server::start_at(Arc::clone(&memory), Limits::default(), address).await;
    until("the queue is empty", || sender.counters().queue_batches == 0).await;
    assert_eq!(memory.operations(), numbers(0..counters.queue_spans));
    sender.shutdown(Duration::from_secs(1)).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_without_server_ends_in_time_and_counts() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let sender = sender(address);
    sender.send(&batch(0..7));
    let began = std::time::Instant::now();
    let counters = sender.shutdown(Duration::from_millis(100)).await;
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!(counters.spans_dropped_shutdown, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_is_waited_for() {
    let memory = Arc::new(Memory::default());
    memory.full.store(true, Ordering::SeqCst);
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let sender = sender(server.grpc);
    for number in 0..10 {
        sender.send(&batch(number..number + 1));
    }
    until("it is refused twice", || sender.counters().refusals >= 2).await;
    assert!(memory.operations().is_empty());
    memory.full.store(false, Ordering::SeqCst);
    until("all arrive", || sender.counters().spans_acknowledged == 10).await;
    assert_eq!(memory.operations(), numbers(0..10));
    let counters = sender.shutdown(Duration::from_secs(1)).await;
    // A refusal does not close the connection.
    assert_eq!(counters.connections, 1);
    assert!(server.counter("flight_batches_refused") >= 2);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_be_stored_does_not_hold_up_the_rest() {
    let memory = Arc::new(Memory::default());
    memory.most_rows.store(2, Ordering::SeqCst);
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let sender = sender(server.grpc);
    for rows in [0..2, 2..5, 5..7] {
        sender.send(&batch(rows));
    }
    until("the others arrive", || sender.counters().spans_acknowledged == 4).await;
    assert_eq!(sender.counters().spans_dropped_rejected, 3);
    assert_eq!(memory.operations(), [numbers(0..2), numbers(5..7)].concat());
    sender.shutdown(Duration::from_secs(1)).await;
    server.stop().await;
}

async fn put_raw(server: &Server, messages: Vec<FlightData>) -> tonic::Status {
    let address = format!("http://{}", server.grpc);
    let channel = tonic::transport::Endpoint::from_shared(address).unwrap().connect().await;
    let mut client = FlightServiceClient::new(channel.unwrap());
    let messages = futures::stream::iter(messages);
    let mut replies = match client.do_put(messages).await {
        Ok(response) => response.into_inner(),
        Err(status) => return status,
    };
    loop {
        match replies.message().await {
            Ok(Some(_)) => {}
            Ok(None) => return tonic::Status::ok(""),
            Err(status) => return status,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_stream_ends_alone() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let good = sender(server.grpc);
    good.send(&batch(0..1));
    until("one arrives", || memory.operations().len() == 1).await;

    let garbage = FlightData::new().with_data_header(vec![7; 100]).with_data_body(vec![9; 100]);
    let status = put_raw(&server, vec![schema_message(), garbage]).await;
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains("malformed Flight message"), "{status}");
    let origin = Origin { source: [3; 16], sequence: 1 };
    let mut cut = Encoder::new().unwrap().encode(&batch(0..100), origin).unwrap().messages;
    let last = cut.last_mut().unwrap();
    last.data_body.truncate(last.data_body.len() / 2);
    cut.insert(0, schema_message());
    let status = put_raw(&server, cut).await;
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert_eq!(server.counter("flight_streams_malformed"), 2);

    good.send(&batch(1..2));
    until("another arrives", || memory.operations().len() == 2).await;
    assert_eq!(good.counters().connections, 1);
    good.shutdown(Duration::from_secs(1)).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_the_server_cannot_take_is_dropped_and_the_next_ones_are_not() {
    let memory = Arc::new(Memory::default());
    let mut limits = Limits::default();
    limits.flight.batch_bytes = 100_000;
    let server = Server::start(Arc::clone(&memory), limits).await;
    let sender = sender(server.grpc);
    sender.send(&batch(0..2));
    sender.send(&batch(2..3000));
    sender.send(&batch(3000..3002));
    until("the small ones arrive", || sender.counters().spans_acknowledged == 4).await;
    assert_eq!(sender.counters().spans_dropped_rejected, 2998);
    assert_eq!(memory.operations(), ["0", "1", "3000", "3001"]);
    sender.shutdown(Duration::from_secs(1)).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_bounded() {
    let limits = Limits { flight_streams: 1, ..Limits::default() };
    let server = Server::start(Arc::default(), limits).await;
    let one = sender(server.grpc);
    one.send(&batch(0..1));
    until("one is there", || one.counters().spans_acknowledged == 1).await;
    let two = sender(server.grpc);
    two.send(&batch(0..1));
    until("the other is refused", || two.counters().refusals > 0).await;
    assert!(server.counter("flight_streams_refused") > 0);
    one.shutdown(Duration::from_secs(1)).await;
    until("then it is taken", || two.counters().spans_acknowledged == 1).await;
    two.shutdown(Duration::from_secs(1)).await;
    server.stop().await;
}

#[tokio::test]
async fn addresses_that_are_none_are_said_so() {
    for server in ["", "127.0.0.1:4317", "https://h:4317", "http://", "not an address"] {
        let error = FlightSender::spawn(SenderConfig::new(server)).err();
        assert!(matches!(error, Some(SenderError::Address { .. })), "{server:?}: {error:?}");
    }
}

/// The messages of a stream that sends this batch with this name.
fn stream_of(secret: Option<Secret>, origin: Origin, rows: &SpanRows) -> Vec<FlightData> {
    let first = secret.map_or_else(schema_message, first_message);
    let encoded = Encoder::new().unwrap().encode(rows, origin).unwrap();
    std::iter::once(first).chain(encoded.messages).collect()
}

/// Sends a stream and waits for its first reply.
async fn put(server: &Server, messages: Vec<FlightData>) -> Result<PutReply, tonic::Status> {
    let address = format!("http://{}", server.grpc);
    let channel = tonic::transport::Endpoint::from_shared(address).unwrap().connect().await;
    let mut client = FlightServiceClient::new(channel.unwrap());
    let mut replies = client.do_put(futures::stream::iter(messages)).await?.into_inner();
    let reply = replies.message().await?.expect("an answer");
    Ok(PutReply::decode(&reply.app_metadata).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_under_anothers_name_and_number_makes_none_of_its_batches_durable() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let origin = Origin { source: [7; 16], sequence: 1 };
    let secret = |byte| Some(Secret::of([byte; 32]));
    let durable = PutReply::Durable { sequence: 1 };
    // The forger comes first, with its own secret and without one.
    for forger in [secret(9), None] {
        let forged = stream_of(forger, origin, &batch(90..91));
        assert_eq!(put(&server, forged).await.unwrap(), durable);
    }
    let own = || stream_of(secret(1), origin, &batch(0..1));
    assert_eq!(put(&server, own()).await.unwrap(), durable);
    assert_eq!(memory.operations(), ["90", "90", "0"], "the real one is stored, too");
    // Sent again, the batch is recognised.
    assert_eq!(put(&server, own()).await.unwrap(), durable);
    assert_eq!((memory.operations().len(), *memory.duplicates.lock()), (3, 1));
    assert_eq!(server.counter("flight_streams_without_secret"), 1);
    // Each is an agent of its own, and the secret is not shown.
    let status = server.ingest.status();
    let names: HashSet<_> = status.agents.iter().map(|agent| agent.source.clone()).collect();
    assert_eq!(names.len(), 3);
    let shown = serde_json::to_string(&status).unwrap();
    assert!(!shown.contains(&"01".repeat(16)), "{shown}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_of_one_agent_and_one_secret() {
    let server = Server::start(Arc::default(), Limits::default()).await;
    let secret = |byte| Secret::of([byte; 32]);
    let of = |source| Origin { source: [source; 16], sequence: 1 };
    let mut two = stream_of(Some(secret(1)), of(1), &batch(0..1));
    two.extend(stream_of(Some(secret(1)), of(2), &batch(1..2)));
    let status = put_raw(&server, two).await;
    assert!(status.message().contains("of one agent"), "{status}");
    let mut two = stream_of(Some(secret(1)), of(1), &batch(0..1));
    two.push(first_message(secret(2)));
    let status = put_raw(&server, two).await;
    assert!(status.message().contains("one secret"), "{status}");
    let short = schema_message().with_app_metadata(vec![1; 31]);
    let status = put_raw(&server, vec![short]).await;
    assert!(status.message().contains("32 bytes"), "{status}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_agents_tell_of_themselves_is_bounded() {
    let limits = Limits { facts_bytes: 100_000, ..Limits::default() };
    let server = Server::start(Arc::default(), limits).await;
    let good = sender(server.grpc);
    good.set_facts(&json!({"host": "good"}));
    until("it is known", || server.ingest.status().agents.len() == 1).await;
    let large: serde_json::Map<_, _> = (0..300).map(|n| (format!("k{n}"), json!(n))).collect();
    let many = json!({ "a": vec![0; 20_000] });
    let senders: Vec<_> = (0..10).map(|_| sender(server.grpc)).collect();
    for one in &senders {
        one.set_facts(&json!(large));
    }
    until("all are known", || server.ingest.status().agents.len() == 11).await;
    until("what is too much is forgotten", || server.counter("flight_facts_too_large") > 0).await;
    let before = server.counter("flight_facts_too_large");
    senders[0].set_facts(&many);
    until("what is too large is not kept", || server.counter("flight_facts_too_large") > before)
        .await;
    let shown = serde_json::to_string(&server.ingest.status()).unwrap();
    assert!(shown.len() < 120_000, "{}", shown.len());
    server.stop().await;
}
