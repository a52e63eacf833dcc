//! Invalid flags, invalid settings, and resources that are not available.

use std::net::{TcpListener, UdpSocket};

use crate::support::{PORTS, run, spanwise, text};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn a_wrong_flag_ends_with_2_and_names_it() {
    let here = directory();
    for (arguments, named) in [
        (&["up", "--htpp", "1"][..], "--htpp"),
        (&["server", "--http", "nowhere"][..], "`nowhere` is no address to listen on"),
        (&["agent", "--hook", "magic"][..], "`magic` is no hook; known: auto, sock-length"),
        (&["search", "--limit", "501"][..], "501"),
        (&["trace", "xyz"][..], "`xyz` is no id"),
        (&["status", "--url", "127.0.0.1:7070"][..], "http://HOST:PORT"),
        (&["frobnicate"][..], "frobnicate"),
        (&[][..], "Usage"),
    ] {
        let output = run(here.path(), arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(named), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn an_unknown_key_in_the_file_ends_with_2_and_names_the_nearest() {
    let here = directory();
    std::fs::write(here.path().join("spanwise.toml"), "[listen]\nhtpp = 1\n").expect("written");
    for command in ["up", "server", "agent", "config"] {
        let output = run(here.path(), &[command]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}: {message}");
        assert!(
            message.contains(
                "./spanwise.toml: unknown key `listen.htpp`; did you mean `listen.http`?"
            ),
            "{command}: {message}"
        );
    }
}

#[test]
fn config_tells_where_each_value_came_from() {
    let here = directory();
    std::fs::write(here.path().join("own.toml"), "[retain]\nage = \"3d\"\n").expect("written");
    let output = spanwise(here.path())
        .args(["config", "--config", "own.toml", "--http", "0.0.0.0:1"])
        .env("SPANWISE_LISTEN_OTLP_HTTP", "2")
        .output()
        .expect("it runs");
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for (setting, origin) in [
        ("http = \"0.0.0.0:1\"", "# flag"),
        ("otlp_http = 2", "# environment SPANWISE_LISTEN_OTLP_HTTP"),
        ("age = \"3d\"", "# file own.toml"),
        ("otlp_grpc = 4317", "# default"),
    ] {
        let line = shown.lines().find(|line| line.starts_with(setting));
        assert!(line.is_some_and(|line| line.ends_with(origin)), "{setting}: {shown}");
    }
}

#[test]
fn a_port_in_use_ends_with_1_and_names_its_owner() {
    let here = directory();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let datagrams = UdpSocket::bind(&address).expect("the same port, for UDP");
    for (flag, purpose) in [
        ("--http", "UI and API"),
        ("--otlp-grpc", "agents, and OTLP over gRPC"),
        ("--otlp-http", "OTLP over HTTP"),
        ("--zipkin", "Zipkin's spans over HTTP"),
        ("--jaeger-grpc", "Jaeger's spans over gRPC"),
        ("--jaeger-http", "Jaeger's thrift over HTTP"),
        ("--jaeger-udp-compact", "Jaeger's compact thrift over UDP"),
        ("--jaeger-udp-binary", "Jaeger's binary thrift over UDP"),
    ] {
        let mut arguments = vec!["server", "--data", "data", flag, &address];
        let others = PORTS.chunks(2).filter(|other| other[0] != flag);
        arguments.extend(others.flatten());
        let output = run(here.path(), &arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        let expected = format!(
            "cannot listen on {address} ({purpose}): address already in use by pid {} (",
            std::process::id()
        );
        assert!(message.contains(&expected), "{message}");
        assert!(message.contains(&format!("stop it or choose another with {flag}")), "{message}");
        let spared = flag == "--zipkin" || flag.starts_with("--jaeger");
        assert_eq!(message.contains(&format!("or do without: {flag} off")), spared, "{message}");
        assert!(!here.path().join("data").exists(), "the data directory was touched");
    }
    drop(datagrams);
}

#[test]
fn asking_where_no_server_is_ends_with_1_and_says_what_to_do() {
    let here = directory();
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let url = format!("http://{free}");
    for arguments in [
        &["services"][..],
        &["search"][..],
        &["status"][..],
        &["sql", "SELECT 1"][..],
        &["trace", "0123456789abcdef"][..],
    ] {
        let output = spanwise(here.path()).args(arguments).env("SPANWISE_URL", &url).output();
        let output = output.expect("it runs");
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(message.contains(&format!("cannot reach Spanwise at {url}")), "{message}");
        assert!(message.contains("spanwise up"), "{message}");
    }
}
