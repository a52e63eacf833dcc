//! Merges the sources of settings.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use figment::providers::{Format, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use serde::Serialize;
use spanwise_capture_agent::{LabelRule, ServiceRule};
use spanwise_keys::KeyRule;

use super::keys::{self, KeyTable};
use super::settings::{Form, environment_name, nearest, setting, settings};
use super::table::{KEY, LABEL, LISTS, SERVICE};

/// Default configuration files. The first existing one is used.
const FILES: [&str; 2] = ["./spanwise.toml", "/etc/spanwise/spanwise.toml"];
/// Environment variables with our prefix that are not settings.
const NOT_SETTINGS: [&str; 2] = ["SPANWISE_CONFIG", "SPANWISE_URL"];

/// A setting's current value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct InForce {
    /// Its dotted key.
    pub(crate) key: String,
    /// Its value in the format of the file.
    pub(crate) value: serde_json::Value,
    /// The source of the value.
    pub(crate) origin: String,
}

/// All sources, merged.
#[derive(Debug)]
pub(crate) struct Layers {
    figment: Figment,
    pub(crate) file: Option<PathBuf>,
    pub(crate) warnings: Vec<String>,
}

/// Values by dotted key from one source.
struct Texts {
    name: &'static str,
    values: Vec<(&'static str, String)>,
}

impl Provider for Texts {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name)
    }

    fn data(&self) -> figment::Result<Map<Profile, Dict>> {
        let mut dict = Dict::new();
        for (key, value) in &self.values {
            let value = Value::from(value.as_str());
            match key.split_once('.') {
                None => {
                    dict.insert((*key).to_owned(), value);
                }
                Some((table, key)) => {
                    let table =
                        dict.entry(table.to_owned()).or_insert_with(|| Value::from(Dict::new()));
                    // Keys have at most two parts, so the first part is a table.
                    if let Value::Dict(_, table) = table {
                        table.insert(key.to_owned(), value);
                    }
                }
            }
        }
        Ok(Profile::Default.collect(dict))
    }
}

const DEFAULT: &str = "default";
const ENVIRONMENT: &str = "environment";
const FLAG: &str = "flag";

