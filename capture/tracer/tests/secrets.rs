//! Nothing secret leaves: byte streams of every protocol, with a secret in each place where
//! programs put one, and no span, error or counter that shows it. docs/redaction.md says what
//! is promised; what is added there belongs here.

mod support;

use spanwise_capture_protocols::redaction::Hidden;
use support::{Talk, render, spans, tracer};

/// Not random, and no word: what people choose. In a text, `<S>` stands for it.
const SECRET: &str = "geheim4711";
/// Made at random, to stand in a link: `<R>`.
const RANDOM: &str = "Zx8Qw2Lp9RtY5uIo1Ab3";
/// A JSON Web Token: `<T>`.
const TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJnZWhlaW0ifQ.Z2VoZWltNDcxMQ";

fn fill(text: &str) -> String {
    text.replace("<S>", SECRET).replace("<R>", RANDOM).replace("<T>", TOKEN)
}

fn check(what: &str, talk: &Talk) {
    let mut tracer = tracer();
    let found = spans(&mut tracer, &talk.events);
    assert!(!found.is_empty(), "{what}: no span came of it, so nothing is shown by this");
    let shown = render(&found);
    let text = format!("{shown}\n{found:?}\n{:?}", tracer.counters()).to_lowercase();
    for secret in [SECRET, RANDOM, TOKEN, "Z2VoZWlt"] {
        assert!(!text.contains(&secret.to_lowercase()), "{what} shows it:\n{shown}");
    }
}

/// What comes of it, as text.
fn shown(talk: &Talk) -> String {
    render(&spans(&mut tracer(), &talk.events))
}

mod http {
    use super::*;

    const TARGETS: [&str; 58] = [
        "/a?password=<S>",
        "/a?b=1;token=<S>;c=2",
        "/a?user[password]=<S>",
        "/a?user%5Bpassword%5D=<S>",
        "/a?user%255Bpassword%255D=<S>",
        "/a?%70assword=<S>",
        "/a?new_password_2=<S>",
        "/a?passwordConfirmation=<S>",
        "/a?x-api-key=<S>",
        "/a?AWSAccessKeyId=<S>",
        "/a?sessionId=<S>",
        "/a?PHPSESSID=<S>",
        "/a?code=<S>",
        "/a?smsCode=<S>",
        "/a?otp=<S>",
        "/a?userOTP=<S>",
        "/a?pin=<S>",
        "/a?my_jwt=<S>",
        "/a?SAMLResponse=<S>",
        "/a?sig=<S>",
        "/a?X-Amz-Signature=<S>",
        "/a?X-Amz-Credential=<S>",
        "/a?b=1#access_token=<S>",
        "/a?next=/b?token=<S>",
        "/a?next=http://h/?token=<S>%26b=1",
        "/a?next=http%3A%2F%2Fh%2F%3Ftoken%3D<S>",
        "/a?next=http%253A%252F%252Fh%252F%253Ftoken%253D<S>",
        "/a?next=http%25253A%25252F%25252Fh%25252F%25253Ftoken%25253D<S>",
        "/a?url=http://u:<S>@h/",
        "/a?url=http%3A%2F%2Fu%3A<S>%40h%2F",
        "/a?url=//u:<S>@h",
        "/a?url=u:<S>@tcp(h:3306)/d",
        "/a?filter={\"password\":\"<S>\"}",
        "/a?filter=%7B%22password%22%3A%22<S>%22%7D",
        "/a?header=Basic%20<S>",
        "/a?q=password=<S>",
        "/a?back=%2Freset%2F<S>",
        "/a;jsessionid=<S>",
        "/a;jsessionid=<S>/b;v=1",
        "/reset/<S>",
        "/reset-password/<S>/done",
        "/users/confirmation/<S>",
        "/account/verifyEmail/<S>",
        "/invite/<S>",
        "/session/<S>/x",
        "//u:<S>@h/a",
        "/proxy/http://u:<S>@h/",
        "/proxy/http%3A%2F%2Fu%3A<S>%40h%2F",
        "/a#token=<S>",
        "/login/pin=<S>",
        "http://u:<S>@shop/a",
        "http://u:a/<S>@shop/a",
        "http://shop/a?token=<S>",
        "/x/<R>",
        "/x?y=<R>",
        "/x?<R>",
        "/x?y=<T>",
        "/x/<T>/z",
    ];

    const REQUESTS: [&str; 9] = [
        "CONNECT u:<S>@h:443 HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: u:<S>@h\r\n\r\n",
        "GET / HTTP/1.1\r\nAuthorization: Basic <S>\r\nCookie: s=<S>\r\nX-Api-Key: <S>\r\n\r\n",
        "GET / HTTP/1.1\r\nProxy-Authorization: <S>\r\nReferer: http://h/?token=<S>\r\n\r\n",
        "GET / HTTP/1.1\r\nUser-Agent: x/1 (password=<S>)\r\n\r\n",
        "GET / HTTP/1.1\r\nUser-Agent: x/1 (http://u:<S>@h/)\r\n\r\n",
        "GET / HTTP/1.1\r\nX-Request-ID: token=<S>\r\n\r\n",
        "GET / HTTP/1.1\r\nX-Request-ID: <T>\r\ntracestate: a=<T>\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 19\r\n\r\npassword=<S>",
    ];

