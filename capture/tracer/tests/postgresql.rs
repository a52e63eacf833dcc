//! PostgreSQL's conversations, held to a model of the server: whatever a client may legally
//! send, each statement gets its own answer. And what cannot be an answer is seen to be none.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use spanwise_model::Span;
use support::{Talk, render, spans, tracer};

fn message(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind], &(content.len() as u32 + 4).to_be_bytes()[..], content].concat()
}

/// A statement of its own number, by which its text, its rows and its error are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Rows,
    Empty,
    Fails,
    CopiesIn,
    CopiesOut,
}

#[derive(Debug, Clone, Copy)]
struct Statement {
    number: u32,
    outcome: Outcome,
}

impl Statement {
    fn text(self) -> String {
        match self.outcome {
            Outcome::Empty => String::new(),
            Outcome::CopiesIn => format!("COPY t{} FROM STDIN", self.number),
            Outcome::CopiesOut => format!("COPY t{} TO STDOUT", self.number),
            _ => format!("SELECT * FROM t{}", self.number),
        }
    }

    fn code(self) -> String {
        format!("Z{:04}", self.number)
    }
}

/// What a client sends.
#[derive(Debug, Clone)]
enum Sent {
    Query(Vec<Statement>),
    Parse(Statement),
    Bind,
    DescribeStatement,
    DescribePortal,
    /// Of the statement that was bound last.
    Execute,
    Close,
    Flush,
    Sync,
    Call,
    CopyData,
    CopyDone,
    CopyFail,
}

impl Sent {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Query(statements) => {
                let texts: Vec<String> = statements.iter().map(|each| each.text()).collect();
                message(b'Q', format!("{}\0", texts.join("; ")).as_bytes())
            }
            Self::Parse(statement) => {
                message(b'P', format!("s\0{}\0\0\0", statement.text()).as_bytes())
            }
            Self::Bind => message(b'B', b"\0s\0\0\0\0\0\0\0"),
            Self::DescribeStatement => message(b'D', b"Ss\0"),
            Self::DescribePortal => message(b'D', b"P\0"),
            Self::Execute => message(b'E', b"\0\0\0\0\0"),
            Self::Close => message(b'C', b"Sother\0"),
            Self::Flush => message(b'H', b""),
            Self::Sync => message(b'S', b""),
            Self::Call => message(b'F', b"\0\0\0\x01\0\0\0\0\0\0"),
            Self::CopyData => message(b'd', b"row\n"),
            Self::CopyDone => message(b'c', b""),
            Self::CopyFail => message(b'f', b"enough\0"),
        }
    }
}

/// The server (PostgreSQL's `PostgresMain` and `CopyGetData`), which has read nothing of the
/// parser under test.
#[derive(Default)]
struct Server {
    said: Vec<u8>,
    /// How much of it has left the server's buffer.
    flushed: usize,
    prepared: Option<Statement>,
    bound: Option<Statement>,
    skips: bool,
    copying: Option<(Statement, bool)>,
    /// What became of each statement that was run.
    done: BTreeMap<u32, Vec<Result<(), String>>>,
    /// The next messages come with one that nobody asked for.
    chatty: bool,
}

impl Server {
    fn say(&mut self, kind: u8, content: &[u8]) {
        if self.chatty {
            self.said.extend(message(b'A', b"\0\0\0\x01jobs\0x\0"));
            self.said.extend(message(b'N', b"SNOTICE\0C00000\0Mhello\0\0"));
        }
        self.said.extend(message(kind, content));
    }

    fn ready(&mut self) {
        self.say(b'Z', b"I");
        self.flushed = self.said.len();
    }

    fn fail(&mut self, statement: Option<Statement>, code: &str) {
        let fields = format!("SERROR\0C{code}\0Mno\0\0");
        self.say(b'E', fields.as_bytes());
        if let Some(statement) = statement {
            self.done.entry(statement.number).or_default().push(Err(code.to_owned()));
        }
        self.flushed = self.said.len();
    }

    fn run(&mut self, statement: Statement, extended: bool) -> bool {
        match statement.outcome {
            Outcome::Fails => {
                self.fail(Some(statement), &statement.code());
                return false;
            }
            Outcome::Empty => self.say(b'I', b""),
            Outcome::Rows => {
                if !extended {
                    self.say(b'T', b"\0\0");
                }
                self.say(b'D', b"\0\0");
                self.say(b'C', format!("SELECT {}\0", statement.number).as_bytes());
            }
            Outcome::CopiesOut => {
                self.say(b'H', b"\0\0\0");
                self.say(b'd', b"row\n");
                self.say(b'c', b"");
                self.say(b'C', b"COPY 1\0");
            }
            Outcome::CopiesIn => {
                self.say(b'G', b"\0\0\0");
                self.flushed = self.said.len();
                self.copying = Some((statement, extended));
                return true;
            }
        }
        self.done.entry(statement.number).or_default().push(Ok(()));
        true
    }

