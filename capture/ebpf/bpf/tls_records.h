/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Follows the TLS records of one direction of a socket by their headers (RFC 8446, section 5.1:
 * type, version in two bytes, length in two), to find the record of plaintext. */
#ifndef SPANWISE_TLS_RECORDS_H
#define SPANWISE_TLS_RECORDS_H

#define TLS_RECORD_HEADER 5
#define TLS_APPLICATION_DATA 23
/* Maximum length of a record's content: 16 KiB and the encryption overhead. */
#define TLS_MAX_RECORD 18432
/* Encryption overhead of a record: an authentication tag; in TLS 1.3 also a type; before it a nonce
 * with AES. Block ciphers add a block, a MAC and padding. */
#define TLS_TAG 16
#define TLS_TAG_TYPE 17
#define TLS_TAG_NONCE 24
#define TLS_BLOCKS_LEAST 37
#define TLS_BLOCKS_MOST 80
/* Maximum records of one transfer that are parsed, and that wait for their plaintext. */

struct tls_stream_key {
    __u64 connection;
    __u64 sent;
};

struct tls_stream {
    struct spanwise_tls_record records[TLS_RECORDS];
    __u32 next; /* the next slot to fill */
    __u32 next_seq; /* start of the next record */
    __u32 begin_seq; /* start of the bytes that were last parsed */
    __u32 end_seq;
    __u32 srtt_eighth_micros;
    __u32 retransmits;
    __u8 known; /* next_seq is valid */
    __u8 bound; /* a session's plaintext is reported */
    __u8 partial; /* bytes of the next header that have arrived */
    __u8 header[TLS_RECORD_HEADER];
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, struct tls_stream_key);
    __type(value, struct tls_stream);
} tls_streams SEC(".maps");

static const struct tls_stream no_stream = {};

static __always_inline struct tls_stream *tls_stream_of(__u64 connection, const bool sent,
                                                        const bool create)
{
    struct tls_stream_key key = { .connection = connection, .sent = sent };
    struct tls_stream *stream = bpf_map_lookup_elem(&tls_streams, &key);
    if (stream || !create)
        return stream;
    bpf_map_update_elem(&tls_streams, &key, &no_stream, BPF_ANY);
    return bpf_map_lookup_elem(&tls_streams, &key);
}

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

/* Adds the records whose headers are in these bytes. */
static __always_inline void tls_follow_records(struct tls_stream *stream, __u64 buffer,
                                               __u32 seq, __u32 length)
{
    stream->begin_seq = seq;
    stream->end_seq = seq + length;
    if (!buffer) {
        stream->known = 0;
        return;
    }
    if (!stream->known) {
        /* Programs mostly read everything, so the next read mostly begins with a record. */
        stream->known = length >= TLS_RECORD_HEADER && tls_begins_record(buffer);
        stream->next_seq = seq;
        stream->partial = 0;
    }
    for (int i = 0; i < TLS_RECORDS && stream->known; i++) {
        __u32 at = stream->next_seq - seq;
        if ((__s32)at < -(TLS_RECORD_HEADER - 1) || (__s32)at > TLS_MAX_RECORD + (1 << 20)) {
            stream->known = 0; /* bytes in between were not seen */
            return;
        }
        __u32 had = stream->partial;
        __u32 from = at + had; /* position of the first new byte of the header */
        if (from >= length)
            return;
        if (had == 0 && length - from >= TLS_RECORD_HEADER) {
            if (bpf_probe_read_user(stream->header, TLS_RECORD_HEADER, (void *)(buffer + from)))
                goto lost;
        } else {
            /* The header is split. */
            for (int byte = 0; byte < TLS_RECORD_HEADER; byte++) {
                if (byte < had)
                    continue;
                if (at + byte >= length)
                    return;
                if (bpf_probe_read_user(&stream->header[byte], 1, (void *)(buffer + at + byte)))
                    goto lost;
                stream->partial = byte + 1;
            }
        }
        stream->partial = 0;
        if (!is_record_header(stream->header))
            goto lost;
        __u32 content = (__u32)stream->header[3] << 8 | stream->header[4];
        if (stream->header[0] == TLS_APPLICATION_DATA) {
            struct spanwise_tls_record *record = &stream->records[stream->next++ & (TLS_RECORDS - 1)];
            record->seq = stream->next_seq;
            record->length = content;
        }
        stream->next_seq += TLS_RECORD_HEADER + content;
    }
    return;
lost:
    stream->known = 0;
}

/* Nobody will read the complete records before this number. */
static __always_inline void tls_forget_records(struct tls_stream *stream, __u32 seq)
{
    for (__u32 i = 0; i < TLS_RECORDS; i++) {
        struct spanwise_tls_record *record = &stream->records[i];
        if ((__s32)(record->seq + TLS_RECORD_HEADER + record->length - seq) <= 0)
            record->length = 0;
    }
}

/* How the sizes of a record and of plaintext match, best first. */
enum tls_fit { TLS_FITS, TLS_FITS_BLOCKS, TLS_FITS_PART };

static __always_inline bool tls_may_hold(__u32 length, __u32 plaintext, const enum tls_fit fit)
{
    if (fit == TLS_FITS_PART)
        return length > plaintext + TLS_TAG;
    __u32 added = length - plaintext;
    if (fit == TLS_FITS_BLOCKS)
        return added >= TLS_BLOCKS_LEAST && added <= TLS_BLOCKS_MOST;
    return added == TLS_TAG_TYPE || added == TLS_TAG_NONCE || added == TLS_TAG;
}

static __always_inline bool tls_find_record(struct tls_stream *stream, __u32 plaintext,
                                            __u32 *seq, const enum tls_fit fit)
{
    for (__u32 i = 0; i < TLS_RECORDS; i++) {
        struct spanwise_tls_record *record = &stream->records[(stream->next + i) & (TLS_RECORDS - 1)];
        if (!record->length || !tls_may_hold(record->length, plaintext, fit))
            continue;
        *seq = record->seq;
        /* The rest of the record has a higher position. */
        record->seq += plaintext;
        record->length = fit == TLS_FITS_PART ? record->length - plaintext : 0;
        return true;
    }
    return false;
}

/* The sequence number of the oldest record whose plaintext may have exactly this length, or else
 * more. */
static __noinline bool tls_record_of(struct tls_stream *stream, __u32 plaintext, __u32 *seq)
{
    if (!tls_find_record(stream, plaintext, seq, TLS_FITS)
        && !tls_find_record(stream, plaintext, seq, TLS_FITS_BLOCKS)
        && !tls_find_record(stream, plaintext, seq, TLS_FITS_PART))
        return false;
    /* Older records contained no plaintext. */
    for (__u32 i = 0; i < TLS_RECORDS; i++) {
        if ((__s32)(stream->records[i].seq - *seq) < 0)
            stream->records[i].length = 0;
    }
    return true;
}

#endif
