//! Corner cases of the databases' protocols: connections older than the agent,
//! losses, and what real servers are hard to be brought to say.

mod support;

mod mysql {
    use spanwise_capture_tracer::event::Direction::{Received, Sent};
    use spanwise_capture_tracer::recording::RecordedEvent;

    use super::support::{Talk, spans, tracer};

    const OK: &[u8] = b"\x07\0\0\x01\0\0\0\x02\0\0\0";
    const MISSING: &[u8] = b"\x14\0\0\x01\xff\x7a\x04#42S02no such tab";
    const ROWS: &[u8] = b"\x01\0\0\x01\x01\x04\0\0\x02\x03def\x02\0\0\x03\x01a\x02\0\0\x04\x01b\
        \x07\0\0\x05\xfe\0\0\x02\0\0\0";

    fn packet(sequence: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = (content.len() as u32).to_le_bytes().to_vec();
        bytes[3] = sequence;
        bytes.extend_from_slice(content);
        bytes
    }

    fn query(text: &str) -> Vec<u8> {
        packet(0, format!("\u{3}{text}").as_bytes())
    }

    /// A greeting, and an answer with these capabilities besides version 4.1's.
    fn opened(version: &str, capabilities: u32) -> Talk {
        let mut greeting = format!("\n{version}\0").into_bytes();
        greeting.extend_from_slice(b"\x08\0\0\0abcdefgh\0\xff\xff\x2d\x02\0\xff\xff\x15");
        greeting.extend_from_slice(&[0; 10]);
        greeting.extend_from_slice(b"abcdefghijkl\0mysql_native_password\0");
        let mut answer = (capabilities | 0x8200).to_le_bytes().to_vec();
        answer.extend_from_slice(&[0; 28]);
        answer.extend_from_slice(b"geheim\0\0");
        Talk::new().answer(&packet(0, &greeting)).ask(&packet(1, &answer))
    }

