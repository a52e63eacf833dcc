//! What all spans of one resource, or of one scope, have in common.

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use spanwise_model::{AttributeValue, Attributes, ResourceJson};

use super::value::{attributes, integer, text};

/// Service of spans that name none (OpenTelemetry resource conventions).
const UNKNOWN_SERVICE: &str = "unknown_service";

/// Who emitted the spans.
pub(super) struct ResourceFacts {
    pub(super) service: String,
    pub(super) instance: Option<String>,
    pub(super) host: Option<String>,
    pub(super) process_id: Option<u32>,
    pub(super) json: ResourceJson,
}

impl ResourceFacts {
    pub(super) fn new(resource: Resource) -> Self {
        let mut facts = Self {
            service: String::new(),
            instance: None,
            host: None,
            process_id: None,
            json: ResourceJson::default(),
        };
        let mut all = attributes(resource.attributes);
        for (key, value) in &all {
            match key.as_str() {
                "service.name" => facts.service = text(value),
                "service.instance.id" => facts.instance = Some(text(value)),
                "host.name" => facts.host = Some(text(value)),
                "process.pid" => {
                    facts.process_id = integer(value).and_then(|pid| u32::try_from(pid).ok());
                }
                _ => {}
            }
        }
        if facts.service.is_empty() {
            UNKNOWN_SERVICE.clone_into(&mut facts.service);
        }
        if resource.dropped_attributes_count > 0 {
            all.push((
                "otel.dropped_attributes_count".to_owned(),
                AttributeValue::Int(resource.dropped_attributes_count.into()),
            ));
        }
        facts.json =
            ResourceJson::from_attributes(all.iter().map(|(key, value)| (key.as_str(), value)));
        facts
    }

    /// Bytes that each row refers to.
    pub(super) fn bytes(&self) -> usize {
        self.json.as_str().len()
    }
}

/// What emitted the spans: appended to each span's attributes under the names
/// that OpenTelemetry gives them outside OTLP (`otel.scope.*`).
pub(super) struct ScopeFacts {
    attributes: Attributes,
    bytes: usize,
}

impl ScopeFacts {
    pub(super) fn new(scope: InstrumentationScope) -> Self {
        let mut all = Attributes::new();
        if !scope.name.is_empty() {
            all.push(("otel.scope.name".to_owned(), scope.name.into()));
        }
        if !scope.version.is_empty() {
            all.push(("otel.scope.version".to_owned(), scope.version.into()));
        }
        for (key, value) in attributes(scope.attributes) {
            all.push((format!("otel.scope.{key}"), value));
        }
        let bytes = all.iter().map(|(key, value)| key.len() + text_bytes(value)).sum();
        Self { attributes: all, bytes }
    }

    pub(super) const fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Bytes that it adds to each row.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

fn text_bytes(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::String(text) | AttributeValue::Bytes(text) | AttributeValue::Json(text) => {
            text.len()
        }
        _ => 24,
    }
}
