//! Running programs that are followed: killed, stopped, and with a reader that starts anew.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use spanwise_native::{FollowCounts, Following, Given};

fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agents/native");
        // A directory of its own: other tests build at the same time.
        let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join("native-following");
        let target = build.join("library");
        let mut make = Command::new("make");
        make.arg("-s").arg("-C").arg(library).arg(format!("BUILD={}", build.display()));
        assert!(make.arg(&target).status().expect("make runs").success(), "the library builds");
        target
    })
}

fn work(dir: &Path, policy: u32, pause_us: u32, seconds: f64) -> Child {
    let arguments = [policy.to_string(), pause_us.to_string(), seconds.to_string()];
    Command::new(program()).arg("work").arg(dir).args(arguments).spawn().expect("it runs")
}

/// What the threads of all programs did: begun, ended, detached begun, detached ended, logs.
fn made(dir: &Path) -> [u64; 5] {
    let mut sum = [0; 5];
    for file in std::fs::read_dir(dir).expect("files").flatten() {
        if file.path().extension().is_none_or(|extension| extension != "made") {
            continue;
        }
        let bytes = std::fs::read(file.path()).expect("read");
        for thread in bytes.chunks_exact(64).take(3) {
            for (n, word) in thread.chunks_exact(8).take(5).enumerate() {
                sum[n] += u64::from_le_bytes(word.try_into().expect("8"));
            }
        }
    }
    sum
}

/// What came out, by span id: how often as ended and as open, and its number of words of extras.
#[derive(Default)]
struct Seen {
    spans: HashMap<u64, (u32, u32, usize)>,
    detached: HashMap<u64, usize>,
    logs: u64,
    metrics: u64,
}

impl Seen {
    fn take(&mut self, following: &Following, given: Vec<Given>) {
        for Given { piece, process } in given {
            let process = following.process(&process).expect("known");
            self.logs += piece.logs.len() as u64;
            self.metrics += piece.metrics.len() as u64;
            for span in piece.spans {
                let words = (span.extras.1 - span.extras.0) as usize;
                let known = self.spans.entry(span.span_id).or_default();
                *(if span.open { &mut known.1 } else { &mut known.0 }) += 1;
                known.2 = words;
                let name = &process.sites[usize::from(span.site)].name;
                assert!(["serve", "query", "task"].contains(&name.as_str()), "{name}");
                assert!(
                    span.end_ns >= span.start_ns && span.start_ns > 1_700_000_000_000_000_000,
                    "{name} {span:?}"
                );
                if name == "task" && !span.open {
                    self.detached.insert(span.span_id, words);
                }
            }
        }
    }

    fn check(&self, made: [u64; 5], threads: u64, counts: FollowCounts) {
        let [begun, ended, detached_begun, detached_ended, logs] = made;
        let all = |test: fn(&(u32, u32, usize)) -> bool| {
            self.spans.values().filter(|seen| test(seen)).count() as u64
        };
        assert_eq!(all(|seen| seen.0 + seen.1 != 1), 0, "each once: {counts:?}");
        let (complete, open) = (all(|seen| seen.0 == 1), all(|seen| seen.1 == 1));
        let about = |known: u64, found: u64, what: &str| {
            // A thread may have been killed between a record and its count.
            assert!(
                (known..=known + threads).contains(&found),
                "{what}: {known}, {found}: {counts:?}"
            );
        };
        about(ended + detached_ended, complete, "ended");
        about(begun + detached_begun, complete + open, "begun");
        about(logs, self.logs, "logs");
        assert!(detached_ended > 0);
        let whole = self.detached.values().filter(|words| **words == 8).count();
        assert_eq!(whole, self.detached.len(), "attributes of both threads: {counts:?}");
        assert_eq!(counts.damaged + counts.dropped_extras + counts.late_extras, 0, "{counts:?}");
    }
}

fn lives(child: &mut Child) -> impl FnMut(u32, &str) -> bool {
    |pid, _| pid == child.id() && child.try_wait().expect("its state").is_none()
}

