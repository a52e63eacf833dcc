//! Error messages for operators: advice, and the useful part of the service's response.

use object_store::Error;

/// The expected form of an address.
pub(super) const ADDRESS: &str = "object storage is given as s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, \
     or file:///DIRECTORY that is there";

/// Responses of services can be pages long.
const MOST_CHARACTERS: usize = 300;

/// An error's message on one line.
pub(super) fn of(error: &Error) -> String {
    let said = innermost(error);
    let is_refusal =
        matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. })
            || said.contains(" 403 ")
            || said.contains(" 401 ");
    let said = brief(&service_words(&said).unwrap_or(said));
    match error {
        _ if is_refusal => format!(
            "the credentials were refused; see that they are right and may read, write, list and \
             delete there ({said})"
        ),
        Error::NotFound { .. } => format!("it is not there ({said})"),
        _ => said,
    }
}

/// Code and message of an XML error response, as S3, GCS and Azure send it.
fn service_words(answer: &str) -> Option<String> {
    let of_element = |name: &str| {
        let (_, rest) = answer.split_once(&format!("<{name}>"))?;
        Some(rest.split_once("</")?.0)
    };
    let (code, message) = (of_element("Code")?, of_element("Message"));
    Some(message.map_or_else(|| code.to_owned(), |message| format!("{code}: {message}")))
}

/// The innermost error's message. Outer errors repeat it.
fn innermost(error: &Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    let mut said = cause.to_string();
    while let Some(source) = cause.source() {
        cause = source;
        let own = cause.to_string();
        // The innermost error may be only a system error number.
        if own.len() > 12 {
            said = own;
        }
    }
    said
}

fn brief(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_become_a_line_and_refusals_say_what_to_do() {
        let page = "a line of many\n".repeat(100);
        let said = of(&Error::Generic { store: "S3", source: page.into() });
        assert!(said.chars().count() <= 301 && !said.contains('\n'), "{said}");
        let answer = "Server returned non-2xx status code: 403 Forbidden: <?xml version=\"1.0\"?>\n\
                      <Error><Code>AccessDenied</Code><Message>No.</Message><Id>7</Id></Error>";
        let said = of(&Error::Generic { store: "S3", source: answer.into() });
        assert!(said.starts_with("the credentials were refused"), "{said}");
        assert!(said.ends_with("(AccessDenied: No.)"), "{said}");
    }
}
