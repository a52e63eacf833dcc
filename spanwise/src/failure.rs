//! Why the program failed.

use std::fmt;
use std::process::ExitCode;

/// A failure, by what the user can do about it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A flag or a setting is wrong. Exit code 2, as in clap.
    Usage(String),
    /// The task failed. Exit code 1.
    Cannot(anyhow::Error),
}

impl Failure {
    /// A [`Self::Cannot`] with this message.
    pub(crate) fn cannot(message: impl fmt::Display) -> Self {
        Self::Cannot(anyhow::anyhow!("{message}"))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Cannot(_) => ExitCode::from(1),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) => f.write_str(message),
            // `{:#}` prints the chain of causes on one line.
            Self::Cannot(error) => write!(f, "{error:#}"),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Cannot(error)
    }
}
