//! Approximate durations in one byte.

/// Shorter durations are not distinguished. A power of two, in nanoseconds.
const LEAST_POWER: u32 = 10;

/// A duration as a number from 1. The number never decreases with the duration. Between a
/// microsecond and half an hour, durations that differ by an eighth have different numbers.
pub(crate) const fn length(duration_nano: i64) -> u8 {
    if duration_nano < 1 << LEAST_POWER {
        return 1;
    }
    let power = duration_nano.ilog2();
    let eighth = (duration_nano >> (power - 3)) & 7;
    let number = (power - LEAST_POWER) * 8 + eighth as u32 + 2;
    if number > u8::MAX as u32 { u8::MAX } else { number as u8 }
}

/// The longest duration with this number.
pub(crate) const fn longest(length: u8) -> i64 {
    match length {
        0 | 1 => (1 << LEAST_POWER) - 1,
        u8::MAX => i64::MAX,
        number => {
            let (power, eighth) = (LEAST_POWER + (number as u32 - 2) / 8, (number as i64 - 2) % 8);
            (1 << power) + ((eighth + 1) << (power - 3)) - 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_a_number_is_the_last_that_has_it() {
        for number in 1..u8::MAX {
            let most = longest(number);
            assert_eq!((length(most), length(most + 1)), (number, number + 1));
        }
        assert_eq!(longest(u8::MAX), i64::MAX);
    }

    #[test]
    fn numbers_of_durations_go_up_with_them() {
        let mut edges = vec![i64::MIN, -1, 0, i64::MAX];
        for power in 0..63 {
            let two = 1i64 << power;
            edges.extend([two - 1, two, two + 1, two + two / 2]);
        }
        edges.sort_unstable();
        for pair in edges.windows(2) {
            assert!(length(pair[0]) <= length(pair[1]), "{pair:?}");
        }
        let ms = 1_000_000;
        for longer_ms in [1, 5, 100, 1_000, 60_000, 1_500_000] {
            assert!(length(longer_ms * ms) > length(longer_ms * ms * 8 / 9), "{longer_ms}");
        }
        assert_eq!([i64::MIN, 0, 1 << 10, i64::MAX].map(length), [1, 1, 2, u8::MAX]);
    }
}
