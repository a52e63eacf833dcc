//! Search conditions in ClickHouse's SQL.

use std::fmt::Write as _;

use spanwise_model::Status;
use spanwise_model::schema::column;

use super::literal;
use super::schema::{ATTRIBUTE_PAIRS, INSERT_ID, MINUTE_NANO, minute};
use crate::contract::{
    AttributeCondition, AttributeTest, DOUBLE, INT, JSON, Key, Number, Predicate, Selection,
    TimeRange,
};

/// Rows that start in the range. A range that ends at the last instant includes it.
pub(super) fn in_range(time: TimeRange) -> Vec<String> {
    let start = column::START_UNIX_NANO;
    let mut all = Vec::new();
    // ClickHouse does not derive the minute from the start, but rows are sorted by minute.
    if time.from_unix_nano != i64::MIN {
        let from = time.from_unix_nano;
        all.push(format!("{start} >= {from} AND {} >= {}", minute(start), from / MINUTE_NANO));
    }
    if time.to_unix_nano != i64::MAX {
        let to = time.to_unix_nano;
        all.push(format!("{start} < {to} AND {} <= {}", minute(start), to / MINUTE_NANO));
    }
    all
}

/// Rows that were not brought by these inserts. Each pair is the first and last id of a run.
pub(super) fn not_of(inserts: &[(u64, u64)]) -> Vec<String> {
    let none = inserts.iter().map(|(first, last)| match first == last {
        true => format!("{INSERT_ID} != {first}"),
        false => format!("NOT ({INSERT_ID} BETWEEN {first} AND {last})"),
    });
    none.collect()
}

/// The predicate as one or two lists of conditions. A row fulfils at most one list.
///
/// An attribute's equality is looked up in an index over the span's own attributes. In one
/// condition with the resource's attributes, ClickHouse would not use that index.
pub(super) fn fulfils(predicate: &Predicate) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let mut texts = |name: &str, value: &Option<String>| {
        all.extend(value.iter().map(|value| format!("{name} = {}", literal::text(value))));
    };
    texts(column::SERVICE, &predicate.service);
    texts(column::OPERATION, &predicate.operation);
    let duration = column::DURATION_NANO;
    all.extend(predicate.min_duration_nano.map(|least| format!("{duration} >= {least}")));
    all.extend(predicate.max_duration_nano.map(|most| format!("{duration} <= {most}")));
    all.extend(predicate.status.map(|status| match status {
        // A span without an error status counts as successful.
        Status::Ok => format!("{} != '{}'", column::STATUS, Status::Error.as_str()),
        status => format!("{} = '{}'", column::STATUS, status.as_str()),
    }));
    let is_equal =
        |condition: &&AttributeCondition| matches!(condition.test, AttributeTest::Equal(_));
    let first = predicate.attributes.iter().find(is_equal);
    let is_first =
        |condition: &AttributeCondition| first.is_some_and(|first| std::ptr::eq(first, condition));
    let others = predicate.attributes.iter().filter(|condition| !is_first(condition));
    all.extend(others.map(of_attribute));
    all.extend(predicate.anywhere.iter().map(of_anywhere));
    if predicate.assembled {
        all.push(format!("{} IS NOT NULL", column::ASSEMBLED_TRACE_ID));
    }
    if predicate.root {
        all.push(format!("{} IS NULL", column::ASSEMBLED_PARENT));
    }
    let Some(AttributeCondition { key, test: AttributeTest::Equal(wanted) }) = first else {
        return vec![all];
    };
    let (own, of_resource) = equal(key, wanted);
    let with = |more: Vec<String>| [all.clone(), more].concat();
    let not_own = format!("NOT ({own})");
    vec![with(vec![hint(key, wanted), own]), with(vec![of_resource, not_own])]
}

/// SQL expressions for the values of a key.
struct Values {
    has_own: String,
    own: String,
    own_type: String,
    has_resource: String,
    of_resource: String,
    resource_type: String,
}

