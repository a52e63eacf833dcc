//! Prints the current settings as a configuration file.

use std::fmt::Write as _;

use serde_json::Value;

use super::settings;
use super::table::LISTS;
use super::{InForce, Loaded};

/// The settings as TOML, each with its source, or as JSON.
pub(crate) fn show(loaded: &Loaded, json: bool) -> String {
    if json {
        let document = serde_json::json!({
            "file": loaded.file,
            "settings": loaded.in_force,
            "warnings": loaded.warnings,
        });
        return format!("{document:#}\n");
    }
    let mut text = String::new();
    match &loaded.file {
        Some(path) => _ = writeln!(text, "# file read: {}", path.display()),
        None => text
            .push_str("# no file read (looked for ./spanwise.toml, /etc/spanwise/spanwise.toml)\n"),
    }
    for warning in &loaded.warnings {
        let _ = writeln!(text, "# warning: {warning}");
    }
    let mut table = "";
    for setting in &loaded.in_force {
        if LISTS.iter().any(|(list, _)| *list == setting.key) {
            tables(&mut text, setting);
            continue;
        }
        let key = match setting.key.split_once('.') {
            None => setting.key.as_str(),
            Some((of, key)) => {
                if of != table {
                    let _ = writeln!(text, "\n[{of}]");
                    table = of;
                }
                key
            }
        };
        let line = format!("{key} = {}", toml_value(&setting.value));
        let meaning = settings::setting(&setting.key).map_or("", |setting| &setting.meaning);
        let _ = writeln!(text, "# {meaning}\n{line:<40} # {}", setting.origin);
    }
    text
}

fn tables(text: &mut String, setting: &InForce) {
    for rule in setting.value.as_array().into_iter().flatten() {
        let _ = writeln!(text, "\n[[{}]] # {}", setting.key, setting.origin);
        for (key, value) in rule.as_object().into_iter().flatten() {
            let _ = match value.as_object() {
                None => writeln!(text, "{key} = {}", toml_value(value)),
                Some(entries) => {
                    // A JSON text is also a valid quoted key in TOML.
                    let entry = |(key, value): (&String, &Value)| {
                        format!("{} = {}", Value::from(key.as_str()), toml_text(value))
                    };
                    let entries: Vec<String> = entries.iter().map(entry).collect();
                    writeln!(text, "{key} = {{ {} }}", entries.join(", "))
                }
            };
        }
    }
}

/// A text or a number as TOML. A text that is a number is written as that number. JSON's escapes
/// are valid in TOML (TOML 1.0, "Basic strings"), except for DEL, which JSON does not escape.
fn toml_value(value: &Value) -> String {
    if let Some(number) = value.as_str().and_then(|text| text.parse::<u32>().ok())
        && value.as_str() == Some(&number.to_string())
    {
        return number.to_string();
    }
    toml_text(value)
}

fn toml_text(value: &Value) -> String {
    value.to_string().replace('\u{7f}', "\\u007f")
}
