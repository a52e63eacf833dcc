/* Records of every kind by the library: `own lttng DIR` as events of LTTng, `own files DIR` in files. */
#include <pthread.h>
#include <spanwise.h>
#include <string.h>

SW_SITE(request, "request", SW_SERVER, SW_INFO);
SW_SITE(query, "query", SW_CLIENT, SW_INFO);
SW_SITE(task, "task", SW_CONSUMER, SW_INFO);
SW_KEY(rows, "rows");
SW_KEY(share, "share");
SW_KEY(good, "good");
SW_KEY(statement, "statement");
SW_KEY(cached, "cached");

static struct sw_detached detached;

static void *end_detached(void *unused) {
    sw_detached_end(&detached);
    return unused;
}

int main(int count, char **words) {
    if (count != 3) return 2;
    struct sw_resource resource = { "service.version", "7" };
    struct sw_options options = { .size = sizeof options, .dir = words[2], .service_name = "own",
                                  .policy = strcmp(words[1], "lttng") ? SW_ROLL : SW_LTTNG,
                                  .resource = &resource, .resource_count = 1 };
    int error = sw_start(&options);
    if (error) return -error;
    struct sw_context from;
    if (sw_parse("00-0102030405060708090a0b0c0d0e0f10-1111111111111111-01", 55, &from)) return 3;
    for (int i = 0; i < 3; i++) {
        sw_span outer = sw_begin_remote(&request, &from);
        sw_span inner = sw_begin(&query);
        struct sw_attr attrs[] = { sw_i64(&rows, 42), sw_f64(&share, 0.5), sw_bool(&good, 1), sw_string(&statement, "SELECT 1", 8) };
        sw_attrs(inner, attrs, 4);
        sw_event(inner, &cached, attrs, 1);
        sw_link(inner, &from, attrs + 1, 1);
        sw_log(SW_WARN, "slow", attrs + 2, 1);
        sw_set_status(inner, SW_ERROR);
        sw_set_status_message(inner, "no such table");
        sw_end(inner);
        sw_set_tracestate(outer, "a=b");
        sw_end(outer);
    }
    sw_detached_begin(&detached, &task, &from);
    struct sw_attr attr = sw_i64(&rows, 1);
    sw_detached_attrs(&detached, &attr, 1);
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_detached, NULL) || pthread_join(thread, NULL)) return 4;
    return -sw_stop();
}
