//! The types in TypeScript.

use serde_json::Value;

use super::{Schemas, referred};

const HEAD: &str = "\
/**
 * Types of the API under `/api/v1`, generated from the Rust types in `api/`. Do not edit: run
 * `UPDATE_API=1 cargo test --release -p spanwise-api`.
 */
";

pub(super) fn types(schemas: &Schemas) -> String {
    let mut text = HEAD.to_owned();
    for (name, schema) in schemas {
        text.push('\n');
        text.push_str(&comment(schema, ""));
        if schema.get("oneOf").is_none() && schema.get("properties").is_some() {
            text.push_str(&format!("export interface {name} {}\n", object(schema, "")));
        } else {
            text.push_str(&format!("export type {name} ={};\n", spaced(&type_of(schema, ""))));
        }
    }
    text
}

fn comment(schema: &Value, indent: &str) -> String {
    let Some(description) = schema["description"].as_str() else { return String::new() };
    let lines: Vec<&str> = description.lines().collect();
    match lines.as_slice() {
        [] => String::new(),
        [line] => format!("{indent}/** {line} */\n"),
        lines => {
            let lines: String = lines.iter().map(|line| format!("{indent} * {line}\n")).collect();
            format!("{indent}/**\n{lines}{indent} */\n")
        }
    }
}

fn type_of(schema: &Value, indent: &str) -> String {
    let object_members = || schema.get("properties").map(|_| object(schema, indent));
    if let Some(name) = referred(schema) {
        return match object_members() {
            Some(members) => format!("{name} & {members}"),
            None => name.to_owned(),
        };
    }
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    for any in ["oneOf", "anyOf"] {
        if let Some(variants) = schema[any].as_array() {
            return union(variants, indent);
        }
    }
    match &schema["type"] {
        Value::Array(types) => types.iter().map(simple).collect::<Vec<_>>().join(" | "),
        Value::String(kind) if kind == "array" => array(schema, indent),
        Value::String(kind) if kind == "object" => object(schema, indent),
        kind => simple(kind),
    }
}

fn union(variants: &[Value], indent: &str) -> String {
    if variants.iter().all(|variant| variant["description"].is_null()) {
        let types: Vec<String> = variants.iter().map(|one| type_of(one, indent)).collect();
        return types.join(" | ");
    }
    let inner = format!("{indent}  ");
    let variant =
        |one: &Value| format!("\n{}{inner}| {}", comment(one, &inner), type_of(one, &inner));
    variants.iter().map(variant).collect()
}

fn array(schema: &Value, indent: &str) -> String {
    if let Some(items) = schema["prefixItems"].as_array() {
        let items: Vec<String> = items.iter().map(|item| type_of(item, indent)).collect();
        return format!("[{}]", items.join(", "));
    }
    let item = type_of(&schema["items"], indent);
    if item.contains([' ', '|']) { format!("({item})[]") } else { format!("{item}[]") }
}

/// The members of an object.
fn object(schema: &Value, indent: &str) -> String {
    let others = schema.get("additionalProperties").filter(|others| **others != Value::Bool(false));
    let Some(properties) = schema["properties"].as_object() else {
        let values = others.map_or_else(|| "unknown".to_owned(), |of| type_of(of, indent));
        return format!("Record<string, {values}>");
    };
    let inner = format!("{indent}  ");
    let mut text = "{\n".to_owned();
    for (name, property) in properties {
        let is_required =
            schema["required"].as_array().is_some_and(|all| all.contains(&name.as_str().into()));
        let mark = if is_required { "" } else { "?" };
        text.push_str(&comment(property, &inner));
        text.push_str(&format!("{inner}{name}{mark}: {};\n", type_of(property, &inner)));
    }
    if others.is_some() {
        text.push_str(&format!("{inner}[name: string]: unknown;\n"));
    }
    format!("{text}{indent}}}")
}

fn simple(kind: &Value) -> String {
    match kind.as_str() {
        Some("integer" | "number") => "number".to_owned(),
        Some("array") => "unknown[]".to_owned(),
        Some("object") => "Record<string, unknown>".to_owned(),
        Some(kind) => kind.to_owned(),
        None => "unknown".to_owned(),
    }
}

/// A type after an equals sign: on the same line, unless it begins with a line of its own.
fn spaced(text: &str) -> String {
    if text.starts_with('\n') { text.to_owned() } else { format!(" {text}") }
}
