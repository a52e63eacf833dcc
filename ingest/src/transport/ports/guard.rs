//! Keeps web pages out. A browser on this host can reach loopback ports and sends whatever a page
//! asks for.
//!
//! Browsers mark requests from pages (`Origin`, `Sec-Fetch-Site`). Such requests are refused unless
//! the origin is allowed. A page whose own name resolves to this host (DNS rebinding) has the same
//! origin as the server. It is recognised by its `Host` header.

use std::net::IpAddr;
use std::str::FromStr as _;

use ::http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, CONTENT_TYPE, HOST, ORIGIN,
    VARY,
};
use ::http::request::Parts;
use ::http::uri::Authority;
use ::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};

use crate::counters;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const REQUEST_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-allow-private-network");

/// Names by which containers reach their host. No page can have such a name, because the domain
/// `internal` is reserved.
const OF_CONTAINERS: [&str; 3] =
    ["host.docker.internal", "gateway.docker.internal", "host.containers.internal"];

/// Hosts and origins that are allowed, besides programs and the UI itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Additional host names of the server, besides loopback names and its own addresses.
    pub hosts: Vec<String>,
    /// Origins of pages that may use the API.
    pub api_origins: Vec<String>,
    /// Origins of pages that may send spans.
    pub receiver_origins: Vec<String>,
}

/// The purpose of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Receives spans.
    Receiver,
    /// Serves the UI and the API.
    Api,
    /// Answers questions as the API does, to programs that may speak gRPC, and takes spans of
    /// those.
    Queries,
}

/// Checks requests. See the module's description.
#[derive(Debug)]
pub(super) struct Guard {
    kind: Kind,
    hosts: Vec<String>,
    /// Of pages that may send spans.
    senders: Vec<Pattern>,
    /// Of pages that may ask.
    askers: Vec<Pattern>,
    is_loopback: bool,
}

/// A refusal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) title: &'static str,
    pub(super) detail: String,
    pub(super) counter: &'static str,
}

/// The decision about a request.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Serve it. If an allowed page asks, with CORS headers that let the page read the response.
    Serve(Option<HeaderValue>),
    /// A preflight request of an allowed page.
    Preflight(HeaderMap),
    Refuse(Refusal),
}

impl Guard {
    /// The guard of a port at this address.
    pub(super) fn new(kind: Kind, allowed: &Allowed, at: IpAddr) -> Self {
        let patterns =
            |origins: &[String]| origins.iter().map(|origin| Pattern::new(origin)).collect();
        Self {
            kind,
            hosts: allowed.hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            senders: patterns(&allowed.receiver_origins),
            askers: patterns(&allowed.api_origins),
            is_loopback: at.is_loopback(),
        }
    }

    pub(super) fn check(&self, parts: &Parts) -> Verdict {
        if let Some(refusal) = self.wrong_host(parts) {
            return Verdict::Refuse(refusal);
        }
        let origin = match self.origin(parts) {
            Ok(origin) => origin,
            Err(refusal) => return Verdict::Refuse(refusal),
        };
        let is_preflight = parts.method == Method::OPTIONS
            && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        match origin {
            Some(origin) if is_preflight => Verdict::Preflight(self.preflight(parts, origin)),
            origin => Verdict::Serve(origin),
        }
    }

    /// Whether the request sends spans, and asks nothing: what is read at a receiver's port is
    /// for those who may read it elsewhere.
    fn is_sending(&self, parts: &Parts) -> bool {
        let asks = |method: &[u8]| method == b"GET" || method == b"HEAD";
        let meant = parts.headers.get(ACCESS_CONTROL_REQUEST_METHOD);
        self.kind == Kind::Receiver
            && !asks(parts.method.as_str().as_bytes())
            && !meant.is_some_and(|method| asks(method.as_bytes()))
    }

    fn wrong_host(&self, parts: &Parts) -> Option<Refusal> {
        if self.kind != Kind::Api && is_of_grpc_client(parts) {
            return None;
        }
        // A receiver that other machines reach is reached by any name.
        if self.is_sending(parts) && !self.is_loopback {
            return None;
        }
        let of_uri = parts.uri.authority().map(Authority::as_str);
        let of_headers =
            parts.headers.get_all(HOST).iter().map(|host| host.to_str().unwrap_or("?"));
        let wrong = of_uri.into_iter().chain(of_headers).find(|host| !self.is_own(host))?;
        Some(Refusal {
            status: StatusCode::MISDIRECTED_REQUEST,
            title: "not a name of this server",
            detail: format!(
                "this server does not answer to the Host `{}`; where it should, add the name to \
                 the setting server.allowed_hosts",
                shown(wrong)
            ),
            counter: counters::REQUESTS_REFUSED_HOST,
        })
    }