    #[test]
    fn mysql_is_told_from_mariadb() {
        for (version, system) in [("8.0.36", "mysql"), ("5.5.5-10.11.6-MariaDB-1", "mariadb")] {
            let talk = opened(version, 1 << 24).answer(&packet(2, &OK[4..]));
            let talk = talk.ask(&query("SELECT 1 FROM t")).answer(ROWS);
            let found = spans(&mut tracer(), &talk.events);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].attribute("db.system.name").unwrap().as_str(), Some(system));
            assert_eq!(found[0].attribute("db.response.returned_rows").unwrap().as_int(), Some(2));
        }
    }

    #[test]
    fn several_rounds_of_authentication_are_one_request() {
        let rounds = || {
            opened("8.0.36", 0)
                .answer(&packet(2, b"\xfecaching_sha2_password\0geheim"))
                .ask(&packet(3, b"geheim"))
                .answer(&packet(4, b"\x01\x04"))
                .ask(&packet(5, b"geheim"))
        };
        let denied = rounds().answer(&packet(6, b"\xff\x15\x04#28000Access denied"));
        assert_eq!(denied.spans(), ["CONNECT: 1045 (28000): Access denied"]);
        let accepted = rounds().answer(&packet(6, &OK[4..])).ask(&query("SELECT 1")).answer(ROWS);
        assert_eq!(accepted.spans(), ["SELECT"]);
        assert!(!accepted.counters().contains_key("malformed_messages"));
    }

    #[test]
    fn a_connection_that_is_not_let_in_has_failed() {
        let talk = Talk::new().answer(b"\x17\0\0\0\xff\x10\x04Too many connections");
        assert_eq!(talk.spans(), ["CONNECT: 1040: Too many connections"]);
    }

    #[test]
    fn encryption_and_compression_end_the_reading() {
        let mut wish = 0x8a00_u32.to_le_bytes().to_vec();
        wish.extend_from_slice(&[0; 28]);
        let greeting = opened("8.0.36", 0).events.swap_remove(0);
        let mut talk = Talk::new();
        if let RecordedEvent::Data(data) = greeting {
            talk = talk.answer(&data.bytes);
        }
        let talk = talk.ask(&packet(1, &wish)).ask(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03");
        assert_eq!(talk.counters()["connections_encrypted"], 1);
        let talk = opened("8.0.36", 1 << 5).answer(&packet(2, &OK[4..])).ask(&query("SELECT 1"));
        assert_eq!(talk.counters()["connections_switched"], 1);
        assert!(talk.spans().is_empty());
    }

    #[test]
    fn a_connection_older_than_the_agent_is_read_from_a_query_on() {
        let talk = Talk::new().ask(&query("SELECT a FROM t")).answer(ROWS);
        let talk = talk.ask(&query("SELECT a FROM u")).answer(MISSING);
        assert_eq!(talk.spans(), ["SELECT t", "SELECT u: 1146 (42S02): no such tab"]);
        // Whether definitions are followed by a packet that ends them is not known.
        let prepared = b"\x0c\0\0\x01\0\x05\0\0\0\0\0\x01\0\0\0\0\x04\0\0\x02\x03def\
            \x05\0\0\x03\xfe\0\0\x02\0";
        let talk = Talk::new().ask(&packet(0, b"\x16SELECT a FROM t WHERE b = ?"));
        let talk = talk.answer(prepared).ask(&packet(0, b"\x17\x05\0\0\0\0\x01\0\0\0"));
        let talk = talk.answer(ROWS);
        assert_eq!(talk.spans(), ["PREPARE SELECT t", "SELECT t"]);
        assert!(!talk.counters().contains_key("orphan_responses"));
    }

    #[test]
    fn packets_of_sixteen_mebibytes_are_continued() {
        let mut first = packet(0, b"\x03INSERT INTO t VALUES ('geheim");
        first[..3].copy_from_slice(&[0xff; 3]);
        let unseen = 0xff_ffff + 4 - first.len() as u32;
        let talk = Talk::new().cut(Received, &first, unseen).ask(b"\x02\0\0\x01')");
        let mut ok = OK.to_vec();
        ok[3] = 2;
        let talk = talk.answer(&ok).ask(&query("SELECT 1")).answer(ROWS);
        let found = spans(&mut tracer(), &talk.events);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].network.request_bytes, Some(0xff_ffff + 10));
        assert_eq!(found[0].response_tcp_seq, Some(9000));
        // A row of that length begins as the packet that ends a result does.
        let columns = b"\x01\0\0\x01\x01\x04\0\0\x02\x03def";
        let talk = Talk::new().ask(&query("SELECT a FROM t")).answer(columns);
        let talk = talk.cut(Sent, b"\xff\xff\xff\x03\xfe\0\0\0\x01", 0xff_ffff - 5);
        let talk = talk.answer(b"\x01\0\0\x04x\x07\0\0\x05\xfe\0\0\x02\0\0\0");
        let found = spans(&mut tracer(), &talk.events);
        assert_eq!(found[0].attribute("db.response.returned_rows").unwrap().as_int(), Some(1));
        assert_eq!(found[0].network.response_bytes, Some(5 + 8 + 0xff_ffff + 4 + 5 + 11));
    }

    #[test]
    fn what_was_not_seen_of_rows_is_waited_for() {
        let talk = Talk::new().ask(&query("SELECT a FROM t")).cut(Sent, &ROWS[..20], 3000);
        let end = b"rest of a row\x05\0\0\x09\xfe\0\0\x02\0";
        let told = talk.cut(Sent, b"more", 100).answer(end);
        let told = told.ask(&query("SELECT a FROM u")).answer(ROWS);
        assert_eq!(told.spans(), ["SELECT t", "SELECT u"]);
        assert_eq!(told.counters()["resynchronised"], 1);
        let found = spans(&mut tracer(), &told.events);
        assert_eq!(found[0].network.response_bytes, Some(3020 + 104 + end.len() as u64));
    }

    #[test]
    fn responses_are_not_given_to_other_requests_after_a_loss() {
        let talk = Talk::new().ask(&query("SELECT a FROM t")).answer(ROWS);
        let talk = talk.ask(&query("SELECT a FROM lost")).lost(Sent, 40).lost(Received, 30);
        // Whose answers still come is not known before the next turn.
        let talk = talk.answer(MISSING).ask(&query("SELECT a FROM given_up")).answer(ROWS);
        let talk = talk.ask(&query("SELECT a FROM u")).answer(ROWS);
        assert_eq!(talk.spans(), ["SELECT t", "SELECT u"]);
        assert_eq!(talk.counters()["requests_lost"], 1);
        // A response out of its sequence is none to the request.
        let talk = Talk::new().ask(&query("SELECT a FROM t")).answer(b"\x01\0\0\x07\x01");
        let talk = talk.ask(&query("SELECT a FROM u")).answer(ROWS);
        assert_eq!(talk.spans(), ["SELECT u"]);
        assert_eq!(talk.counters()["malformed_messages"], 1);
    }

    #[test]
    fn a_connection_that_is_no_mysql_after_all_is_left() {
        let mut talk = Talk::new().ask(&query("SELECT a FROM t")).answer(ROWS);
        for _ in 0..3 {
            talk = talk.ask(b"\x03\0\0\x05abc").answer(b"?");
        }
        let talk = talk.ask(b"GET /a HTTP/1.1\r\n\r\n").answer(b"HTTP/1.1 204 No\r\n\r\n");
        assert_eq!(talk.counters()["protocol_changes"], 1);
        assert_eq!(talk.spans(), ["SELECT t", "GET /a"]);
    }

    #[test]
    fn statements_of_a_connection_are_bounded() {
        let mut talk = Talk::new();
        for number in 0..2000_u32 {
            let text = format!("\u{16}SELECT {} FROM t", "c, ".repeat(1000));
            let mut prepared = b"\x0c\0\0\x01\0....\0\0\0\0\0\0\0".to_vec();
            prepared[5..9].copy_from_slice(&number.to_le_bytes());
            talk = talk.ask(&packet(0, text.as_bytes())).answer(&prepared);
        }
        let mut tracer = tracer();
        for event in &talk.events {
            tracer.event(&event.event());
            assert!(tracer.held_bytes() < 1 << 20, "{}", tracer.held_bytes());
        }
    }
}