impl Layers {
    /// Reads and merges all sources. Checks every key, but no values yet.
    pub(crate) fn gather(
        file: Option<&Path>,
        environment: &[(String, String)],
        typed: &[(&'static str, String)],
    ) -> Result<Self, String> {
        let file = file
            .map(Path::to_owned)
            .or_else(|| FILES.iter().map(PathBuf::from).find(|path| path.exists()));
        let defaults = settings().iter();
        let defaults: Vec<_> =
            defaults.map(|setting| (setting.key, setting.default.text().into_owned())).collect();
        let (environment, warnings) = from_environment(environment);

        let mut figment = Figment::new().merge(Texts { name: DEFAULT, values: defaults });
        if let Some(path) = &file {
            // Read here first, because figment ignores a file that cannot be opened.
            std::fs::read_to_string(path).map_err(|error| {
                format!("cannot read the configuration file {}: {error}", path.display())
            })?;
            let toml = Toml::file_exact(path);
            let data = toml.data().map_err(|error| {
                format!("the configuration file {} is no TOML: {error}", path.display())
            })?;
            let unknown: Vec<String> = data.values().flat_map(unknown_keys).collect();
            if !unknown.is_empty() {
                return Err(format!("{}: {}", path.display(), unknown.join("\n  ")));
            }
            figment = figment.merge(toml);
        }
        figment = figment
            .merge(Texts { name: ENVIRONMENT, values: environment })
            .merge(Texts { name: FLAG, values: typed.to_vec() });
        Ok(Self { figment, file, warnings })
    }

    /// The setting's value as text, whichever TOML type it has.
    pub(crate) fn text(&self, key: &str) -> Result<String, String> {
        let value = self.figment.find_value(key).map_err(|error| error.to_string())?;
        let text = match &value {
            Value::String(_, text) => Some(text.clone()),
            Value::Num(_, number) => number
                .to_u128()
                .map(|n| n.to_string())
                .or_else(|| number.to_i128().map(|n| n.to_string())),
            _ => None,
        };
        text.ok_or_else(|| {
            format!("{key} ({}): must be a text or a whole number", self.origin(key))
        })
    }

    /// The setting's values, if it is a list.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<String>, String> {
        let value = self.figment.find_value(key).map_err(|error| error.to_string())?;
        let texts: Option<Vec<String>> = match &value {
            Value::String(_, text) => Some(text.split(',').map(str::to_owned).collect()),
            Value::Array(_, values) => {
                values.iter().map(|value| value.as_str().map(str::to_owned)).collect()
            }
            _ => None,
        };
        let mut texts = texts.ok_or_else(|| {
            format!("{key} ({}): must be a list of texts: [\"…\", \"…\"]", self.origin(key))
        })?;
        texts.retain(|text| !text.is_empty());
        Ok(texts)
    }

    /// The setting's value.
    pub(crate) fn get<T>(&self, key: &str) -> Result<T, String>
    where
        T: FromStr,
        T::Err: Display,
    {
        let text = self.text(key)?;
        text.parse().map_err(|error| format!("{key} = \"{text}\" ({}): {error}", self.origin(key)))
    }

    /// The setting's value, if it may contain a password. Errors do not repeat it.
    pub(crate) fn secret<T>(&self, key: &str) -> Result<T, String>
    where
        T: FromStr,
        T::Err: Display,
    {
        let text = self.text(key)?;
        text.parse().map_err(|error| format!("{key} ({}): {error}", self.origin(key)))
    }

    /// The checked `[[agent.service]]` tables.
    pub(crate) fn services(&self) -> Result<Vec<ServiceRule>, String> {
        if !self.figment.contains(SERVICE) {
            return Ok(Vec::new());
        }
        let rules: Vec<ServiceRule> = self
            .figment
            .extract_inner(SERVICE)
            .map_err(|error| format!("[[{SERVICE}]] ({}): {}", self.origin(SERVICE), error.kind))?;
        for rule in &rules {
            if rule.name.is_empty() {
                return Err(format!(
                    "[[{SERVICE}]]: `name` is empty; say what the service is called"
                ));
            }
            if rule.port.is_none() && rule.executable.is_none() && rule.command.is_none() {
                return Err(format!(
                    "[[{SERVICE}]] \"{}\" has no condition and would name every process; add \
                     `port`, `executable` or `command`",
                    rule.name
                ));
            }
        }
        Ok(rules)
    }

    /// The `[[agent.label]]` tables.
    pub(crate) fn labels(&self) -> Result<Vec<LabelRule>, String> {
        if !self.figment.contains(LABEL) {
            return Ok(Vec::new());
        }
        let rules: Vec<LabelRule> = self
            .figment
            .extract_inner(LABEL)
            .map_err(|error| format!("[[{LABEL}]] ({}): {}", self.origin(LABEL), error.kind))?;
        if rules.iter().any(LabelRule::is_empty) {
            return Err(format!(
                "[[{LABEL}]] gives no label; add `set`, `from_environment` or `from_file`, such as \
                 set = {{ team = \"payments\" }}"
            ));
        }
        Ok(rules)
    }

    /// The checked `[[key]]` tables.
    pub(crate) fn keys(&self) -> Result<Vec<KeyRule>, String> {
        keys::rules(self.key_tables()?).map_err(|error| format!("{error} ({})", self.origin(KEY)))
    }

    fn key_tables(&self) -> Result<Vec<KeyTable>, String> {
        if !self.figment.contains(KEY) {
            return Ok(Vec::new());
        }
        self.figment
            .extract_inner(KEY)
            .map_err(|error| format!("[[{KEY}]] ({}): {}", self.origin(KEY), error.kind))
    }

    /// An error of a setting, with its source.
    pub(crate) fn wrong(&self, key: &str, error: &str) -> String {
        format!("{key} ({}): {error}", self.origin(key))
    }

    /// The source of the current value.
    fn origin(&self, key: &str) -> String {
        let Some(metadata) = self.figment.find_metadata(key) else { return DEFAULT.to_owned() };
        match &*metadata.name {
            ENVIRONMENT => format!("environment {}", environment_name(key)),
            FLAG => FLAG.to_owned(),
            DEFAULT => DEFAULT.to_owned(),
            _ => match &self.file {
                Some(path) => format!("file {}", path.display()),
                None => metadata.name.to_string(),
            },
        }
    }

    /// Every setting, in the table's order.
    pub(crate) fn in_force(&self) -> Result<Vec<InForce>, String> {
        let mut all = Vec::with_capacity(settings().len() + 1);
        for setting in settings() {
            let value = match setting.form {
                Form::List => self.list(setting.key)?.into(),
                Form::Text | Form::Secret => without_password(&self.text(setting.key)?).into(),
            };
            all.push(InForce {
                key: setting.key.to_owned(),
                value,
                origin: self.origin(setting.key),
            });
        }
        let services = serde_json::to_value(self.services()?);
        let labels = serde_json::to_value(self.labels()?);
        let keys = serde_json::to_value(self.key_tables()?);
        for (key, value) in [(SERVICE, services), (LABEL, labels), (KEY, keys)] {
            let value = value.map_err(|error| error.to_string())?;
            if value.as_array().is_some_and(|rules| !rules.is_empty()) {
                all.push(InForce { key: key.to_owned(), value, origin: self.origin(key) });
            }
        }
        Ok(all)
    }
}

/// A setting's text for display, without the password of a URL.
fn without_password(text: &str) -> String {
    let hidden = || {
        let (scheme, rest) = text.split_once("://")?;
        let (authority, _) = rest.split_once(['/', '?']).unwrap_or((rest, ""));
        let who = authority.rsplit_once('@')?.0;
        let (user, _) = who.split_once(':')?;
        Some(format!("{scheme}://{user}:***{}", &rest[who.len()..]))
    };
    hidden().unwrap_or_else(|| text.to_owned())
}

/// Settings from the environment, and a warning for each unknown variable with our prefix. Not an
/// error, because container platforms set such variables themselves (Kubernetes sets
/// `SPANWISE_SERVICE_HOST` for a service called spanwise).
fn from_environment(
    environment: &[(String, String)],
) -> (Vec<(&'static str, String)>, Vec<String>) {
    let names: Vec<(String, &'static str)> =
        settings().iter().map(|setting| (environment_name(setting.key), setting.key)).collect();
    let mut values = Vec::new();
    let mut warnings = Vec::new();
    for (name, value) in environment {
        if !name.starts_with("SPANWISE_") || NOT_SETTINGS.contains(&name.as_str()) {
            continue;
        }
        if let Some((_, key)) = names.iter().find(|(known, _)| known == name) {
            values.push((*key, value.clone()));
        } else if let Some(near) = nearest(name, names.iter().map(|(known, _)| known.as_str())) {
            warnings.push(format!(
                "the environment's {name} is no setting and is ignored; did you mean {near}?"
            ));
        }
    }
    warnings.sort();
    (values, warnings)
}

/// An error message for each unknown key of the file.
fn unknown_keys(file: &Dict) -> Vec<String> {
    let mut unknown = Vec::new();
    for (table, value) in file {
        if let Some((list, known)) = LISTS.iter().find(|(list, _)| list == table) {
            unknown.extend(unknown_keys_of_list(list, known, value));
            continue;
        }
        match value {
            _ if setting(table).is_some() => {}
            Value::Dict(_, keys) => {
                for (key, value) in keys {
                    let path = format!("{table}.{key}");
                    if let Some((list, known)) = LISTS.iter().find(|(list, _)| *list == path) {
                        unknown.extend(unknown_keys_of_list(list, known, value));
                    } else if setting(&path).is_none() {
                        unknown.push(unknown_key(&path));
                    }
                }
            }
            _ => unknown.push(unknown_key(table)),
        }
    }
    unknown
}

fn unknown_key(key: &str) -> String {
    let known = settings().iter().map(|setting| setting.key);
    let known = known.chain(LISTS.iter().map(|(list, _)| *list));
    match nearest(key, known) {
        Some(near) => format!("unknown key `{key}`; did you mean `{near}`?"),
        None => format!("unknown key `{key}`; `spanwise config` prints all that are known"),
    }
}

fn unknown_keys_of_list(list: &str, known: &[&str], value: &Value) -> Vec<String> {
    let Some(rules) = value.as_array() else {
        return vec![format!("`{list}` must be a list: write [[{list}]]")];
    };
    let keys = rules.iter().filter_map(Value::as_dict).flat_map(|rule| rule.keys());
    keys.filter(|key| !known.contains(&key.as_str()))
        .map(|key| match nearest(key, known.iter().copied()) {
            Some(near) => format!("unknown key `{key}` in [[{list}]]; did you mean `{near}`?"),
            None => format!("unknown key `{key}` in [[{list}]]; known: {}", known.join(", ")),
        })
        .collect()
}
