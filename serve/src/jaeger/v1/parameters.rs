//! Query parameters (jaeger `cmd/query/app/query_parser.go`). Unknown ones are ignored, and empty
//! ones are as good as absent, as Jaeger's UI sends them.

use spanwise_model::WrittenId;
use spanwise_parameters::{go_duration, tags};
use spanwise_query::now_unix_nano;
use spanwise_store::TimeRange;

use super::Failure;
use crate::dialect::placed::Reading;
use crate::jaeger::read_id;
use crate::jaeger::search::{DEFAULT_TRACES, Search};

/// Names and values in their order.
pub(super) type Pairs = Vec<(String, String)>;

/// How far back a search goes that says nothing of it.
const LOOKBACK_NANO: i64 = 48 * 3_600_000_000_000;
/// The same of dependencies, in milliseconds.
const DEPENDENCIES_MILLIS: i64 = 24 * 3_600_000;
/// The most ids of a request.
const MOST_IDS: usize = 100;

/// See the module.
pub(super) struct Parameters(Pairs);

impl Parameters {
    pub(super) const fn new(pairs: Pairs) -> Self {
        Self(pairs)
    }

    /// The first value of this name that is not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(n, value)| n == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let given = self.0.iter().filter(move |(n, value)| n == name && !value.is_empty());
        given.map(|(_, value)| value.as_str())
    }

    /// `raw`
    pub(super) fn reading(&self) -> Result<Reading, Failure> {
        match self.text("raw") {
            None => Ok(Reading::Assembled),
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(Reading::Raw),
            Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(Reading::Assembled),
            Some(other) => Err(unreadable("raw", other, "write true or false")),
        }
    }

    /// `traceID`, which may repeat.
    pub(super) fn ids(&self) -> Result<Vec<WrittenId>, Failure> {
        let ids: Vec<&str> = self.all("traceID").collect();
        if ids.len() > MOST_IDS {
            return Err(Failure::invalid(format!(
                "there are {} trace ids; at most {MOST_IDS} are answered at a time",
                ids.len()
            )));
        }
        let read = |text: &str| {
            let invalid = |why| Failure::invalid(format!("cannot parse traceID param: {why}"));
            read_id(text).map_err(invalid)
        };
        ids.into_iter().map(read).collect()
    }

    fn whole(&self, name: &str) -> Result<Option<i64>, Failure> {
        let read = |text: &str| {
            let number = text.parse::<i64>();
            number.map_err(|_| unreadable(name, text, "write a whole number"))
        };
        self.text(name).map(read).transpose()
    }

    fn duration(&self, name: &str) -> Result<Option<i64>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match go_duration::read(text) {
            // Jaeger's way to say none.
            Some(0) => Ok(None),
            Some(nano) => Ok(Some(nano)),
            None => Err(unreadable(name, text, "write for example 10ms, 1.5s or 2m30s")),
        }
    }

    /// A search. It must name a service.
    pub(super) fn search(&self) -> Result<Search, Failure> {
        let now = now_unix_nano();
        let micros = |micros: i64| micros.saturating_mul(1_000);
        let start = self.whole("start")?.map(micros);
        let end = self.whole("end")?.map(micros);
        let service = self.text("service").map(str::to_owned);
        if service.is_none() {
            return Err(Failure::invalid("parameter 'service' is required"));
        }
        let limit = self.whole("limit")?.unwrap_or(DEFAULT_TRACES as i64);
        let search = Search {
            service,
            operation: self.text("operation").map(str::to_owned),
            tags: self.tags()?,
            min_duration_nano: self.duration("minDuration")?,
            max_duration_nano: self.duration("maxDuration")?,
            time: TimeRange {
                from_unix_nano: start.unwrap_or_else(|| now.saturating_sub(LOOKBACK_NANO)),
                // The last microsecond counts, too.
                to_unix_nano: end.unwrap_or(now).saturating_add(1_000),
            },
            limit: match usize::try_from(limit) {
                Ok(0) | Err(_) => DEFAULT_TRACES,
                Ok(limit) => limit,
            },
        };
        search.refusal().map_or(Ok(search), |refusal| Err(Failure::invalid(refusal)))
    }

    /// `tag=key:value`, which may repeat, and `tags={"key":"value"}`.
    fn tags(&self) -> Result<Vec<(String, String)>, Failure> {
        let mut tags: Vec<(String, String)> = Vec::new();
        for tag in self.all("tag") {
            let (key, value) = tag.split_once(':').ok_or_else(|| {
                unreadable("tag", tag, "malformed 'tag' parameter, expecting key:value")
            })?;
            put(&mut tags, key, value);
        }
        for json in self.all("tags") {
            let object = tags::object(json).map_err(|error| {
                let why = format!("malformed 'tags' parameter, cannot unmarshal JSON: {error}");
                unreadable("tags", json, &why)
            })?;
            object.iter().for_each(|(key, text)| put(&mut tags, key, text));
        }
        Ok(tags)
    }

    /// `endTs` and `lookback`, in milliseconds.
    pub(super) fn dependencies_time(&self) -> Result<TimeRange, Failure> {
        let nano = |millis: i64| millis.saturating_mul(1_000_000);
        let end = self.whole("endTs")?.map_or_else(now_unix_nano, nano);
        let lookback = nano(self.whole("lookback")?.unwrap_or(DEPENDENCIES_MILLIS));
        Ok(TimeRange {
            from_unix_nano: end.saturating_sub(lookback),
            to_unix_nano: end.saturating_add(1_000_000),
        })
    }
}