mod memcached {
    use spanwise_capture_tracer::event::Direction::{Received, Sent};

    use super::support::{Talk, spans, tracer};

    fn message(
        magic: u8,
        opcode: u8,
        status: u16,
        opaque: u32,
        key: &[u8],
        value: &[u8],
    ) -> Vec<u8> {
        let mut bytes = vec![magic, opcode, 0, key.len() as u8, 0, 0];
        bytes.extend_from_slice(&status.to_be_bytes());
        bytes.extend_from_slice(&((key.len() + value.len()) as u32).to_be_bytes());
        bytes.extend_from_slice(&opaque.to_be_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        bytes
    }

    #[test]
    fn a_value_of_which_little_was_captured_ends_where_it_ends() {
        let talk = Talk::new().ask(b"get a\r\n").cut(Sent, b"VALUE a 0 5000\r\ngeheim", 4994 + 7);
        let talk = talk.ask(b"get b\r\n").answer(b"END\r\n");
        let found = spans(&mut tracer(), &talk.events);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].network.response_bytes, Some(16 + 5007));
        assert_eq!(found[0].duration_nano, 1_000_000);
        assert!(!talk.counters().contains_key("framing_lost"));
    }

    #[test]
    fn replies_are_not_given_to_other_commands_after_a_loss() {
        let talk = Talk::new().ask(b"get a\r\n").answer(b"END\r\n").ask(b"get lost\r\n");
        let talk = talk.lost(Sent, 5).lost(Received, 9).answer(b"NOT_FOUND\r\n");
        // Whose answers still come is not known before the next turn.
        let talk = talk.ask(b"get given_up\r\n").answer(b"END\r\n");
        let talk = talk.ask(b"delete b\r\n").answer(b"DELETED\r\n");
        assert_eq!(talk.spans(), ["get", "delete"]);
        assert_eq!(talk.counters()["requests_lost"], 1);
    }

    #[test]
    fn a_connection_older_than_the_agent_is_read_from_its_middle() {
        let talk = Talk::new().answer(b"STORED\r\n").ask(b"get a\r\n").answer(b"END\r\n");
        assert_eq!(talk.spans(), ["get"]);
        let talk = Talk::new().ask(&message(0x80, 0, 0, 7, b"a", b""));
        let talk = talk.answer(&message(0x81, 0, 1, 7, b"", b"Not found"));
        assert_eq!(talk.spans(), ["get"]);
    }

    #[test]
    fn errors_of_the_binary_protocol_are_failures() {
        let talk = Talk::new().ask(&message(0x80, 0x0e, 0, 7, b"a", b"geheim"));
        let talk = talk.answer(&message(0x81, 0x0e, 3, 7, b"", b"Too large"));
        assert_eq!(talk.spans(), ["append: Too large"]);
        let talk = Talk::new().ask(&message(0x80, 0x21, 0, 7, b"PLAIN", b"\0geheim\0hunter2"));
        let talk = talk.answer(&message(0x81, 0x21, 0x20, 7, b"", b""));
        assert_eq!(talk.spans(), ["auth: auth_error"]);
    }

    #[test]
    fn a_response_with_another_number_is_not_taken() {
        let talk = Talk::new().ask(&message(0x80, 0, 0, 7, b"a", b""));
        let talk = talk.answer(&message(0x81, 0, 0, 8, b"", b"geheim"));
        let talk = talk.ask(&message(0x80, 0, 0, 9, b"b", b""));
        let talk = talk.answer(&message(0x81, 0, 0, 9, b"", b"geheim"));
        assert_eq!(talk.spans(), ["get"]);
        assert_eq!(
            (talk.counters()["malformed_messages"], talk.counters()["requests_lost"]),
            (1, 1)
        );
    }

    #[test]
    fn commands_asked_quietly_are_one_request_with_the_one_that_ends_them() {
        let mut asked = Vec::new();
        for number in 1..=3 {
            asked.extend(message(0x80, 0x0d, 0, number, b"key", b""));
        }
        asked.extend(message(0x80, 0x0a, 0, 4, b"", b""));
        let mut answered = message(0x81, 0x0d, 0, 2, b"key", b"geheim");
        answered.extend(message(0x81, 0x0a, 0, 4, b"", b""));
        let talk = Talk::new().ask(&asked).answer(&answered);
        assert_eq!(talk.spans(), ["BATCH get"]);
        // With no end and no answer in sight they are told by themselves.
        let talk = Talk::new().ask(&message(0x80, 0x14, 0, 1, b"key", b""));
        assert_eq!(talk.spans(), ["delete"]);
        let found = spans(&mut tracer(), &talk.events);
        assert_eq!((found[0].response_tcp_seq, &found[0].error), (None, &None));
    }

    #[test]
    fn a_connection_that_is_no_memcached_after_all_is_left() {
        let mut talk = Talk::new().ask(b"get a\r\n").answer(b"END\r\n");
        for _ in 0..3 {
            talk = talk.ask(b"what is this\r\n").answer(b"?\r\n");
        }
        let talk = talk.ask(b"GET /a HTTP/1.1\r\n\r\n").answer(b"HTTP/1.1 204 No\r\n\r\n");
        assert_eq!(talk.counters()["protocol_changes"], 1);
        assert_eq!(talk.spans(), ["get", "GET /a"]);
    }
}

