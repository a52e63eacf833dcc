//! The reference for people, in Markdown.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Schemas, referred};
use crate::endpoints::{self, BASE, Endpoint, Method};

const HEAD: &str = "\
# HTTP reference

Generated from the types and the table of endpoints in `api/`; do not edit this page. [The guide](../api.md) explains how to use the API. The same as an OpenAPI document: [openapi.json](openapi.json), which a server has at `/api/v1/openapi.json`.

Every error is a [`Problem`](#problem), with the content type `application/problem+json`. An endpoint that takes parameters refuses others.
";

pub(super) fn page(schemas: &Schemas) -> String {
    let mut text = format!("{HEAD}\n## Endpoints\n");
    for endpoint in endpoints::ALL {
        self::endpoint(&mut text, endpoint);
    }
    text.push_str("\n## Types\n");
    for (name, schema) in schemas {
        let _ = write!(text, "\n### {name}\n\n{}\n", prose(schema));
        let variants = schema["oneOf"].as_array();
        if let Some(variants) = variants {
            variants.iter().for_each(|variant| self::variant(&mut text, variant));
        } else if schema.get("properties").is_some() {
            fields(&mut text, schema);
        } else {
            let _ = write!(text, "\n{}\n", type_of(schema));
        }
    }
    text
}

fn endpoint(text: &mut String, endpoint: &Endpoint) {
    let method = match endpoint.method {
        Method::Get => "GET",
        Method::Post => "POST",
        Method::Delete => "DELETE",
    };
    let _ = write!(text, "\n### {method} {BASE}{}\n\n{}.", endpoint.path, endpoint.summary);
    if let Some(body) = endpoint.body {
        let _ = write!(text, " The body is a {}.", link(body));
    }
    if endpoint.answer != endpoints::OPENAPI.answer {
        let _ = write!(text, " The answer is {}.", link(endpoint.answer));
    }
    for (media_type, lines) in endpoint.formats.iter().filter(|(_, lines)| !lines.is_empty()) {
        let _ = write!(
            text,
            " With `Accept: {media_type}` it comes in lines while it is found, each a {}.",
            link(lines)
        );
    }
    if endpoint.needs_header {
        text.push_str(" Requests need the header `Spanwise-Request`, with any value.");
    }
    text.push('\n');
    let mut parameters = endpoint.path_parameters.iter().chain(endpoint.parameters).peekable();
    if parameters.peek().is_some() {
        text.push_str("\n| parameter | | example |\n| --- | --- | --- |\n");
    }
    for parameter in parameters {
        let required = if parameter.required { " Required." } else { "" };
        let repeated = if parameter.repeated { " May be repeated." } else { "" };
        let (name, example) = (parameter.name, parameter.example);
        let description = cell(parameter.description);
        let _ = writeln!(text, "| `{name}` | {description}{required}{repeated} | `{example}` |");
    }
}

/// A variant of a type: a word, or an object with a word.
fn variant(text: &mut String, variant: &Value) {
    match variant.get("const") {
        Some(word) => {
            let _ = writeln!(text, "\n- `{}`: {}", word.as_str().unwrap_or("?"), prose(variant));
        }
        None => {
            let _ = write!(text, "\n{}\n", prose(variant));
            if let Some(name) = referred(variant) {
                let _ = write!(text, "\nAll fields of {}, and:\n", link(name));
            }
            fields(text, variant);
        }
    }
}

fn fields(text: &mut String, schema: &Value) {
    text.push_str("\n| field | type | |\n| --- | --- | --- |\n");
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let required = schema["required"].as_array();
        let is_required = required.is_some_and(|all| all.contains(&name.as_str().into()));
        let optional = if is_required { "" } else { ", may be absent" };
        let kind = type_of(property).replace('|', "\\|");
        let _ = writeln!(text, "| `{name}` | {kind}{optional} | {} |", prose(property));
    }
    if schema["additionalProperties"].is_object() {
        let kind = type_of(&schema["additionalProperties"]);
        let _ = writeln!(text, "| others | {kind} | |");
    }
}

fn type_of(schema: &Value) -> String {
    if let Some(name) = referred(schema) {
        return link(name);
    }
    if let Some(value) = schema.get("const") {
        return format!("`{}`", value.as_str().unwrap_or("?"));
    }
    if let Some(values) = schema["enum"].as_array() {
        let words = values.iter().filter_map(Value::as_str).map(|word| format!("`{word}`"));
        return words.collect::<Vec<_>>().join(", ");
    }
    if let Some(variants) = schema["anyOf"].as_array() {
        return variants.iter().map(type_of).collect::<Vec<_>>().join(" or ");
    }
    match &schema["type"] {
        Value::Array(types) => {
            let types: Vec<&str> = types.iter().filter_map(Value::as_str).collect();
            types.join(" or ")
        }
        Value::String(kind) if kind == "array" => match schema["prefixItems"].as_array() {
            Some(items) => {
                let items: Vec<String> = items.iter().map(type_of).collect();
                format!("pair of {}", items.join(" and "))
            }
            None => format!("list of {}", type_of(&schema["items"])),
        },
        Value::String(kind) if kind == "object" && schema["additionalProperties"].is_object() => {
            format!("object of {}", type_of(&schema["additionalProperties"]))
        }
        Value::String(kind) => kind.clone(),
        _ => "any value".to_owned(),
    }
}

fn link(name: &str) -> String {
    format!("[`{name}`](#{})", name.to_lowercase())
}

/// A description on one line.
fn prose(schema: &Value) -> String {
    cell(schema["description"].as_str().unwrap_or_default())
}

fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
