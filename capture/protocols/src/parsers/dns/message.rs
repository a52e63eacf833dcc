//! DNS messages (RFC 1035, section 4; RFC 6891 for EDNS), read as far as they
//! were captured.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes before the first question.
pub(super) const HEADER_BYTES: usize = 12;
/// Records that are looked at.
const MAX_RECORDS: usize = 64;
/// Addresses that are kept.
const MAX_ADDRESSES: usize = 16;
/// Longest name (RFC 1035, section 2.3.4), and as many bytes of it as text.
const MAX_NAME_BYTES: usize = 255;
/// Pointers in a name; each goes back.
const MAX_POINTERS: usize = 16;

/// Record types and classes.
const A: u16 = 1;
const AAAA: u16 = 28;
const OPT: u16 = 41;
const INTERNET: u16 = 1;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) name: String,
    pub(super) kind: u16,
    pub(super) class: u16,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) id: u16,
    pub(super) is_response: bool,
    pub(super) opcode: u8,
    /// The answer did not fit.
    pub(super) truncated: bool,
    /// With EDNS's upper bits, where they were captured.
    pub(super) rcode: u16,
    pub(super) question: Option<Question>,
    /// Of A and AAAA records among the answers.
    pub(super) addresses: Vec<String>,
}

/// Whether bytes may be the beginning of a message: a header of sense, and one
/// question; `None` where they are as far as they go.
pub(super) fn is_likely(bytes: &[u8], response: bool) -> Option<bool> {
    let opcode = bytes.get(2).map_or(0, |flags| flags >> 3 & 15);
    let fits = |at: usize, byte: u8| match at {
        2 => (byte & 0x80 != 0) == response && matches!(opcode, 0 | 2 | 4 | 5),
        // Zero by definition; in a query no code, and no "recursion available".
        3 => byte & 0x40 == 0 && (response || byte & 0x8f == 0),
        4 => byte == 0,
        5 => byte == 1,
        6 | 8 | 10 => byte < if response { 4 } else { 1 },
        7 | 9 | 11 => response || opcode == 5 || byte <= 4,
        _ => true,
    };
    let header = &bytes[..bytes.len().min(HEADER_BYTES)];
    if header.iter().enumerate().any(|(at, byte)| !fits(at, *byte)) {
        return Some(false);
    }
    match name(bytes, HEADER_BYTES) {
        Err(NameError::Wrong) => Some(false),
        Err(NameError::Cut) => None,
        Ok((_, after)) => {
            let rest = bytes.get(after..after + 4)?;
            let kind = u16::from_be_bytes([rest[0], rest[1]]);
            let class = u16::from_be_bytes([rest[2], rest[3]]) & 0x7fff;
            Some((1..=32_769).contains(&kind) && matches!(class, INTERNET | 3 | 4 | 254 | 255))
        }
    }
}

/// Why a name could not be read.
#[derive(Debug, PartialEq, Eq)]
enum NameError {
    Cut,
    Wrong,
}

/// The name at `at` as text, and where what follows begins.
fn name(bytes: &[u8], at: usize) -> Result<(String, usize), NameError> {
    let mut text = String::new();
    let (mut at, mut after, mut total, mut pointers) = (at, None, 0, 0);
    loop {
        let length = *bytes.get(at).ok_or(NameError::Cut)?;
        match length >> 6 {
            0 if length == 0 => break,
            0 => {
                let end = at + 1 + usize::from(length);
                let label = bytes.get(at + 1..end).ok_or(NameError::Cut)?;
                total += label.len() + 1;
                if total > MAX_NAME_BYTES {
                    return Err(NameError::Wrong);
                }
                if !text.is_empty() {
                    text.push('.');
                }
                push_label(&mut text, label);
                at = end;
            }
            3 => {
                let low = *bytes.get(at + 1).ok_or(NameError::Cut)?;
                let target = usize::from(length & 0x3f) << 8 | usize::from(low);
                pointers += 1;
                // Back, never round in a circle, and not into the header.
                if target >= at || target < HEADER_BYTES || pointers > MAX_POINTERS {
                    return Err(NameError::Wrong);
                }
                after.get_or_insert(at + 2);
                at = target;
            }
            _ => return Err(NameError::Wrong),
        }
    }
    if text.is_empty() {
        text.push('.');
    }
    Ok((text, after.unwrap_or(at + 1)))
}

