/* Plugins that misbehave, for tests, each by a number. A message of their
 * protocol begins with '!', and has 8 bytes. */
#include "spanwise_plugin.h"

enum {
    TRAP_IN_RECOGNISE = 1,
    TRAP_IN_MEASURE,
    TRAP_IN_DECODE,
    LOOP_IN_RECOGNISE,
    LOOP_IN_MEASURE,
    LOOP_IN_DECODE,
    FILL_FOR_EVER,
    RECURSION,
    GROWTH,
    WRITE_OUTSIDE,
    TEXT_OUTSIDE,
    KIND_OF_NOTHING,
    FLAGS_OF_NOTHING,
    TOO_MANY_ATTRIBUTES,
    KEY_OF_NOTHING,
    ANSWER_OF_NOTHING,
    LIKENESS_OF_NOTHING,
    SHRINKING,
    HUGE_LENGTH,
    MINUS_LENGTH,
    SLOW,
    LOOP_AT_START,
    TRAP_AT_START,
    AREA_OUTSIDE,
    NAME_OUTSIDE,
    NAME_TAKEN,
    TOO_MUCH_MEMORY,
    RIGHT,
    TRAP_AT_X,
};

#ifdef HUGE_MEMORY
static volatile uint8_t memory_wanted[8 << 20];
#endif

static struct spanwise_plugin plugin = {
    .name = SPANWISE_TEXT("hostile"),
    .keys = SPANWISE_TEXT("hostile.key"),
};

static volatile uint32_t sink;

static void turn(uint32_t times)
{
    for (uint32_t n = 0; times == 0 || n < times; n++)
        sink++;
}

__attribute__((noinline)) static uint32_t deeper(uint32_t depth)
{
    return sink == depth ? 1 : deeper(depth + 1) + sink;
}

struct spanwise_plugin *spanwise_plugin_1(void)
{
    if (HOW == LOOP_AT_START)
        turn(0);
    if (HOW == TRAP_AT_START)
        __builtin_trap();
    if (HOW == AREA_OUTSIDE)
        return (struct spanwise_plugin *)(__builtin_wasm_memory_size(0) * 65536 - 1000);
    if (HOW == NAME_TAKEN)
        plugin.name = (struct spanwise_text)SPANWISE_TEXT("redis");
    if (HOW == NAME_OUTSIDE)
        plugin.name.at = (void *)0xfffffff0;
#ifdef HUGE_MEMORY
    memory_wanted[sink] = 1;
#endif
    return &plugin;
}

int32_t recognise(uint32_t side, uint32_t count)
{
    (void)side;
    if (count == 0 || plugin.input[0] != '!')
        return SPANWISE_NO;
    if (HOW == TRAP_IN_RECOGNISE)
        __builtin_trap();
    if (HOW == LOOP_IN_RECOGNISE)
        turn(0);
    return HOW == LIKENESS_OF_NOTHING ? 7 : SPANWISE_YES;
}

int64_t measure(uint32_t side, uint32_t count)
{
    (void)side;
    if (HOW == TRAP_IN_MEASURE)
        __builtin_trap();
    if (HOW == TRAP_AT_X && count > 1 && plugin.input[1] == 'x')
        __builtin_trap();
    if (HOW == LOOP_IN_MEASURE)
        turn(0);
    if (HOW == HUGE_LENGTH)
        return INT64_MAX;
    if (HOW == MINUS_LENGTH)
        return INT64_MIN;
    if (HOW == SHRINKING)
        return count > 8 ? 1 : SPANWISE_MORE_BYTES;
    if (HOW == SLOW)
        turn(10000);
    return 8;
}

int32_t decode(uint32_t side, uint32_t count, int64_t length)
{
    struct spanwise_answer *answer = &plugin.answer;
    (void)count;
    (void)length;
    answer->kind = side == SPANWISE_ASKING ? SPANWISE_REQUEST : SPANWISE_RESPONSE;
    switch (HOW) {
    case TRAP_IN_DECODE:
        __builtin_trap();
    case LOOP_IN_DECODE:
        turn(0);
        break;
    case FILL_FOR_EVER:
        __builtin_wasm_memory_grow(0, 30);
        for (;;)
            __builtin_memset((void *)(1 << 17), (int)sink, 1 << 20);
    case RECURSION:
        sink = deeper(1);
        break;
    case GROWTH:
        for (;;)
            __builtin_wasm_memory_grow(0, 1);
    case WRITE_OUTSIDE:
        *(volatile uint32_t *)0x7ffffff0 = 1;
        break;
    case TEXT_OUTSIDE:
        answer->operation.at = plugin.input;
        answer->operation.bytes = 0x7fffffff;
        break;
    case KIND_OF_NOTHING:
        answer->kind = 77;
        break;
    case FLAGS_OF_NOTHING:
        answer->flags = 1u << 31;
        break;
    case TOO_MANY_ATTRIBUTES:
        answer->attribute_count = 0xffffffff;
        break;
    case KEY_OF_NOTHING:
        answer->attribute_count = 1;
        answer->attributes[0].key = 1;
        break;
    case ANSWER_OF_NOTHING:
        return 2;
    default:
        break;
    }
    return 1;
}
