//! Recognises bodies in a wrong format by their first bytes. The sender is told, since it usually
//! just lacks a header.

/// The format as which a body was decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Json,
    Protobuf,
    Thrift,
}

/// The receiver for which a body was intended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeantFor {
    /// OTLP over gRPC.
    OtlpGrpc,
    /// Zipkin's receiver.
    Zipkin,
}

/// What the body seems to be, and what to do; `None` if unknown.
pub(crate) fn said(body: &[u8], taken: Taken) -> Option<&'static str> {
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii_start();
    Some(match body {
        [0x1f, 0x8b, ..] => "it is compressed with gzip: send the header Content-Encoding: gzip",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            "it is compressed with zstd: send the header Content-Encoding: zstd"
        }
        [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..] => {
            "it looks compressed with deflate, which is not taken here: use gzip or zstd"
        }
        [0x16, 0x03, ..] => "it is TLS: use http://, or a proxy that ends TLS",
        [b'P', b'R', b'I', b' ', b'*', ..] => "it is the beginning of an HTTP/2 connection",
        _ if taken != Taken::Json && matches!(text, [b'{' | b'[', ..]) => {
            "it is JSON: send the header Content-Type: application/json"
        }
        [0, 0 | 1, _, _, _, ..] if taken == Taken::Protobuf => OF_GRPC,
        // The first field of every supported message is a message. No JSON begins with this byte.
        [0x0a, rest @ ..] if taken == Taken::Json && !matches!(text, [b'{' | b'[', ..]) => {
            if rest.is_empty() {
                return None;
            }
            "it looks like protobuf: send the header Content-Type: application/x-protobuf"
        }
        [0x0c | 0x0b, 0, ..] if taken != Taken::Thrift => {
            "it looks like thrift: send the header Content-Type: application/x-thrift"
        }
        _ => return None,
    })
}

const OF_GRPC: &str = "it looks like a gRPC message with its length before it";

/// An error message, with what the body seems to be and where it belongs.
pub(crate) fn with_hint(
    reason: impl ToString,
    body: &[u8],
    taken: Taken,
) -> (String, Option<MeantFor>) {
    match said(body, taken) {
        Some(said) => {
            let meant_for = (said == OF_GRPC).then_some(MeantFor::OtlpGrpc);
            (format!("{}; {said}", reason.to_string()), meant_for)
        }
        None => (reason.to_string(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_instead_is_named() {
        let cases: [(&[u8], Taken, Option<&str>); 9] = [
            (b"\x1f\x8b\x08\x00", Taken::Protobuf, Some("gzip")),
            (b"\x28\xb5\x2f\xfd\x00", Taken::Json, Some("zstd")),
            (b" {\"resourceSpans\":[]}", Taken::Protobuf, Some("application/json")),
            (b"\n{\"resourceSpans\":[]}", Taken::Protobuf, Some("application/json")),
            (b"\x0a\x5d\x0a\x17", Taken::Json, Some("application/x-protobuf")),
            (b"\n{}", Taken::Json, None),
            (b"\x16\x03\x01\x02\x00", Taken::Json, Some("TLS")),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Taken::Protobuf, Some("HTTP/2")),
            (b"", Taken::Json, None),
        ];
        for (body, taken, expected) in cases {
            let said = said(body, taken);
            assert_eq!(said.is_some(), expected.is_some(), "{body:?}: {said:?}");
            assert!(expected.is_none_or(|word| said.is_some_and(|said| said.contains(word))));
        }
    }
}
