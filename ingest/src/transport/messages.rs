//! The messages of a streaming gRPC call (gRPC "PROTOCOL-HTTP2"). As in [`super::unary`], a message
//! stays encoded until memory for its growth is reserved.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use spanwise_wire::compression::Encoding;
use tokio::time::{Instant, sleep, timeout};

use super::Transport;
use super::budget::Lease;
use super::failure::Failure;
use super::unary::{self, PREFIX_BYTES};

/// Interval at which a waiting message checks for free memory.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// One message, as received.
pub(crate) struct RawMessage {
    pub(crate) encoding: Encoding,
    pub(crate) bytes: Bytes,
    pub(crate) lease: Lease,
}

/// The messages of a caller.
pub(crate) struct Messages {
    body: Body,
    /// The compression of compressed messages.
    named: Encoding,
    /// Received bytes that are not consumed yet.
    buffer: BytesMut,
}

impl Messages {
    pub(crate) fn new(body: Body, named: Encoding) -> Self {
        Self { body, named, buffer: BytesMut::new() }
    }

    /// The next message, or nothing at the end of the call. A message may begin at any time, but
    /// must arrive within the body timeout once it has begun. If there is no memory for it, reading
    /// stops until there is.
    ///
    /// # Errors
    /// Why the call cannot continue.
    pub(crate) async fn next(
        &mut self,
        transport: &Transport,
    ) -> Result<Option<RawMessage>, Failure> {
        if self.buffer.is_empty() {
            match self.more().await {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(failure) => {
                    // The sender disconnected between messages, so nothing is lost.
                    tracing::debug!(?failure, "a stream was left between two messages");
                    return Ok(None);
                }
            }
        }
        let limits = &transport.limits;
        timeout(limits.body_time, self.read_rest(transport))
            .await
            .unwrap_or(Err(Failure::TimedOut))
            .map(Some)
    }

    /// Reads the rest of a message that has begun.
    async fn read_rest(&mut self, transport: &Transport) -> Result<RawMessage, Failure> {
        let limit_bytes = transport.limits.body_bytes;
        self.fill(PREFIX_BYTES).await?;
        let prefix = self.buffer.split_to(PREFIX_BYTES);
        let (flag, length) = match prefix[..] {
            [flag, a, b, c, d] => (flag, u32::from_be_bytes([a, b, c, d])),
            _ => return Err(ended_early()),
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > limit_bytes {
            return Err(Failure::TooLarge(format!(
                "a message of {length} bytes is larger than {limit_bytes} bytes; \
                 send smaller batches"
            )));
        }
        let encoding = unary::encoding(flag, self.named)?;
        let mut lease = transport.budget.lease();
        let give_up = Instant::now() + transport.limits.body_time / 2;
        while !lease.grow(length) {
            if Instant::now() > give_up {
                return Err(Failure::NoMemory { retry_after: transport.limits.retry_after });
            }
            sleep(LOOK_EVERY).await;
        }
        self.fill(length).await?;
        Ok(RawMessage { encoding, bytes: self.buffer.split_to(length).freeze(), lease })
    }

    /// Reads until this many bytes are buffered.
    async fn fill(&mut self, bytes: usize) -> Result<(), Failure> {
        while self.buffer.len() < bytes {
            if !self.more().await? {
                return Err(ended_early());
            }
        }
        Ok(())
    }

    /// Reads the next data frame. Returns `false` at the end.
    async fn more(&mut self) -> Result<bool, Failure> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame
                .map_err(|error| Failure::BrokenOff(format!("the stream broke off: {error}")))?;
            if let Ok(data) = frame.into_data()
                && !data.is_empty()
            {
                self.buffer.extend_from_slice(&data);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn ended_early() -> Failure {
    Failure::BrokenOff("the stream ended in the middle of a message".to_owned())
}
