//! What the messages ask for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use spanwise_model::{AttributeRef, WrittenId};
use spanwise_query::now_unix_nano;
use spanwise_store::TimeRange;

use super::messages::{DependenciesRequest, Duration, Find, StorageFind, Timestamp, Value};
use crate::dialect::grpc::Status;
use crate::jaeger::search::{DEFAULT_TRACES, Search};

/// How far back is looked where nothing is said of it.
const LOOKBACK_NANO: i64 = 48 * 3_600_000_000_000;

/// A moment. Go's zero time, which is in the year 1, stands for none.
pub(super) fn moment(time: Option<Timestamp>) -> Option<i64> {
    let Timestamp { seconds, nanos } = time?;
    (seconds > 0).then(|| seconds.saturating_mul(1_000_000_000).saturating_add(nanos.into()))
}

/// A moment as a message.
pub(super) fn timestamp(unix_nano: i64) -> Timestamp {
    let seconds = unix_nano.div_euclid(1_000_000_000);
    let nanos = i32::try_from(unix_nano.rem_euclid(1_000_000_000)).unwrap_or_default();
    Timestamp { seconds, nanos }
}

/// A length of time as a message.
pub(super) fn duration(nano: i64) -> Duration {
    let Timestamp { seconds, nanos } = timestamp(nano.max(0));
    Duration { seconds, nanos }
}

fn nano(duration: Option<Duration>) -> Option<i64> {
    let Duration { seconds, nanos } = duration?;
    let nano = seconds.saturating_mul(1_000_000_000).saturating_add(nanos.into());
    (nano > 0).then_some(nano)
}

fn text(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// From the first moment up to the last, which does not count.
fn time(from: Option<Timestamp>, to: Option<Timestamp>) -> TimeRange {
    let now = now_unix_nano();
    TimeRange {
        from_unix_nano: moment(from).unwrap_or_else(|| now.saturating_sub(LOOKBACK_NANO)),
        to_unix_nano: moment(to).unwrap_or_else(|| now.saturating_add(60_000_000_000)),
    }
}

fn limit(depth: i32) -> usize {
    usize::try_from(depth).ok().filter(|depth| *depth > 0).unwrap_or(DEFAULT_TRACES)
}

fn checked(search: Search, filter: Option<&Vec<u8>>) -> Result<Search, Status> {
    if filter.is_some() {
        return Err(Status::invalid(
            "filters are not understood here; search by attributes (see Capabilities)",
        ));
    }
    search.refusal().map_or(Ok(search), |refusal| Err(Status::invalid(refusal)))
}

impl Find {
    /// The search of version 3, and of version 1 of the storage.
    pub(super) fn search(self) -> Result<Search, Status> {
        let mut tags: Vec<(String, String)> = self.attributes.into_iter().collect();
        tags.sort_unstable();
        let search = Search {
            service: text(self.service_name),
            operation: text(self.operation_name),
            tags,
            min_duration_nano: nano(self.duration_min),
            max_duration_nano: nano(self.duration_max),
            time: time(self.start_time_min, self.start_time_max),
            limit: limit(self.search_depth),
        };
        checked(search, self.filter.as_ref())
    }
}

impl StorageFind {
    /// The search of version 2 of the storage.
    pub(super) fn search(self) -> Result<Search, Status> {
        let tag = |pair: super::messages::KeyValue| {
            let value = pair.value.and_then(|value| value.value);
            let text = match value {
                Some(Value::String(text)) => text,
                Some(Value::Bool(flag)) => flag.to_string(),
                Some(Value::Int(number)) => number.to_string(),
                Some(Value::Double(number)) => AttributeRef::Double(number).to_string(),
                Some(Value::Bytes(bytes)) => STANDARD.encode(bytes),
                Some(Value::Array(_) | Value::Map(_)) | None => {
                    return Err(Status::invalid(format!(
                        "the attribute {} is searched by a list, a map or nothing; search by \
                         texts, numbers or truth values",
                        pair.key
                    )));
                }
            };
            Ok((pair.key, text))
        };
        let search = Search {
            service: text(self.service_name),
            operation: text(self.operation_name),
            tags: self.attributes.into_iter().map(tag).collect::<Result<_, _>>()?,
            min_duration_nano: nano(self.duration_min),
            max_duration_nano: nano(self.duration_max),
            time: time(self.start_time_min, self.start_time_max),
            limit: limit(self.search_depth),
        };
        checked(search, self.filter.as_ref())
    }
}

impl DependenciesRequest {
    /// The time of which dependencies are asked.
    pub(super) fn time(&self) -> TimeRange {
        time(self.start_time, self.end_time)
    }
}

/// A trace id as bytes.
pub(super) fn id(bytes: &[u8]) -> Result<WrittenId, Status> {
    let id = spanwise_model::TraceId::from_bytes(bytes).map(WrittenId::Trace);
    id.ok_or_else(|| Status::invalid("a trace id has 16 bytes, not all zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_s_zero_time_is_no_time_and_times_come_back() {
        assert_eq!(moment(Some(Timestamp { seconds: -62_135_596_800, nanos: 0 })), None);
        assert_eq!(moment(None), None);
        for nano in [1, 1_700_000_000_123_456_789] {
            let told = timestamp(nano);
            let back = told.seconds * 1_000_000_000 + i64::from(told.nanos);
            assert_eq!(back, nano);
        }
        assert_eq!(timestamp(-1), Timestamp { seconds: -1, nanos: 999_999_999 });
        assert_eq!(duration(-5), Duration { seconds: 0, nanos: 0 });
    }

    #[test]
    fn filters_and_values_that_cannot_be_searched_are_refused() {
        let filter = StorageFind { filter: Some(Vec::new()), ..StorageFind::default() };
        assert!(filter.search().is_err());
        let pair = |value| super::super::messages::KeyValue {
            key: "k".to_owned(),
            value: Some(super::super::messages::AnyValue { value }),
        };
        let find = |value| StorageFind { attributes: vec![pair(value)], ..StorageFind::default() };
        assert!(find(Some(Value::Array(Vec::new()))).search().is_err());
        assert!(find(None).search().is_err());
        let tags = |value| find(Some(value)).search().unwrap().tags[0].1.clone();
        assert_eq!(tags(Value::Double(72.5)), "72.5");
        assert_eq!(tags(Value::Int(-3)), "-3");
        assert_eq!(tags(Value::Bool(true)), "true");
    }
}