    const ANSWER: &str = "HTTP/1.1 500 <S>\r\nSet-Cookie: s=<S>\r\nLocation: /?token=<S>\r\n\
        X-Request-ID: <T>\r\nContent-Length: 10\r\n\r\n<S>";

    #[test]
    fn nothing_of_http_1() {
        let targets = TARGETS.map(|target| format!("GET {target} HTTP/1.1\r\nHost: shop\r\n\r\n"));
        for request in targets.iter().map(String::as_str).chain(REQUESTS) {
            let talk = Talk::new().ask(fill(request).as_bytes());
            check(request, &talk.answer(fill(ANSWER).as_bytes()));
        }
    }

    #[test]
    fn nothing_of_websocket() {
        for target in ["/ws?token=<S>", "/reset/<S>", "/ws;jsessionid=<S>"] {
            let request = format!(
                "GET {target} HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
            );
            let upgraded = "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
            let text = [b"\x81\x0a", SECRET.as_bytes()].concat();
            let close = [b"\x88\x0c\x03\xf3", SECRET.as_bytes()].concat();
            let talk = Talk::new().ask(fill(&request).as_bytes()).answer(upgraded.as_bytes());
            let talk = talk.ask(b"\x81\x84\0\0\0\0abcd").answer(&text).answer(&close);
            check(target, &talk.ask(b"\x88\x82\0\0\0\0\x03\xf3"));
        }
    }

    fn frame(kind: u8, flags: u8, stream: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = (content.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags, 0, 0, 0, stream]);
        bytes.extend(content);
        bytes
    }

    fn field(name: &str, value: &str) -> Vec<u8> {
        let value = fill(value);
        [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
    }

    fn http_2(fields: &[(&str, &str)], answer: &[(&str, &str)]) -> Talk {
        let block = |fields: &[(&str, &str)]| -> Vec<u8> {
            fields.iter().flat_map(|(name, value)| field(name, value)).collect()
        };
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let asked = [preface.as_slice(), &frame(4, 0, 0, b""), &frame(1, 5, 1, &block(fields))];
        Talk::new().ask(&asked.concat()).answer(&frame(1, 5, 1, &block(answer)))
    }

    #[test]
    fn nothing_of_http_2() {
        for target in TARGETS.iter().filter(|target| target.starts_with('/')) {
            let fields = [(":method", "GET"), (":scheme", "http"), (":path", *target)];
            check(target, &http_2(&fields, &[(":status", "500"), ("set-cookie", "<S>")]));
        }
        let base = [(":method", "GET"), (":scheme", "http"), (":path", "/")];
        for field in [
            (":authority", "u:<S>@h"),
            ("host", "u:<S>@h"),
            ("authorization", "Bearer <S>"),
            ("cookie", "s=<S>"),
            ("user-agent", "x (token: <S>)"),
            ("x-request-id", "<T>"),
        ] {
            check(field.0, &http_2(&[&base[..], &[field]].concat(), &[(":status", "200")]));
        }
        let odd = [(":method", "geheim4711"), (":scheme", "http"), (":path", "/")];
        check("method", &http_2(&odd, &[(":status", "405")]));
    }

    #[test]
    fn nothing_of_grpc() {
        let call = |path: &'static str| {
            let head = [(":method", "POST"), (":scheme", "http"), (":path", path)];
            [&head[..], &[("content-type", "application/grpc"), ("authorization", "<S>")]].concat()
        };
        let failed = |message: &'static str| {
            let head = [(":status", "200"), ("content-type", "application/grpc")];
            [&head[..], &[("grpc-status", "13"), ("grpc-message", message)]].concat()
        };
        for path in ["/shop.Orders/Get?password=<S>", "/token/<S>", "/shop.Orders/<R>"] {
            check(path, &http_2(&call(path), &failed("no")));
        }
        for message in [
            "bad password=<S>",
            "bad password: <S>",
            "cannot reach http://u:<S>@h/a",
            "{\"token\": \"<S>\"}",
            "Authorization: Bearer <S>",
            "no such key <R>",
            "expired <T>",
            "dsn u:<S>@tcp(h)/d",
            "password%3D<S>",
        ] {
            check(message, &http_2(&call("/shop.Orders/Get"), &failed(message)));
        }
    }

    #[test]
    fn nothing_of_fastcgi() {
        let record = |kind: u8, content: &[u8]| {
            let length = (content.len() as u16).to_be_bytes();
            [&[1, kind, 0, 1, length[0], length[1], 0, 0], content].concat()
        };
        for target in TARGETS.iter().filter(|target| target.starts_with('/')) {
            let mut params = Vec::new();
            for (name, value) in [
                ("REQUEST_METHOD", "GET"),
                ("REQUEST_URI", target),
                ("QUERY_STRING", "token=<S>"),
                ("HTTP_COOKIE", "s=<S>"),
                ("HTTP_AUTHORIZATION", "Basic <S>"),
                ("PHP_AUTH_PW", "<S>"),
                ("HTTP_HOST", "u:<S>@h"),
            ] {
                let value = fill(value);
                params.extend([name.len() as u8, value.len() as u8]);
                params.extend_from_slice(&[name.as_bytes(), value.as_bytes()].concat());
            }
            let begin = record(1, b"\0\x01\x01\0\0\0\0\0");
            let ask = [begin, record(4, &params), record(4, b""), record(5, b"")].concat();
            let error = fill("PHP Fatal error:  Uncaught E: \"<S>\" token=<S> in /a.php:3");
            let output = fill("Status: 500 <S>\r\nSet-Cookie: s=<S>\r\n\r\n<S>");
            let end = record(3, &[0; 8]);
            let answer = [record(7, error.as_bytes()), record(6, output.as_bytes()), end].concat();
            check(target, &Talk::new().ask(&ask).answer(&answer));
        }
    }
}