mod mongodb {
    use spanwise_capture_tracer::event::Direction::{Received, Sent};

    use super::support::{Talk, spans, tracer};

    const MORE_TO_COME: u32 = 2;

    /// A document: texts and numbers.
    fn document(elements: &[(&str, Result<&str, f64>)]) -> Vec<u8> {
        let mut content = Vec::new();
        for (name, value) in elements {
            content.push(if value.is_ok() { 2 } else { 1 });
            content.extend_from_slice(name.as_bytes());
            content.push(0);
            match value {
                Ok(text) => {
                    content.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
                    content.extend_from_slice(text.as_bytes());
                    content.push(0);
                }
                Err(number) => content.extend_from_slice(&number.to_le_bytes()),
            }
        }
        content.push(0);
        [&(content.len() as u32 + 4).to_le_bytes()[..], &content].concat()
    }

    fn framed(id: u32, response_to: u32, opcode: u32, content: &[u8]) -> Vec<u8> {
        let length = 16 + content.len() as u32;
        let header = [length, id, response_to, opcode].map(u32::to_le_bytes).concat();
        [header, content.to_vec()].concat()
    }

    fn message(id: u32, response_to: u32, flags: u32, body: &[u8]) -> Vec<u8> {
        framed(id, response_to, 2013, &[&flags.to_le_bytes()[..], &[0], body].concat())
    }

    fn find(id: u32, collection: &str) -> Vec<u8> {
        message(id, 0, 0, &document(&[("find", Ok(collection)), ("$db", Ok("shop"))]))
    }

