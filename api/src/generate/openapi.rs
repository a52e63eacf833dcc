//! The OpenAPI document.

use serde_json::{Map, Value, json};

use super::{SCHEMAS_PATH, Schemas};
use crate::endpoints::{self, BASE, Endpoint, Method, Parameter, Takes};

pub(super) fn document(schemas: Schemas) -> String {
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in endpoints::ALL {
        let methods = paths.entry(format!("{BASE}{}", endpoint.path)).or_insert_with(|| json!({}));
        methods[method(endpoint)] = operation(endpoint);
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Spanwise",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": schemas},
    });
    serde_json::to_string_pretty(&document).expect("JSON") + "\n"
}

fn method(endpoint: &Endpoint) -> &'static str {
    match endpoint.method {
        Method::Get => "get",
        Method::Post => "post",
        Method::Delete => "delete",
    }
}

fn operation(endpoint: &Endpoint) -> Value {
    let in_path = endpoint.path_parameters.iter().map(|one| parameter(one, "path"));
    let in_query = endpoint.parameters.iter().map(|one| parameter(one, "query"));
    let header = endpoint.needs_header.then(|| {
        json!({
            "name": "Spanwise-Request", "in": "header", "required": true,
            "schema": {"type": "string"},
            "description": "Any value. Web pages of other origins cannot send it.",
        })
    });
    let parameters: Vec<Value> = in_path.chain(in_query).chain(header).collect();
    let mut operation = json!({
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "The answer", "content": answers(endpoint)},
            "default": {
                "description": "An error",
                "content": {"application/problem+json": {"schema": reference("Problem")}},
            },
        },
    });
    if let Some(body) = endpoint.body {
        operation["requestBody"] = json!({"required": true, "content": content(body)});
    }
    operation
}

fn parameter(parameter: &Parameter, place: &str) -> Value {
    let schema = match parameter.repeated {
        true => json!({"type": "array", "items": schema(parameter.takes)}),
        false => schema(parameter.takes),
    };
    let example = match parameter.repeated {
        true => json!([parameter.example]),
        false => json!(parameter.example),
    };
    let mut parameter = json!({
        "name": parameter.name,
        "in": place,
        "required": parameter.required,
        "description": parameter.description,
        "schema": schema,
        "example": example,
    });
    // It is as good as none.
    if place == "query" && parameter["required"] == false {
        parameter["allowEmptyValue"] = true.into();
    }
    parameter
}

/// The schema of a parameter's values.
fn schema(takes: Takes) -> Value {
    match takes {
        Takes::Text => json!({"type": "string"}),
        Takes::Filled => json!({"type": "string", "pattern": "[^\\s]"}),
        Takes::Duration => {
            json!({"type": "string", "pattern": "^[0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|min|h|d)$"})
        }
        Takes::Count(most) => json!({"type": "integer", "minimum": 1, "maximum": most}),
        Takes::Position => json!({"type": "integer", "minimum": 0}),
        Takes::Flag => json!({"type": "string", "enum": ["1", "0", "true", "false", "yes", "no"]}),
        Takes::Word(words) => json!({"type": "string", "enum": words}),
    }
}

fn content(name: &str) -> Value {
    let schema = match name == endpoints::OPENAPI.answer {
        true => json!({"type": "object"}),
        false => reference(name),
    };
    json!({"application/json": {"schema": schema}})
}

/// The forms of an answer.
fn answers(endpoint: &Endpoint) -> Value {
    let mut answers = content(endpoint.answer);
    for (media_type, lines) in endpoint.formats {
        answers[media_type] = match lines.is_empty() {
            true => json!({"schema": {"type": "string"}}),
            // OpenAPI 3.1 has no word for lines.
            false => json!({
                "schema": {"type": "string", "description": format!("Lines, each a {lines}.")},
            }),
        };
    }
    answers
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("{SCHEMAS_PATH}{name}")})
}
