//! Decompression of request bodies within limits.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

/// Maximum zstd window, as a power of two. RFC 8878 (section 3.1.1.1.2) recommends that decoders
/// support 8 MiB. Some encoders use up to 32 MiB.
const ZSTD_WINDOW_LOG: u32 = 25;

/// Bytes that are decompressed at a time.
const STEP_BYTES: usize = 64 * 1024;

/// The compression of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Not compressed.
    Identity,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Encoding {
    /// The encoding of a `Content-Encoding` or `grpc-encoding` header; `None` if it is not
    /// supported.
    pub fn from_header(value: &str) -> Option<Self> {
        match value.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Some(Self::Identity),
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "zstd" => Some(Self::Zstd),
            other => is_leveled_zstd(other).then_some(Self::Zstd),
        }
    }

    /// Its name in a header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// Whether this is zstd under the name that the Collector's OTAP exporter uses, which includes the
/// level: `zstdarrow1` to `zstdarrow10` (opentelemetry-collector-contrib,
/// `internal/otelarrow/compression/zstd`).
fn is_leveled_zstd(name: &str) -> bool {
    name.strip_prefix("zstdarrow").is_some_and(|level| level.parse::<u8>().is_ok())
}

/// Why a body could not be decompressed.
#[derive(Debug, thiserror::Error)]
pub enum DecompressError {
    /// The body exceeds the limit.
    #[error("the body is larger than {limit_bytes} bytes when decompressed; send smaller batches")]
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// The caller has no memory for it at the moment.
    #[error("no memory for the decompressed body now")]
    NoRoom,
    /// The body is not a valid stream, or is truncated.
    #[error("the body is no valid {encoding} stream: {source}", encoding = encoding.as_str())]
    Malformed {
        /// The announced encoding.
        encoding: Encoding,
        /// The decoder's error.
        source: io::Error,
    },
}

/// Decompresses `input`.
///
/// Before each growth, `reserve` is called with the number of bytes needed. It may refuse, so that
/// a caller can limit memory over all requests.
///
/// # Errors
/// See [`DecompressError`]. At most `limit_bytes` plus one step are allocated.
pub fn decompress(
    encoding: Encoding,
    input: &[u8],
    limit_bytes: usize,
    mut reserve: impl FnMut(usize) -> bool,
) -> Result<Vec<u8>, DecompressError> {
    match encoding {
        Encoding::Identity => {
            if input.len() > limit_bytes {
                return Err(DecompressError::TooLarge { limit_bytes });
            }
            if !reserve(input.len()) {
                return Err(DecompressError::NoRoom);
            }
            Ok(input.to_vec())
        }
        Encoding::Gzip => read_all(encoding, MultiGzDecoder::new(input), limit_bytes, reserve),
        Encoding::Zstd => {
            let malformed = |source| DecompressError::Malformed { encoding, source };
            let mut decoder = zstd::stream::read::Decoder::with_buffer(input).map_err(malformed)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(malformed)?;
            read_all(encoding, decoder, limit_bytes, reserve)
        }
    }
}

fn read_all(
    encoding: Encoding,
    mut reader: impl Read,
    limit_bytes: usize,
    mut reserve: impl FnMut(usize) -> bool,
) -> Result<Vec<u8>, DecompressError> {
    let mut output = Vec::new();
    let mut filled = 0;
    loop {
        if filled == output.len() {
            if filled > limit_bytes {
                return Err(DecompressError::TooLarge { limit_bytes });
            }
            if !reserve(STEP_BYTES) {
                return Err(DecompressError::NoRoom);
            }
            output.resize(filled + STEP_BYTES, 0);
        }
        match reader.read(&mut output[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(DecompressError::Malformed { encoding, source }),
        }
    }
    if filled > limit_bytes {
        return Err(DecompressError::TooLarge { limit_bytes });
    }
    output.truncate(filled);
    Ok(output)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd::stream::encode_all(bytes, 1).unwrap()
    }

    fn packed(encoding: Encoding, bytes: &[u8]) -> Vec<u8> {
        match encoding {
            Encoding::Identity => bytes.to_vec(),
            Encoding::Gzip => gzip(bytes),
            Encoding::Zstd => zstd(bytes),
        }
    }

    const ALL: [Encoding; 3] = [Encoding::Identity, Encoding::Gzip, Encoding::Zstd];

    #[test]
    fn encodings_have_the_names_that_senders_give_them() {
        for (name, encoding) in [
            ("", Some(Encoding::Identity)),
            ("X-Gzip ", Some(Encoding::Gzip)),
            ("zstd", Some(Encoding::Zstd)),
            ("zstdarrow5", Some(Encoding::Zstd)),
            ("zstdarrow", None),
            ("zstdarrowx", None),
            ("br", None),
        ] {
            assert_eq!(Encoding::from_header(name), encoding, "{name:?}");
        }
    }

    #[test]
    fn a_bomb_is_stopped_at_the_limit() {
        let zeros = vec![0; 32 << 20];
        for encoding in ALL {
            let bomb = packed(encoding, &zeros);
            let mut reserved = 0;
            let error = decompress(encoding, &bomb, 1 << 20, |more| {
                reserved += more;
                true
            })
            .unwrap_err();
            assert!(matches!(error, DecompressError::TooLarge { limit_bytes: 1_048_576 }));
            assert!(reserved <= (1 << 20) + 2 * STEP_BYTES, "{encoding:?} took {reserved}");
        }
    }

    #[test]
    fn the_limit_itself_is_allowed() {
        let bytes = vec![7; 3 * STEP_BYTES];
        for encoding in ALL {
            let packed = packed(encoding, &bytes);
            assert_eq!(decompress(encoding, &packed, bytes.len(), |_| true).unwrap(), bytes);
            assert!(decompress(encoding, &packed, bytes.len() - 1, |_| true).is_err());
        }
    }

    #[test]
    fn a_caller_without_memory_is_heard() {
        let packed = gzip(&vec![1; 1 << 20]);
        let error = decompress(Encoding::Gzip, &packed, 1 << 21, |_| false).unwrap_err();
        assert!(matches!(error, DecompressError::NoRoom));
    }

    #[test]
    fn a_truncated_stream_is_an_error() {
        let bytes: Vec<u8> = (0..10_000_u32).flat_map(u32::to_le_bytes).collect();
        for encoding in [Encoding::Gzip, Encoding::Zstd] {
            let packed = packed(encoding, &bytes);
            for cut in [1, 5, packed.len() / 2, packed.len() - 1] {
                let error = decompress(encoding, &packed[..cut], 1 << 20, |_| true).unwrap_err();
                assert!(matches!(error, DecompressError::Malformed { .. }), "{encoding:?} {cut}");
            }
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            for encoding in ALL {
                let _ = decompress(encoding, &bytes, 4096, |_| true);
            }
        }

        #[test]
        fn what_was_packed_comes_back(bytes: Vec<u8>) {
            for encoding in ALL {
                let packed = packed(encoding, &bytes);
                prop_assert_eq!(decompress(encoding, &packed, 1 << 20, |_| true).unwrap(), bytes.clone());
            }
        }
    }
}
