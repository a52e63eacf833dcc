//! Opens and decompresses files.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use super::records::Shape;
use super::{FileError, FileLimits, Records};

const GZIP: [u8; 2] = [0x1f, 0x8b];
/// RFC 8878, section 3.1.1.
pub(super) const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const BUFFER_BYTES: usize = 256 << 10;
/// 128 MiB: the default maximum of `zstd --long` for encoding and decoding.
const ZSTD_WINDOW_LOG: u32 = 27;

/// Opens a file.
///
/// # Errors
/// If it cannot be read, or its format is unknown.
pub fn open(file: impl Read + Send + 'static, limits: FileLimits) -> Result<Records, FileError> {
    let io_error = |source| FileError::Io { place: "its beginning".to_owned(), source };
    let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
    let begin = file.fill_buf().map_err(io_error)?;
    let mut input: Box<dyn BufRead + Send> = if begin.starts_with(&GZIP) {
        Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(file)))
    } else if begin.starts_with(&ZSTD) {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(file).map_err(io_error)?;
        decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(io_error)?;
        Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder))
    } else {
        Box::new(file)
    };
    let shape = shape(&mut *input)?;
    Ok(Records::new(input, shape, limits))
}

/// How the bytes are divided into records.
fn shape(input: &mut dyn BufRead) -> Result<Shape, FileError> {
    let begin = loop {
        match input.fill_buf() {
            Ok(begin) => break begin,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => {
                return Err(FileError::Io { place: "its beginning".to_owned(), source });
            }
        }
    };
    let text = begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin).trim_ascii_start();
    match text.first() {
        None if begin.len() < BUFFER_BYTES => Ok(Shape::Text),
        Some(b'{' | b'[') => Ok(Shape::Text),
        _ => match begin {
            // A message that begins with `resource_spans`, without a length prefix. As a length,
            // these bytes would exceed every limit.
            [0x0a, ..] => Ok(Shape::Message),
            [a, b, c, d, ..] if u32::from_be_bytes([*a, *b, *c, *d]) < 1 << 28 => {
                Ok(Shape::Prefixed)
            }
            _ => {
                let first: String =
                    begin.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
                Err(FileError::Unknown { reason: format!("it begins with the bytes {first}") })
            }
        },
    }
}
