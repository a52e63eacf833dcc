//! Posts a load over several connections.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};

use crate::client::Client;
use crate::load::Load;

/// The result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Posted {
    /// Requests.
    pub requests: u64,
    /// Bytes of request bodies.
    pub bytes: u64,
    /// Number of times that the server asked to retry later.
    pub waits: u64,
}

type Requests = Arc<Mutex<mpsc::Receiver<Vec<u8>>>>;

/// Posts all requests of the load over OTLP/HTTP, as fast as the server accepts them.
///
/// # Errors
/// If a connection breaks, or the server rejects spans.
pub fn post(load: &mut Load, address: SocketAddr, connections: usize) -> io::Result<Posted> {
    let connections = connections.max(1);
    // The queue is short, so that the bytes are still cached when they are sent.
    let (to_send, requests) = mpsc::sync_channel(connections);
    let requests: Requests = Arc::new(Mutex::new(requests));
    let (give_back, used) = mpsc::channel();
    let senders: Vec<_> = (0..connections)
        .map(|_| {
            let (requests, give_back) = (Arc::clone(&requests), give_back.clone());
            std::thread::spawn(move || send(address, &requests, &give_back))
        })
        .collect();
    // Now only the senders hold it. If all give up, sending to them fails.
    drop(requests);
    let (mut posted, mut request) = (Posted::default(), Vec::new());
    while load.next_request(&mut request).is_some() {
        posted.requests += 1;
        posted.bytes += request.len() as u64;
        let next = used.try_recv().unwrap_or_default();
        if to_send.send(std::mem::replace(&mut request, next)).is_err() {
            break;
        }
    }
    drop(to_send);
    for sender in senders {
        posted.waits += sender.join().map_err(|_| io::Error::other("a sender panicked"))??;
    }
    Ok(posted)
}

/// Sends requests until there are no more. Returns how often the server asked to wait.
fn send(
    address: SocketAddr,
    requests: &Requests,
    give_back: &mpsc::Sender<Vec<u8>>,
) -> io::Result<u64> {
    let mut client = Client::connect(address)?;
    let mut waits = 0;
    loop {
        let request = requests.lock().ok().and_then(|requests| requests.recv().ok());
        let Some(request) = request else { return Ok(waits) };
        client.export(&request, &mut waits)?;
        // At the end, the buffer is not needed any more.
        let _ = give_back.send(request);
    }
}
