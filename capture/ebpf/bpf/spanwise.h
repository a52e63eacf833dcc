/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the kernel side writes into the ring buffer; src/kernel/decode.rs reads
 * it. All integers in the machine's own byte order, all times in nanoseconds
 * of CLOCK_MONOTONIC. */
#ifndef SPANWISE_H
#define SPANWISE_H

enum spanwise_kind {
    SPANWISE_OPENED = 1,
    SPANWISE_DATA = 2,
    SPANWISE_CLOSED = 3,
    SPANWISE_EXEC = 4,
    SPANWISE_EXIT = 5,
    SPANWISE_PLAINTEXT = 6, /* like DATA, of what a TLS library encrypts */
    SPANWISE_PLAINTEXT_UNPLACED = 7, /* the same, its record is not known: no seq */
    SPANWISE_TLS_RECORDS = 8, /* records that were sent, of plaintext told before */
    SPANWISE_DATAGRAM = 9,
    SPANWISE_OPENED_UNIX = 10,
    SPANWISE_LEFT_OUT = 11, /* a connection goes on, and is not reported any more */
    SPANWISE_TASK = 12, /* of a logical task: its parent, and by direction 1 that it is made
                         * now; or what it works on: a stream (in length) of a connection; by
                         * direction 2, that it is work of which the program itself tells */
    SPANWISE_THREAD = 13, /* a thread is made now by this one, in this logical task; by
                           * direction 1: this one ends */
};

enum spanwise_role {
    SPANWISE_UNKNOWN = 0,
    SPANWISE_CLIENT = 1,
    SPANWISE_SERVER = 2,
};

enum spanwise_direction {
    SPANWISE_RECEIVED = 0,
    SPANWISE_SENT = 1,
};

/* Every event begins with this. */
struct spanwise_event {
    unsigned char kind;
    unsigned char direction; /* of what has payload; of TASK see there */
    unsigned short captured; /* bytes of payload that follow */
    unsigned int process;
    unsigned int thread;
    unsigned int seq; /* TCP sequence number of the first byte of DATA, of the first
                       * byte of its TLS record and as many on of PLAINTEXT; of CLOSED
                       * that of the first byte that nobody received,
                       * unless length is 1 */
    unsigned long long time_nano;
    unsigned long long connection;
    unsigned int length; /* bytes that went through the call */
    unsigned int srtt_eighth_micros;
    unsigned int retransmits;
    unsigned int extra; /* of DATA: enum spanwise_unread; of CLOSED: whether it was reset;
                         * of PLAINTEXT: how much plaintext went before in this direction;
                         * of TASK: whether what is made may work for others than its maker;
                         * of THREAD: which thread is made */
    unsigned long long task; /* what the process's runtime considers current: task.h; */
    unsigned long long parent_task; /* by which that was made. 0: not known */
    unsigned int sleeps; /* how often the thread has waited so far; of OPENED when it connected */
    unsigned int pad;
};

/* Why the bytes of DATA were only counted. */
enum spanwise_unread {
    SPANWISE_READ = 0,
    SPANWISE_UNREAD_FILE = 1, /* sendfile or splice: they never were in user memory */
    SPANWISE_UNREAD_IO_URING = 2,
    SPANWISE_UNREAD_OTHER = 3, /* a call that is not known here, or a socket of the kernel's own */
};

struct spanwise_tls_record {
    unsigned int seq; /* TCP sequence number of its header */
    unsigned int length; /* of its content; 0: none */
};

/* TLS_RECORDS: the event, then these. */
#define TLS_RECORDS 8
struct spanwise_tls_records {
    struct spanwise_event event;
    struct spanwise_tls_record records[TLS_RECORDS];
};

/* OPENED: the event, then this. Addresses are 16 bytes, IPv4 mapped. */
struct spanwise_opened {
    struct spanwise_event event;
    unsigned char local_address[16];
    unsigned char remote_address[16];
    unsigned short local_port;
    unsigned short remote_port;
    unsigned int network_namespace;
    unsigned long long connect_nano; /* 0 where not seen */
    unsigned int role;
    unsigned int first_known; /* event.seq and event.extra are the first bytes' sequence
                               * numbers, sent and received */
    char command[16]; /* of the thread, as the kernel names it */
};

/* OPENED_UNIX: as OPENED, without addresses and ports, then `captured` bytes of the
 * path that the server is bound to; it begins with NUL where it is no file. */
#define UNIX_PATH 108
struct spanwise_opened_unix {
    struct spanwise_opened opened;
    char path[UNIX_PATH];
    char pad[4];
};

/* DATAGRAM: the event, then this, then payload. Addresses as above; the remote
 * port is 0 where the peer is not known. */
struct spanwise_datagram {
    struct spanwise_event event;
    unsigned char local_address[16];
    unsigned char remote_address[16];
    unsigned short local_port;
    unsigned short remote_port;
    unsigned int network_namespace;
    char command[16]; /* of the thread, as the kernel names it */
};

/* What user space sets before the programs are loaded. */
struct spanwise_settings {
    unsigned int max_payload; /* bytes of payload to capture of each call */
};

/* What the programs count, for user space to read. */
struct spanwise_tallies {
    unsigned long long last_connection;
    unsigned long long lost_data;
    unsigned long long lost_lifecycle;
    unsigned long long tls_unbound;
};

/* Likewise, of what no hook sees. */
struct spanwise_unseen {
    /* Connections that carried bytes and were closed, of which no call was seen. */
    unsigned long long connections;
    /* Ends of io_uring_enter, where hooks see system calls and not what that does. */
    unsigned long long io_uring_calls;
    /* Calls that read what had been received before a connection's end. */
    unsigned long long reads_after_close;
};

#endif
