//! What a tool takes: a table of arguments, from which its JSON schema is made and by which a
//! call is checked. Checked arguments become the parameters that the native API has, too.

use serde_json::{Map, Value, json};

use crate::native::{Parameters, brief};
use crate::problem::Problem;

/// The most texts of a list.
const MOST_TEXTS: usize = 100;

/// What an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// A text of these.
    OneOf(&'static [&'static str]),
    /// A whole number.
    Count {
        default: usize,
        most: usize,
    },
    /// A whole number from 0.
    Position,
    Flag,
    Texts,
}

/// An argument of a tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Argument {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) is_required: bool,
    pub(super) description: &'static str,
}

pub(super) const fn optional(
    name: &'static str,
    kind: Kind,
    description: &'static str,
) -> Argument {
    Argument { name, kind, is_required: false, description }
}

pub(super) const fn required(
    name: &'static str,
    kind: Kind,
    description: &'static str,
) -> Argument {
    Argument { name, kind, is_required: true, description }
}

/// The JSON schema of these arguments.
pub(super) fn schema(arguments: &[Argument]) -> Map<String, Value> {
    let property = |argument: &Argument| {
        let mut schema = match argument.kind {
            Kind::Text => json!({"type": "string"}),
            Kind::OneOf(words) => json!({"type": "string", "enum": words}),
            Kind::Count { default, most } => {
                json!({"type": "integer", "minimum": 1, "maximum": most, "default": default})
            }
            Kind::Position => json!({"type": "integer", "minimum": 0, "default": 0}),
            Kind::Flag => json!({"type": "boolean", "default": false}),
            Kind::Texts => {
                json!({"type": "array", "items": {"type": "string"}, "maxItems": MOST_TEXTS})
            }
        };
        schema["description"] = argument.description.into();
        (argument.name.to_owned(), schema)
    };
    let properties: Map<String, Value> = arguments.iter().map(property).collect();
    let required: Vec<&str> =
        arguments.iter().filter(|one| one.is_required).map(|one| one.name).collect();
    Map::from_iter([
        ("type".to_owned(), "object".into()),
        ("properties".to_owned(), properties.into()),
        ("required".to_owned(), required.into()),
        ("additionalProperties".to_owned(), false.into()),
    ])
}

/// The arguments of a call as parameters.
///
/// # Errors
/// What is unknown, missing or of another kind, and what to write.
pub(super) fn parameters(
    arguments: &[Argument],
    given: &Map<String, Value>,
) -> Result<Parameters, Problem> {
    let mut pairs = Vec::new();
    for (name, value) in given {
        let Some(known) = arguments.iter().find(|known| known.name == name) else {
            let known: Vec<&str> = arguments.iter().map(|known| known.name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(Problem::invalid(format!(
                "there is no argument `{}`; known: {known}",
                brief(name)
            )));
        };
        for text in texts(known, value)? {
            pairs.push((name.clone(), text));
        }
    }
    let missing = arguments.iter().find(|argument| {
        let is_given = |(name, text): &(String, String)| name == argument.name && !text.is_empty();
        argument.is_required && !pairs.iter().any(is_given)
    });
    match missing {
        Some(missing) => Err(Problem::invalid(format!(
            "there is no `{}`: {}",
            missing.name, missing.description
        ))),
        None => Ok(Parameters::checked(pairs)),
    }
}

/// A value as texts. Models write numbers as texts, and the reverse; both are taken.
fn texts(argument: &Argument, value: &Value) -> Result<Vec<String>, Problem> {
    let name = argument.name;
    let wrong = |wanted: &str| {
        Err(Problem::invalid(format!("`{name}` is {}; write {wanted}", brief(&value.to_string()))))
    };
    let one = match value {
        Value::Null => return Ok(Vec::new()),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Array(items) if argument.kind == Kind::Texts => {
            if items.len() > MOST_TEXTS {
                return wrong(&format!("{MOST_TEXTS} texts at most"));
            }
            let text = |item: &Value| item.as_str().map(str::to_owned);
            return match items.iter().map(text).collect() {
                Some(texts) => Ok(texts),
                None => wrong("a list of texts"),
            };
        }
        _ => return wrong("a single value"),
    };
    match argument.kind {
        Kind::OneOf(words) if !one.is_empty() && !words.contains(&one.as_str()) => {
            wrong(&format!("one of {}", words.join(", ")))
        }
        Kind::Count { most, .. }
            if !one.parse().is_ok_and(|count: usize| (1..=most).contains(&count)) =>
        {
            wrong(&format!("a whole number from 1 to {most}"))
        }
        Kind::Position if one.parse::<usize>().is_err() => wrong("a whole number from 0"),
        _ => Ok(vec![one]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Argument] = &[
        required("id", Kind::Text, "an id"),
        optional("limit", Kind::Count { default: 5, most: 10 }, "how many"),
        optional("ids", Kind::Texts, "several"),
        optional("status", Kind::OneOf(&["ok", "error"]), "which"),
        optional("all", Kind::Flag, "whether"),
        optional("after", Kind::Position, "where"),
    ];

    fn read(given: Value) -> Result<Parameters, String> {
        let Value::Object(given) = given else { panic!("an object") };
        parameters(TABLE, &given).map_err(|problem| problem.into_parts().1)
    }

    #[test]
    fn arguments_are_checked_and_become_parameters() {
        let whole = json!({"id": "a", "limit": 7, "ids": ["x", "y"], "all": true, "after": "3",
                           "status": null});
        let parameters = read(whole).expect("valid");
        assert_eq!(parameters.text("id"), Some("a"));
        assert_eq!(parameters.count("limit", 5, 10).expect("a number"), 7);
        assert_eq!(parameters.all("ids").collect::<Vec<_>>(), ["x", "y"]);
        assert!(parameters.flag("all").expect("a flag"));
        assert_eq!(parameters.position("after").expect("a number"), 3);
        for (given, said) in [
            (json!({}), "there is no `id`"),
            (json!({"id": ""}), "there is no `id`"),
            (json!({"id": "a", "idd": 1}), "there is no argument `idd`; known: id, limit"),
            (json!({"id": ["a"]}), "write a single value"),
            (json!({"id": "a", "ids": [1]}), "a list of texts"),
            (json!({"id": "a", "ids": vec!["x"; 101]}), "100 texts at most"),
            (json!({"id": "a", "status": "bad"}), "one of ok, error"),
            (json!({"id": "a", "limit": 11}), "a whole number from 1 to 10"),
            (json!({"id": "a", "after": -1}), "a whole number from 0"),
        ] {
            let error = read(given.clone()).err().unwrap_or_default();
            assert!(error.contains(said), "{given}: {error}");
        }
        let schema = schema(TABLE);
        assert_eq!(schema["required"], json!(["id"]));
        assert_eq!(schema["properties"]["limit"]["maximum"], 10);
    }
}
