/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Follows the TLS records that a socket receives by their headers (RFC 8446,
 * section 5.1: type, version in two bytes, length in two), so that plaintext is
 * found its record. */
#ifndef SPANWISE_TLS_RECORDS_H
#define SPANWISE_TLS_RECORDS_H

#define TLS_RECORD_HEADER 5
#define TLS_APPLICATION_DATA 23
/* Longest that a record's content may be: 16 KiB and what encryption adds. */
#define TLS_MAX_RECORD 18432
/* Bytes that encryption adds to the plaintext of a record: an authentication
 * tag; in TLS 1.3 a type, before it a nonce with AES. Block ciphers add a block,
 * a MAC and padding. */
#define TLS_TAG 16
#define TLS_TAG_TYPE 17
#define TLS_TAG_NONCE 24
#define TLS_BLOCKS_LEAST 37
#define TLS_BLOCKS_MOST 80
/* Records that are looked at of one transfer, and that wait for their
 * plaintext. */
#define TLS_RECORDS 8

struct tls_record {
    __u32 seq; /* of its header */
    __u32 length; /* of its content; 0: none */
};

struct tls_inbound {
    struct tls_record records[TLS_RECORDS];
    __u32 next; /* the slot that is filled next */
    __u32 next_seq; /* where the next record begins */
    __u32 srtt_eighth_micros;
    __u32 retransmits;
    __u8 known; /* next_seq is */
    __u8 bound; /* a session's plaintext is reported */
    __u8 partial; /* bytes of the next header that came already */
    __u8 header[TLS_RECORD_HEADER];
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, __u64); /* connection */
    __type(value, struct tls_inbound);
} tls_inbound SEC(".maps");

static const struct tls_inbound no_inbound = {};

static __always_inline bool is_record_header(const __u8 *header)
{
    return header[0] >= 20 && header[0] <= 24 && header[1] == 3 && header[2] <= 4
        && ((__u32)header[3] << 8 | header[4]) <= TLS_MAX_RECORD;
}

/* Whether a TLS record begins here. */
static __always_inline bool tls_begins_record(__u64 buffer)
{
    __u8 header[TLS_RECORD_HEADER];
    return buffer && !bpf_probe_read_user(header, sizeof header, (void *)buffer)
        && is_record_header(header);
}

/* Takes note of the records whose headers are in these bytes. */
static __always_inline void tls_follow_records(struct tls_inbound *inbound, __u64 buffer,
                                               __u32 seq, __u32 length)
{
    if (!buffer) {
        inbound->known = 0;
        return;
    }
    if (!inbound->known) {
        /* Programs mostly read all that there is, so the next read mostly begins
         * with a record. */
        inbound->known = length >= TLS_RECORD_HEADER && tls_begins_record(buffer);
        inbound->next_seq = seq;
        inbound->partial = 0;
    }
    for (int i = 0; i < TLS_RECORDS && inbound->known; i++) {
        __u32 at = inbound->next_seq - seq;
        if ((__s32)at < -(TLS_RECORD_HEADER - 1) || (__s32)at > TLS_MAX_RECORD + (1 << 20)) {
            inbound->known = 0; /* bytes in between went unseen */
            return;
        }
        __u32 had = inbound->partial;
        __u32 from = at + had; /* of the first byte of the header that is new */
        if (from >= length)
            return;
        if (had == 0 && length - from >= TLS_RECORD_HEADER) {
            if (bpf_probe_read_user(inbound->header, TLS_RECORD_HEADER, (void *)(buffer + from)))
                goto lost;
        } else {
            /* The header is cut in two. */
            for (int byte = 0; byte < TLS_RECORD_HEADER; byte++) {
                if (byte < had)
                    continue;
                if (at + byte >= length)
                    return;
                if (bpf_probe_read_user(&inbound->header[byte], 1, (void *)(buffer + at + byte)))
                    goto lost;
                inbound->partial = byte + 1;
            }
        }
        inbound->partial = 0;
        if (!is_record_header(inbound->header))
            goto lost;
        __u32 content = (__u32)inbound->header[3] << 8 | inbound->header[4];
        if (inbound->header[0] == TLS_APPLICATION_DATA) {
            struct tls_record *record = &inbound->records[inbound->next++ & (TLS_RECORDS - 1)];
            record->seq = inbound->next_seq;
            record->length = content;
        }
        inbound->next_seq += TLS_RECORD_HEADER + content;
    }
    return;
lost:
    inbound->known = 0;
}

static __always_inline bool tls_may_hold(__u32 length, __u32 plaintext, const bool blocks)
{
    __u32 added = length - plaintext;
    if (blocks)
        return added >= TLS_BLOCKS_LEAST && added <= TLS_BLOCKS_MOST;
    return added == TLS_TAG_TYPE || added == TLS_TAG_NONCE || added == TLS_TAG;
}

static __always_inline bool tls_find_record(struct tls_inbound *inbound, __u32 plaintext,
                                            __u32 *seq, const bool blocks)
{
    for (__u32 i = 0; i < TLS_RECORDS; i++) {
        struct tls_record *record = &inbound->records[(inbound->next + i) & (TLS_RECORDS - 1)];
        if (record->length && tls_may_hold(record->length, plaintext, blocks)) {
            *seq = record->seq;
            record->length = 0;
            return true;
        }
    }
    return false;
}

/* The sequence number of the oldest record that may hold this much plaintext. */
static __always_inline bool tls_record_of(struct tls_inbound *inbound, __u32 plaintext, __u32 *seq)
{
    if (!tls_find_record(inbound, plaintext, seq, false)
        && !tls_find_record(inbound, plaintext, seq, true))
        return false;
    /* Older ones held none. */
    for (__u32 i = 0; i < TLS_RECORDS; i++) {
        if ((__s32)(inbound->records[i].seq - *seq) < 0)
            inbound->records[i].length = 0;
    }
    return true;
}

#endif
