//! Connections to ClickHouse, with TLS if the address asks for it, and explanations of certificate
//! errors.

use std::error::Error;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, InvalidMessage, RootCertStore};

use super::address::{Address, Tls};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A connector that opens connections with or without TLS, by the request's scheme.
///
/// # Errors
/// If there are no CA certificates to trust.
pub(super) fn connector(address: &Address) -> Result<HttpsConnector<HttpConnector>, String> {
    let mut plain = HttpConnector::new();
    plain.set_connect_timeout(Some(CONNECT_TIMEOUT));
    plain.set_nodelay(true);
    plain.enforce_http(false);
    let trusted = match &address.tls {
        Some(tls) => trusted(tls)?,
        None => RootCertStore::empty(),
    };
    let config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?
            .with_root_certificates(trusted)
            .with_no_client_auth();
    let builder = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http();
    Ok(builder.enable_http1().wrap_connector(plain))
}

/// The CAs in the configured file, or the system's.
fn trusted(tls: &Tls) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    let Some(path) = &tls.ca else {
        let found = rustls_native_certs::load_native_certs();
        store.add_parsable_certificates(found.certs);
        return if store.is_empty() {
            Err("this system has no CA certificates: install them (Debian's ca-certificates), \
                 or name a file of them with ?ca=FILE in the ClickHouse address"
                .to_owned())
        } else {
            Ok(store)
        };
    };
    let pem = fs::read(path)
        .map_err(|error| format!("the CA file {} cannot be read: {error}", path.display()))?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let added = certificate
            .map_err(|error| format!("{error:?}"))
            .and_then(|certificate| store.add(certificate).map_err(|error| error.to_string()));
        added.map_err(|why| {
            format!("the CA file {} has something that is no certificate: {why}", path.display())
        })?;
    }
    if store.is_empty() {
        return Err(format!(
            "the CA file {} has no certificate; it begins with -----BEGIN CERTIFICATE-----",
            path.display()
        ));
    }
    Ok(store)
}

/// The reason for a failed TLS handshake, if that is the cause of the error.
pub(super) fn untrusted(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(message(tls));
    }
    // `source` of an IO error skips the error that it wraps and returns that error's source.
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    wrapped.and_then(|wrapped| untrusted(wrapped)).or_else(|| error.source().and_then(untrusted))
}

fn message(error: &rustls::Error) -> String {
    use rustls::Error::{InvalidCertificate, InvalidMessage as Unexpected, PeerIncompatible};
    match error {
        InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate comes from no CA that is trusted here; name the CA's file with \
             ?ca=FILE in the address, or see who answers there"
                .to_owned()
        }
        InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "its certificate has expired; renew it, or see this machine's clock".to_owned()
        }
        InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "its certificate is not valid yet; see the clocks of both machines".to_owned(),
        InvalidCertificate(CertificateError::NotValidForNameContext { expected, presented }) => {
            // rustls writes `DnsName("name")`.
            let names = presented.iter().map(|name| name.split('"').nth(1).unwrap_or(name));
            format!(
                "its certificate is for {}, and not for {}; write one of its names in the address",
                names.collect::<Vec<_>>().join(", "),
                expected.to_str()
            )
        }
        InvalidCertificate(CertificateError::NotValidForName) => {
            "its certificate is for another name than the address has".to_owned()
        }
        InvalidCertificate(_) => format!("its certificate cannot be relied upon: {error}"),
        Unexpected(InvalidMessage::InvalidContentType) => {
            "what answers there does not speak TLS; write clickhouse:// for plain HTTP, or the \
             port of HTTPS (8443)"
                .to_owned()
        }
        PeerIncompatible(_) => format!("it speaks no TLS that is known here: {error}"),
        _ => format!("TLS does not come about: {error}"),
    }
}