/// Follows until `end`, and then until all is read. With `restart_every`, the reader is dropped and
/// begins at its last checkpoint, with and without what it had read since.
fn follow(
    dir: &Path,
    child: &mut Child,
    restart_every: u32,
    mut end: impl FnMut(&mut Child),
) -> (Seen, FollowCounts) {
    let open = |checkpoint: Option<&[u8]>| {
        Following::open(dir, Vec::new(), checkpoint).expect("a checkpoint")
    };
    let (mut seen, mut following) = (Seen::default(), open(None));
    let mut checkpoint: Option<Vec<u8>> = None;
    let mut counts = FollowCounts::default();
    let began = Instant::now();
    let mut last = None;
    for round in 1.. {
        assert!(began.elapsed() < Duration::from_secs(60), "it comes to its end");
        end(child);
        let (given, more) = following.poll(&mut lives(child));
        let runs = child.try_wait().expect("its state").is_none();
        if restart_every > 0 && runs && round % restart_every == 0 {
            let now = following.counts();
            counts.damaged += now.damaged;
            counts.overwritten += now.overwritten;
            if round % 2 == 0 {
                // Killed before anything was accepted.
                drop(given);
                following = open(checkpoint.as_deref());
                continue;
            }
            seen.take(&following, given);
            checkpoint = Some(following.checkpoint());
            following = open(checkpoint.as_deref());
            continue;
        }
        let nothing = given.is_empty();
        seen.take(&following, given);
        checkpoint = Some(following.checkpoint());
        following.accepted();
        assert_eq!(following.take_problems(), Vec::<String>::new());
        let done = following.counts().processes == 0 && round > 1 && made(dir)[0] > 0;
        if done && nothing && !more && child.try_wait().expect("its state").is_some() {
            last = Some(following.counts());
            break;
        }
        if !more {
            std::thread::sleep(Duration::from_millis(3));
        }
    }
    let last = last.expect("counts");
    counts.overwritten += last.overwritten;
    (
        seen,
        FollowCounts {
            damaged: counts.damaged + last.damaged,
            overwritten: counts.overwritten,
            ..last
        },
    )
}

fn directory(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("following").join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a directory");
    dir
}

fn kill_after(time: Duration) -> impl FnMut(&mut Child) {
    let began = Instant::now();
    move |child| {
        if began.elapsed() > time {
            let _ = child.kill();
        }
    }
}

