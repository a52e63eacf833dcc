//! The ten calls, on a connected pair of TCP sockets and on a file.

use std::ffi::c_void;
use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};

/// A call that moves bytes through a descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Write,
    Read,
    Sendto,
    Recvfrom,
    Sendmsg,
    Recvmsg,
    Writev,
    Readv,
    Sendmmsg,
    Recvmmsg,
}

/// Each sending call is followed by the receiving call that empties the socket.
pub(crate) const CALLS: [Call; 10] = [
    Call::Write,
    Call::Read,
    Call::Sendto,
    Call::Recvfrom,
    Call::Sendmsg,
    Call::Recvmsg,
    Call::Writev,
    Call::Readv,
    Call::Sendmmsg,
    Call::Recvmmsg,
];

impl Call {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Sendto => "sendto",
            Self::Recvfrom => "recvfrom",
            Self::Sendmsg => "sendmsg",
            Self::Recvmsg => "recvmsg",
            Self::Writev => "writev",
            Self::Readv => "readv",
            Self::Sendmmsg => "sendmmsg",
            Self::Recvmmsg => "recvmmsg",
        }
    }
}

pub(crate) struct Fixture {
    client: TcpStream,
    server: TcpStream,
    null: File,
    zero: File,
    payload: Vec<u8>,
}

impl Fixture {
    pub(crate) fn open(payload_bytes: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let address = listener.local_addr().expect("bound");
        let client = TcpStream::connect(address).expect("connects to itself");
        let (server, _) = listener.accept().expect("the connection just made");
        client.set_nodelay(true).expect("a TCP socket");
        let mut payload = b"GET /bench HTTP/1.1\r\nHost: bench\r\nX-Pad: ".to_vec();
        payload.resize(payload_bytes - 4, b'p');
        payload.extend_from_slice(b"\r\n\r\n");
        Self {
            client,
            server,
            null: File::options().write(true).open("/dev/null").expect("/dev/null"),
            zero: File::open("/dev/zero").expect("/dev/zero"),
            payload,
        }
    }

    pub(crate) fn on_socket(&self, call: Call) {
        let descriptor = if sends(call) { &self.client } else { &self.server };
        let moved = self.perform(call, descriptor.as_raw_fd());
        assert!(moved > 0, "{call:?}: {}", std::io::Error::last_os_error());
    }

    /// Socket-only calls fail on a file, which is what is measured.
    pub(crate) fn on_file(&self, call: Call) {
        let descriptor = if sends(call) { &self.null } else { &self.zero };
        self.perform(call, descriptor.as_raw_fd());
    }

    fn perform(&self, call: Call, descriptor: RawFd) -> i64 {
        let mut buffer = [0u8; 4096];
        let length = self.payload.len();
        let out = self.payload.as_ptr().cast::<c_void>().cast_mut();
        let into = buffer.as_mut_ptr().cast::<c_void>();
        let base = if sends(call) { out } else { into };
        let mut vector = libc::iovec { iov_base: base, iov_len: length };
        let null = std::ptr::null_mut::<c_void>();
        // SAFETY: the vector points to `length` bytes of the payload (which the sending calls only
        // read) or of the buffer, and all outlive the call.
        unsafe {
            let mut message: libc::mmsghdr = std::mem::zeroed();
            message.msg_hdr.msg_iov = &raw mut vector;
            message.msg_hdr.msg_iovlen = 1;
            match call {
                Call::Write => libc::write(descriptor, out, length) as i64,
                Call::Read => libc::read(descriptor, into, length) as i64,
                Call::Sendto => libc::sendto(descriptor, out, length, 0, null.cast(), 0) as i64,
                Call::Recvfrom => {
                    libc::recvfrom(descriptor, into, length, 0, null.cast(), null.cast()) as i64
                }
                Call::Sendmsg => libc::sendmsg(descriptor, &raw const message.msg_hdr, 0) as i64,
                Call::Recvmsg => libc::recvmsg(descriptor, &raw mut message.msg_hdr, 0) as i64,
                Call::Writev => libc::writev(descriptor, &raw const vector, 1) as i64,
                Call::Readv => libc::readv(descriptor, &raw const vector, 1) as i64,
                Call::Sendmmsg => i64::from(libc::sendmmsg(descriptor, &raw mut message, 1, 0)),
                Call::Recvmmsg => {
                    i64::from(libc::recvmmsg(descriptor, &raw mut message, 1, 0, null.cast()))
                }
            }
        }
    }
}

const fn sends(call: Call) -> bool {
    matches!(call, Call::Write | Call::Sendto | Call::Sendmsg | Call::Writev | Call::Sendmmsg)
}
