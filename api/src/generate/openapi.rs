//! The OpenAPI document.

use serde_json::{Map, Value, json};

use super::{SCHEMAS_PATH, Schemas};
use crate::endpoints::{self, BASE, Endpoint, Method, Parameter};

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
            "200": {"description": "The answer", "content": content(endpoint.answer)},
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
        true => json!({"type": "array", "items": {"type": "string"}}),
        false => json!({"type": "string"}),
    };
    let example = match parameter.repeated {
        true => json!([parameter.example]),
        false => json!(parameter.example),
    };
    json!({
        "name": parameter.name,
        "in": place,
        "required": parameter.required,
        "description": parameter.description,
        "schema": schema,
        "example": example,
    })
}

fn content(name: &str) -> Value {
    let schema = match name == endpoints::OPENAPI.answer {
        true => json!({"type": "object"}),
        false => reference(name),
    };
    json!({"application/json": {"schema": schema}})
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("{SCHEMAS_PATH}{name}")})
}