#[test]
fn a_program_that_ends_is_read_whole_while_it_runs() {
    for (policy, pause) in [(0, 50), (1, 50), (2, 200)] {
        let dir = directory(&format!("ends-{policy}"));
        let mut child = work(&dir, policy, pause, 1.0);
        let (seen, counts) = follow(&dir, &mut child, 0, |_| {});
        seen.check(made(&dir), 0, counts);
        assert_eq!((counts.open, counts.overwritten), (0, 0));
        assert!(seen.metrics > 0);
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}

#[test]
fn a_program_that_is_killed_is_read_whole_and_its_open_spans_are_open() {
    for pause in [0, 20] {
        let dir = directory(&format!("killed-{pause}"));
        let mut child = work(&dir, 0, pause, 0.0);
        let (seen, counts) = follow(&dir, &mut child, 0, kill_after(Duration::from_millis(300)));
        seen.check(made(&dir), 3, counts);
        assert_eq!(counts.overwritten, 0);
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}

#[test]
fn a_reader_that_starts_anew_goes_on_where_it_was() {
    for every in [1, 3, 7] {
        let dir = directory(&format!("anew-{every}"));
        let mut child = work(&dir, 0, 10, 0.0);
        let mut passes = 0;
        let mut kill = kill_after(Duration::from_millis(400));
        let (seen, counts) = follow(&dir, &mut child, every, |child| {
            passes += 1;
            kill(child);
        });
        assert!(passes > 10);
        seen.check(made(&dir), 3, counts);
        assert_eq!(counts.overwritten, 0);
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}

#[test]
fn a_reader_that_is_slow_counts_what_was_deleted_before_it_came() {
    let dir = directory("slow");
    // A ring of 1 MiB that is overwritten many times a second, and a reader that sleeps.
    let mut child = work(&dir, 2, 0, 1.0);
    let mut following = Following::open(&dir, Vec::new(), None).expect("followed");
    let mut seen = Seen::default();
    loop {
        std::thread::sleep(Duration::from_millis(150));
        loop {
            let (given, more) = following.poll(&mut lives(&mut child));
            seen.take(&following, given);
            if !more {
                break;
            }
        }
        if child.try_wait().expect("its state").is_some() && following.counts().processes == 0 {
            break;
        }
    }
    let counts = following.counts();
    let [_, ended, _, detached_ended, _] = made(&dir);
    let complete = seen.spans.values().filter(|seen| seen.0 == 1).count() as u64;
    assert!(seen.spans.values().all(|seen| seen.0 + seen.1 == 1), "none twice");
    assert!(counts.overwritten > 0, "{counts:?}");
    assert_eq!(
        complete + counts.overwritten + counts.damaged,
        ended + detached_ended,
        "{counts:?}"
    );
    std::fs::remove_dir_all(&dir).expect("removed");
}

#[test]
fn a_damaged_checkpoint_is_named() {
    let dir = directory("damaged");
    assert!(Following::open(&dir, Vec::new(), Some(b"SPWNDRN1")).is_err());
    assert!(Following::open(&dir, Vec::new(), Some(&[0; 64])).is_err());
    let mut following = Following::open(&dir, Vec::new(), None).expect("followed");
    let bytes = following.checkpoint();
    assert!(Following::open(&dir, Vec::new(), Some(&bytes)).is_ok());
    assert!(Following::open(&dir, Vec::new(), Some(&bytes[..bytes.len() - 1])).is_err());
}

/// Damaged files of a killed program, a great many times: `SPANWISE_TEST_MUTATIONS=100000`.
#[test]
fn files_that_are_damaged_in_any_way_are_followed_to_an_end() {
    let rounds = std::env::var("SPANWISE_TEST_MUTATIONS").ok().and_then(|n| n.parse().ok());
    let dir = directory("mutated");
    let mut child = work(&dir, 0, 300, 0.0);
    std::thread::sleep(Duration::from_millis(400));
    child.kill().expect("killed");
    child.wait().expect("ended");
    let files: Vec<(PathBuf, Vec<u8>)> = std::fs::read_dir(&dir)
        .expect("files")
        .flatten()
        .filter(|file| file.path().extension().is_some_and(|of| of != "made"))
        .map(|file| (file.path(), std::fs::read(file.path()).expect("read")))
        .collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for _ in 0..rounds.unwrap_or(200) {
        let (path, bytes) = &files[next() as usize % files.len()];
        let mut damaged = bytes.clone();
        if next().is_multiple_of(4) {
            damaged.truncate(next() as usize % bytes.len());
        } else {
            for _ in 0..1 + next() % 8 {
                let at = next() as usize % bytes.len().min(20_000);
                damaged[at] = [0, 1, 0x7f, 0xff, next() as u8][next() as usize % 5];
            }
        }
        std::fs::write(path, &damaged).expect("written");
        let mut following = Following::open(&dir, Vec::new(), None).expect("followed");
        let (mut spans, began) = (0, Instant::now());
        for _ in 0..1000 {
            let (given, more) = following.poll(&mut |_, _| true);
            spans += given.iter().map(|given| given.piece.spans.len()).sum::<usize>();
            if !more {
                break;
            }
        }
        assert!(spans < 10_000_000 && began.elapsed() < Duration::from_secs(10), "it has an end");
        let checkpoint = following.checkpoint();
        Following::open(&dir, Vec::new(), Some(&checkpoint)).expect("its own checkpoint");
        std::fs::write(path, bytes).expect("written");
    }
    std::fs::remove_dir_all(&dir).expect("removed");
}
