//! Corner cases of the databases' protocols: connections older than the agent,
//! losses, and what real servers are hard to be brought to say.

mod support;

mod mysql {
    use spanwise_capture_ebpf::event::Direction::{Received, Sent};
    use spanwise_capture_ebpf::recording::RecordedEvent;

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
        let talk = talk.answer(MISSING).ask(&query("SELECT a FROM u")).answer(ROWS);
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
    use spanwise_capture_ebpf::event::Direction::{Received, Sent};

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
        let talk = talk.ask(b"get b\r\n").answer(b"END\r\n");
        assert_eq!(talk.spans(), ["get", "get"]);
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
