//! Tells HTTP/1 from the first bytes of a message.

use super::head;
use crate::bytes::Side;
use crate::formats::http::METHODS;
use crate::parser::Likeness;

/// Whether bytes look like the beginning of a message.
pub(crate) fn recognise(side: Side, bytes: &[u8], whole: bool) -> Likeness {
    let begins = |prefix: &[u8]| {
        let common = prefix.len().min(bytes.len());
        bytes[..common] == prefix[..common]
    };
    match side {
        Side::Response => match bytes {
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', ..] => Likeness::Yes,
            _ if begins(b"HTTP/1.") && whole => Likeness::Maybe,
            _ => Likeness::No,
        },
        Side::Request => {
            let mut methods = METHODS.iter().chain(&head::OTHER_METHODS);
            let Some(method) = methods.find(|method| {
                begins(method.as_bytes()) && bytes.get(method.len()).is_none_or(|b| *b == b' ')
            }) else {
                return Likeness::No;
            };
            match bytes.get(method.len() + 1..) {
                Some([b'/' | b'*', ..]) => Likeness::Yes,
                Some([_, ..]) if *method == "CONNECT" => Likeness::Yes,
                Some(target) if target.len() >= 7 => {
                    if target[..7].eq_ignore_ascii_case(b"http://") {
                        Likeness::Yes
                    } else {
                        Likeness::No
                    }
                }
                Some(target) if !b"http://"[..].starts_with(&target.to_ascii_lowercase()) => {
                    Likeness::No
                }
                _ if whole => Likeness::Maybe,
                _ => Likeness::No,
            }
        }
    }
}
