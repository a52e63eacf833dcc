//! The common part of all spans of a process.

use spanwise_model::{AttributeValue, Attributes, ResourceJson};

use crate::bounds::LeftOut;

/// The service of spans without one (OpenTelemetry resource conventions).
const UNKNOWN_SERVICE: &str = "unknown_service";

/// The process that emitted the spans.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) service: String,
    pub(super) instance: Option<String>,
    pub(super) host: Option<String>,
    pub(super) process_id: Option<u32>,
    pub(super) json: ResourceJson,
    /// What was left out of the process.
    pub(super) left_out: LeftOut,
}

impl Process {
    /// A process with this service and these tags. Tags that Jaeger's clients set automatically are
    /// renamed to OpenTelemetry's names.
    pub(super) fn new(service: String, tags: Attributes) -> Self {
        let mut left_out = LeftOut::default();
        let service = left_out.name(&service).into_owned();
        let mut process = Self {
            service: if service.is_empty() { UNKNOWN_SERVICE.to_owned() } else { service },
            instance: None,
            host: None,
            process_id: None,
            json: ResourceJson::default(),
            left_out,
        };
        let mut attributes: Attributes =
            tags.into_iter().map(|(key, value)| (renamed(key), value)).collect();
        process.left_out.shared(&mut attributes);
        for (key, value) in &attributes {
            let mut name = || process.left_out.name(&value.to_string()).into_owned();
            match key.as_str() {
                "service.instance.id" => process.instance = Some(name()),
                "host.name" => process.host = Some(name()),
                "process.pid" => process.process_id = value.to_string().parse().ok(),
                _ => {}
            }
        }
        attributes
            .push(("service.name".to_owned(), AttributeValue::from(process.service.as_str())));
        process.json = ResourceJson::from_attributes(
            attributes.iter().map(|(key, value)| (key.as_str(), value)),
        );
        process
    }
}

fn renamed(key: String) -> String {
    match key.as_str() {
        "hostname" => "host.name".to_owned(),
        "client-uuid" => "service.instance.id".to_owned(),
        "pid" => "process.pid".to_owned(),
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_say_of_themselves_has_opentelemetry_names() {
        let tags = vec![
            ("hostname".to_owned(), "h1".into()),
            ("client-uuid".to_owned(), "f00".into()),
            ("jaeger.version".to_owned(), "Python-4.8.0".into()),
        ];
        let process = Process::new("cart".to_owned(), tags);
        assert_eq!(
            (process.host.as_deref(), process.instance.as_deref()),
            (Some("h1"), Some("f00"))
        );
        assert_eq!(
            process.json.as_str(),
            r#"{"host.name":"h1","jaeger.version":"Python-4.8.0","service.instance.id":"f00","service.name":"cart"}"#
        );
        assert_eq!(Process::new(String::new(), vec![]).service, UNKNOWN_SERVICE);
    }
}