/// As OpenTelemetry writes names: bytes that are no text as `\DDD`.
fn push_label(text: &mut String, label: &[u8]) {
    for byte in label {
        match byte {
            b'\t' => text.push_str("\\t"),
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            b'.' | b'\\' | b'"' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\{byte:03}")),
        }
    }
}

/// Reads a message; `None` where its header or its question is none. Records
/// are read while they are there.
pub(super) fn read(bytes: &[u8]) -> Option<Message> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    let count = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
    let mut message = Message {
        id: u16::from_be_bytes([header[0], header[1]]),
        is_response: header[2] & 0x80 != 0,
        opcode: header[2] >> 3 & 15,
        truncated: header[2] & 2 != 0,
        rcode: u16::from(header[3] & 15),
        question: None,
        addresses: Vec::new(),
    };
    let mut at = HEADER_BYTES;
    match count(4) {
        0 if message.is_response => return Some(message),
        1 => {
            let (name, after) = name(bytes, at).ok()?;
            let rest = bytes.get(after..after + 4)?;
            let kind = u16::from_be_bytes([rest[0], rest[1]]);
            let class = u16::from_be_bytes([rest[2], rest[3]]);
            message.question = Some(Question { name, kind, class });
            at = after + 4;
        }
        _ => return None,
    }
    if message.is_response {
        let answers = count(6);
        let records = answers.saturating_add(count(8)).saturating_add(count(10));
        for index in 0..records.min(MAX_RECORDS) {
            let Some(after) = record(bytes, at, index < answers, &mut message) else { break };
            at = after;
        }
    }
    Some(message)
}

/// Takes note of a record; where the next one begins.
fn record(bytes: &[u8], at: usize, answers: bool, message: &mut Message) -> Option<usize> {
    let (_, after) = name(bytes, at).ok()?;
    let fixed = bytes.get(after..after + 10)?;
    let kind = u16::from_be_bytes([fixed[0], fixed[1]]);
    let class = u16::from_be_bytes([fixed[2], fixed[3]]);
    let length = usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
    let content = bytes.get(after + 10..after + 10 + length)?;
    if answers && class == INTERNET && message.addresses.len() < MAX_ADDRESSES {
        if let (A, Ok(ipv4)) = (kind, <[u8; 4]>::try_from(content)) {
            message.addresses.push(Ipv4Addr::from(ipv4).to_string());
        }
        if let (AAAA, Ok(ipv6)) = (kind, <[u8; 16]>::try_from(content)) {
            message.addresses.push(Ipv6Addr::from(ipv6).to_string());
        }
    }
    if kind == OPT {
        message.rcode |= u16::from(fixed[4]) << 4;
    }
    Some(after + 10 + length)
}

/// The name of a record type that is in use; of others there are too many.
pub(super) const fn kind_name(kind: u16) -> Option<&'static str> {
    Some(match kind {
        A => "A",
        2 => "NS",
        5 => "CNAME",
        6 => "SOA",
        12 => "PTR",
        13 => "HINFO",
        15 => "MX",
        16 => "TXT",
        AAAA => "AAAA",
        29 => "LOC",
        33 => "SRV",
        35 => "NAPTR",
        37 => "CERT",
        39 => "DNAME",
        43 => "DS",
        44 => "SSHFP",
        46 => "RRSIG",
        47 => "NSEC",
        48 => "DNSKEY",
        50 => "NSEC3",
        52 => "TLSA",
        61 => "OPENPGPKEY",
        64 => "SVCB",
        65 => "HTTPS",
        99 => "SPF",
        251 => "IXFR",
        252 => "AXFR",
        255 => "ANY",
        256 => "URI",
        257 => "CAA",
        _ => return None,
    })
}