mod sql {
    use super::*;

    const STATEMENTS: [&str; 16] = [
        "SELECT '<S>'",
        "SELECT 'it''s', '<S>' -- <S>\n FROM t",
        "SELECT 1 /* <S> */ FROM t /* password=<S>",
        "-- <S>\nSELECT 1",
        "/* <S> */ UPDATE t SET a = '<S>'",
        "SET app.token = '<S>'",
        "SET app.token = <S>",
        "ALTER USER bob PASSWORD '<S>'",
        "CREATE USER bob IDENTIFIED BY '<S>'",
        "INSERT INTO t VALUES (1, '<S>",
        "SELECT x'<S>'",
        "SELECT f('<S>', N'<S>')",
        "BEGIN; SET a = <S>; COMMIT",
        "GRANT ALL ON t TO 'bob' IDENTIFIED BY '<S>'",
        "CALL login('<S>')",
        "SELECT 1 FROM t WHERE a = '\u{e9}' AND b = '<S>'",
    ];

    fn message(kind: u8, content: &[u8]) -> Vec<u8> {
        [&[kind], &(content.len() as u32 + 4).to_be_bytes()[..], content].concat()
    }

    fn failure(code: &str, text: &str) -> Vec<u8> {
        let fields = format!(
            "SERROR\0VERROR\0C{code}\0M{text}\0D(a)=(<S>)\0HTry <S>\0WPL <S>\0q<S>\0tusers\0\0"
        );
        let ready = message(b'Z', b"I");
        [message(b'E', fill(&fields).as_bytes()), ready].concat()
    }

    fn query(text: &str) -> Vec<u8> {
        message(b'Q', format!("{}\0", fill(text)).as_bytes())
    }

