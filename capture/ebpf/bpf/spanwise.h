/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The records that the kernel side writes into the ring buffer; src/kernel/decode.rs reads them.
 * All integers are in native byte order, all times in nanoseconds of CLOCK_MONOTONIC. */
#ifndef SPANWISE_H
#define SPANWISE_H

enum spanwise_kind {
    SPANWISE_OPENED = 1,
    SPANWISE_DATA = 2,
    SPANWISE_CLOSED = 3,
    SPANWISE_EXEC = 4,
    SPANWISE_EXIT = 5,
    SPANWISE_PLAINTEXT = 6, /* like DATA, of what a TLS library encrypts */
    SPANWISE_PLAINTEXT_UNPLACED = 7, /* the same without a seq, because its record is unknown */
    SPANWISE_TLS_RECORDS = 8, /* records that were sent, for plaintext reported before */
    SPANWISE_DATAGRAM = 9,
    SPANWISE_OPENED_UNIX = 10,
    SPANWISE_LEFT_OUT = 11, /* a connection continues but is not reported any more */
    SPANWISE_TASK = 12, /* a logical task's parent; direction 1: the task is created now;
                         * direction 2: it is a work item that the program itself reports;
                         * direction 3: it waited, and the task in connection, of that parent,
                         * gave it something; with a connection: it works on a stream (in
                         * length) of that connection */
    SPANWISE_THREAD = 13, /* this thread creates a thread, in this logical task; direction 1:
                           * this thread ends */
    SPANWISE_STREAM_NAME = 14, /* what a stream (in length) of a connection asks for */
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

/* The header of every event. */
struct spanwise_event {
    unsigned char kind;
    unsigned char direction; /* for events with payload; see also TASK */
    unsigned short captured; /* number of payload bytes that follow */
    unsigned int process;
    unsigned int thread;
    unsigned int seq; /* TCP sequence number of the first byte of DATA; of PLAINTEXT that of
                       * its TLS record, plus the offset in the record; of CLOSED that of the
                       * first byte that nobody received, unless length is 1 */
    unsigned long long time_nano;
    unsigned long long connection;
    unsigned int length; /* number of bytes that the call moved */
    unsigned int srtt_eighth_micros;
    unsigned int retransmits;
    unsigned int extra; /* of DATA: enum spanwise_unread; of CLOSED: whether it was reset;
                         * of PLAINTEXT: plaintext bytes before it in this direction;
                         * of TASK: whether it may work for others than its creator;
                         * of THREAD: the created thread */
    unsigned long long task; /* the task that the process's runtime considers current: task.h */
    unsigned long long parent_task; /* the task that created it, 0: unknown; or with TOLD_SPAN in
                                     * task (task_told.h): the span in which the thread works */
    /* how often the thread has waited so far; of OPENED, as of its connect call */
    unsigned int sleeps;
    unsigned int pad;
};

/* Why the bytes of DATA were only counted. */
enum spanwise_unread {
    SPANWISE_READ = 0,
    SPANWISE_UNREAD_FILE = 1, /* sendfile or splice: they were never in user memory */
    SPANWISE_UNREAD_IO_URING = 2,
    SPANWISE_UNREAD_OTHER = 3, /* an unknown call, or a socket of the kernel itself */
};

struct spanwise_tls_record {
    unsigned int seq; /* TCP sequence number of its header */
    unsigned int length; /* of its content; 0: none */
};

/* TLS_RECORDS: the event, followed by these. */
#define TLS_RECORDS 8
struct spanwise_tls_records {
    struct spanwise_event event;
    struct spanwise_tls_record records[TLS_RECORDS];
};

/* OPENED: the event, followed by this. Addresses are 16 bytes, with IPv4 mapped. */
struct spanwise_opened {
    struct spanwise_event event;
    unsigned char local_address[16];
    unsigned char remote_address[16];
    unsigned short local_port;
    unsigned short remote_port;
    unsigned int network_namespace;
    unsigned long long connect_nano; /* 0 if it was not seen */
    unsigned int role;
    unsigned int first_known; /* event.seq and event.extra are the sequence numbers of the
                               * first bytes sent and received */
    char command[16]; /* the thread's name in the kernel */
};

/* OPENED_UNIX: like OPENED, without addresses and ports, followed by `captured` bytes of the
 * server's path. The path begins with NUL if it is not a file. */
#define UNIX_PATH 108
struct spanwise_opened_unix {
    struct spanwise_opened opened;
    char path[UNIX_PATH];
    char pad[4];
};

/* DATAGRAM: the event, followed by this and the payload. Addresses as above. The remote port is 0
 * if the peer is unknown. */
struct spanwise_datagram {
    struct spanwise_event event;
    unsigned char local_address[16];
    unsigned char remote_address[16];
    unsigned short local_port;
    unsigned short remote_port;
    unsigned int network_namespace;
    char command[16]; /* the thread's name in the kernel */
};

/* STREAM_NAME: the event, followed by this. */
#define STREAM_METHOD 16
#define STREAM_PATH 256
struct spanwise_stream_name {
    struct spanwise_event event;
    unsigned short method_bytes; /* 0: it is a gRPC call */
    unsigned short path_bytes;
    unsigned int pad;
    char method[STREAM_METHOD];
    char path[STREAM_PATH];
};

/* Set by user space before the programs are loaded. */
struct spanwise_settings {
    unsigned int max_payload; /* bytes of payload to capture of each call */
};

/* Counters that user space reads. */
struct spanwise_tallies {
    unsigned long long last_connection;
    unsigned long long lost_data;
    unsigned long long lost_lifecycle;
    unsigned long long tls_unbound;
};

/* Counters of what no hook sees. */
struct spanwise_unseen {
    /* Connections that carried data and were closed without any visible call. */
    unsigned long long connections;
    /* Ends of io_uring_enter, if the hooks see system calls but not their effects. */
    unsigned long long io_uring_calls;
    /* Reads of data that was received before a connection's end. */
    unsigned long long reads_after_close;
};

#endif
