use std::io::Write as _;
use std::time::Duration;

use spanwise_ingest::Receiver;

use super::*;

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("written");
    file
}

fn loaded(
    toml: &str,
    environment: &[(&str, &str)],
    typed: &[(&'static str, &str)],
) -> Result<Loaded, String> {
    let file = file(toml);
    let environment: Vec<_> =
        environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let typed: Vec<_> = typed.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
    layers::Layers::gather(Some(file.path()), &environment, &typed).and_then(interpret)
}

fn receiver(config: &Config, key: &str) -> String {
    let address = config.listen.receivers.of(Receiver::named(key).expect("a receiver"));
    address.expect("an address").to_string()
}

fn origin<'a>(loaded: &'a Loaded, key: &str) -> &'a str {
    loaded.in_force.iter().find(|setting| setting.key == key).map_or("", |s| &s.origin)
}

#[test]
fn flags_win_over_the_environment_over_the_file_over_defaults() {
    let all = loaded(
        "data = \"from-file\"\nlog = \"warn\"\n[listen]\nhttp = 1111\notlp_grpc = 1112\n",
        &[("SPANWISE_LISTEN_HTTP", "2222"), ("SPANWISE_LOG", "debug")],
        &[("log", "trace")],
    )
    .expect("loads");
    let config = &all.config;
    assert_eq!(config.root.log, "trace");
    assert_eq!(config.listen.http.to_string(), "127.0.0.1:2222");
    assert_eq!(receiver(config, "otlp_grpc"), "127.0.0.1:1112");
    assert_eq!(receiver(config, "otlp_http"), "127.0.0.1:4318");
    assert_eq!(config.root.data, PathBuf::from("from-file"));
    assert_eq!(origin(&all, "log"), "flag");
    assert_eq!(origin(&all, "listen.http"), "environment SPANWISE_LISTEN_HTTP");
    assert!(origin(&all, "data").starts_with("file /"), "{}", origin(&all, "data"));
    assert_eq!(origin(&all, "listen.otlp_http"), "default");
}