    #[test]
    fn nothing_of_postgresql() {
        let own = [
            "SELECT $$<S>$$, $a$<S>$a$",
            "SET app.token TO <S>",
            "SET LOCAL app.token TO \"<S>\"",
            "ALTER ROLE bob SET app.token TO <S>",
            "ALTER DATABASE d SET app.token = <S>, <S>",
            "SELECT E'\\'<S>'",
            "SELECT U&'<S>'",
            "SELECT 1 /* a /* b */ <S> */",
            "NOTIFY jobs, '<S>'",
            "COPY t FROM PROGRAM '<S>'",
        ];
        let done = [message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat();
        for text in STATEMENTS.iter().chain(&own) {
            check(text, &Talk::new().ask(&query(text)).answer(&done));
            let parse = message(b'P', format!("s\0{}\0\0\0", fill(text)).as_bytes());
            let bind = message(b'B', format!("\0s\0\0\0\0\x01\0\0\0\x0a{SECRET}\0\0").as_bytes());
            let run = [parse, bind, message(b'E', b"\0\0\0\0\0"), message(b'S', b"")].concat();
            let row = message(b'D', format!("\0\x01\0\0\0\x0a{SECRET}").as_bytes());
            let answer = [message(b'1', b""), message(b'2', b""), row, done.clone()].concat();
            check(text, &Talk::new().ask(&run).answer(&answer));
        }
        for (code, text) in [
            ("22P02", "invalid input syntax for type integer: \"<S>\""),
            ("22P02", "ung\u{fc}ltige Eingabe: \u{bb}<S>\u{ab}"),
            ("42601", "syntax error at or near \"<S>\""),
            ("22001", "value '<S>' is too long"),
            ("P0001", "wrong password <S> of bob"),
            ("P0001", "refused: <S>"),
            ("U0001", "own error with <S>"),
            ("XX000", "cannot parse \"<S>\""),
            ("23505", "duplicate key value violates unique constraint \"users_key\""),
            ("28P01", "password authentication failed, password=<S>"),
            ("08001", "could not connect to postgres://u:<S>@h/d"),
        ] {
            let talk = Talk::new().ask(&query("SELECT 1")).answer(&failure(code, text));
            check(text, &talk);
            assert!(shown(&talk).contains(code), "{text}");
        }
        let startup = "\0\x03\0\0user\0bob\0options\0-c a.b=<S>\0database\0shop\0\0";
        let startup = fill(startup);
        let mut opening = (startup.len() as u32 + 4).to_be_bytes().to_vec();
        opening.extend_from_slice(startup.as_bytes());
        let talk = Talk::new().ask(&opening).answer(&message(b'R', b"\0\0\0\x03"));
        let talk = talk.ask(&message(b'p', format!("{SECRET}\0").as_bytes()));
        let refused = failure("28P01", "password authentication failed for user \"bob\"");
        check("opening", &talk.answer(&refused));
        let copy = Talk::new().ask(&query("COPY t FROM STDIN"));
        let copy = copy.answer(&message(b'G', b"\0\0\0")).ask(
            &[message(b'd', SECRET.as_bytes()), message(b'f', format!("{SECRET}\0").as_bytes())]
                .concat(),
        );
        let failed = failure("57014", "COPY from stdin failed: <S>");
        check("copy", &copy.answer(&failed));
        let notified = message(b'A', format!("\0\0\0\x01jobs\0{SECRET}\0").as_bytes());
        check("listen", &Talk::new().ask(&query("LISTEN jobs")).answer(&[notified, done].concat()));
    }

    fn packet(sequence: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = (content.len() as u32).to_le_bytes().to_vec();
        bytes[3] = sequence;
        bytes.extend_from_slice(content);
        bytes
    }

    #[test]
    fn nothing_of_mysql() {
        let own = [
            "SELECT \"<S>\"",
            "SELECT 1 # <S>",
            "SET PASSWORD FOR bob = '<S>'",
            "SET @a = <S>, @b = <S>",
            "/*! SET @a = '<S>' */",
            "LOAD DATA LOCAL INFILE '<S>' INTO TABLE t",
        ];
        let command = |kind: u8, text: &str| packet(0, &[&[kind], fill(text).as_bytes()].concat());
        let ok = packet(1, b"\0\0\0\x02\0\0\0");
        // A connection that begins with a comment is not recognised.
        let opened = || Talk::new().ask(&command(3, "SELECT 1")).answer(&ok);
        for text in STATEMENTS.iter().chain(&own) {
            check(text, &opened().ask(&command(3, text)).answer(&ok));
            let talk = opened();
            let prepared = packet(1, b"\0\x05\0\0\0\0\0\0\0\0\0\0");
            check(text, &talk.ask(&command(0x16, text)).answer(&prepared));
        }
        for (code, text) in [
            (1062_u16, "#23000Duplicate entry '<S>' for key 'users.email'"),
            (1064, "#42000You have an error near '<S>' at line 1"),
            (1366, "#HY000Incorrect integer value: '<S>' for column 'a' at row 1"),
            (1644, "#45000wrong password <S>"),
            (1644, "#45000refused: <S>"),
            (1105, "#HY000cannot reach mysql://u:<S>@h/d"),
            (1045, "#28000Access denied for user 'bob'@'h' password=<S>"),
        ] {
            let content = [&[0xff], &code.to_le_bytes()[..], fill(text).as_bytes()].concat();
            let talk = Talk::new().ask(&command(3, "SELECT 1")).answer(&packet(1, &content));
            check(text, &talk);
            assert!(shown(&talk).contains(&code.to_string()), "{text}");
        }
        let mut greeting = b"\n8.0.36\0\x08\0\0\0abcdefgh\0\xff\xff\x2d\x02\0\xff\xff\x15".to_vec();
        greeting.extend_from_slice(&[0; 10]);
        greeting.extend_from_slice(b"abcdefghijkl\0mysql_clear_password\0");
        let mut answer = 0x0008_8208_u32.to_le_bytes().to_vec();
        answer.extend_from_slice(&[0; 28]);
        answer
            .extend_from_slice(format!("bob\0\x0a{SECRET}shop\0mysql_clear_password\0").as_bytes());
        let talk = Talk::new().answer(&packet(0, &greeting)).ask(&packet(1, &answer));
        let switch = packet(2, b"\xfemysql_clear_password\0");
        let talk = talk.answer(&switch).ask(&packet(3, format!("{SECRET}\0").as_bytes()));
        check(
            "opening",
            &talk.answer(&packet(4, b"\xff\x15\x04#28000Access denied for user 'bob'@'h'")),
        );
    }
}

mod stores {
    use super::*;

    fn words(words: &[&str]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            let word = fill(word);
            bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        bytes.into_bytes()
    }

