//! Names of parameters, fields and headers whose values are secrets.

use super::{MAX_LAYERS, decoded};

/// Whether the value of a name is a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrecy {
    /// The name does not indicate a secret.
    No,
    /// A secret, unless the value is a number: `max_tokens=4096`.
    UnlessNumber,
    /// A secret, unless the value is too plain: `code=404`.
    UnlessPlain,
    /// Always a secret.
    Yes,
}

/// Maximum bytes of a name that are checked, counted from its end, which says most.
const MAX_NAME_BYTES: usize = 64;
/// Maximum words of a name that are checked.
const MAX_WORDS: usize = 12;

/// Words that make a `key` harmless, before it or joined with it.
const HARMLESS_KEYS: [&str; 34] = [
    "sort",
    "order",
    "partition",
    "primary",
    "foreign",
    "cache",
    "group",
    "public",
    "row",
    "object",
    "routing",
    "hot",
    "search",
    "lookup",
    "map",
    "natural",
    "index",
    "range",
    "unique",
    "message",
    "event",
    "item",
    "mon",
    "don",
    "tur",
    "hoc",
    "joc",
    "whis",
    "smo",
    "lac",
    "mic",
    "flun",
    "dic",
    "malar",
];

/// Words that make a `code` harmless.
const HARMLESS_CODES: [&str; 56] = [
    "zip",
    "postal",
    "post",
    "country",
    "currency",
    "language",
    "lang",
    "locale",
    "region",
    "state",
    "area",
    "city",
    "district",
    "airport",
    "iata",
    "icao",
    "iso",
    "status",
    "error",
    "response",
    "result",
    "return",
    "reason",
    "exit",
    "http",
    "grpc",
    "source",
    "type",
    "category",
    "department",
    "product",
    "item",
    "sku",
    "color",
    "colour",
    "size",
    "unit",
    "tax",
    "location",
    "store",
    "warehouse",
    "branch",
    "station",
    "promo",
    "coupon",
    "discount",
    "campaign",
    "bar",
    "qr",
    "geo",
    "uni",
    "en",
    "de",
    "trans",
    "op",
    "byte",
];

/// Final words of names that only describe a secret.
const ABOUT: [&str; 33] = [
    "type",
    "types",
    "count",
    "length",
    "len",
    "size",
    "limit",
    "max",
    "min",
    "ttl",
    "expiry",
    "expires",
    "expiration",
    "lifetime",
    "age",
    "format",
    "method",
    "alg",
    "algorithm",
    "kind",
    "version",
    "status",
    "name",
    "url",
    "uri",
    "endpoint",
    "required",
    "enabled",
    "timeout",
    "usage",
    "budget",
    "in",
    "at",
];

/// Whether the value of this name is a secret.
pub(crate) fn secrecy(name: &str) -> Secrecy {
    if memchr::memchr(b'%', name.as_bytes()).is_none() {
        return of_plain(name);
    }
    let mut name = name.to_owned();
    for _ in 0..MAX_LAYERS {
        match decoded(&name) {
            Some(further) => name = further,
            None => break,
        }
    }
    of_plain(&name)
}

fn of_plain(name: &str) -> Secrecy {
    let bytes = name.as_bytes();
    let bytes = &bytes[bytes.len().saturating_sub(MAX_NAME_BYTES)..];
    let words = Words::of(bytes);
    let compact = &words.letters[..words.length];
    if (0..compact.len()).any(|at| is_secret_stem(&compact[at..])) {
        return Secrecy::Yes;
    }
    let mut found = Secrecy::No;
    for index in 0..words.count {
        let before = index.checked_sub(1).map(|before| words.word(before));
        match of_word(words.word(index), before, words.count == 1) {
            Secrecy::No => {}
            Secrecy::Yes => {
                found = Secrecy::Yes;
                break;
            }
            some => found = some,
        }
    }
    let last = words.count.checked_sub(1).map_or(b"".as_slice(), |last| words.word(last));
    if found != Secrecy::No && words.count > 1 && contains(&ABOUT, last) {
        return Secrecy::No;
    }
    found
}

fn contains(list: &[&str], word: &[u8]) -> bool {
    list.iter().any(|known| known.as_bytes() == word)
}

