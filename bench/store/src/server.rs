//! The measured server: the real program in a separate process.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use spanwise_bench_load::Client;

use crate::measure::{Memory, directory_bytes, process_cpu_seconds, process_peak_mb};

/// The store is settled when all rows are in files, and the server has been idle for this long.
const QUIET: Duration = Duration::from_secs(6);
/// CPU-seconds in that time that still count as idle, because of timers.
const QUIET_CPU_SECONDS: f64 = 0.15;
const LONGEST_SETTLING: Duration = Duration::from_secs(900);

/// A running server. It is killed when dropped.
pub(crate) struct Server {
    child: Child,
    data: PathBuf,
    api: SocketAddr,
    otlp: SocketAddr,
}

impl Server {
    /// Starts the program with its data below `directory`, on free ports, and otherwise with
    /// default settings.
    pub(crate) fn start(program: &Path, directory: &Path) -> anyhow::Result<Self> {
        let context = || format!("cannot run {}; `make build` makes it", program.display());
        let data = directory.join("data");
        // Relative to the current directory, not to the program's.
        let program = &program.canonicalize().with_context(context)?;
        let mut command = Command::new(program);
        command.env_clear().env("HOME", directory).current_dir(directory).stdin(Stdio::null());
        for setting in listeners(program, directory)? {
            command.env(setting, "0");
        }
        let mut child = command
            .args(["server", "--log", "warn", "--data"])
            .arg(&data)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(context)?;
        let banner = banner(&mut child)?;
        let address = |name: &str| {
            let line = banner.lines().find(|line| line.trim_start().starts_with(name))?;
            let word = line.split_whitespace().find(|word| word.contains("127.0.0.1:"))?;
            word.trim_start_matches("http://").split('/').next()?.parse().ok()
        };
        let Some((api, otlp)) = address("UI and API").zip(address("OTLP HTTP")) else {
            let _ = child.kill();
            bail!("the server did not say where it listens; it printed:\n{banner}");
        };
        Ok(Self { child, data, api, otlp })
    }

    /// Address of the API.
    pub(crate) const fn api(&self) -> SocketAddr {
        self.api
    }

    /// Address for OTLP over HTTP.
    pub(crate) const fn otlp(&self) -> SocketAddr {
        self.otlp
    }

    /// Where the Parquet files are.
    pub(crate) fn files(&self) -> &Path {
        &self.data
    }

    /// CPU time used so far.
    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        process_cpu_seconds(self.child.id())
    }

    /// Peak memory.
    pub(crate) fn peak_rss_mb(&self) -> anyhow::Result<f64> {
        process_peak_mb(self.child.id())
    }

    /// Current memory.
    pub(crate) fn memory(&self) -> anyhow::Result<Memory> {
        Memory::of(self.child.id())
    }

    /// Total size on disk.
    pub(crate) fn disk_bytes(&self) -> anyhow::Result<u64> {
        directory_bytes(&self.data)
    }

    /// Number of rows, in memory and in files.
    pub(crate) fn stored(&self) -> anyhow::Result<u64> {
        let status = self.status()?;
        let rows = |name: &str| status["store"][name].as_u64().unwrap_or(0);
        Ok(rows("recent_rows") + rows("file_rows"))
    }

    fn status(&self) -> anyhow::Result<Value> {
        let reply = Client::connect(self.api)?.get("/api/v1/status")?;
        ensure!(reply.status == 200, "/api/v1/status answered {}", reply.status);
        Ok(serde_json::from_slice(&reply.body)?)
    }

    /// Waits until all rows, which must be this many, are in files, and the server has finished its
    /// work on them.
    pub(crate) fn wait_settled(&mut self, expected: u64) -> anyhow::Result<u64> {
        let began = Instant::now();
        let mut calm_since = (Instant::now(), self.cpu_seconds()?, 0);
        loop {
            std::thread::sleep(Duration::from_millis(250));
            ensure!(self.child.try_wait()?.is_none(), "the server ended by itself");
            let store = &self.status()?["store"];
            let number = |name: &str| store[name].as_u64().unwrap_or(0);
            let (files, cpu) = (number("files"), self.cpu_seconds()?);
            let (since, cpu_then, files_then) = calm_since;
            let busy = cpu - cpu_then > QUIET_CPU_SECONDS || files != files_then;
            if busy || number("recent_rows") > 0 {
                calm_since = (Instant::now(), cpu, files);
            } else if since.elapsed() >= QUIET {
                let rows = number("file_rows");
                ensure!(rows == expected, "{expected} spans were sent and {rows} are stored");
                return Ok(rows);
            }
            ensure!(
                began.elapsed() < LONGEST_SETTLING,
                "the store has not settled for {LONGEST_SETTLING:?}: {store}"
            );
        }
    }

    /// Stops it like a service manager.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(process.context("no process id")?, Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Environment variables of all settings that are ports.
fn listeners(program: &Path, directory: &Path) -> anyhow::Result<Vec<String>> {
    let output = Command::new(program)
        .args(["config", "--json"])
        .env_clear()
        .current_dir(directory)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let config: Value =
        serde_json::from_slice(&output.stdout).context("`spanwise config --json`")?;
    let keys =
        config["settings"].as_array().into_iter().flatten().filter_map(|s| s["key"].as_str());
    // The other settings in this table are limits of all ports.
    let is_limit = |key: &str| key.contains("connections") || key.ends_with("_time");
    let is_port =
        |key: &&str| key.starts_with("listen.") && *key != "listen.address" && !is_limit(key);
    Ok(keys
        .filter(is_port)
        .map(|key| format!("SPANWISE_{}", key.replace('.', "_").to_uppercase()))
        .collect())
}

/// Its startup message, which ends with an empty line.
fn banner(child: &mut Child) -> anyhow::Result<String> {
    let output = child.stdout.take().context("its output was asked for")?;
    let mut banner = String::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        if line.trim().is_empty() {
            break;
        }
        banner.push_str(&line);
        banner.push('\n');
    }
    Ok(banner)
}
