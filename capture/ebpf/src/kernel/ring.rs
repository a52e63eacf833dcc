//! The ring buffer that the kernel side writes events into, and how often it is read.

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
    /// When [`Self::pause`] was asked last, and what was taken since.
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

    /// Records handed over by one call at most. Without a bound it would not
    /// return while records come as fast as they are taken: nothing would be
    /// delivered meanwhile, and all of it kept. Fewer than a full ring holds, so
    /// that events are known to be lost before those after them are read.
    pub const MOST_RECORDS: usize = 4096;

    /// Hands over what is there now, without waiting; how many records that was.
    pub fn consume(&self) -> usize {
        usize::try_from(self.ring.consume_raw_n(Self::MOST_RECORDS)).unwrap_or(0)
    }

    /// The pause after which to look again, after so many records: none where there may be
    /// more, else such that reading goes on in the bursts that [`pause`] wants.
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

/// Records that are read in one go, if they come fast enough. Whoever reads seldom reads
/// cheaply: between two looks at the ring other programs take the processor's caches, and all
/// that reading needs is fetched again, which the first some hundred records pay for. But
/// while they are read, a thread of a traced program waits for this processor, and whoever
/// waits for it has nothing to do.
const BURST_RECORDS: f64 = 640.0;
/// Of the ring, which may fill so far meanwhile.
const BURST_SHARE: f64 = 0.125;
/// The longest pause: how fast the next burst comes after silence is not known, and it must
/// not fill the ring.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// The pause after which there is a burst to read, if it goes on as while `passed`: then so
/// many records came, which took this share of the ring.
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
        // A ring that is small for what comes.
        assert_eq!(pause(ms(10), 640, 0.5), Duration::from_micros(2500));
        assert_eq!(pause(ms(10), 4000, 1.0), Duration::from_micros(1250));
        assert_eq!(pause(ms(2), 4000, 1.0), SHORTEST_PAUSE);
        assert_eq!(pause(ms(0), 0, 0.0), LONGEST_PAUSE);
    }
}