#[test]
fn a_list_is_an_array_in_the_file_and_has_commas_elsewhere() {
    let plugins = |toml: &str, environment: &[(&str, &str)], typed: &[(&'static str, &str)]| {
        loaded(toml, environment, typed).map(|loaded| loaded.config.agent.plugins())
    };
    let of = |paths: &[&str]| Ok(paths.iter().map(PathBuf::from).collect::<Vec<_>>());
    let file = "[agent]\nplugins = [\"a.wasm\"]\n";
    let environment = [("SPANWISE_AGENT_PLUGINS", "b.wasm,c.wasm")];
    assert_eq!(plugins("", &[], &[]), of(&[]));
    assert_eq!(plugins(file, &[], &[]), of(&["a.wasm"]));
    assert_eq!(plugins(file, &environment, &[]), of(&["b.wasm", "c.wasm"]));
    assert_eq!(plugins(file, &environment, &[("agent.plugins", "d")]), of(&["d"]));
    let error = plugins("[agent]\nplugins = [1]\n", &[], &[]).expect_err("a number");
    assert!(error.contains("agent.plugins (file /") && error.contains("list of texts"), "{error}");
}

#[test]
fn one_address_opens_every_listener_that_names_only_a_port() {
    let all =
        loaded("", &[("SPANWISE_LISTEN_OTLP_HTTP", "10.0.0.1:9")], &[("listen.address", "::")])
            .expect("loads");
    assert_eq!(all.config.listen.http.to_string(), "[::]:7070");
    assert_eq!(receiver(&all.config, "otlp_http"), "10.0.0.1:9");
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_known_one() {
    let error = loaded("[listen]\nhtpp = 1\n", &[], &[]).expect_err("unknown");
    assert!(error.contains("unknown key `listen.htpp`; did you mean `listen.http`?"), "{error}");
    let error = loaded("dta = \"x\"\n", &[], &[]).expect_err("unknown");
    assert!(error.contains("did you mean `data`?"), "{error}");
    let error =
        loaded("[[agent.service]]\nname = \"a\"\nprot = 1\n", &[], &[]).expect_err("unknown");
    assert!(
        error.contains("unknown key `prot` in [[agent.service]]; did you mean `port`?"),
        "{error}"
    );
    let error = loaded("[weather]\nsun = 1\n", &[], &[]).expect_err("unknown");
    assert!(error.contains("unknown key `weather.sun`"), "{error}");
}

#[test]
fn a_wrong_value_is_named_with_its_key_and_origin() {
    for (toml, environment, expected) in [
        ("[retain]\nage = \"7 weeks\"\n", &[][..], "retain.age = \"7 weeks\" (file /"),
        (
            "",
            &[("SPANWISE_AGENT_HOOK", "magic")][..],
            "(environment SPANWISE_AGENT_HOOK): `magic` is no hook",
        ),
        ("[agent]\npayload_bytes = 4096\n", &[][..], "must lie between 64 and 1024"),
        ("[listen]\nhttp = true\n", &[][..], "listen.http (file /"),
        ("[[agent.service]]\nname = \"a\"\n", &[][..], "has no condition"),
        ("[[agent.service]]\nname = \"a\"\nport = 70000\n", &[][..], "[[agent.service]]"),
        ("[[agent.label]]\nunit = \"a\"\n", &[][..], "gives no label"),
        ("[[agent.label]]\nset = 3\n", &[][..], "[[agent.label]]"),
        ("[[agent.label]]\nfrom_fil = {}\n", &[][..], "did you mean `from_file`?"),
        ("listen = 3\n", &[][..], "unknown key `listen`"),
        ("this is no toml", &[][..], "is no TOML"),
    ] {
        let error = loaded(toml, environment, &[]).expect_err(toml);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_missing_file_that_was_asked_for_is_an_error() {
    let error = layers::Layers::gather(Some(Path::new("/no/such/file.toml")), &[], &[])
        .expect_err("no file");
    assert!(error.contains("cannot read the configuration file /no/such/file.toml"), "{error}");
}

#[test]
fn a_misspelt_name_in_the_environment_is_warned_about() {
    let all = loaded(
        "",
        &[("SPANWISE_LISTEN_HTPP", "1"), ("SPANWISE_URL", "x"), ("SPANWISE_SERVICE_PORT_WEB", "1")],
        &[],
    )
    .expect("loads");
    assert_eq!(all.warnings.len(), 1, "{:?}", all.warnings);
    assert!(all.warnings[0].contains("did you mean SPANWISE_LISTEN_HTTP?"));
}

#[test]
fn passwords_are_shown_nowhere() {
    let url = "clickhouse://u:hunter2@h:1/d?cluster=c";
    let all = loaded("", &[], &[("store.url", url)]).expect("loads");
    assert!(matches!(all.config.store.url.0, StoreAt::ClickHouse(_)));
    for text in [show(&all, false), show(&all, true), format!("{all:?}")] {
        assert!(text.contains("clickhouse://u:***@h:1/d?cluster=c"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
    for wrong in ["clickhouse://u:hunter2@h:x/d", "postgres://u:hunter2@h", "hunter2"] {
        let error = loaded("", &[("SPANWISE_STORE_URL", wrong)], &[]).expect_err(wrong);
        assert!(error.contains("store.url (environment SPANWISE_STORE_URL)"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    assert_eq!(loaded("", &[], &[]).expect("loads").config.store.url.0, StoreAt::Embedded);
}

#[test]
fn what_is_shown_is_a_file_that_brings_the_same_about() {
    let toml = "[retain]\nage = \"unlimited\"\n[agent]\nhost = \"a \\\"b\\\"\"\n\
                plugins = [\"/a,b.wasm\", \"c.wasm\"]\n\
                [[agent.service]]\nname = \"cart\"\nport = 8102\n\
                [[agent.service]]\nname = \"front\"\nexecutable = \"nginx\"\n\
                [[agent.label]]\nunit = \"cart\"\n\
                set = { team = \"a \\\"b\\\"\", \"service.version\" = \"12\" }\n\
                from_environment = { zone = \"ZONE\" }\nfrom_file = { commit = \"/COMMIT\" }\n";
    let first = loaded(toml, &[], &[("listen.http", "1")]).expect("loads");
    let second = loaded(&show(&first, false), &[], &[]).expect("what was shown loads");
    let values = |loaded: &Loaded| {
        loaded.in_force.iter().map(|s| (s.key.clone(), s.value.clone())).collect::<Vec<_>>()
    };
    assert_eq!(values(&first), values(&second));
    assert_eq!(second.config.agent.services.len(), 2);
    assert_eq!(first.config.agent.labels, second.config.agent.labels);
    assert_eq!(second.config.agent.labels[0].set["service.version"], "12");
    assert_eq!(second.config.agent.plugins(), [Path::new("/a,b.wasm"), Path::new("c.wasm")]);
    assert_eq!(second.config.retain.age.0, None);
    assert!(serde_json::from_str::<serde_json::Value>(&show(&first, true)).is_ok());
}

#[test]
fn bounds_of_ports_and_spans_are_checked() {
    let all = loaded(
        "[listen]\nconnections = 10\nheader_time = \"2s\"\n[receivers]\nallowed_origins = \
         [\"https://a.example\"]\nspan_links = 7\n",
        &[("SPANWISE_SERVER_ALLOWED_HOSTS", "traces.example.org,*.corp.example")],
        &[],
    )
    .expect("loads");
    let Config { ports, receivers, .. } = &all.config;
    assert_eq!((ports.connections.0, ports.header_time.0), (10, Duration::from_secs(2)));
    assert_eq!((receivers.span_links.0, receivers.span_attributes.0), (7, 1024));
    let allowed = all.config.allowed();
    assert_eq!(allowed.hosts, ["traces.example.org", "*.corp.example"]);
    assert_eq!(allowed.receiver_origins, ["https://a.example"]);
    assert!(allowed.api_origins.is_empty());
    for wrong in ["connections = 0", "connections = \"many\"", "idle_time = \"0s\""] {
        let error = loaded(&format!("[listen]\n{wrong}\n"), &[], &[]).expect_err(wrong);
        assert!(error.starts_with("listen."), "{error}");
    }
}

#[test]
fn keys_have_places_and_wrong_ones_say_what_is_right() {
    let file = "[[key]]\nname = \"order\"\nplace = \"header:X-Order\"\n\
                [[key]]\nname = \"user\"\nplace = [\"query:user\", \"message-key\"]\nservice = \"a\"\nhash = true\n";
    let all = loaded(file, &[], &[]).expect("loads");
    let rules = &all.config.keys.rules;
    let places = |at: usize| rules[at].places.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!((rules[0].name.as_str(), places(0)), ("order", vec!["header:x-order".to_owned()]));
    assert_eq!(places(1), ["query:user", "message-key"]);
    assert_eq!((rules[1].service.as_deref(), rules[1].hash), (Some("a"), true));
    // What is printed is read again.
    let again = loaded(&show(&all, false), &[], &[]).expect("loads");
    assert_eq!(&again.config.keys.rules, rules);
    assert!(origin(&all, "key").starts_with("file /"));

    let key = |more: &str| {
        let error = loaded(&format!("[[key]]\nname = \"order\"\n{more}\n"), &[], &[]);
        error.expect_err(more)
    };
    for (more, words) in [
        ("", "has no place"),
        ("place = \"cookie:a\"", "cookie:a is no place of a key; write header:NAME"),
        ("place = 7", "must be a text or a list of texts"),
        ("place = [7]", "must be a text or a list of texts"),
        ("place = \"message-key\"\nservice = \"\"", "leave it out for all services"),
        ("place = \"message-key\"\nhash = \"yes\"", "[[key]]"),
        ("plaec = \"message-key\"", "did you mean `place`?"),
    ] {
        let error = key(more);
        assert!(error.contains(words), "{more}: {error}");
    }
    assert!(loaded("key = 1\n", &[], &[]).expect_err("a number").contains("write [[key]]"));
}

#[test]
fn a_secret_is_read_from_its_file_and_must_be_long() {
    let hashing = "[[key]]\nname = \"order\"\nplace = \"message-key\"\nhash = true\n";
    let keys = |path: &str| {
        loaded(hashing, &[("SPANWISE_KEY_SECRET_FILE", path)], &[]).expect("loads").config.keys
    };
    let none = keys("");
    assert!(none.load().expect("loads").lacks_secret());
    let error = none.load_for_agent().expect_err("no secret").to_string();
    assert!(error.contains("\"order\" has hash = true") && error.contains("key secret"), "{error}");
    let error = keys("/none").load().expect_err("no file").to_string();
    assert!(error.contains("cannot read key_secret_file /none"), "{error}");
    let secret = |text: &str| {
        let file = file(text);
        keys(&file.path().to_string_lossy()).load_for_agent()
    };
    let error = secret("  short  \n").expect_err("short").to_string();
    assert!(error.contains("fewer than 16 bytes"), "{error}");
    let [one, two] = ["a secret of sixteen\n", "a secret of sixteen"]
        .map(|text| secret(text).expect("a secret").shown("order", "1").expect("a hash"));
    assert_eq!(one, two);
}