/// Of a key that comes again the last value counts.
fn put(tags: &mut Vec<(String, String)>, key: &str, value: &str) {
    match tags.iter_mut().find(|(known, _)| known == key) {
        Some((_, known)) => value.clone_into(known),
        None => tags.push((key.to_owned(), value.to_owned())),
    }
}

fn unreadable(name: &str, text: &str, why: &str) -> Failure {
    let shown: String = text.chars().take(64).collect();
    Failure::invalid(format!("unable to parse param '{name}': `{shown}`: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(pairs: &[(&str, &str)]) -> Parameters {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Parameters::new(pairs.collect())
    }

    #[test]
    fn a_search_is_read_as_jaeger_reads_it() {
        let search = parameters(&[
            ("service", "cart"),
            ("operation", ""),
            ("tag", "http.url:http://a:1/b"),
            ("tag", "a:1"),
            ("tags", r#"{"a":"2","n":200,"t":true}"#),
            ("minDuration", "1.5ms"),
            ("maxDuration", "1m"),
            ("start", "5"),
            ("end", "7"),
            ("lookback", "custom"),
            ("limit", "3"),
        ])
        .search()
        .unwrap();
        let tag = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            search.tags,
            [tag("http.url", "http://a:1/b"), tag("a", "2"), tag("n", "200"), tag("t", "true")]
        );
        assert_eq!(search.min_duration_nano, Some(1_500_000));
        assert_eq!(search.time, TimeRange { from_unix_nano: 5_000, to_unix_nano: 8_000 });
        assert_eq!((search.operation, search.limit), (None, 3));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_the_reason() {
        for (pairs, why) in [
            (vec![("operation", "x")], "'service' is required"),
            (vec![("service", "a"), ("tag", "x")], "expecting key:value"),
            (vec![("service", "a"), ("tags", "[1]")], "cannot unmarshal JSON"),
            (vec![("service", "a"), ("minDuration", "5")], "for example 10ms"),
            (vec![("service", "a"), ("limit", "x")], "whole number"),
            (vec![("service", "a"), ("limit", "9999")], "at most 1500"),
            (
                vec![("service", "a"), ("minDuration", "2s"), ("maxDuration", "1s")],
                "should be greater",
            ),
        ] {
            let Failure(status, detail) = parameters(&pairs).search().unwrap_err();
            assert_eq!(status.as_u16(), 400);
            assert!(detail.contains(why), "{detail}");
        }
        assert!(parameters(&[("traceID", "xyz")]).ids().is_err());
        assert!(parameters(&[("raw", "maybe")]).reading().is_err());
        assert_eq!(parameters(&[("raw", "1")]).reading().unwrap(), Reading::Raw);
    }
}