    /// Whether this is one of the server's names.
    fn is_own(&self, host: &str) -> bool {
        let host = host_of(host).to_ascii_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host);
        if host == "localhost" || host.ends_with(".localhost") {
            return true;
        }
        if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            let address = address.to_canonical();
            // A page's own name may resolve to any address, but an address cannot be faked.
            if address.is_loopback() || !self.is_loopback {
                return true;
            }
        }
        let is_of_containers = self.kind == Kind::Receiver && OF_CONTAINERS.contains(&host);
        is_of_containers
            || self.hosts.iter().any(|own| match own.strip_prefix('*') {
                Some(end) => host.ends_with(end),
                None => own == host,
            })
    }

    /// The origin of the page that asks; `None` for the UI itself and for programs.
    fn origin(&self, parts: &Parts) -> Result<Option<HeaderValue>, Refusal> {
        let headers = &parts.headers;
        let Some(origin) = headers.get(ORIGIN) else {
            // Pages can load images and scripts from other origins without an `Origin` header.
            let site = headers.get(SEC_FETCH_SITE).map_or(&b""[..], HeaderValue::as_bytes);
            let mode = headers.get(SEC_FETCH_MODE).map_or(&b""[..], HeaderValue::as_bytes);
            let is_of_other = matches!(site, b"cross-site" | b"same-site") && mode != b"navigate";
            return if is_of_other { Err(self.foreign(parts, "another site")) } else { Ok(None) };
        };
        let text = origin.to_str().unwrap_or("?");
        if headers.get_all(ORIGIN).iter().count() > 1 {
            return Err(self.foreign(parts, "several origins"));
        }
        if self.kind != Kind::Receiver && is_same_origin(text, parts) {
            return Ok(None);
        }
        let listed = if self.is_sending(parts) { &self.senders } else { &self.askers };
        if listed.iter().any(|pattern| pattern.fits(text)) {
            return Ok(Some(origin.clone()));
        }
        Err(self.foreign(parts, text))
    }

    fn foreign(&self, parts: &Parts, origin: &str) -> Refusal {
        let setting = match self.is_sending(parts) {
            true => "receivers.allowed_origins",
            false => "server.allowed_origins",
        };
        let origin = shown(origin);
        Refusal {
            status: StatusCode::FORBIDDEN,
            title: "not from this page",
            detail: format!(
                "a web page of `{origin}` asks, which is not allowed to; where it should be, add \
                 its origin to the setting {setting}"
            ),
            counter: counters::REQUESTS_REFUSED_ORIGIN,
        }
    }

    fn preflight(&self, parts: &Parts, origin: HeaderValue) -> HeaderMap {
        let asked = &parts.headers;
        let mut headers = HeaderMap::new();
        allow(&mut headers, origin);
        let methods = match self.kind {
            Kind::Receiver if self.is_sending(parts) => "POST",
            Kind::Receiver => "GET",
            Kind::Api | Kind::Queries => "GET, POST, DELETE",
        };
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
        if let Some(wanted) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
        }
        if asked.contains_key(REQUEST_PRIVATE_NETWORK) {
            headers.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
        }
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
        headers
    }
}

/// Adds the headers that let a page of this origin read the response.
pub(super) fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    // Beacons always send credentials. They have no meaning here.
    headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("Retry-After"));
    headers.append(VARY, HeaderValue::from_static("Origin"));
}

/// The host without its port.
fn host_of(authority: &str) -> &str {
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !ends_in(host) => host,
        _ => authority,
    }
}

/// Whether this is the first part of an IPv6 address without its closing bracket.
fn ends_in(host: &str) -> bool {
    host.contains(':') && !host.ends_with(']')
}

/// Whether the page's origin equals the requested host.
fn is_same_origin(origin: &str, parts: &Parts) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let default = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    let host = match parts.uri.authority() {
        Some(authority) => authority.as_str(),
        None => parts.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default(),
    };
    let split = |text: &str| {
        let authority = Authority::from_str(text).ok()?;
        let port = authority.port_u16().unwrap_or(default);
        Some((authority.host().to_ascii_lowercase(), port))
    };
    split(authority).is_some_and(|it| Some(it) == split(host))
}

/// A shortened form of untrusted text, for messages.
fn shown(text: &str) -> String {
    const CHARACTERS: usize = 100;
    let shown = |c: char| if c.is_control() { '?' } else { c };
    text.chars().take(CHARACTERS).map(shown).collect()
}

/// An origin pattern, in which one `*` matches any text.
#[derive(Debug)]
struct Pattern {
    begin: String,
    end: Option<String>,
}

impl Pattern {
    fn new(text: &str) -> Self {
        let text = text.trim_end_matches('/').to_ascii_lowercase();
        match text.split_once('*') {
            Some((begin, end)) => Self { begin: begin.to_owned(), end: Some(end.to_owned()) },
            None => Self { begin: text, end: None },
        }
    }

