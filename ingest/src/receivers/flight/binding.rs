//! Binds batches to their senders. A batch has its sender's name and a number, by which a resent
//! batch is recognised. The name is public and proves nothing. So the store identifies a batch by a
//! hash of the name and a secret. The sender sends the secret with the first message of each
//! stream, and it is never shown.
//!
//! Older agents have no secret. Their address takes its place: a sender with the same name at
//! another address is a different sender.

use std::net::IpAddr;

use sha2::{Digest as _, Sha256};
use spanwise_wire::flight::{Origin, Secret};

/// What a stream is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    ToSecret(Secret),
    ToAddress(Option<IpAddr>),
}

impl Binding {
    /// The store's name for batches of this source.
    pub(crate) fn source(&self, source: [u8; 16]) -> [u8; 16] {
        let mut hash = Sha256::new();
        match self {
            Self::ToSecret(secret) => {
                hash.update(b"spanwise source by secret\0");
                hash.update(secret.bytes());
            }
            Self::ToAddress(address) => {
                hash.update(b"spanwise source by address\0");
                hash.update(address.map_or_else(String::new, |address| address.to_string()));
                hash.update(b"\0");
            }
        }
        hash.update(source);
        let mut bound = [0; 16];
        bound.copy_from_slice(&hash.finalize()[..16]);
        // Content names have a different first bit.
        bound[0] |= 0x80;
        bound
    }

    /// The store's origin for a batch. Origins named after content are not bound to a sender.
    pub(crate) fn origin(&self, origin: Origin) -> Origin {
        if origin.is_content() {
            return origin;
        }
        Origin { source: self.source(origin.source), sequence: origin.sequence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_knows_the_secret_has_the_name() {
        let origin = Origin { source: [7; 16], sequence: 3 };
        let secret = |byte| Binding::ToSecret(Secret::of([byte; 32]));
        let own = secret(1).origin(origin);
        assert_eq!(own, secret(1).origin(origin));
        let address = |last| Binding::ToAddress(Some([10, 0, 0, last].into()));
        let others = [secret(2), address(1), address(2), Binding::ToAddress(None)];
        let mut all: Vec<_> = others.iter().map(|bound| bound.origin(origin).source).collect();
        all.extend([own.source, origin.source]);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 6);
        assert!(!own.is_content() && own.sequence == 3);
        let file = Origin { source: *b"file............", sequence: 1 };
        assert_eq!(secret(1).origin(file), file);
    }
}
