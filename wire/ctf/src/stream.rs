//! One stream file: packets, and events in them.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::decode::{Decoder, Roles, Stop, Value};
use crate::metadata::{EventClass, Metadata, StreamClass};
use crate::types::role;

const MAGIC: u64 = 0xc1fc_1fc1;
/// A packet's header and context are read first, from so many bytes.
const HEAD_BYTES: u64 = 16 << 10;
/// A packet that says it is larger is not read.
const PACKET_MAX_BYTES: u64 = 256 << 20;

/// An event whose header is decoded.
#[derive(Debug, Clone, Copy)]
struct Pending {
    stream_class: u64,
    event_class: u64,
    time_ns: u64,
    after_gap: bool,
}

/// What a stream's packets hold, and what is missing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamCounts {
    /// Events that the tracer says it discarded.
    pub discarded: u64,
    /// Packets that are missing by their sequence numbers.
    pub packets_lost: u64,
}

pub(crate) struct Stream {
    pub(crate) name: String,
    pub(crate) counts: StreamCounts,
    pub(crate) problem: Option<String>,
    file: File,
    file_bytes: u64,
    /// The next packet's place.
    offset: u64,
    packet: Vec<u8>,
    /// In bits.
    at: u64,
    /// Where the pending event's header starts.
    event_at: u64,
    content: u64,
    clock: u64,
    slots: Vec<u64>,
    stream_class: u64,
    pending: Option<Pending>,
    last_discarded: Option<u64>,
    last_sequence: Option<u64>,
    /// Events before the next one are missing.
    gap: bool,
    /// Events after the last one of this packet are missing.
    gap_after_packet: bool,
    /// When the packet ended, by its context.
    packet_end_ns: Option<u64>,
    /// Whose events the packet holds.
    processor: Option<u64>,
    done: bool,
}

/// Parts of an event: context of its stream, its own, and its fields.
pub(crate) struct Decoded<'a> {
    pub(crate) class: &'a EventClass,
    pub(crate) time_ns: u64,
    pub(crate) processor: Option<u64>,
    pub(crate) after_gap: bool,
    pub(crate) parts: [Vec<(&'a str, Value<'a>)>; 3],
}

impl Stream {
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn new(name: String, file: File) -> std::io::Result<Self> {
        let file_bytes = file.metadata()?.len();
        Ok(Self {
            name,
            counts: StreamCounts::default(),
            problem: None,
            file,
            file_bytes,
            offset: 0,
            packet: Vec::new(),
            at: 0,
            event_at: 0,
            content: 0,
            clock: 0,
            slots: Vec::new(),
            stream_class: 0,
            pending: None,
            last_discarded: None,
            last_sequence: None,
            gap: false,
            gap_after_packet: false,
            packet_end_ns: None,
            processor: None,
            done: false,
        })
    }

    /// Bytes that are still to be read.
    pub(crate) const fn bytes(&self) -> u64 {
        if self.done { 0 } else { self.file_bytes.saturating_sub(self.offset) }
    }

    /// The time of the next event; `None` at the end.
    pub(crate) fn peek(&mut self, metadata: &Metadata) -> Option<u64> {
        while self.pending.is_none() && !self.done {
            if self.at >= self.content {
                if let Err(problem) = self.next_packet(metadata) {
                    self.stop(problem);
                }
                continue;
            }
            match self.header(metadata) {
                Ok(()) => {}
                Err(problem) => self.damaged(&problem),
            }
        }
        self.pending.map(|pending| pending.time_ns)
    }

    /// The event that `peek` found.
    pub(crate) fn next<'a>(&'a mut self, metadata: &'a Metadata) -> Option<Decoded<'a>> {
        let pending = self.pending.take()?;
        let stream = metadata.streams.get(&pending.stream_class)?;
        let class = stream.events.get(&pending.event_class)?;
        let decoder = Decoder::new(metadata, &self.packet, &mut self.slots, self.clock);
        let mut decoder = decoder.at(self.at, self.content);
        let mut read = || {
            Ok([
                decoder.scope(stream.event_context.as_ref())?,
                decoder.scope(class.context.as_ref())?,
                decoder.scope(class.fields.as_ref())?,
            ])
        };
        let parts: Result<_, Stop> = read();
        let (at, clock) = (decoder.at, decoder.clock);
        match parts {
            Ok(parts) => {
                // Events without any bit would come for ever.
                self.at = if at > self.event_at { at } else { self.content };
                self.clock = clock;
                let Pending { time_ns, after_gap, .. } = pending;
                Some(Decoded { class, time_ns, processor: self.processor, after_gap, parts })
            }
            Err(stop) => {
                let problem = format!("event {:?}: {}", class.name, stop.text());
                if self.problem.is_none() {
                    self.problem = Some(self.placed(&problem));
                }
                self.at = self.content;
                self.gap = true;
                None
            }
        }
    }

