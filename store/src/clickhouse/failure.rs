//! Errors of a ClickHouse, with advice.

use std::time::Duration;

use crate::contract::StoreError;

/// Maximum length of a ClickHouse error message. Some repeat whole statements.
const MESSAGE_CHARS: usize = 600;

/// Why a request failed.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum RequestError {
    /// ClickHouse is unreachable or the connection broke. Whether the request was executed is
    /// unknown.
    #[error("{0}")]
    Away(String),
    /// The TLS handshake failed. The message contains advice.
    #[error("{0}")]
    Untrusted(String),
    /// No response in time.
    #[error("ClickHouse has not answered within {0:?}")]
    Late(Duration),
    /// ClickHouse returned an error.
    #[error("ClickHouse says: {message} (code {code})")]
    Refused {
        /// ClickHouse's error code.
        code: u32,
        /// ClickHouse's message.
        message: String,
    },
    /// The response exceeds the maximum size.
    #[error("the answer takes more than {most_bytes} bytes")]
    TooLarge {
        /// The maximum size.
        most_bytes: usize,
    },
    /// The response is not one of ClickHouse.
    #[error("{0}")]
    Strange(String),
}

/// Kinds of errors that need different handling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Unreachable for the moment.
    Away,
    /// Full or overloaded for the moment.
    Full,
    /// User, password, rights, database or certificates are wrong. An operator must act.
    Access,
    /// A statement exceeded a limit.
    Limit,
    /// Any other error.
    Other,
}

// Error codes from ClickHouse's `src/Common/ErrorCodes.cpp`. They never change.
const UNKNOWN_TABLE: u32 = 60;
const UNKNOWN_DATABASE: u32 = 81;
const TOO_MANY_ROWS: u32 = 158;
const TIMEOUT_EXCEEDED: u32 = 159;
const TOO_SLOW: u32 = 160;
const UNKNOWN_USER: u32 = 192;
const WRONG_PASSWORD: u32 = 193;
const REQUIRED_PASSWORD: u32 = 194;
const TOO_MANY_SIMULTANEOUS_QUERIES: u32 = 202;
const QUOTA_EXCEEDED: u32 = 201;
const SOCKET_TIMEOUT: u32 = 209;
const NETWORK_ERROR: u32 = 210;
const MEMORY_LIMIT_EXCEEDED: u32 = 241;
const TABLE_IS_READ_ONLY: u32 = 242;
const NOT_ENOUGH_SPACE: u32 = 243;
const TOO_MANY_PARTS: u32 = 252;
const TOO_FEW_LIVE_REPLICAS: u32 = 285;
const TOO_MANY_BYTES: u32 = 307;
const UNKNOWN_STATUS_OF_INSERT: u32 = 319;
const QUERY_WAS_CANCELLED: u32 = 394;
const TOO_MANY_ROWS_OR_BYTES: u32 = 396;
const CANNOT_SCHEDULE_TASK: u32 = 439;
const ACCESS_DENIED: u32 = 497;
const AUTHENTICATION_FAILED: u32 = 516;
const KEEPER_EXCEPTION: u32 = 999;

impl RequestError {
    /// The error that ClickHouse returned in the body of a response.
    pub(super) fn refused(code: u32, body: &str) -> Self {
        let message = body.trim();
        let message = message
            .strip_prefix(&format!("Code: {code}. DB::Exception: "))
            .unwrap_or(message)
            .split(" (version ")
            .next()
            .unwrap_or_default();
        let line = message.lines().next().unwrap_or_default().trim_end_matches('.');
        Self::Refused { code, message: line.chars().take(MESSAGE_CHARS).collect() }
    }

