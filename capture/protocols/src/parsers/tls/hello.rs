//! ClientHello and ServerHello, the two handshake messages that are always in plaintext (RFC 8446,
//! sections 4.1.2 and 4.1.3), read as far as they were captured.

/// Message types.
pub(super) const CLIENT: u8 = 1;
pub(super) const SERVER: u8 = 2;

/// Extension types (IANA, "TLS ExtensionType Values").
const SERVER_NAME: u16 = 0;
const PROTOCOLS: u16 = 16;
const SHARED_KEY: u16 = 41;
const VERSIONS: u16 = 43;

/// Limits of what is kept.
const MAX_PROTOCOLS: usize = 8;
const MAX_PROTOCOL_BYTES: usize = 32;
const MAX_NAME_BYTES: usize = 255;

/// The random value of a ServerHello that requests another ClientHello: the SHA-256 of
/// "HelloRetryRequest" (RFC 8446, section 4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Data of a ClientHello.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) session: Vec<u8>,
    pub(super) server_name: Option<String>,
    pub(super) protocols: Vec<String>,
}

/// Data of a ServerHello.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) version: u16,
    pub(super) session: Vec<u8>,
    pub(super) cipher: u16,
    pub(super) protocol: Option<String>,
    pub(super) takes_key: bool,
    pub(super) retry: bool,
}

/// A ClientHello or a ServerHello.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hello {
    Client(Client),
    Server(Server),
}

/// Reads bytes in order; returns `None` at the end.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Reads bytes preceded by a one-byte length.
    fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(usize::from(length))
    }

    /// Reads bytes preceded by a two-byte length.
    fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }
}

/// Reads a hello. Data after the captured bytes is ignored.
pub(super) fn read(message: &[u8]) -> Option<Hello> {
    let mut reader = Reader(message);
    let kind = reader.u8()?;
    reader.take(3)?;
    let version = reader.u16()?;
    let random = reader.take(32)?;
    let session = reader.short()?.to_vec();
    match kind {
        CLIENT => {
            let mut client = Client { session, ..Client::default() };
            if reader.long().is_some() && reader.short().is_some() {
                read_client(&mut reader, &mut client);
            }
            Some(Hello::Client(client))
        }
        SERVER => {
            let cipher = reader.u16()?;
            let retry = random == RETRY;
            let mut server = Server { version, session, cipher, retry, ..Server::default() };
            reader.u8()?;
            read_server(&mut reader, &mut server);
            Some(Hello::Server(server))
        }
        _ => None,
    }
}

/// The extensions that were captured completely. Their total length is not needed.
fn extensions<'a>(reader: &mut Reader<'a>) -> impl Iterator<Item = (u16, &'a [u8])> {
    let _ = reader.u16();
    std::iter::from_fn(|| Some((reader.u16()?, reader.long()?)))
}

fn read_client(reader: &mut Reader<'_>, client: &mut Client) {
    for (kind, content) in extensions(reader) {
        let mut content = Reader(content);
        match kind {
            SERVER_NAME => client.server_name = name(&mut content),
            PROTOCOLS => {
                let list = content.long().unwrap_or_default();
                client.protocols = protocols(list).take(MAX_PROTOCOLS).collect();
            }
            _ => {}
        }
    }
}

fn read_server(reader: &mut Reader<'_>, server: &mut Server) {
    for (kind, content) in extensions(reader) {
        let mut content = Reader(content);
        match kind {
            VERSIONS => server.version = content.u16().unwrap_or(server.version),
            PROTOCOLS => {
                server.protocol = protocols(content.long().unwrap_or_default()).next();
            }
            SHARED_KEY => server.takes_key = true,
            _ => {}
        }
    }
}

/// RFC 6066, section 3: a list of names with types; type 0 is a host name.
fn name(content: &mut Reader<'_>) -> Option<String> {
    let mut list = Reader(content.long()?);
    let kind = list.u8()?;
    let name = list.long()?;
    let right = kind == 0
        && (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.iter().all(u8::is_ascii_graphic);
    right.then(|| crate::bytes::text(name, MAX_NAME_BYTES))
}

/// RFC 7301, section 3.1. Names that are not text are GREASE values (RFC 8701) and are skipped.
fn protocols(list: &[u8]) -> impl Iterator<Item = String> {
    let mut list = Reader(list);
    std::iter::from_fn(move || list.short()).filter_map(|name| {
        let right = !name.is_empty()
            && name.len() <= MAX_PROTOCOL_BYTES
            && name.iter().all(u8::is_ascii_graphic);
        right.then(|| crate::bytes::text(name, MAX_PROTOCOL_BYTES))
    })
}

/// The name of an alert that ends a handshake (RFC 8446, section 6.2, and alerts that only RFC 5246
/// has).
pub(super) const fn alert_name(description: u8) -> Option<&'static str> {
    Some(match description {
        // close_notify, user_canceled, no_renegotiation
        0 | 90 | 100 => return None,
        10 => "unexpected_message",
        20 => "bad_record_mac",
        21 => "decryption_failed",
        22 => "record_overflow",
        30 => "decompression_failure",
        40 => "handshake_failure",
        41 => "no_certificate",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        60 => "export_restriction",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        86 => "inappropriate_fallback",
        109 => "missing_extension",
        110 => "unsupported_extension",
        111 => "certificate_unobtainable",
        112 => "unrecognized_name",
        113 => "bad_certificate_status_response",
        114 => "bad_certificate_hash_value",
        115 => "unknown_psk_identity",
        116 => "certificate_required",
        120 => "no_application_protocol",
        _ => "unknown_alert",
    })
}

/// The registered name of a cipher suite in current use; the number for all others (IANA, "TLS
/// Cipher Suites").
pub(super) fn cipher_name(cipher: u16) -> String {
    let name = match cipher {
        0x002f => "TLS_RSA_WITH_AES_128_CBC_SHA",
        0x0035 => "TLS_RSA_WITH_AES_256_CBC_SHA",
        0x003c => "TLS_RSA_WITH_AES_128_CBC_SHA256",
        0x003d => "TLS_RSA_WITH_AES_256_CBC_SHA256",
        0x009c => "TLS_RSA_WITH_AES_128_GCM_SHA256",
        0x009d => "TLS_RSA_WITH_AES_256_GCM_SHA384",
        0x009e => "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256",
        0x009f => "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384",
        0x1301 => "TLS_AES_128_GCM_SHA256",
        0x1302 => "TLS_AES_256_GCM_SHA384",
        0x1303 => "TLS_CHACHA20_POLY1305_SHA256",
        0x1304 => "TLS_AES_128_CCM_SHA256",
        0x1305 => "TLS_AES_128_CCM_8_SHA256",
        0xc009 => "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
        0xc00a => "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
        0xc013 => "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
        0xc014 => "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
        0xc023 => "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
        0xc024 => "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384",
        0xc027 => "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
        0xc028 => "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384",
        0xc02b => "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        0xc02c => "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        0xc02f => "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        0xc030 => "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        0xcca8 => "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        0xcca9 => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        0xccaa => "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        _ => return format!("0x{cipher:04x}"),
    };
    name.to_owned()
}