    fn ok(id: u32, response_to: u32) -> Vec<u8> {
        message(id, response_to, 0, &document(&[("ok", Err(1.0))]))
    }

    fn failed(id: u32, response_to: u32) -> Vec<u8> {
        let error = [
            ("ok", Err(0.0)),
            ("errmsg", Ok("ns does not exist: 'geheim'")),
            ("code", Err(9.0)),
            ("codeName", Ok("FailedToParse")),
        ];
        message(id, response_to, 0, &document(&error))
    }

    #[test]
    fn answers_out_of_order_find_their_requests() {
        let talk = Talk::new().ask(&find(1, "a")).ask(&find(2, "b")).ask(&find(3, "c"));
        let talk = talk.answer(&ok(10, 3)).answer(&failed(11, 1)).answer(&ok(12, 2));
        let failure = "find a: 9 (FailedToParse): ns does not exist: '?'";
        assert_eq!(talk.spans(), ["find c", failure, "find b"]);
    }

    #[test]
    fn unacknowledged_writes_are_told_by_themselves() {
        let body = document(&[("insert", Ok("a")), ("$db", Ok("shop"))]);
        let talk = Talk::new().ask(&message(1, 0, MORE_TO_COME, &body));
        let talk = talk.ask(&find(2, "b")).answer(&ok(10, 2));
        assert_eq!(talk.spans(), ["insert a", "find b"]);
        // The documents may come first, and more of them than is captured.
        let mut content = MORE_TO_COME.to_le_bytes().to_vec();
        content.push(1);
        content.extend_from_slice(&2000_u32.to_le_bytes());
        content.extend_from_slice(b"documents\0geheim");
        content.resize(5 + 2000, b'x');
        content.push(0);
        content.extend_from_slice(&body);
        let bytes = framed(3, 0, 2013, &content);
        let (seen, unseen) = bytes.split_at(500);
        let talk = Talk::new().ask(&find(2, "b")).answer(&ok(10, 2));
        let talk = talk.cut(Received, seen, unseen.len() as u32);
        assert_eq!(talk.spans(), ["find b", "insert"]);
    }

    #[test]
    fn answers_without_end_are_one_where_they_are_a_cursor_and_none_where_they_watch() {
        let hello = document(&[("hello", Err(1.0)), ("$db", Ok("admin"))]);
        let state = document(&[("ok", Err(1.0))]);
        let mut talk = Talk::new().ask(&message(1, 0, 1 << 16, &hello));
        for id in 10..20 {
            let before = if id == 10 { 1 } else { id - 1 };
            talk = talk.answer(&message(id, before, MORE_TO_COME, &state));
        }
        assert!(talk.spans().is_empty());
        assert!(!talk.counters().contains_key("orphan_responses"));
        let more = document(&[("getMore", Err(7.0)), ("collection", Ok("a")), ("$db", Ok("shop"))]);
        let talk = Talk::new().ask(&message(1, 0, 1 << 16, &more));
        let talk = talk.answer(&message(10, 1, MORE_TO_COME, &state));
        let talk = talk.answer(&message(11, 10, MORE_TO_COME, &state)).answer(&ok(12, 11));
        let talk = talk.ask(&find(2, "b")).answer(&ok(13, 2));
        assert_eq!(talk.spans(), ["getMore a", "find b"]);
        let found = spans(&mut tracer(), &talk.events);
        assert_eq!(found[0].network.response_bytes, Some(3 * ok(0, 1).len() as u64));
    }

    #[test]
    fn heartbeats_are_shown_only_if_they_fail() {
        let ping = document(&[("ping", Err(1.0)), ("$db", Ok("admin"))]);
        let talk = Talk::new().ask(&message(1, 0, 0, &ping)).answer(&ok(10, 1));
        let talk = talk.ask(&message(2, 0, 0, &ping)).answer(&failed(11, 2));
        assert_eq!(talk.spans(), ["ping: 9 (FailedToParse): ns does not exist: '?'"]);
    }