    pub(super) const fn kind(&self) -> Kind {
        let code = match self {
            Self::Away(_) | Self::Late(_) => return Kind::Away,
            Self::Untrusted(_) => return Kind::Access,
            Self::TooLarge { .. } => return Kind::Limit,
            Self::Strange(_) => return Kind::Other,
            Self::Refused { code, .. } => *code,
        };
        match code {
            NOT_ENOUGH_SPACE
            | TOO_MANY_PARTS
            | TOO_MANY_SIMULTANEOUS_QUERIES
            | TABLE_IS_READ_ONLY
            | TOO_FEW_LIVE_REPLICAS
            | CANNOT_SCHEDULE_TASK => Kind::Full,
            SOCKET_TIMEOUT | NETWORK_ERROR | UNKNOWN_STATUS_OF_INSERT | KEEPER_EXCEPTION => {
                Kind::Away
            }
            UNKNOWN_USER
            | WRONG_PASSWORD
            | REQUIRED_PASSWORD
            | ACCESS_DENIED
            | AUTHENTICATION_FAILED
            | UNKNOWN_DATABASE => Kind::Access,
            TIMEOUT_EXCEEDED
            | TOO_SLOW
            | MEMORY_LIMIT_EXCEEDED
            | TOO_MANY_ROWS
            | TOO_MANY_BYTES
            | TOO_MANY_ROWS_OR_BYTES
            | QUERY_WAS_CANCELLED
            | QUOTA_EXCEEDED => Kind::Limit,
            _ => Kind::Other,
        }
    }

    /// Whether a table is missing, because it was dropped or not created yet.
    pub(super) const fn is_missing_table(&self) -> bool {
        matches!(self, Self::Refused { code: UNKNOWN_TABLE, .. })
    }

    /// Advice to append to the error message.
    pub(super) const fn advice(&self) -> &'static str {
        let code = match self {
            Self::Refused { code, .. } => *code,
            Self::Untrusted(_) => return "nothing was sent to it",
            Self::Away(_) | Self::Late(_) => return "see that it runs and can be reached from here",
            Self::Strange(_) => return "see that the address is that of its HTTP interface",
            Self::TooLarge { .. } => return "ask for less",
        };
        match code {
            NOT_ENOUGH_SPACE => "free some space there, or keep fewer spans",
            TOO_MANY_PARTS => "its merges do not keep up: give it a faster disk or more CPU",
            UNKNOWN_DATABASE => "create it with CREATE DATABASE, or name another in the address",
            ACCESS_DENIED => {
                "the user needs SELECT, INSERT, ALTER and CREATE TABLE on the database"
            }
            UNKNOWN_USER | WRONG_PASSWORD | REQUIRED_PASSWORD | AUTHENTICATION_FAILED => {
                "check user and password in the address; special characters in them are \
                 percent-encoded"
            }
            _ => "see its log",
        }
    }

    /// The error for a caller who asked a query.
    pub(super) fn of_question(self) -> StoreError {
        match self.kind() {
            Kind::Limit => StoreError::Limit(self.to_string()),
            _ => StoreError::Unavailable { reason: format!("{self}; {}", self.advice()) },
        }
    }
}

/// Time to wait before the next attempt. It grows with the number of failures.
pub(super) fn pause(failures: u32) -> Duration {
    const LONGEST: Duration = Duration::from_secs(10);
    Duration::from_millis(250).saturating_mul(1 << failures.min(10)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_clickhouse_are_cut_to_what_matters() {
        let body = "Code: 60. DB::Exception: Table d.spans does not exist. (UNKNOWN_TABLE) \
                    (version 26.9.1.1 (official build))\n";
        let trouble = RequestError::refused(60, body);
        assert!(trouble.is_missing_table());
        assert_eq!(
            trouble.to_string(),
            "ClickHouse says: Table d.spans does not exist. (UNKNOWN_TABLE) (code 60)"
        );
        let long = RequestError::refused(62, &"x".repeat(100_000));
        assert!(long.to_string().len() < 1000);
    }

    #[test]
    fn each_kind_is_met_as_it_deserves() {
        let kind = |code| RequestError::refused(code, "").kind();
        assert_eq!(kind(NOT_ENOUGH_SPACE), Kind::Full);
        assert_eq!(kind(TOO_MANY_PARTS), Kind::Full);
        assert_eq!(kind(AUTHENTICATION_FAILED), Kind::Access);
        assert_eq!(kind(MEMORY_LIMIT_EXCEEDED), Kind::Limit);
        assert_eq!(kind(62), Kind::Other);
        assert!(matches!(RequestError::refused(159, "").of_question(), StoreError::Limit(_)));
        let away = RequestError::Away("no".to_owned()).of_question();
        assert!(matches!(away, StoreError::Unavailable { .. }), "{away}");
    }

    #[test]
    fn pauses_grow_and_end() {
        assert_eq!(pause(0), Duration::from_millis(250));
        assert!(pause(3) > pause(2));
        assert_eq!(pause(u32::MAX), Duration::from_secs(10));
    }
}