    fn placed(&self, problem: &str) -> String {
        let start = self.offset - self.packet.len() as u64;
        format!("the packet at byte {start} is read up to its byte {}: {problem}", self.at / 8)
    }

    /// The rest of a packet is left out.
    fn damaged(&mut self, problem: &str) {
        if self.problem.is_none() {
            self.problem = Some(self.placed(problem));
        }
        self.at = self.content;
        self.gap = true;
    }

    /// The rest of the file is left out.
    fn stop(&mut self, problem: String) {
        self.done = true;
        self.content = 0;
        self.at = 0;
        self.gap |= self.gap_after_packet || !problem.is_empty();
        if self.problem.is_none() && !problem.is_empty() {
            self.problem = Some(problem);
        }
    }

    /// Whether events are missing between the last one that was given and the next one, or the end.
    pub(crate) fn is_in_gap(&self) -> bool {
        self.pending.map_or(self.done && self.gap, |pending| pending.after_gap)
    }

    /// Until when it is known that no further event came, after the last one was given; 0 if the
    /// packet does not tell.
    pub(crate) fn end_ns(&self) -> Option<u64> {
        if self.is_in_gap() { None } else { Some(self.packet_end_ns.unwrap_or(0)) }
    }

    /// Whose events the last packet holds.
    pub(crate) const fn processor(&self) -> Option<u64> {
        self.processor
    }

    /// Whether it holds what a kernel's scheduler does.
    pub(crate) fn has_switches(&self, metadata: &Metadata) -> bool {
        metadata.streams.get(&self.stream_class).is_some_and(|stream| stream.has_switches)
    }

    fn read(&mut self, bytes: u64) -> Result<(), String> {
        self.packet.clear();
        self.packet.resize(usize::try_from(bytes).unwrap_or(0), 0);
        self.file
            .read_exact_at(&mut self.packet, self.offset)
            .map_err(|error| format!("cannot be read at byte {}: {error}", self.offset))
    }

    /// An empty text is the end.
    fn next_packet(&mut self, metadata: &Metadata) -> Result<(), String> {
        let left = self.file_bytes.saturating_sub(self.offset);
        if left == 0 {
            return Err(String::new());
        }
        let offset = self.offset;
        self.read(left.min(HEAD_BYTES))?;
        let mut head = self.packet_head(metadata);
        if head.as_ref().is_err_and(|error| error.1) && left > HEAD_BYTES {
            self.read(left.min(PACKET_MAX_BYTES))?;
            head = self.packet_head(metadata);
        }
        let (roles, stream_class, at, clock) =
            head.map_err(|(problem, _)| format!("the packet at byte {offset}: {problem}"))?;
        let size = roles.get(role::PACKET_SIZE);
        let content = roles.get(role::CONTENT_SIZE).or(size).unwrap_or(left.saturating_mul(8));
        let size = size.unwrap_or(content);
        let bytes = size.div_ceil(8);
        if bytes == 0 || size < content || content < at {
            return Err(format!("the packet at byte {offset} has sizes that cannot be"));
        }
        if bytes.min(left) > PACKET_MAX_BYTES {
            return Err(format!(
                "the packet at byte {offset} has more than {PACKET_MAX_BYTES} bytes"
            ));
        }
        self.read(bytes.min(left))?;
        self.offset += bytes.min(left);
        // Before this packet, what the packet before lost is missing.
        self.gap |= std::mem::take(&mut self.gap_after_packet);
        if bytes > left {
            self.gap_after_packet = true;
            self.problem.get_or_insert_with(|| {
                format!("the packet at byte {offset} is cut: {left} of {bytes} bytes are there")
            });
        }
        self.at = at;
        self.content = content.min(left * 8);
        self.clock = clock;
        self.stream_class = stream_class;
        self.processor = roles.get(role::PROCESSOR);
        let stream = metadata.streams.get(&stream_class);
        let clock = stream.and_then(|stream| metadata.clock_of(stream));
        let end = roles.get(role::END_TIME);
        self.packet_end_ns = end.zip(clock).map(|(end, clock)| clock.unix_ns(end));
        self.count(&roles);
        Ok(())
    }

