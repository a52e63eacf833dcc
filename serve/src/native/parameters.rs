//! Query parameters. They are parsed strictly, and an error shows a correct example.

use spanwise_api::endpoints::Endpoint;
use spanwise_model::WrittenId;
use spanwise_query::condition::{self, FORMS};
use spanwise_query::{MOMENT_FORMS, duration_nano, moment_unix_nano, now_unix_nano};
use spanwise_store::{AttributeCondition, TimeRange};
use time::PrimitiveDateTime;

use crate::problem::Problem;

/// Maximum attribute conditions in one search.
const MOST_CONDITIONS: usize = 16;

/// The parameters of a request, in order. Names may repeat.
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// The parameters of a request to this endpoint. Unknown names are refused, because a misspelt
    /// filter must not be ignored. So is a second value if only one is allowed.
    pub(crate) fn of(endpoint: &Endpoint, pairs: Vec<(String, String)>) -> Result<Self, Problem> {
        for (index, (name, value)) in pairs.iter().enumerate() {
            let Some(known) = endpoint.parameters.iter().find(|known| known.name == name) else {
                let known: Vec<&str> = endpoint.parameters.iter().map(|known| known.name).collect();
                return Err(Problem::invalid(format!(
                    "there is no parameter `{}`; known: {}",
                    brief(name),
                    known.join(", ")
                )));
            };
            let before = &pairs[..index];
            if !known.repeated
                && before.iter().any(|(earlier, other)| earlier == name && other != value)
            {
                return Err(Problem::invalid(format!(
                    "`{name}` has more than one value; write one"
                )));
            }
        }
        Ok(Self(pairs))
    }

    /// Parameters whose names another table has checked.
    pub(crate) const fn checked(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// The first non-empty value of this name.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(n, value)| n == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// A duration such as `10ms`, in nanoseconds.
    pub(crate) fn duration(&self, name: &str) -> Result<Option<i64>, Problem> {
        self.text(name)
            .map(|text| {
                duration_nano(text).ok_or_else(|| {
                    Problem::invalid(format!(
                        "`{name}` is `{text}`, which is no duration; write for example 250us, \
                         10ms, 1.5s or 2m"
                    ))
                })
            })
            .transpose()
    }

    /// A whole number from 1 to `most`.
    pub(crate) fn count(&self, name: &str, default: usize, most: usize) -> Result<usize, Problem> {
        let Some(text) = self.text(name) else { return Ok(default) };
        match text.parse() {
            Ok(count) if (1..=most).contains(&count) => Ok(count),
            _ => Err(Problem::invalid(format!(
                "`{name}` is `{text}`; write a whole number from 1 to {most}"
            ))),
        }
    }

    /// A boolean parameter; false if missing.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Problem> {
        let Some(text) = self.text(name) else { return Ok(false) };
        truth(text)
            .ok_or_else(|| Problem::invalid(format!("`{name}` is `{}`; write 1 or 0", brief(text))))
    }

    /// The number of entries to skip; 0 if missing.
    pub(crate) fn position(&self, name: &str) -> Result<usize, Problem> {
        let Some(text) = self.text(name) else { return Ok(0) };
        text.parse().map_err(|_| {
            Problem::invalid(format!(
                "`{name}` is `{text}`; write the `next_after` of the page before, or leave it out"
            ))
        })
    }

    /// The conditions on attributes, one for each parameter of this name.
    pub(crate) fn conditions(&self, name: &str) -> Result<Vec<AttributeCondition>, Problem> {
        let texts: Vec<&str> = self.all(name).filter(|text| !text.trim().is_empty()).collect();
        if texts.len() > MOST_CONDITIONS {
            return Err(Problem::invalid(format!(
                "there are {} conditions `{name}`; {MOST_CONDITIONS} are taken",
                texts.len()
            )));
        }
        let read = |text: &str| {
            condition::read(text).map_err(|why| {
                Problem::invalid(format!("`{name}` is `{}`: {why}; write {FORMS}", brief(text)))
            })
        };
        texts.into_iter().map(read).collect()
    }

    /// `start` and `end`; the last hour if missing.
    pub(crate) fn time_range(&self) -> Result<TimeRange, Problem> {
        self.time_range_back(3_600_000_000_000)
    }

    /// `start` and `end`; if missing, the last time of this length.
    pub(crate) fn time_range_back(&self, length_nano: i64) -> Result<TimeRange, Problem> {
        let now = now_unix_nano();
        let moment = |name: &str, default: i64| match self.text(name) {
            None => Ok(default),
            Some(text) => {
                moment_unix_nano(text, now, PrimitiveDateTime::assume_utc).ok_or_else(|| {
                    Problem::invalid(format!(
                        "`{name}` is `{}`, which is no time; write {MOMENT_FORMS}",
                        brief(text)
                    ))
                })
            }
        };
        let from_unix_nano = moment("start", now.saturating_sub(length_nano))?;
        // The default range includes the current moment.
        let to_unix_nano = moment("end", now.saturating_add(60_000_000_000))?;
        if from_unix_nano >= to_unix_nano {
            return Err(Problem::invalid("`start` is not before `end`"));
        }
        Ok(TimeRange { from_unix_nano, to_unix_nano })
    }
}

/// Parses a boolean.
fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "true" | "yes" => Some(true),
        "0" | "false" | "no" => Some(false),
        _ => None,
    }
}

/// The beginning of a long text, for error messages.
pub(crate) fn brief(text: &str) -> String {
    text.chars().take(64).collect()
}

/// The id in a path.
pub(crate) fn id(text: &str) -> Result<WrittenId, Problem> {
    WrittenId::read(text).ok_or_else(|| {
        Problem::invalid(format!("`{}` is no id; write {}", brief(text), WrittenId::FORMS))
    })
}
