//! Probes in TLS libraries are attached and detached while programs use them. No program may crash
//! or fail a request.
//!
//! `SPANWISE_TEST_RESTARTS` says how often the agent is started and stopped.

mod support;

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spanwise_capture_agent::{Agent, AgentConfig};
use support::programs::{Directory, Running, free_port, wait_for, wait_until_probed};

const NODE: &str = "
const fs = require('fs');
require('https').createServer(
  { key: fs.readFileSync('key.pem'), cert: fs.readFileSync('cert.pem') },
  (request, response) => response.end('hello'),
).listen(+process.argv[2], '127.0.0.1');
";

const GO: &str = r#"package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	panic(http.ListenAndServeTLS("127.0.0.1:"+os.Args[1], "cert.pem", "key.pem", nil))
}
"#;

const JAVA: &str = r#"
import com.sun.net.httpserver.*;
import java.io.*;
import java.net.*;
import java.security.KeyStore;
import javax.net.ssl.*;

public class Server {
    public static void main(String[] arguments) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(new FileInputStream("key.p12"), "secret".toCharArray());
        KeyManagerFactory keys = KeyManagerFactory.getInstance("SunX509");
        keys.init(store, "secret".toCharArray());
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), null, null);
        int port = Integer.parseInt(arguments[0]);
        HttpsServer server = HttpsServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.setHttpsConfigurator(new HttpsConfigurator(context));
        server.createContext("/", exchange -> {
            byte[] body = "hello\n".getBytes();
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.setExecutor(java.util.concurrent.Executors.newFixedThreadPool(4));
        server.start();
    }
}
"#;

/// Sends some hundred requests a second without end, so that probes change during requests and the
/// agent still gets a processor. Returns the number of requests and of failures.
#[derive(Default)]
struct Asked {
    times: AtomicU64,
    in_vain: AtomicU64,
}

const CLIENT: &str = "
import http.client, ssl, sys, time
context = ssl._create_unverified_context()
while True:
    connection = http.client.HTTPSConnection('127.0.0.1', int(sys.argv[1]), context=context, timeout=20)
    for _ in range(20):
        try:
            connection.request('GET', '/')
            good = connection.getresponse().read() in (b'hello', b'hello\\n')
        except Exception:
            good = False
        print('.' if good else 'x', end='', flush=True)
        time.sleep(0.001)
        if not good:
            break
    connection.close()
";

fn ask(directory: &Directory, port: u16, asked: &Arc<Asked>) -> Running {
    use std::io::Read;
    std::fs::write(directory.path().join("client.py"), CLIENT).expect("a script");
    let mut child = Command::new("python3")
        .arg(directory.path().join("client.py"))
        .arg(port.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    let mut answers = child.stdout.take().expect("piped");
    let asked = Arc::clone(asked);
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = answers.read(&mut bytes) {
            let bad = bytes[..count].iter().filter(|byte| **byte == b'x').count();
            asked.times.fetch_add(count as u64, Ordering::Relaxed);
            asked.in_vain.fetch_add(bad as u64, Ordering::Relaxed);
        }
    });
    Running(child)
}

fn run(command: &mut Command) {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.expect("it runs").success(), "{command:?}");
}

fn serve(directory: &Directory, command: &mut Command) -> Child {
    command
        .current_dir(directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the server runs")
}

#[test]
fn no_program_dies_of_probes_that_come_and_go() {
    let restarts: u32 = std::env::var("SPANWISE_TEST_RESTARTS")
        .map_or(20, |text| text.parse().expect("SPANWISE_TEST_RESTARTS is a number"));
    let directory = Directory::new("restarts");
    directory.certificate();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("server.js"), NODE).expect("a script");
    std::fs::write(path("server.go"), GO).expect("a program");
    std::fs::write(path("Server.java"), JAVA).expect("a program");
    run(Command::new("go")
        .args(["build", "-o", "server", "server.go"])
        .current_dir(directory.path()));
    run(Command::new("javac").arg("Server.java").current_dir(directory.path()));
    run(Command::new("openssl")
        .args(["pkcs12", "-export", "-inkey", "key.pem", "-in", "cert.pem"])
        .args(["-passout", "pass:secret", "-out", "key.p12"])
        .current_dir(directory.path()));
    let ports = [free_port(), free_port(), free_port()];
    let [node, go, java] = ports.map(|port| port.to_string());
    let mut servers = [
        Running(serve(&directory, Command::new("node").args(["server.js", &node]))),
        Running(serve(&directory, Command::new(path("server")).arg(&go))),
        Running(serve(&directory, Command::new("java").args(["-cp", ".", "Server", &java]))),
    ];
    let asked = Arc::new(Asked::default());
    let clients = ports.map(|port| {
        wait_for(port);
        ask(&directory, port, &asked)
    });
    for restart in 0..restarts {
        let agent = Agent::start(AgentConfig::default(), Box::new(|_| {})).expect("BPF is allowed");
        // Sometimes it is stopped while it attaches probes.
        std::thread::sleep(Duration::from_millis(u64::from(restart % 8) * 60));
        if restart == 0 {
            wait_until_probed(&agent, 3);
        }
        agent.stop();
        for server in &mut servers {
            let ended = server.0.try_wait().expect("its state is known");
            assert!(ended.is_none(), "after {restart} restarts a server has died: {ended:?}");
        }
        if (restart + 1).is_multiple_of(100) {
            eprintln!("{} of {restarts} restarts", restart + 1);
        }
    }
    drop(clients);
    let (times, in_vain) =
        (asked.times.load(Ordering::Relaxed), asked.in_vain.load(Ordering::Relaxed));
    eprintln!("{times} requests during {restarts} restarts, {in_vain} of them failed");
    assert!(times > u64::from(restarts), "{times} requests");
    assert_eq!(in_vain, 0, "of {times}");
}
