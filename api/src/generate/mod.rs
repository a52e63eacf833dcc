//! The files that are generated from the types and the table of endpoints.

mod openapi;
mod reference;
mod typescript;

use std::fs;
use std::path::Path;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::endpoints;

/// Schemas of types by their names.
type Schemas = Map<String, Value>;

/// Where references to schemas point, in JSON Pointer.
const SCHEMAS_PATH: &str = "#/components/schemas/";

/// The schemas of all types of the API.
fn schemas() -> Schemas {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    generator.subschema_for::<crate::AttributeKeys>();
    generator.subschema_for::<crate::AttributeValues>();
    generator.subschema_for::<crate::Bottlenecks>();
    generator.subschema_for::<crate::Capacity>();
    generator.subschema_for::<crate::ChainList>();
    generator.subschema_for::<crate::ChainPage>();
    generator.subschema_for::<crate::Causes>();
    generator.subschema_for::<crate::Journey>();
    generator.subschema_for::<crate::Deletion>();
    generator.subschema_for::<crate::Dependencies>();
    generator.subschema_for::<crate::Entrances>();
    generator.subschema_for::<crate::Graph>();
    generator.subschema_for::<crate::Operations>();
    generator.subschema_for::<crate::Problem>();
    generator.subschema_for::<crate::SearchAnswer>();
    generator.subschema_for::<crate::SearchLine>();
    generator.subschema_for::<crate::Services>();
    generator.subschema_for::<crate::Sources>();
    generator.subschema_for::<crate::SqlAnswer>();
    generator.subschema_for::<crate::SqlStatement>();
    generator.subschema_for::<crate::Status>();
    generator.subschema_for::<crate::TracePage>();
    generator.subschema_for::<crate::Watch>();
    let mut schemas = generator.take_definitions(true);
    schemas.values_mut().for_each(without_null_where_left_out);
    schemas
}

/// A field that is left out where it has no value is never null.
fn without_null_where_left_out(schema: &mut Value) {
    if let Some(variants) = schema.get_mut("oneOf").and_then(Value::as_array_mut) {
        variants.iter_mut().for_each(without_null_where_left_out);
    }
    let required = schema["required"].clone();
    let is_required = |name: &String| {
        required.as_array().is_some_and(|required| required.contains(&Value::from(name.as_str())))
    };
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        if is_required(name) {
            continue;
        }
        if let Some(types) = property.get_mut("type").and_then(Value::as_array_mut) {
            types.retain(|one| one != "null");
            if let [only] = types.as_slice() {
                property["type"] = only.clone();
            }
        }
        if let Some(variants) = property.get_mut("anyOf").and_then(Value::as_array_mut) {
            variants.retain(|one| one["type"] != "null");
            if let ([only], description) = (&variants.clone()[..], property.get("description")) {
                let mut only = only.clone();
                if let Some(description) = description {
                    only["description"] = description.clone();
                }
                *property = only;
            }
        }
    }
}

/// The name of the type that a schema refers to.
fn referred(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix(SCHEMAS_PATH)
}

/// Fails where the file is not what is generated, or writes it if `UPDATE_API` is set.
fn check(path: &str, generated: &str) {
    let full = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    if std::env::var_os("UPDATE_API").is_some() {
        fs::write(&full, generated).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let there = fs::read_to_string(&full).unwrap_or_default();
    assert!(
        there == generated,
        "{path} is out of date: run `UPDATE_API=1 cargo test --release -p spanwise-api` and commit \
         it"
    );
}

#[test]
fn the_types_of_the_ui_are_current() {
    check("web/src/api/types.ts", &typescript::types(&schemas()));
}

#[test]
fn the_openapi_document_is_current() {
    check("docs/api/openapi.json", &openapi::document(schemas()));
}

#[test]
fn the_reference_is_current() {
    check("docs/api/reference.md", &reference::page(&schemas()));
}

#[test]
fn endpoints_name_types_that_there_are() {
    let schemas = schemas();
    for endpoint in endpoints::ALL {
        let lines = endpoint.formats.iter().map(|(_, lines)| *lines).filter(|it| !it.is_empty());
        let names = [Some(endpoint.answer), endpoint.body].into_iter().flatten().chain(lines);
        for name in names.filter(|name| *name != endpoints::OPENAPI.answer) {
            assert!(schemas.contains_key(name), "{}: {name}", endpoint.path);
        }
        let in_path = endpoint.path.matches('{').count();
        assert_eq!(in_path, endpoint.path_parameters.len(), "{}", endpoint.path);
    }
}
