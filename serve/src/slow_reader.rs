//! Large answers to slow readers. While a client reads one slowly, it occupies memory and a permit.
//! So each is dropped after a time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use parking_lot::Mutex;

/// Answers up to this size are not limited.
const SMALL_BYTES: usize = 1 << 20;
/// Size of the parts that are copied for the connection.
const PART_BYTES: usize = 64 << 10;
/// Time in which an answer must be read, and additional time for each mebibyte.
const GRACE: Duration = Duration::from_secs(10);
const A_MEBIBYTE: Duration = Duration::from_secs(1);

/// A response with these bytes. It keeps `room` until its last byte is sent or its time is over.
pub(crate) fn answer(bytes: Vec<u8>, room: impl Send + 'static) -> Response {
    if bytes.len() <= SMALL_BYTES {
        return Response::new(bytes.into());
    }
    let mebibytes = u32::try_from(bytes.len() >> 20).unwrap_or(u32::MAX);
    within(bytes, room, GRACE + A_MEBIBYTE.saturating_mul(mebibytes))
}

/// Whether an answer of this size needs a permit.
pub(crate) const fn is_large(bytes: usize) -> bool {
    bytes > SMALL_BYTES
}

fn within(bytes: Vec<u8>, room: impl Send + 'static, time: Duration) -> Response {
    let length = bytes.len();
    let held = Arc::new(Mutex::new(Some((bytes, room))));
    // A weak reference: this task must not keep the answer alive.
    let late = Arc::downgrade(&held);
    tokio::spawn(async move {
        tokio::time::sleep(time).await;
        if late.upgrade().and_then(|late| late.lock().take()).is_some() {
            tracing::warn!(
                "an answer of {length} bytes was not read within {} s and is broken off; read \
                 faster, or ask for less",
                time.as_secs()
            );
        }
    });
    let mut sent = 0;
    let parts = std::iter::from_fn(move || {
        let from = sent;
        if from >= length {
            return None;
        }
        sent = length.min(from + PART_BYTES);
        let mut held = held.lock();
        let Some((bytes, _)) = held.as_ref() else {
            sent = length;
            return Some(Err(io::Error::other("the answer was not read in time")));
        };
        let part = Bytes::copy_from_slice(&bytes[from..sent]);
        if sent == length {
            *held = None;
        }
        Some(Ok(part))
    });
    let mut response = Response::new(Body::from_stream(tokio_stream::iter(parts)));
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    response
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt as _;
    use tokio::sync::Semaphore;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn what_is_read_is_whole_and_gives_its_room_back() {
        let rooms = Arc::new(Semaphore::new(1));
        let room = Arc::clone(&rooms).try_acquire_owned().expect("room");
        let bytes: Vec<u8> = (0..PART_BYTES * 3 + 7).map(|number| number as u8).collect();
        let answer = within(bytes.clone(), room, HOUR);
        assert_eq!(answer.headers()[header::CONTENT_LENGTH], bytes.len().to_string());
        assert_eq!(rooms.available_permits(), 0);
        let read = answer.into_body().collect().await.expect("all of it").to_bytes();
        assert!(read == bytes);
        assert_eq!(rooms.available_permits(), 1);
    }

    #[tokio::test]
    async fn what_is_read_too_slowly_gives_its_room_back_and_is_broken_off() {
        let rooms = Arc::new(Semaphore::new(1));
        let room = Arc::clone(&rooms).try_acquire_owned().expect("room");
        let mut body = within(vec![0; PART_BYTES * 3], room, Duration::from_millis(1)).into_body();
        // A reader that stops after the first part does not block others.
        let first = body.frame().await.expect("a part").ok().and_then(|part| part.into_data().ok());
        let again = tokio::time::timeout(HOUR, rooms.acquire()).await.expect("room in time");
        assert!(again.is_ok());
        if first.is_some() {
            assert!(body.collect().await.is_err(), "it does not look whole");
        }
    }

    #[tokio::test]
    async fn who_goes_away_gives_the_room_back() {
        let rooms = Arc::new(Semaphore::new(1));
        let room = Arc::clone(&rooms).try_acquire_owned().expect("room");
        drop(within(vec![0; PART_BYTES], room, HOUR));
        assert_eq!(rooms.available_permits(), 1);
        let room = Arc::clone(&rooms).try_acquire_owned().expect("room");
        let small = answer(vec![0; 10], room);
        assert_eq!(rooms.available_permits(), 1, "a small one needs none");
        drop(small);
    }
}
