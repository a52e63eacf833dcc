//! The address of a ClickHouse:
//! `clickhouse[s]://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?cluster=NAME][&ca=FILE]`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Port of ClickHouse's HTTP interface.
const HTTP_PORT: u16 = 8123;
/// Port of the HTTP interface with TLS.
const HTTPS_PORT: u16 = 8443;
const FORM: &str = "write it as clickhouse://USER:PASSWORD@HOST:8123/DATABASE, or \
    clickhouses://…:8443/… for TLS, with ?cluster=NAME for a cluster";

/// The address of a ClickHouse, with user and password. It is displayed without the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Host and port of the HTTP interface, in the form of a URL.
    pub(super) authority: String,
    pub(super) user: String,
    pub(super) password: String,
    pub(super) database: String,
    /// The cluster on whose servers the tables are created, replicated and distributed.
    pub(super) cluster: Option<String>,
    /// Settings of TLS, if the connection uses it.
    pub(super) tls: Option<Tls>,
}

/// Which certificates to trust.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Tls {
    /// A PEM file of trusted CAs. `None` means the system's CAs.
    pub(super) ca: Option<PathBuf>,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Does not repeat the text, because it may contain a password.
        let wrong = |why: &str| format!("this is no ClickHouse address: {why}; {FORM}");
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        let (mut tls, default_port) = match scheme {
            "clickhouse" => (None, HTTP_PORT),
            "clickhouses" => (Some(Tls { ca: None }), HTTPS_PORT),
            other => return Err(wrong(&format!("`{other}` is not clickhouse or clickhouses"))),
        };
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(a, b)| (a, Some(b)));
        let (server, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, server) = server.rsplit_once('@').unwrap_or(("", server));
        let (user, password) = who.split_once(':').unwrap_or((who, ""));
        let authority: http::uri::Authority =
            server.parse().map_err(|_| wrong("there is no host"))?;
        // The parser accepts any text as a port, and then reports that there is none.
        let after_host = server.strip_prefix(authority.host()).unwrap_or(server);
        let port = match after_host.strip_prefix(':') {
            Some(port) => port.parse().ok(),
            None => after_host.is_empty().then_some(default_port),
        };
        let Some(port) = port.filter(|_| !authority.host().is_empty()) else {
            return Err(wrong("host or port make no sense"));
        };
        let decoded = |text: &str, what: &str| {
            decoded(text).ok_or_else(|| wrong(&format!("the {what} is not percent-encoded UTF-8")))
        };
        let database = decoded(database, "database")?;
        let mut cluster = None;
        for parameter in query.into_iter().flat_map(|query| query.split('&')) {
            match (parameter.split_once('='), &mut tls) {
                (Some(("cluster", name)), _) => cluster = Some(decoded(name, "cluster's name")?),
                (Some(("ca", "")), _) => return Err(wrong("`ca` names no file")),
                (Some(("ca", path)), Some(tls)) => tls.ca = Some(decoded(path, "ca")?.into()),
                (Some(("ca", _)), None) => {
                    return Err(wrong("`ca` is for TLS, which is spoken with clickhouses://"));
                }
                _ => return Err(wrong(&format!("`{parameter}` is no parameter of it"))),
            }
        }
        let or_default = |text: String| if text.is_empty() { "default".to_owned() } else { text };
        let address = Self {
            authority: format!("{}:{port}", authority.host()),
            user: or_default(decoded(user, "user")?),
            password: decoded(password, "password")?,
            database: or_default(database),
            cluster,
            tls,
        };
        if !is_name(&address.database, "_") {
            return Err(wrong("a database's name has letters, digits and underscores"));
        }
        if address.cluster.as_ref().is_some_and(|name| !is_name(name, "_-.")) {
            return Err(wrong("a cluster's name has letters, digits, and any of _-."));
        }
        Ok(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = if self.password.is_empty() { "" } else { ":***" };
        let Self { authority, user, database, .. } = self;
        let scheme = if self.tls.is_some() { "clickhouses" } else { "clickhouse" };
        write!(f, "{scheme}://{user}{hidden}@{authority}/{database}")?;
        let cluster = self.cluster.iter().map(|name| format!("cluster={name}"));
        let ca = self.tls.iter().flat_map(|tls| &tls.ca).map(|ca| format!("ca={}", ca.display()));
        let parameters: Vec<String> = cluster.chain(ca).collect();
        let mark = if parameters.is_empty() { "" } else { "?" };
        write!(f, "{mark}{}", parameters.join("&"))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

fn is_name(text: &str, more: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
    !text.is_empty() && text.len() <= 128 && text.chars().all(fits)
}

/// Decodes percent escapes (RFC 3986, 2.1).
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push(match byte {
            b'%' => (digit(rest.next()?)? * 16 + digit(rest.next()?)?).try_into().ok()?,
            plain => plain,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_without_their_password() {
        for (text, shown) in [
            ("clickhouse://h", "clickhouse://default@h:8123/default"),
            ("clickhouse://h/", "clickhouse://default@h:8123/default"),
            ("clickhouse://u@h:9/d", "clickhouse://u@h:9/d"),
            ("clickhouse://u:p%40%2F:x@h/d?cluster=c-1", "clickhouse://u:***@h:8123/d?cluster=c-1"),
            ("clickhouse://[::1]:1/d", "clickhouse://default@[::1]:1/d"),
            ("clickhouses://h/d", "clickhouses://default@h:8443/d"),
            (
                "clickhouses://u:p@h:1/d?ca=/etc/our%20ca.pem&cluster=c",
                "clickhouses://u:***@h:1/d?cluster=c&ca=/etc/our ca.pem",
            ),
        ] {
            let address: Address = text.parse().expect(text);
            assert_eq!(address.to_string(), shown);
            assert_eq!(format!("{address:?}"), shown);
        }
        let address: Address = "clickhouse://u:p%40%2F:x@h/d".parse().expect("an address");
        assert_eq!((address.user.as_str(), address.password.as_str()), ("u", "p@/:x"));
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_form_and_without_the_password() {
        for text in [
            "",
            "h:8123",
            "http://h",
            "https://u:secret@h",
            "clickhouse://u:secret@h/d?ca=/etc/ca.pem",
            "clickhouses://u:secret@h/d?ca=",
            "clickhouse://",
            "clickhouse://u:secret@",
            "clickhouse://u:secret@h:port/d",
            "clickhouse://u:secret@h:99999/d",
            "clickhouse://u:secret@h:/d",
            "clickhouse://u:sec%ret@h",
            "clickhouse://h/d`; DROP",
            "clickhouse://h/a/b",
            "clickhouse://h/d?cluster=",
            "clickhouse://h/d?cluster=a'b",
            "clickhouse://h/d?secure=true",
        ] {
            let error = text.parse::<Address>().expect_err(text);
            assert!(error.contains("clickhouse://USER:PASSWORD@HOST:8123/DATABASE"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
