//! A connection's socket, which reports its reads and writes, and puts a sentence into answers of
//! the HTTP library that have none.

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
    /// What is written instead of an answer without a sentence.
    explained: Option<Explained>,
}

/// An answer in place of another one.
struct Explained {
    text: Vec<u8>,
    /// Bytes of it that are written.
    written: usize,
    /// Bytes of the answer whose place it takes.
    original: usize,
}

/// What the library answers by itself to a request whose header is too long, and what to say.
const TOO_LONG: [(&[u8], &str); 2] = [
    (
        b"HTTP/1.1 414 ",
        "the address of the request, which is its path with all parameters, is longer than 65534 \
         bytes: write a shorter query\n",
    ),
    (
        b"HTTP/1.1 431 ",
        "the header of the request, or the query in its address, is too long: an address may have \
         65534 bytes, and a header 128 KiB; write a shorter query\n",
    ),
];

impl Explained {
    fn of(answer: &[u8]) -> Option<Self> {
        let (_, sentence) = TOO_LONG.iter().find(|(begin, _)| answer.starts_with(begin))?;
        let answer = std::str::from_utf8(answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        if !body.is_empty() {
            return None;
        }
        let kept = head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("content-"));
        let mut text: String = kept.flat_map(|line| [line, "\r\n"]).collect();
        text.push_str("content-type: text/plain; charset=utf-8\r\n");
        text.push_str(&format!("content-length: {}\r\n\r\n{sentence}", sentence.len()));
        Some(Self { text: text.into_bytes(), written: 0, original: answer.len() })
    }
}

impl Socket {
    pub(super) const fn new(stream: TcpStream, phase: Arc<Phase>) -> Self {
        Self { stream, phase, begun: Some(0), explained: None }
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

    /// Writes an answer with a sentence in place of these bytes; `None` if that is not needed.
    fn explain(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Option<Poll<io::Result<usize>>> {
        if self.explained.is_none() {
            let is_of_library = bytes.starts_with(b"HTTP/1.1 4") && !self.phase.is_serving();
            self.explained = is_of_library.then(|| Explained::of(bytes)).flatten();
        }
        let explained = self.explained.as_mut()?;
        while explained.written < explained.text.len() {
            let rest = &explained.text[explained.written..];
            match Pin::new(&mut self.stream).poll_write(context, rest) {
                Poll::Ready(Ok(0)) => {
                    return Some(Poll::Ready(Err(io::ErrorKind::WriteZero.into())));
                }
                Poll::Ready(Ok(count)) => explained.written += count,
                other => return Some(other),
            }
        }
        let original = explained.original;
        self.explained = None;
        Some(Poll::Ready(Ok(original)))
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
        if let Some(written) = self.explain(context, bytes) {
            return self.has_written(written);
        }
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
        if let [first] = slices
            && let Some(written) = self.explain(context, first)
        {
            return self.has_written(written);
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.has_written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
