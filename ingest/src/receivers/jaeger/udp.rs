//! The UDP ports of Jaeger's agent. Clients send each batch as a datagram and get no response.
//!
//! A datagram cannot be refused. If there is no room for it, it is dropped and counted: by the
//! kernel if this program is too slow, or here if the store is. All datagrams that wait for the
//! store are combined into one batch.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use spanwise_model::SpanRows;
use spanwise_wire::jaeger::{Datagrams, Protocol};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::SPANS;
use crate::clock::now_unix_nano;
use crate::counters::REQUESTS_FAILED;
use crate::receivers::pipeline::{accept, counted};
use crate::receivers::shared::Shared;
use crate::receivers::{Receiver, Service};
use crate::transport::budget::Lease;
use crate::transport::failure::Failure;
use crate::transport::kernel_drops::KernelDrops;
use crate::transport::ports::Peer;
use crate::transport::refusals::Caller;

/// See [`super::super::RECEIVERS`].
pub(in crate::receivers) static COMPACT: Receiver = Receiver {
    setting: "listen.jaeger_udp_compact",
    flag: "jaeger-udp-compact",
    title: "Jaeger compact over UDP",
    takes: "Jaeger's compact thrift over UDP",
    banner: "Jaeger",
    banner_note: "(UDP, compact)",
    default_port: 6831,
    is_optional: true,
    path: "",
    counters: &[&COUNTERS],
    service: Service::Datagrams(Protocol::Compact),
};

/// See [`super::super::RECEIVERS`].
pub(in crate::receivers) static BINARY: Receiver = Receiver {
    setting: "listen.jaeger_udp_binary",
    flag: "jaeger-udp-binary",
    title: "Jaeger binary over UDP",
    takes: "Jaeger's binary thrift over UDP",
    banner: "Jaeger",
    banner_note: "(UDP, binary)",
    default_port: 6832,
    is_optional: true,
    path: "",
    counters: &[&COUNTERS],
    service: Service::Datagrams(Protocol::Binary),
};

const DATAGRAMS: &str = "jaeger_udp_datagrams";
const DROPPED_KERNEL: &str = "jaeger_udp_datagrams_dropped_kernel";
const DROPPED_MEMORY: &str = "jaeger_udp_datagrams_dropped_memory";
const DROPPED_QUEUE: &str = "jaeger_udp_datagrams_dropped_queue_full";
const REJECTED: &str = "jaeger_udp_datagrams_rejected";
const SPANS_REFUSED: &str = "jaeger_udp_spans_dropped_refused";
const SPANS_SHUTDOWN: &str = "jaeger_udp_spans_dropped_shutdown";

const COUNTERS: [&str; 8] = [
    DATAGRAMS,
    DROPPED_KERNEL,
    DROPPED_MEMORY,
    DROPPED_QUEUE,
    REJECTED,
    SPANS,
    SPANS_REFUSED,
    SPANS_SHUTDOWN,
];

/// Maximum size of a UDP datagram.
const DATAGRAM_BYTES: usize = 65_536;
/// Maximum datagrams that wait for the store.
const WAITING: usize = 2048;
/// Maximum datagrams in one batch: at most 16 MiB.
const MAX_BATCHED: usize = 256;
/// Requested size of the kernel's buffer. The kernel may grant less (`net.core.rmem_max`).
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Interval at which the kernel's drops are read.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A datagram, its reserved memory, and its sender.
type Waiting = (Bytes, Lease, Peer);

/// Receives until `shutdown` completes.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    socket: UdpSocket,
    protocol: Protocol,
    shutdown: impl Future<Output = ()>,
) {
    // A smaller buffer only causes more drops, which are counted.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES);
    let (send, waiting) = mpsc::channel(WAITING);
    let storing = tokio::spawn(store(Arc::clone(&shared), waiting, protocol));
    tokio::select! {
        () = receive(&shared, &socket, send) => {}
        () = shutdown => {}
    }
    shared.closing.send_replace(true);
    // Waiting datagrams are still stored, as far as time permits.
    let _ = tokio::time::timeout(shared.limits.drain_time, storing).await;
}

