//! A small HTTP/1.1 client over one persistent connection. It shares the host with what it
//! measures, so it does as little as possible.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server's response.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// `Retry-After`, in whole seconds.
    pub retry_after: Option<Duration>,
    /// Whether the server says that a bound limited the answer.
    pub is_limited: bool,
    /// The body.
    pub body: Vec<u8>,
}

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    stream: TcpStream,
    received: Vec<u8>,
}

/// Timeout for a response.
const PATIENCE: Duration = Duration::from_secs(120);
const STEP_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 32;
/// Shows that the request does not come from a web page.
const ASKS: &str = "Spanwise-Request: bench";

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// If no server listens there.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { address, stream, received: Vec::new() })
    }

    /// Posts an `ExportTraceServiceRequest`, and retries as long as the server asks for it (429,
    /// 503 with `Retry-After`). Retries are counted.
    ///
    /// # Errors
    /// If the connection breaks, or the server rejects spans.
    pub fn export(&mut self, request: &[u8], waits: &mut u64) -> io::Result<()> {
        loop {
            let reply = self.post("/v1/traces", "application/x-protobuf", request)?;
            match (reply.status, reply.retry_after) {
                (200, _) if reply.body.is_empty() => return Ok(()),
                (429 | 503, Some(delay)) => {
                    *waits += 1;
                    std::thread::sleep(delay);
                }
                (status, _) => {
                    let text = String::from_utf8_lossy(&reply.body);
                    return Err(io::Error::other(format!("the server answered {status}: {text}")));
                }
            }
        }
    }

    /// Sends a `POST`.
    ///
    /// # Errors
    /// If the connection breaks or the response is not HTTP.
    pub fn post(&mut self, path: &str, content_type: &str, body: &[u8]) -> io::Result<Reply> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\n{ASKS}\r\nContent-Type: {content_type}\r\n\
             Content-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        self.stream.write_all(head.as_bytes())?;
        self.stream.write_all(body)?;
        self.reply()
    }

    /// Sends a `GET`.
    ///
    /// # Errors
    /// The errors of [`Self::post`].
    pub fn get(&mut self, path: &str) -> io::Result<Reply> {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{ASKS}\r\n\r\n", self.address);
        self.stream.write_all(head.as_bytes())?;
        self.reply()
    }

    fn reply(&mut self) -> io::Result<Reply> {
        self.received.clear();
        loop {
            self.receive()?;
            let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
            let mut response = httparse::Response::new(&mut headers);
            let parsed = response.parse(&self.received).map_err(io::Error::other)?;
            let httparse::Status::Complete(head) = parsed else { continue };
            let text = |name: &str| {
                let found = response.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name))?;
                std::str::from_utf8(found.value).ok()
            };
            let number = |name: &str| text(name).and_then(|text| text.trim().parse::<u64>().ok());
            let retry_after = number("retry-after").map(Duration::from_secs);
            let is_limited = text("spanwise-warning").is_some();
            let status = response.code.unwrap_or(0);
            let chunked = text("transfer-encoding").is_some_and(|text| text.contains("chunked"));
            let length = number("content-length").unwrap_or(0) as usize;
            self.received.drain(..head);
            let body = if chunked { self.chunks()? } else { self.exactly(length)? };
            return Ok(Reply { status, retry_after, is_limited, body });
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let filled = self.received.len();
        self.received.resize(filled + STEP_BYTES, 0);
        let read = self.stream.read(&mut self.received[filled..])?;
        self.received.truncate(filled + read);
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.received.len() < length {
            self.receive()?;
        }
        Ok(self.received.drain(..length).collect())
    }

    /// RFC 9112, section 7.1, without trailers.
    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let (after, length) = loop {
                match httparse::parse_chunk_size(&self.received) {
                    Ok(httparse::Status::Complete(found)) => break found,
                    Ok(httparse::Status::Partial) => self.receive()?,
                    Err(_) => return Err(io::Error::other("the answer has a broken chunk")),
                }
            };
            self.received.drain(..after);
            let length = usize::try_from(length).map_err(io::Error::other)?;
            let chunk = self.exactly(length + 2)?;
            if length == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk[..length]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Answers one connection with these responses, whatever it requests.
    fn server(answers: &'static [&'static str]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers {
                // Requests in these tests arrive in one piece.
                let read = stream.read(&mut [0; 4096]).unwrap();
                assert!(read > 0);
                // In small pieces, whose ends do not coincide with those of the parts.
                for piece in answer.as_bytes().chunks(7) {
                    stream.write_all(piece).unwrap();
                    stream.flush().unwrap();
                }
            }
        });
        address
    }

    #[test]
    fn it_comes_again_where_asked_to() {
        let mut client = Client::connect(server(&[
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 4\r\n\r\nfull",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\npartial",
        ]))
        .unwrap();
        let mut waits = 0;
        client.export(b"", &mut waits).unwrap();
        assert_eq!(waits, 1);
        let error = client.export(b"", &mut waits).unwrap_err();
        assert!(error.to_string().contains("200: partial"), "{error}");
    }

    #[test]
    fn both_kinds_of_bodies_are_read() {
        let mut client = Client::connect(server(&[
            "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nhello, world",
            "HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        ]))
        .unwrap();
        for (status, body) in [(200, "hello, world"), (404, "hello, world"), (200, "ok")] {
            let reply = client.get("/").unwrap();
            assert_eq!((reply.status, reply.body.as_slice()), (status, body.as_bytes()));
        }
    }
}