impl Values {
    fn of(key: &str) -> Self {
        let key = literal::text(key);
        let (attributes, resource) = (column::ATTRIBUTES, column::RESOURCE);
        let resource_type = format!("JSONType({resource}, {key})");
        Self {
            has_own: format!("mapContains({attributes}, {key})"),
            own: format!("tupleElement({attributes}[{key}], 2)"),
            own_type: format!("tupleElement({attributes}[{key}], 1)"),
            has_resource: format!("JSONHas({resource}, {key})"),
            // A string's text, or the JSON text of any other value.
            of_resource: format!(
                "if({resource_type} = 'String', JSONExtractString({resource}, {key}), \
                 JSONExtractRaw({resource}, {key}))"
            ),
            resource_type,
        }
    }
}

/// Conditions that the span's own attribute equals this value, and that its resource's attribute
/// does.
fn equal(key: &str, wanted: &str) -> (String, String) {
    let Values { has_own, own, own_type, has_resource, of_resource, resource_type } =
        Values::of(key);
    let text = literal::text(wanted);
    let (mut of_own, mut in_resource) =
        (format!("{own} = {text}"), format!("{of_resource} = {text}"));
    let all = AttributeTest::Equal(wanted.to_owned()).equal_texts().unwrap_or_default();
    if all.len() > 1 {
        let texts: Vec<String> = all.iter().map(|text| literal::text(text)).collect();
        let texts = texts.join(", ");
        of_own = format!("({of_own} OR {own_type} IN ({INT}, {DOUBLE}) AND {own} IN ({texts}))");
        in_resource = format!(
            "({in_resource} OR {resource_type} IN ('Int64', 'UInt64', 'Double') AND \
             {of_resource} IN ({texts}))"
        );
    }
    (format!("{has_own} AND {of_own}"), format!("{has_resource} AND {in_resource}"))
}

/// Condition that the index contains the attribute with one of its texts. It is only for the index;
/// the other condition decides.
fn hint(key: &str, wanted: &str) -> String {
    let all = AttributeTest::Equal(wanted.to_owned()).equal_texts().unwrap_or_default();
    let pairs: Vec<String> =
        all.iter().map(|text| literal::text(&format!("{key}={text}"))).collect();
    format!("indexHint(hasAny({ATTRIBUTE_PAIRS}, [{}]))", pairs.join(", "))
}

/// A condition on the span's own attribute and on its resource's.
fn of_attribute(condition: &AttributeCondition) -> String {
    let Values { has_own, own, own_type, has_resource, of_resource, resource_type } =
        Values::of(&condition.key);
    let equal = |wanted: &str| {
        let (own, of_resource) = equal(&condition.key, wanted);
        format!("(({own}) OR ({of_resource}))")
    };
    match &condition.test {
        AttributeTest::Equal(wanted) => equal(wanted),
        AttributeTest::NotEqual(wanted) => {
            format!("(({has_own} OR {has_resource}) AND NOT {})", equal(wanted))
        }
        AttributeTest::Exists => format!("({has_own} OR {has_resource})"),
        AttributeTest::Absent => format!("NOT ({has_own} OR {has_resource})"),
        test => {
            let own = Written::typed(&own, &own_type).passes(test);
            let of_resource = Written::json(&of_resource, &resource_type).passes(test);
            format!("(({has_own} AND {own}) OR ({has_resource} AND {of_resource}))")
        }
    }
}

/// What a condition says of values anywhere in the row.
fn of_anywhere(condition: &AttributeCondition) -> String {
    let of_scope = AttributeCondition {
        key: format!("otel.scope.{}", condition.key),
        test: condition.test.clone(),
    };
    let key = literal::text(&condition.key);
    let nested = [column::EVENTS, column::LINKS].map(|items| {
        let attributes = format!("tupleElement(item, '{}')", column::ATTRIBUTES);
        let value = |part: u8| format!("tupleElement({attributes}[{key}], {part})");
        let passes = Written::typed(&value(2), &value(1)).passes(&condition.test);
        format!("arrayExists(item -> mapContains({attributes}, {key}) AND {passes}, {items})")
    });
    let own = [of_attribute(condition), of_attribute(&of_scope)];
    format!("({} OR {})", own.join(" OR "), nested.join(" OR "))
}

/// A value, as SQL has it.
struct Written {
    text: String,
    /// That it is a number, that it may read as one, and that it is a list.
    is_number: String,
    may_be_number: String,
    is_list: String,
}

