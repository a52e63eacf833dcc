//! A trace for queries.

use std::sync::Arc;

use spanwise_traceql::ast::{Kind, Status};
use spanwise_traceql::trace::{AttributeValue, Event, Instrumentation, Span};

/// A root, a child with an error and an array, and a span whose parent is missing.
pub fn spans() -> Vec<Span> {
    let span = |id: u8, parent_id: Option<u8>, value: AttributeValue| Span {
        id: [id; 8],
        parent_id: parent_id.map(|parent| [parent; 8]),
        name: "a".to_owned(),
        kind: Kind::Server,
        status: Status::Error,
        status_message: String::new(),
        start_unix_nanos: id.into(),
        duration_nanos: 3,
        attributes: vec![("a".to_owned(), value)],
        events: vec![Event { name: "e".to_owned(), ..Event::default() }],
        links: Vec::new(),
        resource: Arc::default(),
        instrumentation: Arc::new(Instrumentation::default()),
    };
    let array = vec![AttributeValue::Int(0), AttributeValue::String("b".to_owned())];
    vec![
        span(1, None, AttributeValue::Int(2)),
        span(2, Some(1), AttributeValue::Array(array)),
        span(3, Some(9), AttributeValue::Float(0.5)),
    ]
}