    #[test]
    fn a_server_that_is_too_old_for_hello_has_not_failed() {
        let hello = document(&[("hello", Err(1.0)), ("$db", Ok("admin"))]);
        let unknown = |name: &str| {
            let text = format!("no such command: '{name}'");
            document(&[("ok", Err(0.0)), ("errmsg", Ok(&text)), ("code", Err(59.0))])
        };
        let talk = Talk::new().ask(&message(1, 0, 0, &hello));
        let talk = talk.answer(&message(10, 1, 0, &unknown("hello")));
        let sized = document(&[("dataSize", Ok("a")), ("$db", Ok("admin"))]);
        let talk = talk.ask(&message(2, 0, 0, &sized));
        let talk = talk.answer(&message(11, 2, 0, &unknown("dataSize")));
        assert_eq!(talk.spans(), ["dataSize: 59: no such command: '?'"]);
    }

    #[test]
    fn the_messages_of_old_are_read() {
        let name = b"\0\0\0\0admin.$cmd\0\0\0\0\0\xff\xff\xff\xff".as_slice();
        let command = [name, &document(&[("listDatabases", Err(1.0))])].concat();
        let reply = |error: &[u8]| [&[0; 20][..], error].concat();
        let talk = Talk::new().ask(&framed(1, 0, 2004, &command));
        let error = document(&[("ok", Err(0.0)), ("errmsg", Ok("no")), ("code", Err(13.0))]);
        let talk = talk.answer(&framed(10, 1, 1, &reply(&error)));
        let name = b"\0\0\0\0shop.users\0\0\0\0\0\xff\xff\xff\xff\x05\0\0\0\0";
        let talk = talk.ask(&framed(2, 0, 2004, name));
        let talk = talk.answer(&framed(11, 2, 1, &reply(&document(&[("name", Ok("geheim"))]))));
        let talk = talk.ask(&framed(3, 0, 2006, b"\0\0\0\0shop.users\0\0\0\0\0\x05\0\0\0\0"));
        assert_eq!(talk.spans(), ["listDatabases: 13: no", "find users", "delete users"]);
    }

    #[test]
    fn compressed_messages_are_paired_though_not_read() {
        let content = b"\xdd\x07\0\0\x64\0\0\0\x01geheim";
        let talk = Talk::new().ask(&framed(1, 0, 2012, content));
        let talk = talk.answer(&framed(10, 1, 2012, content));
        // No answer: it asked for none.
        let talk = talk.ask(&framed(2, 0, 2012, content)).ask(&framed(3, 0, 2012, content));
        let talk = talk.answer(&framed(11, 3, 2012, content));
        assert_eq!(talk.spans(), ["compressed"; 3]);
        let found = spans(&mut tracer(), &talk.events);
        assert_eq!(found.iter().filter(|span| span.response_tcp_seq.is_none()).count(), 1);
    }

    #[test]
    fn after_a_loss_reading_sets_in_at_the_next_message() {
        let talk = Talk::new().ask(&find(1, "a")).answer(&ok(10, 1)).ask(&find(2, "lost"));
        let talk = talk.lost(Sent, 50).lost(Received, 70).ask(&find(4, "b")).answer(&ok(13, 4));
        let talk = talk.ask(&find(5, "c")).answer(&ok(14, 5));
        let found = talk.spans();
        assert!(
            found.starts_with(&["find a".to_owned()]) && found.ends_with(&["find c".to_owned()])
        );
        assert!(!found.contains(&"find lost".to_owned()), "{found:?}");
        // What follows a message of which the end was not captured.
        let two = [find(6, "d"), find(7, "e")].concat();
        let talk = Talk::new().cut(Received, &two[..60], two.len() as u32 - 60);
        let talk = talk.answer(&ok(15, 6)).answer(&ok(16, 7)).ask(&find(8, "f"));
        assert_eq!(talk.answer(&ok(17, 8)).spans(), ["find d", "find f"]);
    }

    #[test]
    fn a_connection_that_is_no_mongodb_after_all_is_left() {
        let mut talk = Talk::new().ask(&find(1, "a")).answer(&ok(10, 1));
        talk = talk.ask(&framed(2, 0, 77, b"what is this")).answer(b"?");
        for _ in 0..3 {
            talk = talk.ask(&framed(2, 0, 2013, b"what is this")).answer(&framed(2, 9, 77, b"hm?"));
        }
        let talk = talk.ask(&find(3, "b")).answer(&ok(11, 3));
        assert!(talk.counters()["malformed_messages"] >= 2);
        assert!(talk.spans().contains(&"find b".to_owned()));
    }
}
