//! What must not leave the host: values of secrets in URLs.
//! (SQL literals and Redis arguments are left out where they are read.)

/// Put in a secret value's place, as OpenTelemetry's conventions have it.
const REDACTED: &str = "REDACTED";

/// Names of query parameters, without `_` and `-` and in lower case, whose
/// values are never kept.
const SECRET_NAMES: [&str; 15] = [
    "accesstoken",
    "apikey",
    "auth",
    "authorization",
    "awsaccesskeyid",
    "clientsecret",
    "idtoken",
    "password",
    "passwd",
    "pwd",
    "refreshtoken",
    "secret",
    "sig",
    "signature",
    "token",
];

fn is_secret(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .map(|c| c.to_ascii_lowercase())
        .collect();
    SECRET_NAMES.contains(&plain.as_str())
        || ["xamz", "xgoog"].iter().any(|prefix| {
            plain.starts_with(prefix)
                && ["signature", "credential", "securitytoken"].iter().any(|s| plain.ends_with(s))
        })
}

/// The query part of a URL with the values of known secrets replaced.
pub(crate) fn query(query: &str) -> String {
    let mut kept = String::with_capacity(query.len());
    for (index, pair) in query.split('&').enumerate() {
        if index > 0 {
            kept.push('&');
        }
        match pair.split_once('=') {
            Some((name, _)) if is_secret(name) => {
                kept.push_str(name);
                kept.push('=');
                kept.push_str(REDACTED);
            }
            _ => kept.push_str(pair),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_and_the_rest_stays() {
        assert_eq!(
            query("user=7&password=hunter2&api_key=k&X-Amz-Signature=abc&q=a=b&flag"),
            "user=7&password=REDACTED&api_key=REDACTED&X-Amz-Signature=REDACTED&q=a=b&flag"
        );
        assert_eq!(query("Access-Token=1"), "Access-Token=REDACTED");
    }

    #[test]
    fn nothing_stays_nothing() {
        assert_eq!(query(""), "");
        assert_eq!(query("&&="), "&&=");
    }
}
