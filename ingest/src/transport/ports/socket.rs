//! A connection's socket, which reports its reads and writes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::phase::Phase;

/// The first bytes of every HTTP/2 connection.
pub(super) const PREFACE: &[u8; 3] = b"PRI";

pub(super) struct Socket {
    stream: TcpStream,
    phase: Arc<Phase>,
    /// The number of bytes that matched [`PREFACE`] so far; `None` once it is decided.
    begun: Option<usize>,
}

impl Socket {
    pub(super) const fn new(stream: TcpStream, phase: Arc<Phase>) -> Self {
        Self { stream, phase, begun: Some(0) }
    }

    fn has_read(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.phase.has_read(Instant::now());
        let Some(before) = self.begun else { return };
        let rest = &PREFACE[before..];
        let known = bytes.len().min(rest.len());
        self.begun = (bytes[..known] == rest[..known]).then_some(before + known);
        if self.begun == Some(PREFACE.len()) {
            self.phase.is_http2();
            self.begun = None;
        }
    }

    fn has_written<T>(&self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.phase.wrote(written.is_ready(), Instant::now());
        written
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if matches!(read, Poll::Ready(Ok(()))) {
            self.has_read(&buffer.filled()[before..]);
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.has_written(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.has_written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
