//! `spanwise key hash` and `spanwise key secret`

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;

use anyhow::Context as _;

use crate::config::Loaded;
use crate::failure::Failure;
use crate::terminal::{harmless, print};

/// Bytes of a new secret.
const SECRET_BYTES: usize = 32;

/// A key as it is typed: its name and its value.
///
/// # Errors
/// If it is no key.
pub(crate) fn typed(text: &str) -> Result<(&str, &str), Failure> {
    let typed = text.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
    typed.ok_or_else(|| {
        Failure::Usage(format!(
            "`{}` is no key; write its name and its value, such as order=4711",
            harmless(text)
        ))
    })
}

/// Prints the hash of a key.
pub(crate) fn hash(key: &str, loaded: &Loaded) -> Result<(), Failure> {
    let (name, value) = typed(key)?;
    let rules = loaded.config.keys.load()?;
    let name_shown = harmless(name);
    match rules.named(name) {
        None => {
            return Err(Failure::Usage(format!(
                "there is no [[key]] with the name `{name_shown}` in the configuration; name its \
                 file with --config"
            )));
        }
        Some(rule) if !rule.hash => {
            return Err(Failure::Usage(format!(
                "keys `{name_shown}` are not hashed; ask for the value itself: spanwise journey {}",
                harmless(key)
            )));
        }
        Some(_) => {}
    }
    let hash = rules.shown(name, value.trim()).ok_or_else(|| {
        Failure::Usage(
            "there is no secret; name its file: key_secret_file = \"FILE\" (--key-secret-file)"
                .to_owned(),
        )
    })?;
    print(&format!("{hash}\n"))
}

/// Prints a new secret.
pub(crate) fn secret() -> Result<(), Failure> {
    let mut bytes = [0; SECRET_BYTES];
    let mut random = File::open("/dev/urandom").context("cannot open /dev/urandom")?;
    random.read_exact(&mut bytes).context("cannot read /dev/urandom")?;
    let mut text = String::with_capacity(SECRET_BYTES * 2 + 1);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    print(&text)
}
