//! What all spans of one resource, or of one scope, have in common.

use std::sync::atomic::{AtomicU64, Ordering};

use spanwise_model::{AttributeRef, AttributeValue, Attributes, Emitter, ResourceJson};

use super::value::integer;
use super::view::{ResourceView, ScopeView};

/// Service of spans that name none (OpenTelemetry resource conventions).
const UNKNOWN_SERVICE: &str = "unknown_service";

/// Who emitted the spans.
pub(crate) struct ResourceFacts {
    pub(crate) service: String,
    pub(crate) instance: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) process_id: Option<u32>,
    pub(crate) json: ResourceJson,
}

impl ResourceFacts {
    pub(crate) fn new(resource: &ResourceView<'_>) -> Self {
        let mut facts = Self {
            service: String::new(),
            instance: None,
            host: None,
            process_id: None,
            json: ResourceJson::default(),
        };
        let mut all: Vec<(&str, AttributeValue)> = Vec::with_capacity(resource.attributes.len());
        for pair in &resource.attributes {
            let value = pair.value.as_ref();
            match pair.key {
                // Texts, whatever was sent.
                "service.name" => facts.service = value.to_string(),
                "service.instance.id" => facts.instance = Some(value.to_string()),
                "host.name" => facts.host = Some(value.to_string()),
                "process.pid" => {
                    facts.process_id = integer(value).and_then(|pid| u32::try_from(pid).ok());
                }
                _ => {}
            }
            all.push((pair.key, value.to_value()));
        }
        if facts.service.is_empty() {
            UNKNOWN_SERVICE.clone_into(&mut facts.service);
        }
        if resource.dropped_attributes_count > 0 {
            let dropped = AttributeValue::Int(resource.dropped_attributes_count.into());
            all.push(("otel.dropped_attributes_count", dropped));
        }
        facts.json = ResourceJson::from_attributes(all.iter().map(|(key, value)| (*key, value)));
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

    /// Bytes that each row refers to.
    pub(crate) fn bytes(&self) -> usize {
        self.json.as_str().len()
    }
}

/// What emitted the spans: appended to each span's attributes under the names
/// that OpenTelemetry gives them outside OTLP (`otel.scope.*`).
pub(crate) struct ScopeFacts {
    id: u64,
    attributes: Attributes,
    bytes: usize,
}

impl ScopeFacts {
    pub(crate) fn new(scope: &ScopeView<'_>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let mut facts = Self { id, attributes: Attributes::new(), bytes: 0 };
        if !scope.name.is_empty() {
            facts.add("name", AttributeRef::String(scope.name));
        }
        if !scope.version.is_empty() {
            facts.add("version", AttributeRef::String(scope.version));
        }
        for pair in &scope.attributes {
            facts.add(pair.key, pair.value.as_ref());
        }
        facts
    }

    fn add(&mut self, key: &str, value: AttributeRef<'_>) {
        let key = format!("otel.scope.{key}");
        self.bytes += key.len() + text_bytes(value);
        self.attributes.push((key, value.to_value()));
    }

    /// Tells these from all others.
    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    pub(crate) const fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Bytes that it adds to each row.
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