    #[test]
    fn nothing_of_redis() {
        let commands: [&[&str]; 28] = [
            &["AUTH", "<S>"],
            &["auth", "bob", "<S>"],
            &["HELLO", "3", "AUTH", "bob", "<S>"],
            &["CONFIG", "SET", "requirepass", "<S>"],
            &["ACL", "SETUSER", "bob", "on", "><S>"],
            &["ACL", "<S>"],
            &["CONFIG", "<S>"],
            &["EVAL", "return '<S>'", "0"],
            &["FCALL", "<S>", "0"],
            &["SCRIPT", "LOAD", "return '<S>'"],
            &["FUNCTION", "LOAD", "<S>"],
            &["MIGRATE", "h", "6379", "k", "0", "1", "AUTH", "<S>"],
            &["SET", "k", "<S>"],
            &["MSET", "k", "<S>", "l", "<S>"],
            &["GET", "session:<S>"],
            &["GET", "app:reset-token:<S>"],
            &["GET", "cache:http://u:<S>@h/"],
            &["GET", "cache:/a?token=<S>"],
            &["GET", "<T>"],
            &["GET", "login/<R>"],
            &["<S>"],
            &["<S>", "<S>"],
            &["JSON.<S>", "k"],
            &["PUBLISH", "jobs", "<S>"],
            &["ECHO", "<S>"],
            &["PING", "<S>"],
            &["SENTINEL", "SET", "m", "auth-pass", "<S>"],
            &["MODULE", "LOAD", "/x.so", "<S>"],
        ];
        for command in commands {
            let bulk = format!("${}\r\n{SECRET}\r\n", SECRET.len());
            // What begins a connection must be recognised.
            let talk = Talk::new().ask(&words(&["PING"])).answer(b"+PONG\r\n");
            check(&command.join(" "), &talk.ask(&words(command)).answer(bulk.as_bytes()));
        }
        check("inline", &Talk::new().ask(fill("AUTH <S>\r\n").as_bytes()).answer(b"+OK\r\n"));
        for error in [
            "-ERR unknown command '<S>', with args beginning with: '<S>' \r\n",
            "-ERR unknown command `<S>`, with args beginning with: `<S>`, \r\n",
            "-ERR unknown subcommand '<S>'. Try ACL HELP.\r\n",
            "-ERR Error running script (call to f_a): @user_script:1: <S>\r\n",
            "-ERR user_script:1: wrong password <S> script: f_a\r\n",
            "-MYERR wrong password <S>\r\n",
            "-<S> oh no\r\n",
            "-NOPERM User bob has no permissions to access the '<S>' key\r\n",
            "-ERR invalid password: <S>\r\n",
            "!17\r\nOWN of <S>\r\n",
        ] {
            let talk = Talk::new().ask(&words(&["GET", "a"])).answer(fill(error).as_bytes());
            check(error, &talk);
        }
        let pushed = format!(">3\r\n+message\r\n+jobs\r\n+{SECRET}\r\n$1\r\na\r\n");
        check("push", &Talk::new().ask(&words(&["GET", "a"])).answer(pushed.as_bytes()));
    }

    #[test]
    fn keys_and_errors_are_hidden_where_that_is_wanted() {
        let talk = Talk::new().ask(&words(&["GET", "user:bob"]));
        let talk = talk.answer(b"-WRONGTYPE Operation against a key\r\n");
        assert!(shown(&talk).contains("GET user:bob"));
        assert!(shown(&talk).contains("Operation against"));
        let mut tracer = tracer();
        tracer.hide(Hidden { keys: true, errors: true });
        let text = render(&spans(&mut tracer, &talk.events));
        assert!(!text.contains("bob") && !text.contains("against"), "{text}");
        assert!(text.contains("GET ?") && text.contains("WRONGTYPE"), "{text}");
        let talk = Talk::new().ask(b"get user:bob\r\n").answer(b"END\r\n");
        tracer = super::tracer();
        tracer.hide(Hidden { keys: true, errors: false });
        let text = render(&spans(&mut tracer, &talk.events));
        assert!(!text.contains("bob") && text.contains("get ?"), "{text}");
    }

