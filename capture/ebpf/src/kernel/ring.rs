//! Reads the ring buffer, and decides how often.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore as _, RingBuffer, RingBufferBuilder};

/// See [`super::Kernel::events`].
pub struct EventsMap<'a>(pub(super) libbpf_rs::Map<'a>);

/// Reads the ring buffer.
pub struct RingReader<'a> {
    ring: RingBuffer<'a>,
    ring_bytes: usize,
    /// The last call of [`Self::pause`], and the bytes read since.
    asked: Cell<Instant>,
    taken_bytes: Rc<Cell<usize>>,
}

impl<'a> RingReader<'a> {
    pub(super) fn new(
        events: &'a EventsMap<'a>,
        mut take: impl FnMut(&[u8]) + 'a,
    ) -> libbpf_rs::Result<Self> {
        let taken_bytes = Rc::new(Cell::new(0));
        let taken = Rc::clone(&taken_bytes);
        let mut builder = RingBufferBuilder::new();
        builder.add(&events.0, move |record| {
            taken.set(taken.get() + record.len());
            take(record);
            0
        })?;
        Ok(Self {
            ring: builder.build()?,
            ring_bytes: events.0.max_entries() as usize,
            asked: Cell::new(Instant::now()),
            taken_bytes,
        })
    }

    /// Maximum records of one call. Without a limit, the call would not return while records arrive
    /// as fast as they are read, and nothing would be sent meanwhile. It is less than a full ring,
    /// so that a loss is noticed before the events after it are read.
    pub const MOST_RECORDS: usize = 4096;

    /// Reads everything available without waiting. Returns the number of records.
    pub fn consume(&self) -> usize {
        usize::try_from(self.ring.consume_raw_n(Self::MOST_RECORDS)).unwrap_or(0)
    }

    /// The pause until the next read, after this many records. Zero if there may be more. Otherwise
    /// reading continues in bursts, see [`pause`].
    pub fn pause(&self, records: usize) -> Duration {
        let now = Instant::now();
        let passed = now - self.asked.replace(now);
        let share = self.taken_bytes.take() as f64 / self.ring_bytes as f64;
        if records >= Self::MOST_RECORDS {
            return Duration::ZERO;
        }
        pause(passed, records, share)
    }
}

/// Target number of records in one burst. Rare reads are efficient: between two reads, other
/// programs evict the reader's code and data from the caches, and a few hundred records make up for
/// fetching them again. But during a long burst, threads of traced programs wait for this
/// processor.
const BURST_RECORDS: f64 = 640.0;
/// Maximum share of the ring that may fill up during a pause.
const BURST_SHARE: f64 = 0.125;
/// Maximum pause. After silence, the rate of the next burst is unknown, and it must not fill the
/// ring.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// The pause after which a full burst is available, if events continue at the same rate: `records`
/// in the time `passed`, which took this share of the ring.
fn pause(passed: Duration, records: usize, share: f64) -> Duration {
    let bursts = (records as f64 / BURST_RECORDS).max(share / BURST_SHARE);
    Duration::try_from_secs_f64(passed.as_secs_f64() / bursts)
        .map_or(LONGEST_PAUSE, |pause| pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_comes_in_a_pause() {
        let ms = Duration::from_millis;
        assert_eq!(pause(ms(20), 0, 0.0), LONGEST_PAUSE);
        assert_eq!(pause(ms(20), 100, 0.0), LONGEST_PAUSE);
        assert_eq!(pause(ms(10), 640, 0.01), ms(10));
        assert_eq!(pause(ms(10), 1280, 0.01), ms(5));
        assert_eq!(pause(ms(4), 320, 0.01), ms(8));
        // The ring is small for this load.
        assert_eq!(pause(ms(10), 640, 0.5), Duration::from_micros(2500));
        assert_eq!(pause(ms(10), 4000, 1.0), Duration::from_micros(1250));
        assert_eq!(pause(ms(2), 4000, 1.0), SHORTEST_PAUSE);
        assert_eq!(pause(ms(0), 0, 0.0), LONGEST_PAUSE);
    }
}
