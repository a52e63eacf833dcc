//! The common part of all spans of one resource or scope.

use std::sync::atomic::{AtomicU64, Ordering};

use spanwise_model::{AttributeRef, AttributeValue, Attributes, Emitter, ResourceJson};

use super::value::integer;
use super::view::{ResourceView, ScopeView};
use crate::bounds::{LeftOut, SHARED_ATTRIBUTES, dropped};

/// The service of spans without one (OpenTelemetry resource conventions).
const UNKNOWN_SERVICE: &str = "unknown_service";

/// The resource of spans.
pub(crate) struct ResourceFacts {
    pub(crate) service: String,
    pub(crate) instance: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) process_id: Option<u32>,
    pub(crate) json: ResourceJson,
    left_out: LeftOut,
}

impl ResourceFacts {
    pub(crate) fn new(resource: &ResourceView<'_>) -> Self {
        let mut facts = Self {
            service: String::new(),
            instance: None,
            host: None,
            process_id: None,
            json: ResourceJson::default(),
            left_out: LeftOut::default(),
        };
        let mut left_out = LeftOut::default();
        let mut name = |value: AttributeRef<'_>| left_out.name(&value.to_string()).into_owned();
        for pair in &resource.attributes {
            let value = pair.value.as_ref();
            match pair.key {
                // These become texts, whatever was sent.
                "service.name" => facts.service = name(value),
                "service.instance.id" => facts.instance = Some(name(value)),
                "host.name" => facts.host = Some(name(value)),
                "process.pid" => {
                    facts.process_id = integer(value).and_then(|pid| u32::try_from(pid).ok());
                }
                _ => {}
            }
        }
        let kept = resource.attributes.get(..SHARED_ATTRIBUTES).unwrap_or(&resource.attributes);
        let gone = resource.attributes.len() - kept.len();
        left_out.attributes += gone as u64;
        let mut all: Vec<(String, AttributeValue)> = Vec::with_capacity(kept.len() + 1);
        for pair in kept {
            left_out.attribute(pair.key, pair.value.as_ref(), |key, value| {
                all.push((key.to_owned(), value.to_value()));
            });
        }
        if facts.service.is_empty() {
            UNKNOWN_SERVICE.clone_into(&mut facts.service);
        }
        if resource.dropped_attributes_count > 0 || gone > 0 {
            let dropped = gone as i64 + i64::from(resource.dropped_attributes_count);
            all.push((dropped::ATTRIBUTES.to_owned(), AttributeValue::Int(dropped)));
        }
        facts.json =
            ResourceJson::from_attributes(all.iter().map(|(key, value)| (key.as_str(), value)));
        facts.left_out = left_out;
        facts
    }

    pub(crate) fn emitter(&self) -> Emitter<'_> {
        Emitter {
            service: &self.service,
            instance: self.instance.as_deref(),
            host: self.host.as_deref(),
            process_id: self.process_id,
            resource: &self.json,
        }
    }

    /// What was left out of the resource.
    pub(super) const fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// Bytes that each row refers to.
    pub(crate) fn bytes(&self) -> usize {
        self.json.as_str().len()
    }
}

/// The scope of spans. It is appended to each span's attributes with OpenTelemetry's names for
/// other formats (`otel.scope.*`).
pub(crate) struct ScopeFacts {
    id: u64,
    attributes: Attributes,
    bytes: usize,
    left_out: LeftOut,
}

impl ScopeFacts {
    pub(crate) fn new(scope: &ScopeView<'_>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let left_out = LeftOut::default();
        let mut facts = Self { id, attributes: Attributes::new(), bytes: 0, left_out };
        if !scope.name.is_empty() {
            facts.add("name", AttributeRef::String(scope.name));
        }
        if !scope.version.is_empty() {
            facts.add("version", AttributeRef::String(scope.version));
        }
        for pair in &scope.attributes {
            facts.add(pair.key, pair.value.as_ref());
        }
        facts.left_out.shared(&mut facts.attributes);
        let bytes =
            |(key, value): &(String, AttributeValue)| key.len() + text_bytes(value.as_ref());
        facts.bytes = facts.attributes.iter().map(bytes).sum();
        facts
    }

    fn add(&mut self, key: &str, value: AttributeRef<'_>) {
        self.attributes.push((format!("otel.scope.{key}"), value.to_value()));
    }

    /// What was left out of the scope.
    pub(super) const fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// A unique id.
    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    pub(crate) const fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Bytes that the scope adds to each row.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

const fn text_bytes(value: AttributeRef<'_>) -> usize {
    match value {
        AttributeRef::String(text) | AttributeRef::Bytes(text) | AttributeRef::Json(text) => {
            text.len()
        }
        _ => 24,
    }
}