/// Whether a name with this continuation is a secret's name, wherever in the name it occurs.
fn is_secret_stem(rest: &[u8]) -> bool {
    let any = |stems: &[&str]| stems.iter().any(|stem| rest.starts_with(stem.as_bytes()));
    match rest[0] {
        b'p' => any(&[
            "password",
            "passwd",
            "passwort",
            "passphrase",
            "passcode",
            "privatekey",
            "pincode",
        ]),
        b's' => {
            rest.starts_with(b"secret") && !rest.starts_with(b"secretar")
                || any(&["saml", "signature", "sessid", "sessionid", "sessionkey", "setcookie"])
        }
        b'c' => any(&[
            "credential",
            "csrf",
            "cvv",
            "cvc2",
            "cardnumber",
            "creditcard",
            "contrasena",
            "codeverifier",
            "cookie",
        ]),
        b'a' => any(&["apikey", "accesskey", "authkey", "authcode", "assertion"]),
        b'x' => any(&["xsrf"]),
        b'j' => any(&["jwt"]),
        b'k' => any(&["kennwort"]),
        b'm' => any(&["motdepasse"]),
        b'b' => any(&["bearer"]),
        _ => false,
    }
}

fn of_word(word: &[u8], before: Option<&[u8]>, alone: bool) -> Secrecy {
    let digits = word.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let word = &word[..word.len() - digits];
    let ends = |end: &str| word.ends_with(end.as_bytes());
    let begins = |begin: &str| word.starts_with(begin.as_bytes());
    match word {
        b"pass" | b"pw" | b"psw" | b"pswd" | b"passw" | b"pin" | b"newpin" | b"oldpin"
        | b"userpin" | b"mypin" | b"cardpin" | b"atmpin" | b"smspin" | b"pinnumber" | b"auth"
        | b"authorization" | b"authentication" | b"token" | b"sig" | b"hmac" | b"sid"
        | b"creds" | b"cred" | b"ssn" | b"nonce" | b"otc" | b"cvc" | b"cvn" | b"ccnum"
        | b"senha" | b"clave" | b"mdp" | b"totp" => return Secrecy::Yes,
        b"tokens" | b"sessions" => return Secrecy::UnlessNumber,
        b"session" | b"sess" | b"ticket" => return Secrecy::UnlessPlain,
        b"sign" if alone => return Secrecy::UnlessPlain,
        b"keys" if before.is_some_and(|before| !contains(&HARMLESS_KEYS, before)) => {
            return Secrecy::UnlessPlain;
        }
        b"key" => {
            let harmless = before.is_some_and(|before| contains(&HARMLESS_KEYS, before));
            return if harmless { Secrecy::No } else { Secrecy::UnlessPlain };
        }
        b"code" => {
            let harmless = before.is_some_and(|before| contains(&HARMLESS_CODES, before));
            return if harmless { Secrecy::No } else { Secrecy::UnlessPlain };
        }
        b"bypass" | b"compass" | b"overpass" | b"underpass" | b"surpass" | b"trespass"
        | b"encompass" | b"possession" | b"obsession" | b"repossession" => return Secrecy::No,
        _ => {}
    }
    if ends("token") || ends("pwd") || begins("pwd") || ends("pass") || ends("auth") {
        return Secrecy::Yes;
    }
    if begins("otp") || ends("otp") || ends("sig") {
        return Secrecy::Yes;
    }
    if let Some(rest) = word.strip_prefix(b"token") {
        let said = [b"id".as_slice(), b"key", b"value", b"string", b"hash", b"data", b"code"];
        return if said.contains(&rest) { Secrecy::Yes } else { Secrecy::No };
    }
    if begins("session") || ends("session") || ends("sess") {
        return Secrecy::UnlessPlain;
    }
    let of_suffix = |suffix: &str, harmless: &[&str]| {
        let rest = word.strip_suffix(suffix.as_bytes()).filter(|rest| !rest.is_empty());
        rest.is_some_and(|rest| !contains(harmless, rest))
    };
    if of_suffix("key", &HARMLESS_KEYS) || of_suffix("code", &HARMLESS_CODES) {
        return Secrecy::UnlessPlain;
    }
    Secrecy::No
}

