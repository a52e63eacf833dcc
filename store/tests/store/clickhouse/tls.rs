//! TLS, terminated by a proxy in front of ClickHouse: trusted CAs, and error messages.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use spanwise_store::StoreError;
use spanwise_store::clickhouse::ClickHouseStore;

use super::server::{address, shared};
use super::{open, sending};
use crate::support::{append, everything, numbers, until_in_files};

/// nginx in front of the shared ClickHouse, with one port for each certificate.
struct Proxy {
    child: Child,
    directory: tempfile::TempDir,
    ports: Vec<u16>,
    /// A port without TLS.
    plain: u16,
}

/// A certificate's names, its CA, and its validity in days from now.
struct Certificate {
    names: &'static str,
    ca: &'static str,
    days: &'static str,
}

impl Proxy {
    fn start(certificates: &[Certificate]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let at = directory.path();
        for ca in ["ours", "theirs"] {
            openssl(
                at,
                &format!("req -x509 -newkey EC -nodes -keyout {ca}.key -out {ca}.pem -days 2"),
                &format!("/CN={ca}"),
            );
        }
        let listeners: Vec<TcpListener> = (0..=certificates.len())
            .map(|_| TcpListener::bind(("127.0.0.1", 0)).expect("a port"))
            .collect();
        let mut ports: Vec<u16> =
            listeners.iter().map(|at| at.local_addr().expect("an address").port()).collect();
        let plain = ports.pop().expect("a port");
        let mut servers = format!("server {{ listen 127.0.0.1:{plain}; }}\n");
        for (n, (certificate, port)) in certificates.iter().zip(&ports).enumerate() {
            let Certificate { names, ca, days } = certificate;
            fs::write(at.join("extensions"), format!("subjectAltName={names}")).expect("written");
            openssl(at, &format!("req -newkey EC -nodes -keyout {n}.key -out {n}.csr"), "/CN=n");
            openssl(
                at,
                &format!(
                    "x509 -req -in {n}.csr -CA {ca}.pem -CAkey {ca}.key -CAcreateserial \
                     -days {days} -extfile extensions -out {n}.pem"
                ),
                "",
            );
            servers.push_str(&format!(
                "server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {n}.pem; \
                 ssl_certificate_key {n}.key; client_max_body_size 0; \
                 location / {{ proxy_pass http://127.0.0.1:{}; }} }}\n",
                shared().port
            ));
        }
        let here = at.display();
        let configuration = format!(
            "pid {here}/pid; error_log {here}/log; events {{}}\nhttp {{ access_log off; \
             client_body_temp_path {here}/body; proxy_temp_path {here}/proxy; \
             fastcgi_temp_path {here}/1; uwsgi_temp_path {here}/2; scgi_temp_path {here}/3;\n\
             {servers}}}"
        );
        fs::write(at.join("nginx.conf"), configuration).expect("written");
        drop(listeners);
        let child = Command::new("nginx")
            .arg("-c")
            .arg(at.join("nginx.conf"))
            .args(["-g", "daemon off; master_process off;"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx starts; `make setup` installs it");
        let listens = |port: &u16| std::net::TcpStream::connect(("127.0.0.1", *port)).is_ok();
        let begin = std::time::Instant::now();
        while !ports.iter().all(listens) {
            let log = || fs::read_to_string(at.join("log")).unwrap_or_default();
            assert!(begin.elapsed().as_secs() < 20, "nginx does not listen: {}", log());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Self { child, directory, ports, plain }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The address of a database behind one of the certificates.
    fn address(&self, certificate: usize, database: &str, ca: &Path) -> String {
        let plain = address(self.ports[certificate], database);
        format!("{}?ca={}", plain.replacen("clickhouse:", "clickhouses:", 1), ca.display())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn openssl(at: &Path, arguments: &str, subject: &str) {
    let mut command = Command::new("openssl");
    command.current_dir(at).args(arguments.split_whitespace());
    if arguments.contains("-newkey") {
        command.args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", subject]);
    }
    let output = command.output().expect("openssl runs; `make setup` installs it");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

const GOOD: usize = 0;
const EXPIRED: usize = 1;
const OF_ANOTHER_NAME: usize = 2;
const OF_ANOTHER_CA: usize = 3;

fn proxy() -> Proxy {
    let ours = "IP:127.0.0.1";
    Proxy::start(&[
        Certificate { names: ours, ca: "ours", days: "2" },
        Certificate { names: ours, ca: "ours", days: "-1" },
        Certificate { names: "DNS:clickhouse.example", ca: "ours", days: "2" },
        Certificate { names: ours, ca: "theirs", days: "2" },
    ])
}

#[tokio::test]
async fn spans_go_over_tls_where_the_ca_is_trusted() {
    let proxy = proxy();
    let spool = tempfile::tempdir().unwrap();
    let database = shared().new_database();
    let address = proxy.address(GOOD, &database, &proxy.file("ours.pem"));
    let store = open(sending(&address, spool.path())).await;
    append(&*store, 0..500).await;
    until_in_files(&*store).await;
    assert_eq!(numbers(&everything(&*store).await), (0..500).collect::<Vec<_>>());
    assert_eq!(shared().ask(&format!("SELECT count() FROM {database}.spans")), "500");
}

#[tokio::test]
async fn whoever_cannot_be_trusted_is_sent_nothing_and_named() {
    let proxy = proxy();
    let spool = tempfile::tempdir().unwrap();
    let database = shared().new_database();
    let ours = proxy.file("ours.pem");
    let no_certificate = proxy.file("no-certificate.pem");
    fs::write(&no_certificate, "no certificate").expect("written");
    let of_system = proxy.address(GOOD, &database, &ours);
    let of_system = of_system.split_once('?').expect("a parameter").0.to_owned();
    let no_tls = address(proxy.plain, &database).replacen("clickhouse:", "clickhouses:", 1);
    let no_tls = format!("{no_tls}?ca={}", ours.display());
    for (address, words) in [
        (proxy.address(EXPIRED, &database, &ours), "has expired"),
        (
            proxy.address(OF_ANOTHER_NAME, &database, &ours),
            "is for clickhouse.example, and not for 127.0.0.1",
        ),
        (proxy.address(OF_ANOTHER_CA, &database, &ours), "no CA that is trusted here"),
        (proxy.address(GOOD, &database, &proxy.file("theirs.pem")), "no CA that is trusted here"),
        (of_system, "no CA"),
        (no_tls, "does not speak TLS"),
        (proxy.address(GOOD, &database, &proxy.file("absent.pem")), "cannot be read"),
        (proxy.address(GOOD, &database, &no_certificate), "has no certificate"),
    ] {
        let mut error = None;
        // A store that failed to open releases its directory a moment later.
        for _ in 0..200 {
            error = ClickHouseStore::open(sending(&address, spool.path())).await.err();
            if error.as_ref().is_none_or(|error| !error.to_string().contains("in use")) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let Some(StoreError::Invalid(reason)) = error else { panic!("{words}: {error:?}") };
        assert!(reason.contains(words), "{reason}");
        assert!(!reason.contains("ss%2Fw"), "{reason}");
    }
}
