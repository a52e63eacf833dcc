//! Keys that nobody can read: HMAC-SHA-256 with a secret.

use std::fmt;

use sha2::{Digest as _, Sha256};

const BLOCK: usize = 64;

/// Hashes keys with a secret, so that equal keys stay equal and cannot be guessed without it.
#[derive(Clone)]
pub struct KeyHash {
    inner: Sha256,
    outer: Sha256,
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("KeyHash(a secret)")
    }
}

impl KeyHash {
    /// The shortest secret in bytes: shorter ones can be guessed.
    pub const SHORTEST_SECRET: usize = 16;

    /// A hash with this secret; `None` if it is too short.
    pub fn new(secret: &[u8]) -> Option<Self> {
        (secret.len() >= Self::SHORTEST_SECRET).then(|| Self::keyed(secret))
    }

    fn keyed(secret: &[u8]) -> Self {
        let mut block = [0; BLOCK];
        if secret.len() > BLOCK {
            let hash = Sha256::digest(secret);
            block[..hash.len()].copy_from_slice(&hash);
        } else {
            block[..secret.len()].copy_from_slice(secret);
        }
        let padded = |with: u8| Sha256::new_with_prefix(block.map(|byte| byte ^ with));
        Self { inner: padded(0x36), outer: padded(0x5c) }
    }

    /// The hash of a key of this name: 32 hexadecimal digits. Equal values of keys of other names
    /// have other hashes.
    pub fn hash(&self, name: &str, key: &str) -> String {
        let mut text = Vec::with_capacity(name.len() + 1 + key.len());
        text.extend_from_slice(name.as_bytes());
        text.push(0);
        text.extend_from_slice(key.as_bytes());
        let digits = |byte: &u8| [byte >> 4, byte & 15];
        let hash = self.code(&text);
        let digits = hash[..16].iter().flat_map(digits);
        digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
    }

    /// Whether a text has the form of a hash.
    pub fn is_hash(text: &str) -> bool {
        text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    fn code(&self, text: &[u8]) -> [u8; 32] {
        let inner = self.inner.clone().chain_update(text).finalize();
        self.outer.clone().chain_update(inner).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second and the sixth case of RFC 4231.
    #[test]
    fn it_is_hmac() {
        let hex =
            |bytes: [u8; 32]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let code = KeyHash::keyed(b"Jefe").code(b"what do ya want for nothing?");
        assert_eq!(hex(code), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let code = KeyHash::keyed(&[0xaa; 131])
            .code(b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(hex(code), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }

    #[test]
    fn hashes_depend_on_the_secret_and_the_name_and_hide_the_key() {
        let one = KeyHash::new(b"a secret of sixteen").expect("is long enough");
        let two = KeyHash::new(b"another long secret").expect("is long enough");
        let hash = one.hash("order", "4711");
        assert_eq!((KeyHash::is_hash(&hash), &hash), (true, &one.hash("order", "4711")));
        assert!(!KeyHash::is_hash("4711"));
        assert!(hash != two.hash("order", "4711") && hash != one.hash("user", "4711"));
        assert!(KeyHash::new(b"short").is_none());
        assert_eq!(format!("{one:?}"), "KeyHash(a secret)");
    }
}
