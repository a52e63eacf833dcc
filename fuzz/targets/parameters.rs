//! Texts that query APIs take: durations, moments and tags of all dialects. The same text is given
//! to each. What is read is what it would be written as again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spanwise_parameters::{duration_nano, go_duration, moment_unix_nano, tags, tempo};
use time::PrimitiveDateTime;

const NOW: i64 = 1_795_685_400_000_000_000;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(nano) = duration_nano(text) {
        assert!(nano >= 0, "{text}");
        assert_eq!(duration_nano(&format!("{nano}ns")).map(|it| it.abs_diff(nano) >> 12), Some(0));
    }
    if let Some(nano) = go_duration::read(text) {
        assert_eq!(go_duration::read(&format!("{nano}ns")), Some(nano), "{text}");
    }
    if let Some(nanos) = tempo::duration_nanos(text) {
        assert!(nanos < 9_000_000_000_000_000_000, "{text}");
    }
    if let Some(nano) = moment_unix_nano(text, NOW, PrimitiveDateTime::assume_utc) {
        let again = moment_unix_nano(&nano.to_string(), NOW, PrimitiveDateTime::assume_utc);
        assert_eq!(again, Some(nano), "{text}");
    }
    tempo::moment_unix_nano(text);
    if let Ok(pairs) = tags::logfmt(text) {
        let quote = |value: &str| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            value.replace('\n', "\\n").replace('\t', "\\t")
        };
        let written = pairs.iter().map(|(key, value)| format!("{key}=\"{}\" ", quote(value)));
        assert_eq!(tags::logfmt(&written.collect::<String>()), Ok(pairs), "{text}");
    }
    if let Ok(pairs) = tags::object(text) {
        let object: serde_json::Map<String, serde_json::Value> =
            pairs.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        let written = serde_json::to_string(&object).expect("JSON");
        assert_eq!(tags::object(&written).expect("an object"), pairs, "{text}");
    }
    for (key, value) in tags::annotations(text) {
        assert!(!key.is_empty() && value.is_none_or(|value| !value.is_empty()), "{text}");
    }
});
