//! What the kernel side reports, in the order in which the ring buffer holds
//! it. `bpf/spanwise.h` is the same in C; `capture/ebpf` reads that form.

use spanwise_capture_protocols::attribution::Caller;
pub use spanwise_capture_protocols::sessions::Endpoint;
use spanwise_capture_protocols::sessions::StreamOwner;

/// One report of the kernel side. Times are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// A connection was opened, or seen for the first time.
    Opened(Opened),
    /// Bytes went through a socket.
    Data(Data<'a>),
    /// TLS records went out, of plaintext that was reported before.
    Records(Records),
    /// A datagram went through a socket.
    Datagram(Datagram<'a>),
    /// A connection was closed.
    Closed(Closed),
    /// A connection goes on, and is not reported any more: the filter changed.
    LeftOut(LeftOut),
    /// Something about a logical task that no transfer tells.
    Task(Task),
    /// What a stream of a connection asks for.
    StreamName(StreamName<'a>),
    /// A process makes a thread, or one ends.
    Thread(Thread),
    /// A process replaced its program (or was seen for the first time).
    Exec(ProcessEvent),
    /// A process ended (its last thread did).
    Exit(ProcessEvent),
}

/// The side of a connection that a socket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It connected.
    Client,
    /// It was accepted.
    Server,
    /// The connection is older than the agent.
    Unknown,
}

/// Which way bytes went, seen from the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The process wrote them.
    Sent,
    /// The process read them.
    Received,
}

/// A connection and what is known of it from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Opened {
    /// When the connection was established; when it was first seen where it is
    /// older than the agent.
    pub time_nano: u64,
    /// Names the socket while this boot lasts; never reused.
    pub connection: u64,
    /// Process (thread group) that caused the event.
    pub process: u32,
    /// Its thread; of a client's connection the one that connected.
    pub thread: u32,
    /// See [`Data::sleeps`]: when that thread connected. 0: not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sleeps: u32,
    /// Which side of the connection this socket is.
    pub role: Role,
    /// The socket's own end.
    pub local: Endpoint,
    /// The other end.
    pub remote: Endpoint,
    /// Inode number of the socket's network namespace.
    pub network_namespace: u32,
    /// From SYN to established, on a client's socket that the agent saw open.
    pub connect_nano: Option<u64>,
    /// What the kernel calls the thread.
    #[serde(default)]
    pub command: Command,
    /// TCP sequence numbers of the first byte sent and of the first received,
    /// where the agent saw the connection open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seqs: Option<[u32; 2]>,
    /// Set where it is a Unix socket; addresses and ports mean nothing then, and
    /// sequence numbers are the kernel side's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix: Option<UnixPath>,
}

/// What a Unix socket's server is bound to (unix(7)): a path, or a name that begins
/// with NUL; filled up with NUL. Empty where it has no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(from = "String", into = "String")]
pub struct UnixPath(pub [u8; UNIX_PATH_BYTES]);

/// Bytes that the kernel keeps of such a path.
pub const UNIX_PATH_BYTES: usize = 108;

impl UnixPath {
    /// The path; an abstract name begins with `@`.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        let length = self.0.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        match &self.0[..length] {
            [0, name @ ..] => format!("@{}", String::from_utf8_lossy(name)).into(),
            path => {
                let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
                String::from_utf8_lossy(&path[..end])
            }
        }
    }
}

impl From<String> for UnixPath {
    fn from(text: String) -> Self {
        let mut bytes = [0; UNIX_PATH_BYTES];
        for (to, from) in bytes.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        if bytes[0] == b'@' {
            bytes[0] = 0;
        }
        Self(bytes)
    }
}

impl From<UnixPath> for String {
    fn from(path: UnixPath) -> Self {
        path.text().into_owned()
    }
}

/// A thread's name in the kernel: at most 15 bytes, then NUL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Command(pub [u8; 16]);

impl Command {
    /// The name; empty where it is not known.
    pub fn name(&self) -> std::borrow::Cow<'_, str> {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        String::from_utf8_lossy(&self.0[..end])
    }
}

/// One system call's worth of bytes on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data<'a> {
    /// When: for sent bytes when they were handed to the network, for received
    /// ones when the process got them.
    pub time_nano: u64,
    /// See [`Opened::connection`].
    pub connection: u64,
    /// Process that made the call.
    pub process: u32,
    /// Its thread.
    pub thread: u32,
    /// Which way.
    pub direction: Direction,
    /// TCP sequence number of the first byte.
    pub seq: u32,
    /// How many bytes went through.
    pub length: u32,
    /// The first of them, as many as were captured.
    pub bytes: &'a [u8],
    /// Smoothed round-trip time; 0 where TCP has none yet.
    pub srtt_micros: u32,
    /// Segments that this socket has sent again since it was opened.
    pub retransmits: u32,
    /// Set where the bytes are what a TLS library was given to encrypt, or gave
    /// decrypted. [`Self::seq`] is then that of the TLS record, and as many on as
    /// the record's plaintext before these bytes.
    pub plaintext: Option<Plaintext>,
    /// Why no byte was captured, where that is not for lack of bytes.
    pub unread: Option<Unread>,
    /// What the process's runtime considered current (a goroutine, an asyncio task, a
    /// virtual thread); 0 where that is not known.
    pub task: u64,
    /// The task that made that one; 0 where it is not known.
    pub parent_task: u64,
    /// The id of the span in which the thread worked, where its program tells that; else 0.
    pub current_span: u64,
    /// How often the thread had waited for something by then (it wraps). Between two of
    /// its calls with one number it has not.
    pub sleeps: u32,
}

