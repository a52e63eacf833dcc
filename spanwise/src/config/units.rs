//! Values with units.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use spanwise_analyze::red::Bounds;
use spanwise_analyze::watch::{RULE_FORMS, Rule};

use crate::otlp::EndpointUrl;

/// A number of bytes: `512`, `64KiB`, `20GB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) u64);

/// The most rules.
const MOST_RULES: usize = 200;

/// A duration: `500ms`, `90s`, `15m`, `12h`, `7d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeSpan(pub(crate) Duration);

/// A limit, or `unlimited`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit<T>(pub(crate) Option<T>);

/// A number within a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count<const FROM: usize, const TO: usize>(pub(crate) usize);

impl<const FROM: usize, const TO: usize> FromStr for Count<FROM, TO> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = text.parse().ok().filter(|count| (FROM..=TO).contains(count));
        count.map(Self).ok_or_else(|| format!("must be a whole number from {FROM} to {TO}"))
    }
}

/// A number of bytes within a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeBetween<const FROM: u32, const TO: u32>(pub(crate) u32);

impl<const FROM: u32, const TO: u32> FromStr for SizeBetween<FROM, TO> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ByteSize(bytes) = text.parse()?;
        let bytes = u32::try_from(bytes).ok().filter(|bytes| (FROM..=TO).contains(bytes));
        bytes.map(Self).ok_or_else(|| format!("must lie between {FROM} and {TO} bytes"))
    }
}

/// The agent's memory limit. It cannot be below what the agent needs at startup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryBudget(pub(crate) u64);

impl FromStr for MemoryBudget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse()? {
            ByteSize(bytes) if bytes < 64 << 20 => Err("must be at least 64MiB".to_owned()),
            ByteSize(bytes) => Ok(Self(bytes)),
        }
    }
}

/// A duration above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PositiveTime(pub(crate) Duration);

impl FromStr for PositiveTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse()? {
            TimeSpan(Duration::ZERO) => Err("must be longer than nothing".to_owned()),
            TimeSpan(time) => Ok(Self(time)),
        }
    }
}

/// Rules that are watched, each with how it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rules(pub(crate) Vec<(String, Rule)>);

impl Rules {
    /// Reads rules.
    ///
    /// # Errors
    /// What is no rule, with the forms of rules.
    pub(crate) fn of(texts: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let read = |text: String| {
            let rule = Rule::read(&text, spanwise_query::duration_nano);
            let rule = rule.ok_or_else(|| {
                format!("`{}` is no rule; write {RULE_FORMS}", crate::terminal::harmless(&text))
            })?;
            Ok::<_, String>((text.trim().to_owned(), rule))
        };
        let rules: Vec<_> = texts.into_iter().map(read).collect::<Result<_, _>>()?;
        if rules.len() > MOST_RULES {
            return Err(format!("there are {} rules; {MOST_RULES} are watched", rules.len()));
        }
        Ok(Self(rules))
    }
}

/// A text; empty means none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OptionalText(pub(crate) Option<String>);

impl FromStr for OptionalText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self((!text.is_empty()).then(|| text.to_owned())))
    }
}

/// An OTLP endpoint; empty means none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OptionalEndpoint(pub(crate) Option<EndpointUrl>);

impl FromStr for OptionalEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(if text.is_empty() { None } else { Some(text.parse()?) }))
    }
}

/// Several texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct List(pub(crate) Vec<String>);

/// A value that may contain a password. Errors do not repeat it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Secret<T>(pub(crate) T);

/// A fraction: `10%`, `0.1`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share(pub(crate) f64);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, whole) = match text.trim().strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 100.0),
            None => (text.trim(), 1.0),
        };
        match number.parse::<f64>().map(|number| number / whole) {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self(share)),
            _ => Err(format!("`{text}` is no share; write 10% or 0.1")),
        }
    }
}

/// A number of processors: `0.5`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cores(pub(crate) f64);

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse::<f64>() {
            Ok(cores) if (0.01..=4096.0).contains(&cores) => Ok(Self(cores)),
            _ => Err(format!("`{text}` is no number of CPUs; write 0.5, at least 0.01")),
        }
    }
}

/// `on` or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Switch(pub(crate) bool);

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "on" => Ok(Self(true)),
            "off" => Ok(Self(false)),
            _ => Err(format!("`{text}` is neither `on` nor `off`")),
        }
    }
}

/// Bounds of a histogram's buckets, in seconds: `0.1,0.2,0.4`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Buckets(pub(crate) Bounds);

impl FromStr for Buckets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bound = |text: &str| match text.trim().parse::<f64>() {
            Ok(seconds) if (1e-9..=1e9).contains(&seconds) => Ok((seconds * 1e9).round() as i64),
            _ => Err(format!("`{text}` is no bound of a bucket; write seconds, such as 0.1,0.2")),
        };
        let bounds = text.split(',').map(bound).collect::<Result<Vec<_>, _>>()?;
        Bounds::new(&bounds).map(Self)
    }
}

