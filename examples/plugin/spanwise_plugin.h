/* Interface 1 between Spanwise's agent and a plugin that parses a protocol. docs/plugins.md
 * describes each part. Copy this file freely.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef SPANWISE_PLUGIN_H
#define SPANWISE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#define SPANWISE_INPUT_BYTES 1024
#define SPANWISE_MAX_ATTRIBUTES 16

/* The side that sent the bytes. */
enum { SPANWISE_ASKING = 0, SPANWISE_ANSWERING = 1 };

/* Results of `recognise`. */
enum { SPANWISE_NO = 0, SPANWISE_MAYBE = 1, SPANWISE_YES = 2 };

/* Results of `measure` other than a length. */
enum { SPANWISE_MORE_BYTES = 0, SPANWISE_MALFORMED = -1 };

/* A text anywhere in the plugin's memory. */
struct spanwise_text {
    const void *at;
    uint32_t bytes;
};

/* Initialises a text from a literal: SPANWISE_TEXT("get"). */
#define SPANWISE_TEXT(literal) { (literal), sizeof(literal) - 1 }

enum spanwise_type {
    SPANWISE_STRING = 0,
    SPANWISE_INTEGER = 1,
    SPANWISE_DOUBLE = 2,
    SPANWISE_BOOLEAN = 3,
};

struct spanwise_attribute {
    uint32_t key; /* index of one of the plugin's keys */
    uint32_t type;
    union {
        struct spanwise_text string;
        int64_t integer; /* also a boolean: 0 or 1 */
        double number;
    } value;
};

enum spanwise_kind {
    SPANWISE_OTHER = 0,        /* does not make a span */
    SPANWISE_REQUEST = 1,      /* a request that gets an answer */
    SPANWISE_RESPONSE = 2,     /* an answer, or a part of one (SPANWISE_MORE) */
    SPANWISE_ONE_WAY = 3,      /* a message that gets no answer */
    SPANWISE_REQUEST_PART = 4, /* another part of a request */
};

enum spanwise_flags {
    SPANWISE_HAS_STREAM = 1, /* `stream` matches requests and answers */
    SPANWISE_HAS_STATUS = 2, /* `status` is set */
    SPANWISE_FAILED = 4,     /* the request failed; `error` may have the reason */
    SPANWISE_MORE = 8,       /* the answer continues in another message */
};

/* All fields are 0 when `decode` is called. */
struct spanwise_answer {
    uint32_t kind;
    uint32_t flags;
    uint64_t stream;
    int32_t status;
    uint32_t attribute_count;
    struct spanwise_text operation;
    struct spanwise_text error;
    struct spanwise_text trace_parent; /* W3C traceparent of a request */
    struct spanwise_attribute attributes[SPANWISE_MAX_ATTRIBUTES];
};

struct spanwise_plugin {
    struct spanwise_text name; /* name of the protocol */
    struct spanwise_text keys; /* all attribute keys, separated by spaces */
    uint8_t input[SPANWISE_INPUT_BYTES];
    struct spanwise_answer answer;
};

_Static_assert(sizeof(void *) == 4, "plugins are built for wasm32");
_Static_assert(sizeof(struct spanwise_attribute) == 16, "interface 1");
_Static_assert(sizeof(struct spanwise_answer) == 304, "interface 1");
_Static_assert(offsetof(struct spanwise_plugin, answer) == 1040, "interface 1");

/* Marks a function that a plugin exports. The memory is exported, too. */
#define SPANWISE_EXPORT(name) __attribute__((export_name(#name)))

SPANWISE_EXPORT(spanwise_plugin_1) struct spanwise_plugin *spanwise_plugin_1(void);
SPANWISE_EXPORT(recognise) int32_t recognise(uint32_t side, uint32_t count);
SPANWISE_EXPORT(measure) int64_t measure(uint32_t side, uint32_t count);
SPANWISE_EXPORT(decode) int32_t decode(uint32_t side, uint32_t count, int64_t length);

#endif