    fn take(&mut self, sent: &Sent) {
        if let Some((statement, extended)) = self.copying {
            match sent {
                Sent::CopyData | Sent::Flush | Sent::Sync => return,
                Sent::CopyDone => {
                    self.say(b'C', b"COPY 1\0");
                    self.done.entry(statement.number).or_default().push(Ok(()));
                }
                _ => {
                    self.fail(Some(statement), "57014");
                    self.skips = extended;
                }
            }
            self.copying = None;
            if !extended {
                self.ready();
            }
            return;
        }
        if self.skips && !matches!(sent, Sent::Sync) {
            match sent {
                Sent::Parse(_) => (self.prepared, self.bound) = (None, None),
                Sent::Bind => self.bound = None,
                _ => {}
            }
            return;
        }
        match sent {
            Sent::Query(statements) => {
                for statement in statements {
                    if !self.run(*statement, false) {
                        break;
                    }
                    if self.copying.is_some() {
                        return;
                    }
                }
                self.ready();
            }
            Sent::Parse(statement) => {
                self.prepared = Some(*statement);
                self.say(b'1', b"");
            }
            Sent::Bind => {
                self.bound = self.prepared;
                self.say(b'2', b"");
            }
            Sent::DescribeStatement => {
                self.say(b't', b"\0\0");
                self.say(b'T', b"\0\0");
            }
            Sent::DescribePortal => self.say(b'n', b""),
            Sent::Execute => match self.bound {
                Some(statement) => self.skips = !self.run(statement, true),
                None => {
                    self.fail(None, "34000");
                    self.skips = true;
                }
            },
            Sent::Close => self.say(b'3', b""),
            Sent::Flush => self.flushed = self.said.len(),
            Sent::Sync => {
                self.skips = false;
                self.ready();
            }
            Sent::Call => {
                self.say(b'V', b"\xff\xff\xff\xff");
                self.ready();
            }
            // The server accepts them, for a client may not know yet that its COPY has failed.
            Sent::CopyData | Sent::CopyDone | Sent::CopyFail => {}
        }
    }
}

/// What a client does without looking at what comes back.
#[derive(Debug, Clone)]
struct Step {
    sent: Vec<Sent>,
    /// It waits for the answers then.
    waits: bool,
    chatty: bool,
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        6 => Just(Outcome::Rows),
        2 => Just(Outcome::Fails),
        1 => Just(Outcome::Empty),
        1 => Just(Outcome::CopiesOut),
    ]
}

fn statement(outcome: Outcome) -> Statement {
    Statement { number: 0, outcome }
}