/// A name split into lower-case words: `user[newPassword]` has three.
struct Words {
    letters: [u8; MAX_NAME_BYTES],
    length: usize,
    ends: [u8; MAX_WORDS],
    count: usize,
}

impl Words {
    fn of(name: &[u8]) -> Self {
        let mut words =
            Self { letters: [0; MAX_NAME_BYTES], length: 0, ends: [0; MAX_WORDS], count: 0 };
        let mut after_lower = false;
        for byte in name {
            if !byte.is_ascii_alphanumeric() || (after_lower && byte.is_ascii_uppercase()) {
                words.end();
            }
            after_lower = byte.is_ascii_lowercase();
            if byte.is_ascii_alphanumeric() {
                words.letters[words.length] = byte.to_ascii_lowercase();
                words.length += 1;
            }
        }
        words.end();
        words
    }

    fn end(&mut self) {
        let from = self.count.checked_sub(1).map_or(0, |before| self.ends[before]);
        if self.length > usize::from(from) {
            if self.count == MAX_WORDS {
                // The end says most, so the last word takes the rest.
                self.count -= 1;
            }
            self.ends[self.count] = self.length as u8;
            self.count += 1;
        }
    }

    fn word(&self, index: usize) -> &[u8] {
        let from = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.letters[usize::from(from)..usize::from(self.ends[index])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_in_all_their_forms() {
        for name in [
            "password",
            "Password",
            "user[password]",
            "user%5Bpassword%5D",
            "newPassword",
            "password_confirmation",
            "password2",
            "mypasswd",
            "pwd",
            "userpwd",
            "pass",
            "dbpass",
            "passphrase",
            "secret",
            "client_secret",
            "app-secret-v2",
            "token",
            "access_token",
            "accessToken",
            "csrftoken",
            "authenticity_token",
            "X-Amz-Security-Token",
            "id_token_hint",
            "api_key",
            "apikey",
            "x-api-key",
            "accessKeyId",
            "AWSAccessKeyId",
            "subscription-key",
            "key",
            "licensekey",
            "session",
            "session_id",
            "sessionid",
            "JSESSIONID",
            "PHPSESSID",
            "connect.sid",
            "sid",
            "code",
            "auth_code",
            "verification-code",
            "smscode",
            "otp",
            "otp_code",
            "user_otp",
            "totp",
            "pin",
            "pin1",
            "userPIN",
            "pincode",
            "jwt",
            "my_jwt",
            "jwtAssertion",
            "SAMLResponse",
            "SAMLRequest",
            "samlart",
            "signature",
            "sig",
            "x_sig",
            "X-Goog-Signature",
            "X-Amz-Credential",
            "auth",
            "Authorization",
            "nonce",
            "cvv",
            "card_number",
            "%70assword",
            "%2570assword",
            "user%255Bsecret%255D",
            "xsrf",
        ] {
            assert_ne!(secrecy(name), Secrecy::No, "{name}");
        }
    }

    #[test]
    fn names_that_are_nearly_those_of_secrets_are_none() {
        for name in [
            "keyboard",
            "monkey",
            "keyword",
            "keywords",
            "turkey",
            "hockey",
            "tokenizer",
            "tokenize",
            "zip_code",
            "zipcode",
            "countryCode",
            "barcode",
            "unicode",
            "encode",
            "decoder",
            "codec",
            "status_code",
            "error_code",
            "sort_key",
            "primary_key",
            "cachekey",
            "author",
            "authority",
            "pinned",
            "pinterest",
            "spin",
            "shipping",
            "design",
            "signal",
            "passenger",
            "bypass",
            "compass",
            "secretary",
            "possession",
            "token_type",
            "session_count",
            "key_type",
            "expires_in",
            "response_type",
            "grant_type",
            "q",
            "id",
            "page",
            "user",
            "footprint",
            "",
            "=",
            "[]",
            "opinion",
            "x",
            "lang",
        ] {
            assert_eq!(secrecy(name), Secrecy::No, "{name}");
        }
    }

    #[test]
    fn long_names_are_looked_at_from_their_end() {
        assert_eq!(secrecy(&format!("{}[password]", "a[b]".repeat(100))), Secrecy::Yes);
        assert_eq!(secrecy(&"é".repeat(100)), Secrecy::No);
    }
}
