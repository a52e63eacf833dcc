//! HotSpot's attach mechanism (`attachListener_linux.cpp`). A file `.attach_pidN` and SIGQUIT make
//! the virtual machine listen on a Unix socket in its /tmp. A request is five NUL-terminated texts.
//! The response begins with a number, 0 for success. N is the process id in the process's own
//! namespace, and /tmp is that of its own root. The virtual machine accepts only its own user and
//! root, as it sees them, so the request is made as its own user.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Gid, Pid, Signal, Uid, geteuid, kill_process};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::failure::Failure;

/// Time for the virtual machine to start listening, which needs a safepoint of all threads.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);
/// Time for its response.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// A response is a few lines.
const MOST_ANSWER_BYTES: u64 = 64 * 1024;
const O_NOFOLLOW: i32 = 0o400_000;
const O_DIRECTORY: i32 = 0o200_000;
const SIGQUIT_BIT: u64 = 1 << 2;

/// The facts about a process from `/proc/PID/status` (proc(5)).
#[derive(Debug, PartialEq, Eq)]
struct Target {
    user: u32,
    group: u32,
    /// The process id in its own namespace.
    inner: u32,
    /// Whether the process handles SIGQUIT. Otherwise the signal would kill it.
    catches_quit: bool,
}

impl Target {
    fn read(status: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|line| line.split_whitespace().collect::<Vec<_>>())
        };
        let number = |name: &str, at: usize| field(name)?.get(at)?.parse().ok();
        let caught = u64::from_str_radix(field("SigCgt:")?.first()?, 16).ok()?;
        Some(Self {
            user: number("Uid:", 1)?,
            group: number("Gid:", 1)?,
            inner: field("NSpid:")?.last()?.parse().ok()?,
            catches_quit: caught & SIGQUIT_BIT != 0,
        })
    }
}

/// What a virtual machine is asked for.
enum Request {
    /// To load an agent from this JAR, with these options.
    Load { jar: Vec<u8>, options: &'static str },
    /// To tell its system properties.
    Properties,
}

/// Loads an agent from this JAR into a virtual machine, or tells a loaded one these options.
pub(super) fn load(process: u32, jar: &[u8], options: &'static str) -> Result<(), Failure> {
    send(process, Request::Load { jar: jar.to_vec(), options }).map(|_| ())
}

/// The system properties of a virtual machine, one a line.
pub(super) fn properties(process: u32) -> Result<String, Failure> {
    send(process, Request::Properties)
}

fn send(process: u32, request: Request) -> Result<String, Failure> {
    let gone = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => Failure::cannot(format_args!("there is no process {process}")),
        _ => Failure::cannot(format_args!(
            "process {process} cannot be looked into: {error}; run as root, or as its user"
        )),
    };
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).map_err(gone)?;
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).map_err(gone)?;
    if !maps.lines().any(|line| line.ends_with("/libjvm.so")) {
        return Err(Failure::cannot(format_args!("process {process} is no Java virtual machine")));
    }
    let target = Target::read(&status).ok_or_else(|| {
        Failure::cannot(format_args!("/proc/{process}/status does not say what it should"))
    })?;
    let temporary = OpenOptions::new()
        .read(true)
        .custom_flags(O_DIRECTORY)
        .open(Path::new("/proc").join(process.to_string()).join("root").join("tmp"))
        .map_err(gone)?;
    // Changes of a thread's credentials affect only that thread.
    let asking = std::thread::spawn(move || ask(process, &target, &temporary, &request));
    asking.join().unwrap_or_else(|_| Err(Failure::cannot("the thread that asks has failed")))
}

fn ask(
    process: u32,
    target: &Target,
    temporary: &File,
    wanted: &Request,
) -> Result<String, Failure> {
    become_user(target).map_err(|error| {
        Failure::cannot(format_args!("cannot become the user of process {process}: {error}"))
    })?;
    // By descriptor, because the process's directories are not accessible as another user.
    let place = PathBuf::from(format!("/proc/thread-self/fd/{}", temporary.as_raw_fd()));
    let mut stream = listen(process, target, &place)?;
    let cannot = |what: &str, error: std::io::Error| {
        Failure::cannot(format_args!("cannot {what} process {process}: {error}"))
    };
    let Request::Load { jar, options } = wanted else {
        return request(&mut stream, "1\0properties\0\0\0\0").map_err(|error| cannot("ask", error));
    };
    let name = format!(".spanwise-java-helper-{}-{}.jar", std::process::id(), target.inner);
    let path = place.join(&name);
    write_new(&path, jar).map_err(|error| cannot("write the helper to the /tmp of", error))?;
    let options = if options.is_empty() { String::new() } else { format!("={options}") };
    let answer =
        request(&mut stream, &format!("1\0load\0instrument\0false\0/tmp/{name}{options}\0"));
    // The virtual machine keeps the file open.
    let removed = std::fs::remove_file(&path);
    let answer = answer.map_err(|error| cannot("ask", error))?;
    judge(process, &answer)?;
    removed.map_err(|error| cannot("remove the helper from the /tmp of", error))?;
    Ok(answer)
}