/// Messages of one step; numbers are given later.
fn sent() -> impl Strategy<Value = Vec<Sent>> {
    let copy_in = || statement(Outcome::CopiesIn);
    let executed = |outcome, describes: bool, end: &[Sent]| {
        let mut sent = vec![Sent::Parse(statement(outcome)), Sent::Bind];
        sent.extend(describes.then_some(Sent::DescribePortal));
        sent.push(Sent::Execute);
        sent.extend_from_slice(end);
        sent
    };
    let end = prop_oneof![
        4 => Just(vec![Sent::Sync]),
        2 => Just(vec![Sent::Flush]),
        1 => Just(vec![]),
        1 => Just(vec![Sent::Flush, Sent::Sync]),
        1 => Just(vec![Sent::Close, Sent::Sync]),
    ];
    prop_oneof![
        3 => vec(outcome(), 1..3).prop_map(|outcomes| {
            vec![Sent::Query(outcomes.into_iter().map(statement).collect())]
        }),
        5 => (outcome(), any::<bool>(), end).prop_map(move |(outcome, describes, end)| {
            executed(outcome, describes, &end)
        }),
        2 => Just(vec![Sent::Parse(statement(Outcome::Rows)), Sent::DescribeStatement, Sent::Flush]),
        1 => Just(vec![Sent::Parse(statement(Outcome::Rows)), Sent::DescribeStatement]),
        1 => Just(vec![Sent::Bind, Sent::Execute, Sent::Sync]),
        1 => Just(vec![Sent::Sync]),
        1 => Just(vec![Sent::Call]),
        1 => any::<bool>().prop_map(move |fails| {
            let end = if fails { Sent::CopyFail } else { Sent::CopyDone };
            vec![Sent::Query(vec![copy_in()]), Sent::CopyData, Sent::CopyData, end]
        }),
        1 => (any::<bool>(), any::<bool>()).prop_map(move |(fails, early)| {
            let end = if fails { Sent::CopyFail } else { Sent::CopyDone };
            let early = early.then_some(Sent::Sync);
            let mut sent = vec![Sent::Parse(copy_in()), Sent::Bind, Sent::Execute];
            sent.extend(early);
            sent.extend([Sent::CopyData, Sent::CopyData, end, Sent::Sync]);
            sent
        }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (sent(), any::<bool>(), proptest::bool::weighted(0.2));
    let steps = vec(step.prop_map(|(sent, waits, chatty)| Step { sent, waits, chatty }), 1..12);
    steps.prop_map(|mut steps| {
        let mut next = 0;
        let statements = steps.iter_mut().flat_map(|step| &mut step.sent);
        for statement in statements.flat_map(|sent| match sent {
            Sent::Query(statements) => statements.iter_mut().collect(),
            Sent::Parse(statement) => vec![statement],
            _ => vec![],
        }) {
            next += 1;
            statement.number = next;
        }
        // A client that ends at all ends with a Sync.
        steps.push(Step { sent: vec![Sent::Sync], waits: true, chatty: false });
        steps
    })
}

/// The conversation, where answers come in pieces of any size, and the server it was held with.
fn held(steps: &[Step], piece: usize) -> (Talk, Server) {
    let mut server = Server::default();
    let mut startup = b"\0\0\0\x16\0\x03\0\0user\0bob\0\0".to_vec();
    startup[3] = startup.len() as u8;
    let mut talk = Talk::new().ask(&startup);
    server.say(b'R', b"\0\0\0\0");
    server.ready();
    let mut told = 0;
    let mut asked = Vec::new();
    for step in steps {
        server.chatty = step.chatty;
        for sent in &step.sent {
            server.take(sent);
            asked.extend(sent.bytes());
        }
        if step.waits {
            if !asked.is_empty() {
                talk = talk.ask(&std::mem::take(&mut asked));
            }
            for piece in server.said[told..server.flushed].chunks(piece) {
                talk = talk.answer(piece);
            }
            told = server.flushed;
        }
    }
    (talk, server)
}

/// Numbers of the statements that a span names.
fn numbers(span: &Span) -> BTreeSet<u32> {
    let text = span.attribute("db.query.text").and_then(|text| text.as_str()).unwrap_or_default();
    let after = text.split(" t").skip(1);
    after
        .filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn each_statement_has_its_own_answer(steps in steps(), piece in prop_oneof![Just(1000_usize), 1..40_usize]) {
        let (talk, server) = held(&steps, piece);
        let found = spans(&mut tracer(), &talk.events);
        let shown = || format!("{}\n{:?}\n{:?}", render(&found), server.done, talk.counters());
        for counter in ["out_of_step", "orphan_responses", "requests_lost", "malformed_messages"] {
            prop_assert!(!talk.counters().contains_key(counter), "{counter}: {}", shown());
        }
        let mut failed: BTreeMap<u32, usize> = BTreeMap::new();
        let mut told = BTreeSet::new();
        for span in &found {
            let numbers = numbers(span);
            let run: Vec<_> = numbers.iter().filter_map(|n| Some((*n, server.done.get(n)?))).collect();
            let prepares = span.operation.starts_with("PREPARE");
            match &span.error {
                None if prepares => {}
                None => {
                    prop_assert!(run.iter().all(|(_, done)| done.iter().any(Result::is_ok)), "{}\n{}", span.operation, shown());
                    told.extend(run.iter().map(|(number, _)| *number));
                    let rows = span.attribute("db.response.returned_rows").and_then(|r| r.as_int());
                    if let Some(rows) = rows {
                        prop_assert!(numbers.contains(&(rows as u32)), "{}\n{}", span.operation, shown());
                    }
                }
                Some(error) if error.starts_with("not executed") => {}
                Some(error) => {
                    let is = |code: &String| error.starts_with(code.as_str());
                    let own = run.iter().find(|(_, done)| {
                        done.iter().any(|done| done.as_ref().is_err_and(is))
                    });
                    if let Some((number, _)) = own {
                        *failed.entry(*number).or_default() += 1;
                    }
                    let unknown = error.starts_with("34000");
                    prop_assert!(own.is_some() || unknown, "{}\n{}", span.operation, shown());
                    told.extend(run.iter().map(|(number, _)| *number));
                }
            }
        }
        for (number, done) in &server.done {
            let empty = steps.iter().flat_map(|step| &step.sent).any(|sent| match sent {
                Sent::Query(statements) => statements.iter().any(|statement| {
                    statement.number == *number && statement.outcome == Outcome::Empty
                }),
                Sent::Parse(statement) => {
                    statement.number == *number && statement.outcome == Outcome::Empty
                }
                _ => false,
            });
            prop_assert!(empty || told.contains(number), "nothing of {number}: {}", shown());
            let failures = done.iter().filter(|done| done.is_err()).count();
            let told = failed.get(number).copied().unwrap_or_default();
            prop_assert_eq!(failures, told, "failures of {}: {}", number, shown());
        }
    }
}

fn query(text: &str) -> Vec<u8> {
    message(b'Q', format!("{text}\0").as_bytes())
}

fn done(tag: &str) -> Vec<u8> {
    [message(b'C', format!("{tag}\0").as_bytes()), message(b'Z', b"I")].concat()
}

#[test]
fn a_statement_prepared_without_sync_leaves_its_answer_to_others() {
    let parse = message(b'P', b"s\0SELECT name FROM items WHERE id = $1\0\0\0");
    let prepare = [parse, message(b'D', b"Ss\0"), message(b'H', b"")].concat();
    let prepared = [message(b'1', b""), message(b't', b"\0\0"), message(b'T', b"\0\0")].concat();
    let bind = message(b'B', b"\0s\0\0\0\0\0\0\0");
    let run = [bind, message(b'E', b"\0\0\0\0\0"), message(b'S', b"")].concat();
    let fetched = [message(b'2', b""), message(b'D', b"\0\0"), done("SELECT 1")].concat();
    let refused = [message(b'E', b"SERROR\0C23505\0Mtwice\0\0"), message(b'Z', b"I")].concat();
    let talk = Talk::new().ask(&prepare).answer(&prepared).ask(&query("BEGIN"));
    let talk = talk.answer(&done("BEGIN")).ask(&run).answer(&fetched);
    let talk = talk.ask(&query("COMMIT")).answer(&done("COMMIT"));
    let talk = talk.ask(&query("UPDATE items SET seen = 1")).answer(&done("UPDATE 1"));
    let talk = talk.ask(&query("INSERT INTO items VALUES (1)")).answer(&refused);
    let talk = talk.ask(&query("DELETE FROM visits")).answer(&done("DELETE 0"));
    assert_eq!(
        talk.spans(),
        [
            "PREPARE SELECT items",
            "BEGIN",
            "SELECT items",
            "COMMIT",
            "UPDATE items",
            "INSERT items: 23505: twice",
            "DELETE visits"
        ]
    );
    assert!(spans(&mut tracer(), &talk.events).iter().all(|span| span.duration_nano == 1_000_000));
}

#[test]
fn a_connection_that_has_lost_step_says_so_and_recovers() {
    let wrong: [&[u8]; 4] = [
        &message(b'1', b""),
        &message(b'2', b""),
        &message(b'C', b"UPDATE 3\0"),
        &[message(b'E', b"SERROR\0C23505\0Mno\0\0"), message(b'T', b"\0\0")].concat(),
    ];
    for wrong in wrong {
        let talk = Talk::new().ask(&query("SELECT * FROM a")).answer(&done("SELECT 1"));
        let talk = talk.ask(&query("SELECT * FROM b")).answer(&[wrong, &done("SELECT 2")].concat());
        let talk = talk.ask(&query("SELECT * FROM c")).answer(&done("SELECT 3"));
        let found = spans(&mut tracer(), &talk.events);
        let told: Vec<_> = found
            .iter()
            .map(|span| {
                let rows = span.attribute("db.response.returned_rows").and_then(|r| r.as_int());
                (span.operation.as_str(), rows, span.attribute("spanwise.pairing").is_some())
            })
            .collect();
        let expected =
            [("SELECT a", Some(1), false), ("SELECT b", None, true), ("SELECT c", Some(3), false)];
        assert_eq!(told, expected, "{}", wrong.escape_ascii());
        assert_eq!(talk.counters()["out_of_step"], 1);
    }
}

#[test]
fn what_a_listener_is_told_is_no_answer() {
    let told = message(b'A', b"\0\0\0\x01jobs\0x\0");
    let talk = Talk::new().ask(&query("LISTEN jobs")).answer(&done("LISTEN"));
    let talk = talk.answer(&told).answer(&told).ask(&query("SELECT * FROM a"));
    let talk = talk.answer(&[told.clone(), done("SELECT 1"), told].concat());
    assert_eq!(talk.spans(), ["LISTEN", "SELECT a"]);
    assert!(!talk.counters().contains_key("orphan_responses"));
}
