//! Checks that calls belong to the right requests: every request has a token in its path, and its
//! calls have the same one.

use std::collections::HashMap;

use spanwise_model::{Capture, Evidence, Span};

use super::agents::Traced;

/// How calls were linked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    pub(crate) calls: usize,
    /// Certain links to the right request.
    pub(crate) right: usize,
    /// Certain links to another one.
    pub(crate) wrong: usize,
    /// Uncertain links to the right request, and to another one.
    pub(crate) guessed: usize,
    pub(crate) guessed_wrong: usize,
    /// Ambiguous calls, and calls without a link.
    pub(crate) ambiguous: usize,
    pub(crate) unlinked: usize,
}

/// The token in an operation, which has about twelve characters.
fn token(span: &Span) -> Option<&str> {
    let path = span.attribute("url.path").and_then(|value| value.as_str());
    let path = path.unwrap_or(&span.operation);
    path.split(['/', ' '])
        .find(|part| part.len() > 9 && part.starts_with('t') && part.contains('w'))
}

/// How the calls to `backend` were linked to the requests to `front`.
pub(crate) fn links(traced: &Traced, front: u16, backend: u16) -> Links {
    let mut requests: HashMap<u64, &str> = HashMap::new();
    for span in traced.side(front, Capture::ServerProcess) {
        if let (Some(token), Some(fragment)) = (token(span), span.fragment_id) {
            requests.insert(fragment, token);
        }
    }
    let mut links = Links::default();
    for span in traced.side(backend, Capture::ClientProcess) {
        let Some(token) = token(span) else { continue };
        links.calls += 1;
        let certain = span.confidence.is_some_and(|confidence| confidence >= Evidence::CERTAIN);
        let linked = span.fragment_id.and_then(|fragment| requests.get(&fragment));
        let right = linked == Some(&token);
        // If the request was not captured, nothing can be said about the link.
        if span.fragment_id.is_some() && linked.is_none() {
            continue;
        }
        let count = match span.evidence {
            Some(Evidence::Ambiguous) => &mut links.ambiguous,
            None => &mut links.unlinked,
            Some(_) if certain && right => &mut links.right,
            Some(_) if certain => &mut links.wrong,
            Some(_) if right => &mut links.guessed,
            Some(_) => &mut links.guessed_wrong,
        };
        *count += 1;
    }
    links
}