async fn receive(shared: &Shared, socket: &UdpSocket, send: mpsc::Sender<Waiting>) {
    let mut drops = KernelDrops::of(socket);
    let mut look = interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        let received = tokio::select! {
            _ = look.tick() => {
                if let Some(more) = drops.more() {
                    shared.counters.add(DROPPED_KERNEL, more);
                }
                continue;
            }
            received = socket.recv_from(&mut buffer) => received,
        };
        let (length, peer) = match received {
            Ok((length, address)) => (length, Peer(address)),
            Err(error) => {
                // An ICMP error for an earlier response, or no memory. The socket itself works.
                tracing::warn!(%error, "a datagram could not be received");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        shared.counters.add(DATAGRAMS, 1);
        let mut lease = shared.budget.lease();
        if !lease.grow(length) {
            shared.counters.add(DROPPED_MEMORY, 1);
        } else if send.try_send((Bytes::copy_from_slice(&buffer[..length]), lease, peer)).is_err() {
            shared.counters.add(DROPPED_QUEUE, 1);
        }
    }
}

/// Decodes and stores waiting datagrams until the channel closes.
async fn store(shared: Arc<Shared>, mut waiting: mpsc::Receiver<Waiting>, protocol: Protocol) {
    let mut waiting_now = Vec::with_capacity(MAX_BATCHED);
    while waiting.recv_many(&mut waiting_now, MAX_BATCHED).await > 0 {
        let datagrams = std::mem::take(&mut waiting_now);
        let shared_here = Arc::clone(&shared);
        let Ok(permit) = shared.decoders.acquire().await else { return };
        let decoding =
            tokio::task::spawn_blocking(move || decode(&shared_here, datagrams, protocol));
        let decoded = decoding.await;
        drop(permit);
        if let Ok(Some(batch)) = decoded {
            until_taken(&shared, batch).await;
        }
    }
}

fn decode(shared: &Shared, datagrams: Vec<Waiting>, protocol: Protocol) -> Option<SpanRows> {
    let mut batch = Datagrams::new(&shared.limits.otlp, now_unix_nano());
    // Each releases its memory when it is decoded.
    for (datagram, _lease, peer) in datagrams {
        if let Err(error) = batch.add(protocol, &datagram) {
            shared.counters.add(REJECTED, 1);
            let from = Caller { protocol: "Jaeger/UDP", peer: Some(peer) };
            shared.refused_in_part(from, &error.to_string());
        }
    }
    match batch.finish() {
        Ok(decoded) => Some(counted(shared, decoded).0),
        Err(error) => {
            shared.counters.add(REQUESTS_FAILED, 1);
            tracing::warn!(%error, "datagrams were not taken");
            None
        }
    }
}

/// Passes a batch to the sink, and retries while the store refuses it. Meanwhile, further datagrams
/// wait or are dropped. Gives up when the server shuts down.
async fn until_taken(shared: &Shared, batch: SpanRows) {
    let mut closing = shared.closing.subscribe();
    let counter = loop {
        let lease = shared.budget.lease();
        let retry_after = match accept(shared, batch.clone(), lease, SPANS).await {
            Ok(_) => return,
            Err(Failure::NoMemory { retry_after } | Failure::Refused { retry_after, .. }) => {
                retry_after
            }
            Err(failure) => {
                tracing::warn!(?failure, "spans that came by UDP are lost");
                break SPANS_REFUSED;
            }
        };
        tokio::select! {
            _ = closing.wait_for(|closing| *closing) => break SPANS_SHUTDOWN,
            () = sleep(retry_after) => {}
        }
    };
    shared.counters.add(counter, batch.num_rows() as u64);
}
