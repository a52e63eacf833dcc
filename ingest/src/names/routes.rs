//! Routes that applications tell of themselves (`http.route`).

use ahash::AHashSet;
use arrow::array::{Array, AsArray, RecordBatch};
use spanwise_model::SpanRows;
use spanwise_model::schema::column;

use super::segment::VALUE;

/// Routes of one service.
const MAX_ROUTES: usize = 512;
/// Longest route.
const MAX_ROUTE_BYTES: usize = 512;
/// Operations of one service that are looked at for their route.
const MAX_OPERATIONS: usize = 1024;
/// The attribute with a route.
const ROUTE: &str = "http.route";

/// What a route says of one position of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(Box<str>),
    Any,
    /// Whatever is left of the path.
    Rest,
}

#[derive(Debug)]
struct Route {
    text: Box<str>,
    parts: Box<[Part]>,
}

/// The routes of a service.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// The more is literal, the earlier.
    routes: Vec<Route>,
    seen: AHashSet<Box<str>>,
}

impl Part {
    fn of(part: &str) -> Self {
        let rest = part.starts_with("{*")
            || part.starts_with('*') && part.len() > 1
            || part.contains(":path")
            || part.contains("<path:");
        match part.as_bytes() {
            _ if rest => Self::Rest,
            [b'{', .., b'}'] | [b'<', .., b'>'] | [b':', _, ..] | [b'[', .., b']'] | [b'*'] => {
                Self::Any
            }
            _ => Self::Literal(part.into()),
        }
    }
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.trim_start_matches('/').split('/')
}

impl Route {
    /// `None` if the text is no route of this form (a regular expression, an address).
    fn new(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > MAX_ROUTE_BYTES || text.contains(['(', '^', '\\', '?']) {
            return None;
        }
        let slash = if text.starts_with('/') { "" } else { "/" };
        let parts = parts(text).map(Part::of).collect();
        Some(Self { text: format!("{slash}{text}").into(), parts })
    }

    fn literals(&self) -> usize {
        self.parts.iter().filter(|part| matches!(part, Part::Literal(_))).count()
    }

    fn is_of(&self, path: &str) -> bool {
        let mut path = parts(path);
        for part in &self.parts {
            match (part, path.next()) {
                (Part::Rest, Some(_)) => return true,
                (Part::Any, Some(given)) if !given.is_empty() => {}
                // An agent takes numbers for values, also those of a literal.
                (Part::Literal(wanted), Some(given))
                    if **wanted == *given
                        || given == VALUE && wanted.bytes().any(|byte| byte.is_ascii_digit()) => {}
                _ => return false,
            }
        }
        path.next().is_none()
    }
}

impl Routes {
    /// The route of a path.
    pub(super) fn of(&self, path: &str) -> Option<&str> {
        self.routes.iter().find(|route| route.is_of(path)).map(|route| &*route.text)
    }

    /// Whether the application's spans of this operation were not looked at yet.
    pub(super) fn is_new(&mut self, operation: &str) -> bool {
        self.seen.len() < MAX_OPERATIONS && self.seen.insert(operation.into())
    }

    /// Takes over the route of an application's span.
    pub(super) fn take(&mut self, route: &str) {
        if self.routes.len() >= MAX_ROUTES || self.routes.iter().any(|known| *known.text == *route)
        {
            return;
        }
        let Some(route) = Route::new(route) else { return };
        let order = |route: &Route| (usize::MAX - route.literals(), route.text.clone());
        let at = self.routes.partition_point(|known| order(known) < order(&route));
        self.routes.insert(at, route);
    }
}

/// The route that a row tells: its attribute, or its name as the conventions want it
/// (`GET /users/{id}`).
pub(super) fn told(rows: &SpanRows, row: usize, operation: &str) -> Option<String> {
    if let Some(route) = attribute(rows, row, ROUTE) {
        return Some(route);
    }
    let (verb, route) = operation.split_once(' ')?;
    let is_verb = !verb.is_empty() && verb.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_route = route.starts_with('/') && parts(route).any(|part| Part::of(part) == Part::Any);
    (is_verb && is_route).then(|| route.to_owned())
}

fn attribute(rows: &SpanRows, row: usize, key: &str) -> Option<String> {
    let templated = rows.templated();
    if let Some(templated) = templated
        && let Some((template, own)) = templated.row(row)
    {
        let own = (own..).map(|text| templated.texts().value(text));
        let mut attributes = template.attributes(own);
        return attributes.find(|(known, ..)| *known == key).map(|(.., text)| text.to_owned());
    }
    in_map(rows.columns(), row, key)
}

fn in_map(batch: &RecordBatch, row: usize, key: &str) -> Option<String> {
    let map = batch.column_by_name(column::ATTRIBUTES)?.as_map_opt()?;
    if map.is_null(row) {
        return None;
    }
    let entries = map.value(row);
    let keys = entries.column(0).as_string_opt::<i32>()?;
    let at = (0..keys.len()).find(|at| keys.value(*at) == key)?;
    let values = entries.column(1).as_struct_opt()?.column(1).as_string_opt::<i32>()?;
    Some(values.value(at).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(routes: &[&str], path: &str) -> Option<String> {
        let mut known = Routes::default();
        for route in routes {
            known.take(route);
        }
        known.of(path).map(str::to_owned)
    }

    #[test]
    fn the_most_literal_route_wins() {
        let routes =
            ["/{slug}", "/users/:id", "/users/me", "/gh/<owner>/<repo>/issues", "/f/{p:path}"];
        for (path, route) in [
            ("/users/me", Some("/users/me")),
            ("/users/{id}", Some("/users/:id")),
            ("/users/alice", Some("/users/:id")),
            ("/about", Some("/{slug}")),
            ("/gh/a/b/issues", Some("/gh/<owner>/<repo>/issues")),
            ("/gh/a/b", None),
            ("/f/a/b/c", Some("/f/{p:path}")),
            ("/users/", None),
        ] {
            assert_eq!(of(&routes, path).as_deref(), route, "{path}");
        }
        assert_eq!(of(&["users/<int:id>/"], "/users/{id}/").as_deref(), Some("/users/<int:id>/"));
        assert_eq!(of(&["^users/(?P<id>\\d+)/$"], "/users/{id}/"), None);
        assert_eq!(of(&["/api/2024/all"], "/api/{id}/all").as_deref(), Some("/api/2024/all"));
    }
}