/// A port, or an address and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    Port(u16),
    Full(SocketAddr),
}

impl ListenAddress {
    /// The complete address. `default` is used if only a port is given.
    pub(crate) fn on(self, default: IpAddr) -> SocketAddr {
        match self {
            Self::Port(port) => SocketAddr::new(default, port),
            Self::Full(address) => address,
        }
    }
}

/// An address to listen on, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OptionalListen(pub(crate) Option<ListenAddress>);

/// Splits `12.5GiB` into number and unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    number.parse().ok().map(|number| (number, unit.trim()))
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no size; write a number of bytes, or a number and a unit: \
                 512, 64KiB, 256MiB, 20GB"
            )
        };
        let (number, unit) = split(text).ok_or_else(wrong)?;
        let factor: u64 = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kb" => 1_000,
            "k" | "kib" => 1 << 10,
            "mb" => 1_000_000,
            "m" | "mib" => 1 << 20,
            "gb" => 1_000_000_000,
            "g" | "gib" => 1 << 30,
            "tb" => 1_000_000_000_000,
            "t" | "tib" => 1 << 40,
            _ => return Err(wrong()),
        };
        let bytes = number * factor as f64;
        // Beyond 2^53, a double is not exact to a byte. No disk is that large.
        if bytes.is_finite() && bytes < 9e15 { Ok(Self(bytes as u64)) } else { Err(wrong()) }
    }
}

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no length of time; write a number and a unit: 500ms, 90s, 15m, 12h, 7d"
            )
        };
        let (number, unit) = split(text).ok_or_else(wrong)?;
        let seconds = match unit {
            "ms" => 1e-3,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return Err(wrong()),
        };
        // At most a thousand years, so that nanoseconds do not overflow an i64 later.
        let seconds = number * seconds;
        if seconds > 9e9 {
            return Err(format!("`{text}` is too long; for no limit write unlimited"));
        }
        Duration::try_from_secs_f64(seconds).map(Self).map_err(|_| wrong())
    }
}

impl<T: FromStr<Err = String>> FromStr for Limit<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "unlimited" {
            Ok(Self(None))
        } else {
            text.parse().map(|bound| Self(Some(bound)))
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(port) = text.parse() {
            return Ok(Self::Port(port));
        }
        if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
            return Ok(Self::Full(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
        }
        text.parse().map(Self::Full).map_err(|_| {
            format!(
                "`{text}` is no address to listen on; write a port or an IP address and a port: \
                 7070, 0.0.0.0:7070, [::1]:7070"
            )
        })
    }
}

impl FromStr for OptionalListen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        let wrong = |reason: String| format!("{reason}; or off");
        text.parse().map(|address| Self(Some(address))).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in
            [("0", 0), ("512", 512), ("64KiB", 65_536), ("1.5 MB", 1_500_000), ("2g", 2 << 30)]
        {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)));
        }
        for text in ["", "GiB", "-1", "1.2.3k", "5 parsecs", "99999999999TiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn times() {
        assert_eq!("90s".parse(), Ok(TimeSpan(Duration::from_secs(90))));
        assert_eq!("1.5h".parse(), Ok(TimeSpan(Duration::from_secs(5_400))));
        assert_eq!("unlimited".parse(), Ok(Limit::<TimeSpan>(None)));
        for text in ["", "7", "7 weeks", "-3s", "9999999999999d"] {
            assert!(text.parse::<TimeSpan>().is_err(), "{text}");
        }
    }

    #[test]
    fn shares_and_processors() {
        for (text, share) in [("10%", 0.1), ("0.1", 0.1), (" 100 % ", 1.0), ("0", 0.0)] {
            assert_eq!(text.parse(), Ok(Share(share)), "{text}");
        }
        for text in ["", "%", "101%", "-1", "1.5", "NaN"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
        assert_eq!("0.5".parse(), Ok(Limit(Some(Cores(0.5)))));
        for text in ["0", "-1", "a", "inf"] {
            assert!(text.parse::<Cores>().is_err(), "{text}");
        }
    }

    #[test]
    fn addresses() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let on = |text: &str| {
            text.parse::<ListenAddress>().map(|listen| listen.on(loopback).to_string())
        };
        assert_eq!(on("80").as_deref(), Ok("127.0.0.1:80"));
        assert_eq!(on("[::]:80").as_deref(), Ok("[::]:80"));
        assert_eq!(on("localhost:80").as_deref(), Ok("127.0.0.1:80"));
        assert!(on("70000").is_err());
        assert!(on("example.org:80").is_err());
        assert_eq!("off".parse(), Ok(OptionalListen(None)));
        assert_eq!("9411".parse(), Ok(OptionalListen(Some(ListenAddress::Port(9411)))));
        assert!("on".parse::<OptionalListen>().is_err_and(|error| error.ends_with("; or off")));
    }
}
