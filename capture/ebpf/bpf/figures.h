/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What figures.bpf.c counts. src/kernel/figures.rs reads it. */
#ifndef SPANWISE_FIGURES_H
#define SPANWISE_FIGURES_H

#define FIGURES_BUCKETS 25 /* up to 2^23 microseconds, and beyond */
#define FIGURES_PROCESSES 8192
#define FIGURES_THREADS 65536

struct process_figures {
    __u64 waits[FIGURES_BUCKETS];
    __u64 waited_nano;
    __u64 received_bytes;
    __u64 sent_bytes;
};

/* What was not counted, because a table was full. */
struct figures_lost {
    __u64 waits;
    __u64 bytes;
};

#endif
