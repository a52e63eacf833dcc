//! The helper for Java: written to a file, and loaded into a running virtual machine.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::support::{run, text};

/// Performs work for each input line, on a pool's thread.
const PROGRAM: &str = r#"
import java.io.*;
import java.util.concurrent.*;
public class Asked {
    public static void main(String[] arguments) throws Exception {
        var pool = Executors.newFixedThreadPool(1);
        var lines = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line; (line = lines.readLine()) != null;) {
            String told = line;
            System.out.println(pool.submit(() -> "done " + told).get());
        }
        pool.shutdown();
    }
}
"#;

/// The JDKs of this host.
fn jdks() -> Vec<PathBuf> {
    let homes = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = homes
        .filter(|home| home.path().join("bin/javac").exists())
        .filter_map(|home| home.path().join("bin/java").canonicalize().ok())
        .collect();
    found.sort();
    found.dedup();
    found
}

struct Jvm {
    child: Child,
    asks: ChildStdin,
    told: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Jvm {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it runs");
        let asks = child.stdin.take().expect("piped");
        let told = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut jvm = Self { child, asks, told };
        assert_eq!(jvm.says(), "ready");
        jvm
    }

    fn says(&mut self) -> String {
        self.told.next().expect("a line").expect("text")
    }

    fn ask(&mut self, what: &str) -> String {
        writeln!(self.asks, "{what}").expect("it reads");
        self.says()
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn has_table(process: u32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("it lives");
    maps.contains("/spanwise-tasks-1.")
}

#[test]
fn a_virtual_machine_that_runs_takes_the_helper_once_and_goes_on() {
    let jdks = jdks();
    if jdks.is_empty() {
        eprintln!("not tested: there is no JDK below /usr/lib/jvm");
    }
    let here = tempfile::tempdir().expect("a directory");
    let helper = run(here.path(), &["java", "helper"]);
    if text(&helper.stderr).contains("without the helper") {
        eprintln!("not tested: the program was built without the helper, see `make java-helper`");
        return;
    }
    assert!(helper.stdout.starts_with(b"PK"), "a jar");
    let source = here.path().join("Asked.java");
    std::fs::write(&source, PROGRAM).expect("written");
    std::fs::set_permissions(here.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("allowed");
    let root = rustix::process::geteuid().is_root();
    // As root, and if possible as another user.
    let users: &[u32] = if root { &[0, 65_534] } else { &[rustix::process::geteuid().as_raw()] };
    for (java, user) in jdks.iter().flat_map(|java| users.iter().map(move |user| (java, *user))) {
        let mut command = Command::new(java);
        command.arg(&source);
        if root {
            command.uid(user).gid(user);
        }
        let mut jvm = Jvm::start(&mut command);
        let process = jvm.child.id();
        assert!(!has_table(process));
        let attach = ["java", "attach", &process.to_string()];
        let output = run(here.path(), &attach);
        assert!(output.status.success(), "{java:?} {user}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains("has the helper now"), "{output:?}");
        assert!(has_table(process));
        assert_eq!(jvm.ask("one"), "done one");
        let again = run(here.path(), &attach);
        assert!(text(&again.stdout).contains("has the helper already"), "{again:?}");
        assert_eq!(jvm.ask("two"), "done two");
        let detach = ["java", "detach", &process.to_string()];
        for says in ["does not have the helper any more", "does not have the helper\n"] {
            let output = run(here.path(), &detach);
            assert!(output.status.success(), "{java:?} {user}: {}", text(&output.stderr));
            assert!(text(&output.stdout).contains(says), "{output:?}");
            assert_eq!(jvm.ask("three"), "done three");
        }
        let output = run(here.path(), &attach);
        assert!(text(&output.stdout).contains("has the helper now"), "{output:?}");
        assert_eq!(jvm.ask("four"), "done four");
    }
}

#[test]
fn what_is_no_virtual_machine_is_left_alone() {
    let here = tempfile::tempdir().expect("a directory");
    let mut other = Command::new("sleep").arg("60").spawn().expect("it runs");
    let process = other.id().to_string();
    let output = run(here.path(), &["java", "attach", &process]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    let expected =
        [format!("process {process} is no Java virtual machine"), "without the helper".into()];
    assert!(expected.iter().any(|each| said.contains(each)), "{said}");
    assert!(other.try_wait().expect("its state").is_none(), "it runs on");
    let _ = other.kill();
    let _ = other.wait();
    let output = run(here.path(), &["java", "attach", "4000000000"]);
    assert_eq!(output.status.code(), Some(1));
}