/// The name of a response code (IANA, "DNS RCODEs").
pub(super) fn rcode_name(rcode: u16) -> String {
    let name = match rcode {
        0 => "NOERROR",
        1 => "FORMERR",
        2 => "SERVFAIL",
        3 => "NXDOMAIN",
        4 => "NOTIMP",
        5 => "REFUSED",
        6 => "YXDOMAIN",
        7 => "YXRRSET",
        8 => "NXRRSET",
        9 => "NOTAUTH",
        10 => "NOTZONE",
        16 => "BADVERS",
        17 => "BADKEY",
        18 => "BADTIME",
        23 => "BADCOOKIE",
        _ => return format!("RCODE{rcode}"),
    };
    name.to_owned()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A query for a name.
    pub(crate) fn query(id: u16, name: &str, kind: u16) -> Vec<u8> {
        let mut bytes = id.to_be_bytes().to_vec();
        bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        for label in name.split('.').filter(|label| !label.is_empty()) {
            bytes.push(label.len() as u8);
            bytes.extend(label.as_bytes());
        }
        bytes.push(0);
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1]);
        bytes
    }

    /// The answer to a query, with these addresses.
    pub(crate) fn response(query: &[u8], rcode: u8, addresses: &[[u8; 4]]) -> Vec<u8> {
        let mut bytes = query.to_vec();
        bytes[2] |= 0x80;
        bytes[3] = 0x80 | rcode;
        bytes[7] = addresses.len() as u8;
        for address in addresses {
            bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
            bytes.extend(address);
        }
        bytes
    }

    #[test]
    fn questions_and_answers_are_read() {
        let asked = query(7, "www.shop.example", A);
        let message = read(&asked).unwrap();
        let question = Question { name: "www.shop.example".to_owned(), kind: A, class: INTERNET };
        assert_eq!((message.id, message.is_response), (7, false));
        assert_eq!(message.question.as_ref(), Some(&question));
        let answered = read(&response(&asked, 0, &[[10, 0, 0, 1], [10, 0, 0, 2]])).unwrap();
        assert_eq!(answered.addresses, ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(answered.question, Some(question));
        assert_eq!(read(&query(1, "", 2)).unwrap().question.unwrap().name, ".");
    }

    #[test]
    fn bytes_that_are_no_text_are_written_as_numbers() {
        let mut bytes = query(1, "abc", A);
        bytes[13..16].copy_from_slice(b".\x01\xff");
        assert_eq!(read(&bytes).unwrap().question.unwrap().name, "\\.\\001\\255");
    }

    #[test]
    fn pointers_never_go_round_in_circles() {
        for pointer in [[0xc0, 12], [0xc0, 14], [0xff, 0xff]] {
            let mut bytes = query(1, "a", A);
            bytes.truncate(HEADER_BYTES);
            bytes.extend(pointer);
            bytes.extend([0, 1, 0, 1]);
            assert_eq!(read(&bytes), None, "{pointer:?}");
        }
        // A chain of pointers, each to the one before, is bounded, too.
        let mut bytes = vec![0; 2000];
        for at in (2..2000).step_by(2) {
            let target = at as u16 - 2;
            bytes[at..at + 2].copy_from_slice(&(0xc000 | target).to_be_bytes());
        }
        assert_eq!(name(&bytes, 1998), Err(NameError::Wrong));
    }

    #[test]
    fn a_message_cut_anywhere_is_read_as_far_as_it_goes() {
        let whole = response(&query(7, "shop.example", A), 3, &[[1, 2, 3, 4]]);
        for end in 0..whole.len() {
            if let Some(message) = read(&whole[..end]) {
                assert_eq!((message.rcode, message.addresses.len()), (3, 0));
            }
        }
    }

    #[test]
    fn the_upper_bits_of_a_code_are_in_edns() {
        let mut bytes = response(&query(7, "shop.example", A), 0, &[]);
        bytes[11] = 1;
        bytes.extend([0, 0, 41, 4, 208, 1, 0, 0, 0, 0, 0]);
        assert_eq!(read(&bytes).unwrap().rcode, 16);
        assert_eq!(rcode_name(16), "BADVERS");
    }
}
