//! Formats identifiers.

use std::fmt;

use crate::random::Random;

/// A number of hexadecimal digits derived from a number, at most 64.
pub(crate) struct Hex(pub(crate) u64, pub(crate) usize);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut random = Random::new(self.0);
        let mut left = self.1;
        while left > 0 {
            let digits = left.min(16);
            write!(f, "{:0digits$x}", random.next() >> (64 - 4 * digits))?;
            left -= digits;
        }
        Ok(())
    }
}

/// A random UUID derived from a number (RFC 9562, version 4).
pub(crate) struct Uuid(pub(crate) u64);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        uuid(f, &mut Random::new(self.0))
    }
}

/// A time near the load's, in RFC 3339 format.
pub(crate) struct Time(pub(crate) i64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY: i64 = 86_400;
        let (seconds, milliseconds) = (self.0 / 1_000_000_000, self.0 / 1_000_000 % 1000);
        let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
        let days = days + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z"
        )
    }
}

/// A value of `session.id`.
pub(crate) struct SessionId(pub(crate) u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut random = Random::new(self.0);
        write!(f, "{:016x}{:016x}", random.next(), random.next())
    }
}

/// A random UUID (RFC 9562, version 4).
pub(crate) fn uuid(into: &mut impl fmt::Write, random: &mut Random) -> fmt::Result {
    let (high, low) = (random.next(), random.next());
    write!(
        into,
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 52,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_have_their_form() {
        assert_eq!(Hex(7, 24).to_string().len(), 24);
        assert_eq!(Hex(7, 64).to_string().len(), 64);
        assert_ne!(Hex(7, 16).to_string(), Hex(8, 16).to_string());
        assert_eq!(Uuid(9).to_string().len(), 36);
        assert_eq!(Time(1_700_000_000_123_000_000).to_string(), "2023-11-14T22:13:20.123Z");
        assert_eq!(Time(1_709_164_800_000_000_000).to_string(), "2024-02-29T00:00:00.000Z");
    }
}
