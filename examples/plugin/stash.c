/* A plugin for Stash, the small protocol of stash.py: an example to copy.
 *
 * Every message has a header of 12 bytes, all numbers in network order:
 *
 *     0  2  'S' 'T'
 *     2  1  version, 1
 *     3  1  type: 1 request, 2 answer, 3 part of an answer, 4 notice, 5 ping
 *     4  4  number of the request
 *     8  4  length of the body
 *
 * The body of a request or a notice begins with three texts, each preceded by its length in one
 * byte: operation, bucket, traceparent (or empty). The body of an answer begins with a status of
 * two bytes and an error in the same form.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "spanwise_plugin.h"

enum { HEADER_BYTES = 12, MAX_BODY_BYTES = 64 << 20 };
enum { REQUEST = 1, ANSWER = 2, ANSWER_PART = 3, NOTICE = 4, PING = 5 };
enum { KEY_BUCKET, KEY_VALUE_BYTES };

static struct spanwise_plugin plugin = {
    .name = SPANWISE_TEXT("stash"),
    .keys = SPANWISE_TEXT("stash.bucket stash.value.size"),
};

static uint32_t number(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

/* Whether the bytes from `at` on may be the start of a message of this side. */
static int plausible(uint32_t side, uint32_t at, uint32_t count)
{
    const uint8_t *in = plugin.input + at;
    count -= at;
    if ((count > 0 && in[0] != 'S') || (count > 1 && in[1] != 'T') || (count > 2 && in[2] != 1))
        return 0;
    if (count > 3 && in[3] != PING) {
        int asks = in[3] == REQUEST || in[3] == NOTICE;
        int answers = in[3] == ANSWER || in[3] == ANSWER_PART;
        if (!(side == SPANWISE_ASKING ? asks : answers))
            return 0;
    }
    return count < HEADER_BYTES || number(in + 8) <= (in[3] == PING ? 0 : MAX_BODY_BYTES);
}

struct spanwise_plugin *spanwise_plugin_1(void)
{
    return &plugin;
}

int32_t recognise(uint32_t side, uint32_t count)
{
    uint32_t at = 0;
    /* Both sides send pings without a body, so pings do not distinguish the sides. */
    while (count - at >= HEADER_BYTES && plausible(side, at, count)) {
        if (plugin.input[at + 3] != PING)
            return SPANWISE_YES;
        at += HEADER_BYTES;
    }
    return plausible(side, at, count) ? SPANWISE_MAYBE : SPANWISE_NO;
}

int64_t measure(uint32_t side, uint32_t count)
{
    if (!plausible(side, 0, count))
        return SPANWISE_MALFORMED;
    if (count < HEADER_BYTES)
        return SPANWISE_MORE_BYTES;
    return HEADER_BYTES + (int64_t)number(plugin.input + 8);
}

/* Reads the captured part of the text at `*at`, and moves past the text. */
static struct spanwise_text text(uint32_t *at, uint32_t count)
{
    struct spanwise_text found = { 0, 0 };
    if (*at >= count)
        return found;
    uint32_t bytes = plugin.input[*at];
    uint32_t left = count - *at - 1;
    found.at = plugin.input + *at + 1;
    found.bytes = bytes < left ? bytes : left;
    *at += 1 + bytes;
    return found;
}

static struct spanwise_attribute *attribute(uint32_t key, uint32_t type)
{
    struct spanwise_attribute *next = &plugin.answer.attributes[plugin.answer.attribute_count++];
    next->key = key;
    next->type = type;
    return next;
}

int32_t decode(uint32_t side, uint32_t count, int64_t length)
{
    struct spanwise_answer *answer = &plugin.answer;
    uint8_t type = plugin.input[3];
    uint32_t at = HEADER_BYTES;
    (void)side;
    if (type == PING)
        return 1; /* SPANWISE_OTHER */
    answer->stream = number(plugin.input + 4);
    answer->flags = SPANWISE_HAS_STREAM;
    if (type == REQUEST || type == NOTICE) {
        answer->kind = type == REQUEST ? SPANWISE_REQUEST : SPANWISE_ONE_WAY;
        answer->operation = text(&at, count);
        struct spanwise_text bucket = text(&at, count);
        answer->trace_parent = text(&at, count);
        if (bucket.bytes > 0)
            attribute(KEY_BUCKET, SPANWISE_STRING)->value.string = bucket;
        if (length > at)
            attribute(KEY_VALUE_BYTES, SPANWISE_INTEGER)->value.integer = length - at;
        return 1;
    }
    answer->kind = SPANWISE_RESPONSE;
    if (type == ANSWER_PART) {
        answer->flags |= SPANWISE_MORE;
        return 1;
    }
    if (count < at + 2)
        return 1;
    answer->status = plugin.input[at] << 8 | plugin.input[at + 1];
    answer->flags |= SPANWISE_HAS_STATUS;
    at += 2;
    if (answer->status != 0) {
        answer->flags |= SPANWISE_FAILED;
        answer->error = text(&at, count);
    }
    return 1;
}
