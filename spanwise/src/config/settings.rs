//! The definition of a setting. [`super::table`] lists all settings.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::LazyLock;

use spanwise_ingest::{RECEIVERS, Receiver};

use super::layers::Layers;
use super::table;
use super::units::{List, ListenAddress, OptionalListen, Rules, Secret};

/// A setting. Its dotted key is a path in the file. In upper case, with underscores and the prefix
/// `SPANWISE_`, it is the name of an environment variable.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    pub(crate) form: Form,
    pub(crate) default: Default,
    pub(crate) flag: Option<Flag>,
    pub(crate) meaning: Cow<'static, str>,
    /// Checks whether a text is a valid value.
    pub(crate) check: fn(&str) -> Result<(), String>,
}

/// The command-line flag of a setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    /// The name without leading hyphens.
    pub(crate) long: &'static str,
    /// The placeholder for its value in the help.
    pub(crate) value_name: &'static str,
}

/// The format of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    /// A text that may contain a password.
    Secret,
    /// An array of texts in the file, and comma-separated texts in the environment.
    List,
}

/// The default value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Default {
    Text(&'static str),
    Port(u16),
    /// A directory below the current one. For root, whose services have no meaningful current
    /// directory, a fixed path.
    DataDirectory,
}

impl Default {
    pub(crate) fn text(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Text(text) => text,
            Self::Port(port) => return Cow::Owned(port.to_string()),
            Self::DataDirectory if rustix::process::geteuid().is_root() => "/var/lib/spanwise",
            Self::DataDirectory => "./spanwise-data",
        })
    }
}

/// The type of a setting's value.
pub(crate) trait SettingType: Sized {
    const FORM: Form = Form::Text;

    fn read(layers: &Layers, key: &str) -> Result<Self, String>;

    fn check(text: &str) -> Result<(), String>;
}

impl<T> SettingType for T
where
    T: FromStr,
    T::Err: Display,
{
    fn read(layers: &Layers, key: &str) -> Result<Self, String> {
        layers.get(key)
    }

    fn check(text: &str) -> Result<(), String> {
        text.parse::<T>().map(drop).map_err(|error| error.to_string())
    }
}

impl<T> SettingType for Secret<T>
where
    T: FromStr,
    T::Err: Display,
{
    const FORM: Form = Form::Secret;

    fn read(layers: &Layers, key: &str) -> Result<Self, String> {
        layers.secret(key).map(Self)
    }

    fn check(text: &str) -> Result<(), String> {
        T::check(text)
    }
}

impl SettingType for Rules {
    const FORM: Form = Form::List;

    fn read(layers: &Layers, key: &str) -> Result<Self, String> {
        Self::of(layers.list(key)?).map_err(|error| layers.wrong(key, &error))
    }

    fn check(text: &str) -> Result<(), String> {
        Self::of(text.split(',').filter(|rule| !rule.is_empty()).map(str::to_owned)).map(drop)
    }
}

impl SettingType for List {
    const FORM: Form = Form::List;

    fn read(layers: &Layers, key: &str) -> Result<Self, String> {
        layers.list(key).map(Self)
    }

    fn check(_: &str) -> Result<(), String> {
        Ok(())
    }
}

/// A flag with this name.
#[expect(clippy::unnecessary_wraps, reason = "beside it stands None")]
pub(super) const fn flag(long: &'static str, value_name: &'static str) -> Option<Flag> {
    Some(Flag { long, value_name })
}

/// Declares tables of settings: for each table, a struct with a field for every setting, and the
/// settings' definitions.
macro_rules! tables {
    (@key root, $key:ident) => { stringify!($key) };
    (@key $table:ident, $key:ident) => { concat!(stringify!($table), ".", stringify!($key)) };
    ($(
        $(#[$doc:meta])*
        $table:ident: $name:ident {
            $($key:ident: $type:ty = $default:expr, $flag:expr, $meaning:expr;)+
        }
    )+) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub(crate) struct $name { $(pub(crate) $key: $type,)+ }

        impl $name {
            pub(super) const ROWS: &'static [Setting] = &[$(
                Setting {
                    key: tables!(@key $table, $key),
                    form: <$type as SettingType>::FORM,
                    default: $default,
                    flag: $flag,
                    meaning: std::borrow::Cow::Borrowed($meaning),
                    check: <$type as SettingType>::check,
                },
            )+];

            pub(super) fn read(layers: &super::layers::Layers) -> Result<Self, String> {
                Ok(Self { $($key: SettingType::read(layers, tables!(@key $table, $key))?,)+ })
            }
        }
    )+ };
}
pub(super) use tables;