    #[test]
    fn nothing_of_memcached() {
        for ask in [
            "set k 0 0 10\r\n<S>\r\n",
            "get session:<S>\r\n",
            "get token:<S> a b\r\n",
            "get <R>\r\n",
            "gets a?password=<S>\r\n",
        ] {
            let answer = if ask.starts_with("set") { "STORED\r\n" } else { "END\r\n" };
            check(ask, &Talk::new().ask(fill(ask).as_bytes()).answer(answer.as_bytes()));
        }
        for error in ["CLIENT_ERROR bad password=<S>\r\n", "SERVER_ERROR token: <S>\r\n"] {
            check(error, &Talk::new().ask(b"get a\r\n").answer(fill(error).as_bytes()));
        }
        let binary = |magic: u8, opcode: u8, status: u8, key: &[u8], value: &[u8]| {
            let mut bytes = vec![magic, opcode, 0, key.len() as u8, 0, 0, 0, status];
            bytes.extend(((key.len() + value.len()) as u32).to_be_bytes());
            bytes.extend([0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
            [bytes, key.to_vec(), value.to_vec()].concat()
        };
        let plain = format!("\0bob\0{SECRET}");
        let talk = Talk::new().ask(&binary(0x80, 0x21, 0, b"PLAIN", plain.as_bytes()));
        let refused = fill("Auth failure, password=<S>");
        check("sasl", &talk.answer(&binary(0x81, 0x21, 0x20, b"", refused.as_bytes())));
    }

    fn document(elements: &[(&str, Element<'_>)]) -> Vec<u8> {
        let mut content = Vec::new();
        for (name, value) in elements {
            let name = fill(name);
            let (kind, value) = match value {
                Element::Text(text) => {
                    let text = fill(text);
                    let length = (text.len() as u32 + 1).to_le_bytes();
                    (2, [&length[..], text.as_bytes(), b"\0"].concat())
                }
                Element::Number(number) => (1, number.to_le_bytes().to_vec()),
                Element::Document(bytes) => (3, bytes.clone()),
            };
            content.push(kind);
            content.extend_from_slice(name.as_bytes());
            content.push(0);
            content.extend_from_slice(&value);
        }
        content.push(0);
        [&(content.len() as u32 + 4).to_le_bytes()[..], &content].concat()
    }

    enum Element<'a> {
        Text(&'a str),
        Number(f64),
        Document(Vec<u8>),
    }

    use Element::{Document, Number, Text};

    fn mongodb(id: u32, response_to: u32, body: &[u8]) -> Vec<u8> {
        let content = [&[0, 0, 0, 0, 0][..], body].concat();
        let mut bytes = (content.len() as u32 + 16).to_le_bytes().to_vec();
        bytes.extend(id.to_le_bytes());
        bytes.extend(response_to.to_le_bytes());
        bytes.extend(2013_u32.to_le_bytes());
        [bytes, content].concat()
    }

    #[test]
    fn nothing_of_mongodb() {
        let filter = || Document(document(&[("password", Text("<S>"))]));
        let commands = [
            document(&[("find", Text("users")), ("filter", filter()), ("$db", Text("shop"))]),
            document(&[("saslStart", Number(1.0)), ("payload", Text("n,,n=bob,r=<S>"))]),
            document(&[("createUser", Text("bob")), ("pwd", Text("<S>")), ("$db", Text("shop"))]),
            document(&[("<S>", Number(1.0)), ("$db", Text("shop"))]),
            document(&[("insert", Text("token.<S>")), ("comment", Text("<S>"))]),
        ];
        let errors = [
            (11000.0, "E11000 duplicate key error index: a dup key: { a: \"<S>\" }"),
            (13.0, "not authorized on shop to execute command { find: \"a\", b: \"<S>\" }"),
            (59.0, "no such command: '<S>'"),
            (9.0, "Failed to parse: filter: \"<S>\""),
            (2.0, "bad password: <S>"),
            (18.0, "Authentication failed. password=<S>"),
        ];
        for command in &commands {
            for (code, message) in errors {
                // To a driver that opens a connection that is no failure.
                if code == 59.0 && command == &commands[1] {
                    continue;
                }
                let answer =
                    [("ok", Number(0.0)), ("code", Number(code)), ("errmsg", Text(message))];
                let talk = Talk::new().ask(&mongodb(1, 0, command));
                check(message, &talk.answer(&mongodb(2, 1, &document(&answer))));
            }
        }
    }
}

mod brokers {
    use super::*;

    fn amqp(kind: u8, channel: u8, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&[kind, 0, channel], &length[..], payload, &[0xce]].concat()
    }

    fn method(channel: u8, class: u8, method: u8, arguments: &[u8]) -> Vec<u8> {
        amqp(1, channel, &[&[0, class, 0, method], arguments].concat())
    }

    fn short(text: &str) -> Vec<u8> {
        let text = fill(text);
        [&[text.len() as u8], text.as_bytes()].concat()
    }

    #[test]
    fn nothing_of_amqp() {
        let plain = format!("\0\0\0\0\x05PLAIN\0\0\0\x0f\0bob\0{SECRET}\x05en_US");
        let start = method(0, 10, 10, b"\0\x09\0\0\0\0\0\0\0\x05PLAIN\0\0\0\x05en_US");
        let denied = [&[1, 0x93][..], &short("ACCESS_REFUSED - password=<S>"), &[0, 10, 0, 11]];
        let talk = Talk::new().ask(b"AMQP\0\0\x09\x01").answer(&start);
        let talk = talk.ask(&method(0, 10, 11, plain.as_bytes()));
        check("plain", &talk.answer(&method(0, 10, 50, &denied.concat())));

        for (exchange, key, id) in [
            ("ex", "orders", "token=<S>"),
            ("ex", "reset.<S>", "m-1"),
            ("password.<S>", "a", "<T>"),
            ("", "a/http://u:<S>@h", "m"),
            ("", "mail.<R>", "m"),
        ] {
            let arguments = [&[0, 0][..], &short(exchange), &short(key), &[0]].concat();
            let table = [&short("password")[..], b"S\0\0\0\x0a", SECRET.as_bytes()].concat();
            let mut header = b"\0\x3c\0\0\0\0\0\0\0\0\0\x0a\x24\x80".to_vec();
            header.extend((table.len() as u32).to_be_bytes());
            header.extend([table, short(id), short(id)].concat());
            let content = [amqp(2, 1, &header), amqp(3, 1, SECRET.as_bytes())].concat();
            let publish = [method(1, 60, 40, &arguments), content].concat();
            let open = Talk::new().ask(b"AMQP\0\0\x09\x01").answer(&start);
            let open = open.ask(&method(1, 20, 10, b"\0")).answer(&method(1, 20, 11, b"\0\0\0\0"));
            check(key, &open.ask(&publish));
        }
    }

    fn kafka(key: u8, version: u8, body: &[u8]) -> Vec<u8> {
        let content = [&[0, key, 0, version, 0, 0, 0, 7, 0, 1, b'c'], body].concat();
        [&(content.len() as u32).to_be_bytes()[..], &content].concat()
    }

    #[test]
    fn nothing_of_kafka() {
        let plain = format!("\0\0\0\x0f\0bob\0{SECRET}");
        let told = fill("bad password=<S>");
        let refused =
            [b"\0\0\0\x07\0\x3a\0".as_slice(), &[told.len() as u8], told.as_bytes(), &[0; 4]];
        let refused = refused.concat();
        let refused = [&(refused.len() as u32).to_be_bytes()[..], &refused].concat();
        let versions = [kafka(18, 0, b""), b"\0\0\0\x0a\0\0\0\x07\0\0\0\0\0\0".to_vec()];
        let talk = Talk::new().ask(&versions[0]).answer(&versions[1]);
        check("sasl", &talk.ask(&kafka(36, 0, plain.as_bytes())).answer(&refused));
        for topic in ["orders", "reset.<S>", "token-<R>"] {
            let topic = fill(topic);
            let name = [&[0, topic.len() as u8], topic.as_bytes()].concat();
            let records = format!("\0\0\0\0\0\0\0\0\0\0\0\x10abcdef{SECRET}");
            let body = [b"\0\x01\0\0\0\x64\0\0\0\x01", &name[..], b"\0\0\0\x01\0\0\0\0\0\0\0\x1c"];
            let body = [&body.concat(), records.as_bytes()].concat();
            let talk = Talk::new().ask(&versions[0]).answer(&versions[1]);
            let answer = [b"\0\0\0\x07\0\0\0\x01", &name[..], b"\0\0\0\x01\0\0\0\0\0\x57", &[0; 8]];
            let answer = answer.concat();
            let answer = [&(answer.len() as u32).to_be_bytes()[..], &answer].concat();
            check(&topic, &talk.ask(&kafka(0, 2, &body)).answer(&answer));
        }
    }

    #[test]
    fn nothing_of_mqtt() {
        let text = |text: &str| {
            let text = fill(text);
            [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
        };
        let packet = |first: u8, content: &[u8]| [&[first, content.len() as u8], content].concat();
        for (client, topic) in [("c", "orders"), ("token:<S>", "reset/<S>"), ("<R>", "a/<R>/b")] {
            let open = [b"\0\x04MQTT\x04\xc6\0\x3c", &text(client)[..], &text("w"), &text("<S>")];
            let open = [&open.concat()[..], &text("bob"), &text("<S>")].concat();
            let talk = Talk::new().ask(&packet(0x10, &open)).answer(&packet(0x20, &[0, 0]));
            let publish = [&text(topic)[..], &[0, 7], SECRET.as_bytes()].concat();
            check(topic, &talk.ask(&packet(0x32, &publish)).answer(&packet(0x40, &[0, 7])));
            let refused = Talk::new().ask(&packet(0x10, &open)).answer(&packet(0x20, &[0, 5]));
            check(client, &refused);
        }
    }

    #[test]
    fn nothing_of_nats() {
        let open = || {
            let connect = fill("CONNECT {\"user\":\"bob\",\"pass\":\"<S>\",\"verbose\":false}\r\n");
            Talk::new().answer(b"INFO {\"server_id\":\"x\"}\r\n").ask(connect.as_bytes())
        };
        for publish in [
            "PUB orders 10\r\n<S>\r\n",
            "PUB reset.<S> 1\r\na\r\n",
            "PUB a.<R>.b 1\r\na\r\n",
            "HPUB a 43 44\r\nNATS/1.0\r\nNats-Msg-Id: password=<S>\r\n\r\n\r\na\r\n",
        ] {
            check(
                publish,
                &open().ask(b"PING\r\n").answer(b"PONG\r\n").ask(fill(publish).as_bytes()),
            );
        }
        let denied = fill("-ERR 'Authorization Violation for \"<S>\" password=<S>'\r\n");
        check("denied", &open().answer(denied.as_bytes()));
        for answer in [
            "Nats-Service-Error: password=<S>\r\nNats-Service-Error-Code: 500",
            "Nats-Service-Error: token: <S>",
        ] {
            let headers = fill(&format!("NATS/1.0\r\n{answer}\r\n\r\n"));
            let length = headers.len();
            let talk = open().ask(b"PING\r\n").answer(b"PONG\r\n").ask(b"SUB _INBOX.a.* 1\r\n");
            let talk = talk.ask(b"PUB svc _INBOX.a.1 1\r\na\r\n");
            let message = format!("HMSG _INBOX.a.1 1 {length} {length}\r\n{headers}\r\n");
            check(answer, &talk.answer(message.as_bytes()));
        }
    }

    #[test]
    fn nothing_of_zmtp() {
        let greeting = [&b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01NULL"[..], &[0; 48]].concat();
        let ready = |socket: &str| {
            let properties = [&b"\x0bSocket-Type\0\0\0"[..], &[socket.len() as u8]].concat();
            let command = [b"\x05READY", &properties[..], socket.as_bytes()].concat();
            [&[4, command.len() as u8], &command[..]].concat()
        };
        let frame = |flags: u8, text: &str| {
            let text = fill(text);
            [&[flags, text.len() as u8], text.as_bytes()].concat()
        };
        let subscribe = |topic: &str| [&b"\x04"[..], &frame(0, topic)[1..]].concat();
        let open = |ours: &str, theirs: &str| {
            let talk = Talk::new().ask(&greeting).answer(&greeting);
            talk.ask(&ready(ours)).answer(&ready(theirs))
        };
        for text in ["<S>", "password=<S>", "a.<R>.b"] {
            let call = open("REQ", "REP").ask(&[frame(1, ""), frame(0, text)].concat());
            check(text, &call.answer(&[frame(1, ""), frame(0, text)].concat()));
            check(text, &open("PUSH", "PULL").ask(&[frame(1, text), frame(0, text)].concat()));
            check(text, &open("PUB", "SUB").ask(&[frame(1, text), frame(0, text)].concat()));
        }
        for text in ["reset.<S>", "a.<R>.b"] {
            let topic = subscribe(&format!("\u{9}SUBSCRIBE{text}"));
            let published = [frame(1, text), frame(0, "<S>")].concat();
            check(text, &open("PUB", "SUB").answer(&topic).ask(&published));
        }
        let refused = frame(4, "\u{5}ERROR\u{12}password=<S>");
        check("refused", &Talk::new().ask(&greeting).answer(&greeting).answer(&refused));
    }

    #[test]
    fn nothing_of_dubbo() {
        let message = |flags: u8, status: u8, content: &str| {
            let content = fill(content);
            let length = (content.len() as u32).to_be_bytes();
            [&[0xda, 0xbb, flags, status, 0, 0, 0, 0, 0, 0, 0, 7], &length[..], content.as_bytes()]
                .concat()
        };
        let call = message(
            0xc2,
            0,
            "\u{5}2.0.2\u{9}shop.Cart\u{5}0.0.0\u{3}get\u{12}Ljava/lang/String;\u{a}<S>H\u{8}password\u{a}<S>Z",
        );
        for (status, answer) in [(70, "\u{a}<S>"), (40, "\u{a}<S>"), (20, "a\u{a}<S>")] {
            check(answer, &Talk::new().ask(&call).answer(&message(2, status, answer)));
        }
    }
}

/// What is nearly a secret, and is needed.
#[test]
fn what_is_no_secret_stays() {
    for (target, wanted) in [
        ("/a?keyboard=qwerty&monkey=1&tokenizer=bpe", "keyboard=qwerty&monkey=1&tokenizer=bpe"),
        ("/a?code=404&max_tokens=4096", "code=404&max_tokens=4096"),
        (
            "/a?error_code=E77&zip_code=12345&sort_key=price",
            "error_code=E77&zip_code=12345&sort_key=price",
        ),
        ("/a?q=hello%20world&next=%2Forders%2F42", "q=hello%20world&next=%2Forders%2F42"),
        ("/a?at=10:30:00&mail=bob@example.com", "at=10:30:00&mail=bob@example.com"),
        ("/oauth/token", "/oauth/token"),
        ("/sessions/42/items", "/sessions/42/items"),
        ("/users/password/new", "/users/password/new"),
        ("/o/550e8400-e29b-41d4-a716-446655440000", "/o/550e8400-e29b-41d4-a716-446655440000"),
        ("/commit/9f86d081884c7d659a2feaa0c55ad015", "/commit/9f86d081884c7d659a2feaa0c55ad015"),
    ] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: shop:81\r\n\r\n");
        let talk = Talk::new().ask(head.as_bytes()).answer(b"HTTP/1.1 204 x\r\n\r\n");
        let text = shown(&talk);
        assert!(text.contains(wanted), "{target}: {text}");
        assert!(!text.contains("REDACTED"), "{target}: {text}");
    }
}