    fn fits(&self, origin: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        match &self.end {
            None => origin == self.begin,
            Some(end) => {
                origin.len() >= self.begin.len() + end.len()
                    && origin.starts_with(&self.begin)
                    && origin.ends_with(end)
            }
        }
    }
}

/// Whether a client of gRPC sent this, which may name the server as it likes. No browser speaks
/// HTTP/2 without TLS. Behind a proxy that adds TLS, it marks what a page asks for.
fn is_of_grpc_client(parts: &Parts) -> bool {
    let kind = parts.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    parts.version == Version::HTTP_2
        && kind.starts_with(b"application/grpc")
        && ![SEC_FETCH_SITE, SEC_FETCH_MODE, ORIGIN]
            .iter()
            .any(|mark| parts.headers.contains_key(mark))
}

#[cfg(test)]
mod tests {
    use ::http::Request;

    use super::*;

    fn parts(method: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri("/v1/traces");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn status(guard: &Guard, headers: &[(&str, &str)]) -> u16 {
        answered(guard, "POST", headers)
    }

    fn answered(guard: &Guard, method: &str, headers: &[(&str, &str)]) -> u16 {
        match guard.check(&parts(method, headers)) {
            Verdict::Serve(_) => 200,
            Verdict::Preflight(_) => 204,
            Verdict::Refuse(refusal) => refusal.status.as_u16(),
        }
    }

    fn guard(kind: Kind, at: &str) -> Guard {
        let allowed = Allowed {
            hosts: vec!["traces.example.org".into(), "*.corp.example".into()],
            api_origins: vec!["https://tools.example.org".into()],
            receiver_origins: vec!["https://shop.example.org".into(), "http://localhost:*".into()],
        };
        Guard::new(kind, &allowed, at.parse().unwrap())
    }

    #[test]
    fn names_of_loopback_and_those_listed_are_answered_to() {
        for kind in [Kind::Api, Kind::Receiver] {
            let guard = guard(kind, "127.0.0.1");
            for own in [
                "localhost:7070",
                "LOCALHOST",
                "shop.localhost:7070",
                "127.0.0.1:7070",
                "127.1.2.3",
                "[::1]:7070",
                "traces.example.org",
                "Traces.Example.org.:443",
                "a.corp.example",
            ] {
                assert_eq!(status(&guard, &[("host", own)]), 200, "{own}");
            }
            for other in [
                "evil.example:7070",
                "localhost.evil.example",
                "127.0.0.1.evil.example",
                "10.0.0.1:7070",
                "[fe80::1]",
                "corp.example.evil",
                "",
            ] {
                assert_eq!(status(&guard, &[("host", other)]), 421, "{other}");
            }
            let twice = [("host", "localhost"), ("host", "evil.example")];
            assert_eq!(status(&guard, &twice), 421);
            assert_eq!(status(&guard, &[]), 200, "no browser leaves it out");
        }
    }

    #[test]
    fn beyond_loopback_addresses_are_answered_to_and_receivers_to_any_name() {
        let api = guard(Kind::Api, "0.0.0.0");
        assert_eq!(status(&api, &[("host", "10.0.0.1:7070")]), 200);
        assert_eq!(status(&api, &[("host", "[fe80::1]:7070")]), 200);
        assert_eq!(status(&api, &[("host", "evil.example")]), 421);
        assert_eq!(status(&guard(Kind::Receiver, "0.0.0.0"), &[("host", "collector:4318")]), 200);
        let docker = [("host", "host.docker.internal:4318")];
        assert_eq!(status(&guard(Kind::Receiver, "127.0.0.1"), &docker), 200);
        assert_eq!(status(&guard(Kind::Api, "127.0.0.1"), &docker), 421);
    }

    #[test]
    fn pages_that_are_not_listed_are_refused() {
        let receiver = guard(Kind::Receiver, "127.0.0.1");
        let from = |origin| [("host", "localhost:4318"), ("origin", origin)];
        assert_eq!(status(&receiver, &from("https://shop.example.org")), 200);
        assert_eq!(status(&receiver, &from("http://localhost:3000")), 200);
        for other in ["https://evil.example", "null", "https://localhost:3000", ""] {
            assert_eq!(status(&receiver, &from(other)), 403, "{other}");
        }
        // A receiver has no page of its own.
        assert_eq!(status(&receiver, &from("http://127.0.0.1:4318")), 403);
        let silent = [("host", "localhost"), ("sec-fetch-site", "cross-site")];
        assert_eq!(status(&receiver, &silent), 403);
    }

    #[test]
    fn what_is_read_at_a_receiver_is_for_those_who_may_read_it_elsewhere() {
        let open = guard(Kind::Receiver, "0.0.0.0");
        for (host, expected) in
            [("collector:9411", 421), ("10.0.0.1:9411", 200), ("traces.example.org", 200)]
        {
            assert_eq!(answered(&open, "GET", &[("host", host)]), expected, "{host}");
            assert_eq!(answered(&open, "POST", &[("host", host)]), 200, "{host}");
        }
        let local = guard(Kind::Receiver, "127.0.0.1");
        for (origin, sends, asks) in [
            ("https://shop.example.org", 200, 403),
            ("https://tools.example.org", 403, 200),
            ("https://evil.example", 403, 403),
        ] {
            let headers = [("host", "localhost:9411"), ("origin", origin)];
            assert_eq!(answered(&local, "POST", &headers), sends, "{origin}");
            assert_eq!(answered(&local, "GET", &headers), asks, "{origin}");
            let meant = [headers[0], headers[1], ("access-control-request-method", "GET")];
            let preflight = answered(&local, "OPTIONS", &meant);
            assert_eq!(preflight, if asks == 200 { 204 } else { 403 }, "{origin}");
        }
        let queries = guard(Kind::Queries, "0.0.0.0");
        assert_eq!(answered(&queries, "POST", &[("host", "evil.example")]), 421);
    }

    #[test]
    fn only_clients_of_grpc_name_the_server_as_they_like() {
        let grpc = ("content-type", "application/grpc+proto");
        let name = ("host", "evil.example");
        for (kind, headers, version, expected) in [
            (Kind::Queries, vec![name, grpc], Version::HTTP_2, 200),
            (Kind::Receiver, vec![name, grpc], Version::HTTP_2, 200),
            (Kind::Api, vec![name, grpc], Version::HTTP_2, 421),
            (Kind::Queries, vec![name, grpc], Version::HTTP_11, 421),
            (Kind::Queries, vec![name], Version::HTTP_2, 421),
            (Kind::Queries, vec![name, ("content-type", "application/json")], Version::HTTP_2, 421),
            // A page whose name leads here may write any type, but not these headers.
            (
                Kind::Queries,
                vec![name, grpc, ("sec-fetch-site", "same-origin")],
                Version::HTTP_2,
                421,
            ),
            (
                Kind::Queries,
                vec![name, grpc, ("origin", "https://evil.example")],
                Version::HTTP_2,
                421,
            ),
            (Kind::Queries, vec![("host", "localhost:16686")], Version::HTTP_2, 200),
        ] {
            let mut parts = parts("POST", &headers);
            parts.version = version;
            let got = match guard(kind, "127.0.0.1").check(&parts) {
                Verdict::Refuse(refusal) => refusal.status.as_u16(),
                _ => 200,
            };
            assert_eq!(got, expected, "{kind:?} {headers:?} {version:?}");
        }
    }

    #[test]
    fn the_ui_itself_may_ask_the_api() {
        let api = guard(Kind::Api, "127.0.0.1");
        for (host, origin, expected) in [
            ("localhost:7070", "http://localhost:7070", 200),
            ("traces.example.org", "https://traces.example.org", 200),
            ("traces.example.org:443", "https://traces.example.org", 200),
            ("localhost:7070", "https://tools.example.org", 200),
            ("localhost:7070", "http://localhost:3000", 403),
            ("localhost:7070", "http://127.0.0.1:7070", 403),
            ("localhost:7070", "null", 403),
            ("localhost:7070", "file://localhost:7070", 403),
        ] {
            assert_eq!(status(&api, &[("host", host), ("origin", origin)]), expected, "{origin}");
        }
        // A link from another site may be followed, but an image is not served.
        let link = |mode| {
            [("host", "localhost"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", mode)]
        };
        assert_eq!(status(&api, &link("navigate")), 200);
        assert_eq!(status(&api, &link("no-cors")), 403);
    }

    #[test]
    fn a_browser_is_told_what_a_listed_page_may() {
        let guard = guard(Kind::Receiver, "127.0.0.1");
        let asked = parts(
            "OPTIONS",
            &[
                ("host", "localhost:4318"),
                ("origin", "https://shop.example.org"),
                ("access-control-request-method", "POST"),
                ("access-control-request-headers", "content-type,x-tenant"),
            ],
        );
        let Verdict::Preflight(headers) = guard.check(&asked) else { panic!("refused") };
        assert_eq!(headers[ACCESS_CONTROL_ALLOW_ORIGIN], "https://shop.example.org");
        assert_eq!(headers[ACCESS_CONTROL_ALLOW_METHODS], "POST");
        assert_eq!(headers[ACCESS_CONTROL_ALLOW_HEADERS], "content-type,x-tenant");
        assert_eq!(headers[VARY], "Origin");
    }
}