/// All settings, except `[[agent.service]]`, `[[agent.label]]` and `[[key]]`, which are lists of tables.
/// Settings of one table are adjacent, for printing.
pub(crate) fn settings() -> &'static [Setting] {
    static ALL: LazyLock<Vec<Setting>> = LazyLock::new(|| {
        let mut all = [table::RootSettings::ROWS, table::ListenSettings::ROWS].concat();
        all.extend(RECEIVERS.into_iter().map(of_receiver));
        let others = [
            table::PortSettings::ROWS,
            table::ServerSettings::ROWS,
            table::ReceiverSettings::ROWS,
            table::RetainSettings::ROWS,
            table::StoreSettings::ROWS,
            table::AssembleSettings::ROWS,
            table::AnalyzeSettings::ROWS,
            table::WatchSettings::ROWS,
            table::MetricsSettings::ROWS,
            table::AgentSettings::ROWS,
        ];
        all.extend(others.concat());
        all
    });
    &ALL
}

/// The setting of a receiver's address.
fn of_receiver(receiver: &'static Receiver) -> Setting {
    let Receiver { setting, flag: long, takes, default_port, is_optional, .. } = *receiver;
    Setting {
        key: setting,
        form: Form::Text,
        default: Default::Port(default_port),
        flag: flag(long, "ADDRESS"),
        meaning: if is_optional { format!("{takes}; or off").into() } else { takes.into() },
        check: if is_optional { OptionalListen::check } else { ListenAddress::check },
    }
}

/// The setting with this key.
pub(crate) fn setting(key: &str) -> Option<&'static Setting> {
    settings().iter().find(|setting| setting.key == key)
}

/// The setting's environment variable.
pub(crate) fn environment_name(key: &str) -> String {
    format!("SPANWISE_{}", key.replace('.', "_").to_uppercase())
}

/// The candidate that is most similar to `typed`, if any is similar.
pub(crate) fn nearest<'a>(
    typed: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let last = |key: &str| key.rsplit('.').next().map(str::to_owned).unwrap_or_default();
    candidates
        .into_iter()
        .map(|candidate| {
            // A key in the wrong table counts as one wrong letter.
            let moved = usize::from(last(typed) == last(candidate));
            let far = distance(typed, candidate);
            (if moved == 1 { far.min(1) } else { far }, candidate)
        })
        .min()
        .filter(|(far, candidate)| *far <= (candidate.len() / 3).max(2))
        .map(|(_, candidate)| candidate)
}

/// The Levenshtein distance. Keys are short.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    for (row, x) in a.chars().enumerate() {
        let mut current = vec![row + 1];
        for (column, y) in b.iter().enumerate() {
            let substituted = previous[column] + usize::from(x != *y);
            current.push(substituted.min(previous[column + 1] + 1).min(current[column] + 1));
        }
        previous = current;
    }
    previous[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_found_across_tables_and_typing_errors() {
        let keys = || settings().iter().map(|setting| setting.key);
        assert_eq!(nearest("listen.htpp", keys()), Some("listen.http"));
        assert_eq!(nearest("server.otlp_grpc", keys()), Some("listen.otlp_grpc"));
        assert_eq!(nearest("payload_bytes", keys()), Some("agent.payload_bytes"));
        assert_eq!(nearest("colour", keys()), None);
    }

    #[test]
    fn environment_names_are_unambiguous() {
        let mut names: Vec<_> = settings().iter().map(|s| environment_name(s.key)).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), settings().len());
        assert_eq!(environment_name("listen.otlp_grpc"), "SPANWISE_LISTEN_OTLP_GRPC");
    }

    #[test]
    fn every_default_is_a_value() {
        for setting in settings() {
            assert_eq!((setting.check)(&setting.default.text()), Ok(()), "{}", setting.key);
        }
    }
}