/// Why the bytes of a transfer were counted and not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unread {
    /// `sendfile` or `splice`: they never were in the program's memory.
    File,
    /// `io_uring`: where they stand in memory is not followed.
    IoUring,
    /// A call that is not known, or a socket of the kernel's own.
    Other,
}

impl Unread {
    /// What moved them.
    pub const fn mover(self) -> &'static str {
        match self {
            Self::File => "sendfile",
            Self::IoUring => "io_uring",
            Self::Other => "other",
        }
    }
}

/// What further is known of plaintext.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Plaintext {
    /// How much of it went before in this direction, wrapping at 32 bits.
    pub offset: u32,
    /// Whether its TLS record is known; [`Data::seq`] means nothing where not.
    pub placed: bool,
}

/// TLS records that one system call sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Records {
    /// When they were handed to the network.
    pub time_nano: u64,
    /// See [`Opened::connection`].
    pub connection: u64,
    /// In order; those without length are none.
    pub records: [Record; 8],
}

/// A TLS record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Record {
    /// TCP sequence number of its header.
    pub seq: u32,
    /// Bytes of its content.
    pub length: u32,
}

/// A datagram of UDP: a whole message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// When it was handed to the network, or to the process.
    pub time_nano: u64,
    /// Process that made the call.
    pub process: u32,
    /// Its thread.
    pub thread: u32,
    /// Which way.
    pub direction: Direction,
    /// The socket's own end; its address may be the unspecified one.
    pub local: Endpoint,
    /// The other end. Where a socket has no fixed peer, some hooks do not see
    /// from whom it receives.
    pub remote: Option<Endpoint>,
    /// Inode number of the socket's network namespace.
    pub network_namespace: u32,
    /// What the kernel calls the thread.
    pub command: Command,
    /// Its length.
    pub length: u32,
    /// The first of its bytes, as many as were captured.
    pub bytes: &'a [u8],
    /// See [`Data::task`].
    pub task: u64,
    /// See [`Data::parent_task`].
    pub parent_task: u64,
    /// See [`Data::current_span`].
    pub current_span: u64,
    /// See [`Data::sleeps`].
    pub sleeps: u32,
}

/// The end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Closed {
    /// When.
    pub time_nano: u64,
    /// See [`Opened::connection`].
    pub connection: u64,
    /// The peer reset it.
    pub reset: bool,
    /// Segments that this socket sent again during its life.
    pub retransmits: u32,
    /// TCP sequence number after the last byte that was taken from the socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_up_to: Option<u32>,
}

/// The end of what is reported of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LeftOut {
    /// When.
    pub time_nano: u64,
    /// See [`Opened::connection`]; should it be reported again, it has another
    /// number.
    pub connection: u64,
}

/// What is known of a logical task (see [`Data::task`]): by which other one it was made,
/// or what it works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Task {
    /// When.
    pub time_nano: u64,
    /// Its process.
    pub process: u32,
    /// The task.
    pub task: u64,
    /// The task that made it; 0 where it is not known.
    pub parent_task: u64,
    /// Where it works on a stream of a connection: that connection
    /// ([`Opened::connection`]), else 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub connection: u64,
    /// The stream's number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stream: u64,
    /// It is made now: what another at its address did is not its.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub new: bool,
    /// It may go on with what others than its maker give it, as a pool's worker does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lasting: bool,
    /// Where the program itself tells of work that is handed between its threads: the
    /// thread that does, else 0. [`Self::parent_task`] is the work in whose course this
    /// was handed over, at [`Self::time_nano`]. Where that is no work, the task is what the
    /// thread does by itself, and the parent its logical task, if it has one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub teller: u32,
    /// It waited for something, which this task gave it at [`Self::time_nano`], that was made
    /// by [`Self::parent_task`]; 0: the task was not given anything.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub giver: u64,
}

/// What a stream asks for, from the program's own memory: of a connection that is older than
/// the agent, the bytes do not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamName<'a> {
    /// When.
    pub time_nano: u64,
    /// Of which connection, see [`Opened::connection`].
    pub connection: u64,
    /// The stream's number.
    pub stream: u64,
    /// The method; empty: it is a gRPC call.
    pub method: &'a [u8],
    /// The path.
    pub path: &'a [u8],
}

/// A thread that is made now, or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Thread {
    /// When.
    pub time_nano: u64,
    /// Its process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// The thread that makes it; 0 where it ends;
    pub maker: u32,
    /// and the logical task that does; 0 where that is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub maker_task: u64,
}

/// Whether a number says nothing, and is left out of recordings.
pub(crate) fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

/// A process's beginning or end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProcessEvent {
    /// When.
    pub time_nano: u64,
    /// The process.
    pub process: u32,
}

impl From<&Data<'_>> for Caller {
    fn from(data: &Data<'_>) -> Self {
        let Data { process, thread, task, parent_task, time_nano, sleeps, .. } = *data;
        Self { process, thread, task, parent_task, time_nano, sleeps }
    }
}

/// Who connected, and when it did; `None` where it was not seen.
pub(crate) fn connector(opened: &Opened) -> Option<Caller> {
    let Opened { role, process, thread, time_nano, connect_nano, sleeps, .. } = *opened;
    (role == Role::Client && sleeps != 0).then(|| Caller {
        process,
        thread,
        task: 0,
        parent_task: 0,
        time_nano: time_nano.saturating_sub(connect_nano.unwrap_or_default()),
        sleeps,
    })
}

impl From<&Task> for StreamOwner {
    fn from(task: &Task) -> Self {
        let Task { stream, process, task, parent_task, .. } = *task;
        Self { stream, process, task, parent_task }
    }
}
