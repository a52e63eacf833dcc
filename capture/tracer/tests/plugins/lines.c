/* A protocol without numbers and lengths, for tests: every message is a line.
 * "ASK word" is answered by "OK word" or "NO word", in order; "TELL word" by
 * nobody, whichever side says it. */
#include "spanwise_plugin.h"

static struct spanwise_plugin plugin = { .name = SPANWISE_TEXT("lines") };

struct spanwise_plugin *spanwise_plugin_1(void)
{
    return &plugin;
}

/* How many of `count` bytes are as those of `word`; all of it where it is that. */
static uint32_t same(const char *word, uint32_t count)
{
    uint32_t at = 0;
    while (word[at] && at < count && plugin.input[at] == word[at])
        at++;
    return at;
}

static int begins(const char *word, uint32_t bytes, uint32_t count)
{
    return same(word, count) == (count < bytes ? count : bytes);
}

static int plausible(uint32_t side, uint32_t count)
{
    if (begins("TELL ", 5, count))
        return 1;
    return side == SPANWISE_ASKING ? begins("ASK ", 4, count)
                                   : begins("OK ", 3, count) || begins("NO ", 3, count);
}

int32_t recognise(uint32_t side, uint32_t count)
{
    if (!plausible(side, count))
        return SPANWISE_NO;
    return count < 5 ? SPANWISE_MAYBE : SPANWISE_YES;
}

int64_t measure(uint32_t side, uint32_t count)
{
    if (!plausible(side, count))
        return SPANWISE_MALFORMED;
    for (uint32_t at = 0; at < count; at++)
        if (plugin.input[at] == '\n')
            return at + 1;
    return SPANWISE_MORE_BYTES;
}

int32_t decode(uint32_t side, uint32_t count, int64_t length)
{
    (void)side;
    (void)length;
    uint32_t word = plugin.input[0] == 'A' ? 4 : plugin.input[0] == 'T' ? 5 : 3;
    switch (plugin.input[0]) {
    case 'A':
        plugin.answer.kind = SPANWISE_REQUEST;
        break;
    case 'T':
        plugin.answer.kind = SPANWISE_ONE_WAY;
        break;
    case 'N':
        plugin.answer.flags = SPANWISE_FAILED;
        /* fall through */
    default:
        plugin.answer.kind = SPANWISE_RESPONSE;
        plugin.answer.error.at = plugin.input + word;
        plugin.answer.error.bytes = count - word - 1;
        return 1;
    }
    plugin.answer.operation.at = plugin.input + word;
    plugin.answer.operation.bytes = count - word - 1;
    return 1;
}