impl Written {
    /// One whose type is a number.
    fn typed(text: &str, of_type: &str) -> Self {
        Self {
            text: text.to_owned(),
            is_number: format!("{of_type} IN ({INT}, {DOUBLE})"),
            may_be_number: format!("{of_type} <= {DOUBLE}"),
            is_list: format!("{of_type} = {JSON}"),
        }
    }

    /// One that was written as JSON, of which this is the type.
    fn json(text: &str, of_type: &str) -> Self {
        Self {
            text: text.to_owned(),
            is_number: format!("{of_type} IN ('Int64', 'UInt64', 'Double')"),
            may_be_number: format!("{of_type} IN ('String', 'Int64', 'UInt64', 'Double')"),
            is_list: format!("{of_type} = 'Array'"),
        }
    }

    /// That it passes a test which asks for one value that does.
    fn passes(&self, test: &AttributeTest) -> String {
        let Self { text, is_number, may_be_number, is_list } = self;
        let compared = |operator: &str, number: Number| {
            let number = match number {
                Number::Int(number) => number.to_string(),
                Number::Double(number) => format!("{number:e}"),
            };
            // What is no number is null, and null is not so.
            let value = format!("toFloat64OrNull({text})");
            format!(
                "{may_be_number} AND ifNull(isFinite({value}) AND {value} {operator} {number}, 0)"
            )
        };
        match test {
            AttributeTest::Equal(wanted) | AttributeTest::NotEqual(wanted) => {
                let all = AttributeTest::Equal(wanted.clone()).equal_texts().unwrap_or_default();
                let texts: Vec<String> = all.iter().map(|text| literal::text(text)).collect();
                let equal = format!("{text} = {}", literal::text(wanted));
                match texts.len() {
                    0 | 1 => equal,
                    _ => format!("({equal} OR {is_number} AND {text} IN ({}))", texts.join(", ")),
                }
            }
            AttributeTest::Less(number) => compared("<", *number),
            AttributeTest::LessOrEqual(number) => compared("<=", *number),
            AttributeTest::Greater(number) => compared(">", *number),
            AttributeTest::GreaterOrEqual(number) => compared(">=", *number),
            AttributeTest::Contains(part) => {
                format!("positionCaseInsensitiveUTF8({text}, {}) > 0", literal::text(part))
            }
            AttributeTest::Exists | AttributeTest::Absent => "1".to_owned(),
            AttributeTest::Element(test) => {
                let of_type = "JSONType(element)";
                let of_text =
                    format!("if({of_type} = 'String', JSONExtractString(element), element)");
                let element = Self::json(&of_text, of_type).passes(test);
                format!(
                    "({} OR {is_list} AND arrayExists(element -> {of_type} = 'Array' OR {element}, \
                     JSONExtractArrayRaw({text})))",
                    self.passes(test)
                )
            }
        }
    }
}

/// Rows with any of the keys, as one condition for each kind of key. An index helps only if no
/// other column is part of the same condition. No row fulfils two of the conditions. Lists contain
/// only literals: ClickHouse accepts any number of them as one element of the statement, and its
/// indexes can use them.
pub(super) fn has_any(keys: &[Key]) -> Vec<String> {
    let mut kinds: Vec<String> = Vec::new();
    let ids = |column: &str, of: &dyn Fn(&Key) -> Option<String>| {
        let ids: Vec<String> = keys.iter().filter_map(of).collect();
        (!ids.is_empty()).then(|| format!("{column} IN ({})", ids.join(",")))
    };
    kinds.extend(ids(column::ASSEMBLED_TRACE_ID, &|key| match key {
        Key::AssembledTrace(id) => Some(literal::bytes(&id.0)),
        _ => None,
    }));
    kinds.extend(ids(column::TRACE_ID, &|key| match key {
        Key::Trace(id) => Some(literal::bytes(&id.0)),
        _ => None,
    }));
    kinds.extend(ids(column::SPAN_ID, &|key| match key {
        Key::Span(id) => Some(literal::bytes(&id.0)),
        _ => None,
    }));
    kinds.extend(ids(column::FRAGMENT_ID, &|key| match key {
        Key::Fragment(id) => Some(id.to_string()),
        _ => None,
    }));
    kinds.extend(hops(keys));
    kinds.extend(ids(column::X_REQUEST_ID, &|key| match key {
        Key::XRequestId(id) => Some(literal::text(id)),
        _ => None,
    }));
    kinds.extend(messages(keys));
    let no_earlier = |kind: usize| {
        let earlier = kinds[..kind].iter();
        earlier.map(|earlier| format!(" AND ifNull({earlier}, 0) = 0")).collect::<String>()
    };
    (0..kinds.len()).map(|kind| format!("{}{}", kinds[kind], no_earlier(kind))).collect()
}