    fn count(&mut self, roles: &Roles) {
        if let Some(discarded) = roles.get(role::DISCARDED) {
            // Counted since the start of the stream; a smaller number is a new start.
            let before = self.last_discarded.unwrap_or(0).min(discarded);
            self.counts.discarded = self.counts.discarded.saturating_add(discarded - before);
            if discarded > before {
                // The number is of the packet's end, and an event is lost where none fits: before
                // the packet's first event, or after its last.
                self.gap = true;
                self.gap_after_packet = true;
            }
            self.last_discarded = Some(discarded);
        }
        if let Some(sequence) = roles.get(role::SEQUENCE) {
            if let Some(last) = self.last_sequence
                && sequence > last
            {
                let lost = sequence - last - 1;
                self.gap |= lost > 0;
                self.counts.packets_lost = self.counts.packets_lost.saturating_add(lost);
            }
            self.last_sequence = Some(sequence);
        }
    }

    /// Roles, class, place of the first event, and clock; or a problem, and whether more bytes
    /// could help.
    #[allow(clippy::type_complexity)]
    fn packet_head(
        &mut self,
        metadata: &Metadata,
    ) -> Result<(Roles, u64, u64, u64), (String, bool)> {
        let stopped = |stop: Stop| (stop.text().to_owned(), stop == Stop::End);
        let mut decoder = Decoder::new(metadata, &self.packet, &mut self.slots, self.clock);
        if let Some(header) = &metadata.packet_header {
            decoder.skip(header).map_err(stopped)?;
        }
        let wrong = |problem: &str| (problem.to_owned(), false);
        if decoder.roles.get(role::MAGIC).is_some_and(|magic| magic != MAGIC) {
            return Err(wrong("it does not start as packets do"));
        }
        if decoder.uuid.is_some() && metadata.uuid.is_some() && decoder.uuid != metadata.uuid {
            // As babeltrace2 does it is read all the same.
            self.problem.get_or_insert_with(|| {
                "is of another trace than its metadata, by their UUIDs".to_owned()
            });
        }
        let class = match decoder.roles.get(role::STREAM_CLASS) {
            Some(class) => class,
            // Without a number there is only one.
            None => metadata.streams.keys().next().copied().unwrap_or(0),
        };
        let stream: &StreamClass = metadata
            .streams
            .get(&class)
            .ok_or_else(|| (format!("the metadata has no stream {class}"), false))?;
        if let Some(context) = &stream.packet_context {
            decoder.skip(context).map_err(stopped)?;
        }
        Ok((decoder.roles, class, decoder.at, decoder.clock))
    }

    fn header(&mut self, metadata: &Metadata) -> Result<(), String> {
        let class = self.stream_class;
        let stream = metadata.streams.get(&class).ok_or("the metadata has no such stream")?;
        let decoder = Decoder::new(metadata, &self.packet, &mut self.slots, self.clock);
        let mut decoder = decoder.at(self.at, self.content);
        if let Some(header) = &stream.event_header {
            decoder.skip(header).map_err(|stop| stop.text().to_owned())?;
        }
        let event_class = match decoder.roles.get(role::EVENT_CLASS) {
            Some(class) => class,
            None => stream.events.keys().next().copied().unwrap_or(0),
        };
        if !stream.events.contains_key(&event_class) {
            return Err(format!("the metadata has no event {event_class}"));
        }
        let clock = metadata.clock_of(stream);
        let time_ns = clock.map_or(0, |clock| clock.unix_ns(decoder.clock));
        self.event_at = self.at;
        self.at = decoder.at;
        self.clock = decoder.clock;
        let after_gap = std::mem::take(&mut self.gap);
        self.pending = Some(Pending { stream_class: class, event_class, time_ns, after_gap });
        Ok(())
    }
}
