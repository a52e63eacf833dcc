//! Why the program ends without having done what was asked.

use std::fmt;
use std::process::ExitCode;

/// A failure, by what the caller of the program can do about it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was typed or configured is wrong. Exit code 2, as clap's own.
    Usage(String),
    /// It was right, and could not be done. Exit code 1.
    Cannot(anyhow::Error),
}

impl Failure {
    /// A failure of the second kind with this message.
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