fn become_user(target: &Target) -> rustix::io::Result<()> {
    if !geteuid().is_root() || (target.user == 0 && target.group == 0) {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(target.user), Gid::from_raw(target.group));
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)
}

fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).custom_flags(O_NOFOLLOW);
    options.open(path)?.write_all(bytes)
}

/// The socket, once the virtual machine listens.
fn listen(process: u32, target: &Target, place: &Path) -> Result<UnixStream, Failure> {
    let socket = place.join(format!(".java_pid{}", target.inner));
    if let Ok(stream) = UnixStream::connect(&socket) {
        return Ok(stream);
    }
    if !target.catches_quit {
        return Err(Failure::cannot(format_args!(
            "process {process} does not take SIGQUIT, by which it would be asked: it runs with -Xrs \
             or has not begun yet; start it with -javaagent, see `spanwise java helper`"
        )));
    }
    let number = i32::try_from(process).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| Failure::Usage(format!("{process} is no process")))?;
    let asks = place.join(format!(".attach_pid{}", target.inner));
    let cannot = |error: std::io::Error| {
        Failure::cannot(format_args!("cannot ask process {process} to listen: {error}"))
    };
    write_new(&asks, b"").map_err(cannot)?;
    let asked = kill_process(number, Signal::QUIT).map_err(|error| cannot(error.into()));
    let end = Instant::now() + LISTENS_WITHIN;
    let mut stream = UnixStream::connect(&socket);
    while stream.is_err() && asked.is_ok() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
        stream = UnixStream::connect(&socket);
    }
    // The virtual machine may have removed it.
    let _ = std::fs::remove_file(&asks);
    asked?;
    stream.map_err(|error| {
        Failure::cannot(format_args!(
            "process {process} does not listen after {} s ({error}): it may run with \
             -XX:+DisableAttachMechanism, or be no HotSpot; start it with -javaagent, see `spanwise \
             java helper`",
            LISTENS_WITHIN.as_secs()
        ))
    })
}

fn request(stream: &mut UnixStream, texts: &str) -> std::io::Result<String> {
    stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
    stream.write_all(texts.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MOST_ANSWER_BYTES).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The first line is 0 if the request was understood. The result follows.
fn judge(process: u32, answer: &str) -> Result<(), Failure> {
    let mut lines = answer.lines();
    let understood = lines.next().is_some_and(|line| line.trim() == "0");
    let rest = lines.collect::<Vec<_>>().join("; ");
    let returned = rest.trim().strip_prefix("return code:").map(str::trim);
    if understood && (rest.trim().is_empty() || returned == Some("0") || rest.trim() == "0") {
        return Ok(());
    }
    Err(Failure::cannot(format_args!(
        "process {process} does not take the helper: {:?}; an agent may not be loaded where it runs \
         with -XX:-EnableDynamicAgentLoading",
        answer.trim()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_status() {
        let status = "Name:\tjava\nUid:\t1000\t1001\t1000\t1000\nGid:\t7\t8\t7\t7\n\
                      NSpid:\t4242\t17\nSigCgt:\t2000000181005ccf\n";
        let target = Target { user: 1001, group: 8, inner: 17, catches_quit: true };
        assert_eq!(Target::read(status), Some(target));
        let deaf = status.replace("5ccf", "5cc8");
        assert!(Target::read(&deaf).is_some_and(|target| !target.catches_quit));
        assert_eq!(Target::read("Uid:\t1\n"), None);
    }

    #[test]
    fn only_success_is_success() {
        for good in ["0\n", "0\nreturn code: 0\n", "0\n0\n"] {
            assert!(judge(1, good).is_ok(), "{good:?}");
        }
        for bad in ["", "101\n", "0\nreturn code: 100\n", "1\nno\n", "0\nIOException: no\n"] {
            assert!(judge(1, bad).is_err(), "{bad:?}");
        }
    }
}