fn hops(keys: &[Key]) -> Option<String> {
    let (mut requests, mut pairs) = (String::new(), String::new());
    for key in keys {
        if let Key::TcpSequences(request, response) = key {
            let comma = if requests.is_empty() { "" } else { "," };
            let _ = write!(requests, "{comma}{request}");
            let _ = write!(pairs, "{comma}({request},{response})");
        }
    }
    // The first condition is for the index, which contains only the request's number.
    (!requests.is_empty()).then(|| {
        let (request, response) = (column::REQUEST_TCP_SEQ, column::RESPONSE_TCP_SEQ);
        format!("({request} IN ({requests}) AND ({request}, {response}) IN ({pairs}))")
    })
}

fn messages(keys: &[Key]) -> Option<String> {
    let messages: Vec<String> = keys
        .iter()
        .filter_map(|key| match key {
            Key::Message(message) => Some(literal::text(message)),
            _ => None,
        })
        .collect();
    let column = column::LOGICAL_KEY;
    (!messages.is_empty()).then(|| {
        format!("hasAny(splitByChar(' ', ifNull({column}, '')), [{}])", messages.join(","))
    })
}

/// Rows that a selection deletes.
pub(super) fn selected(selection: &Selection) -> String {
    match selection {
        Selection::Trace(id) => {
            let id = literal::bytes(&id.0);
            format!("({} = {id} OR {} = {id})", column::ASSEMBLED_TRACE_ID, column::TRACE_ID)
        }
        Selection::Service(name) => format!("{} = {}", column::SERVICE, literal::text(name)),
    }
}

/// `WHERE …`, or nothing if there are no conditions.
pub(super) fn where_all(conditions: &[String]) -> String {
    if conditions.is_empty() {
        String::new()
    } else {
        format!(" WHERE {}", conditions.join(" AND "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanwise_model::{SpanId, TraceId};

    /// `store/tests` runs such conditions on a real ClickHouse.
    #[test]
    fn conditions_are_what_they_were() {
        let time = TimeRange { from_unix_nano: -1, to_unix_nano: 120_000_000_001 };
        let predicate = Predicate {
            service: Some("it's".to_owned()),
            operation: Some("GET /\\".to_owned()),
            min_duration_nano: Some(1),
            max_duration_nano: Some(2),
            status: Some(Status::Ok),
            attributes: [AttributeTest::Equal("'".to_owned()), AttributeTest::Absent]
                .map(|test| AttributeCondition { key: "a.b".to_owned(), test })
                .to_vec(),
            anywhere: vec![AttributeCondition {
                key: "b".to_owned(),
                test: AttributeTest::Element(Box::new(AttributeTest::Equal("7".to_owned()))),
            }],
            assembled: true,
            root: true,
            above: None,
        };
        let keys = [
            Key::AssembledTrace(TraceId([0xab; 16])),
            Key::Trace(TraceId([1; 16])),
            Key::Span(SpanId([2; 8])),
            Key::Span(SpanId([39; 8])),
            Key::Fragment(u64::MAX),
            Key::TcpSequences(1, 2),
            Key::TcpSequences(3, 4),
            Key::XRequestId("o'clock".to_owned()),
            Key::Message(">task:1".to_owned()),
        ];
        let all = [
            in_range(time),
            not_of(&[(7, 7), (9, 11)]),
            fulfils(&predicate).concat(),
            has_any(&keys),
        ];
        insta::assert_snapshot!(all.concat().join("\n"));
        assert_eq!(in_range(TimeRange::ALL), Vec::<String>::new());
        assert_eq!(has_any(&[]), Vec::<String>::new());
        assert_eq!(where_all(&[]), "");
    }
}
