/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Goroutines. A thread-local variable of Go's runtime points to the current runtime.g. Its fields
 * contain the goroutine's number and that of its creator. Numbers are never reused.
 *
 * Some connections are written by their own goroutines on behalf of others. Functions of net/http
 * and gRPC reveal for whom: task_go_clients.h. */
#ifndef SPANWISE_TASK_GO_H
#define SPANWISE_TASK_GO_H

/* Indexes in task_rule.offset. */
enum task_go {
    TASK_GO_G, /* of the variable, from the thread pointer */
    TASK_GO_NUMBER, /* of runtime.g: goid, */
    TASK_GO_PARENT, /* parentGoid, */
    TASK_GO_M, /* m, */
    TASK_GO_CURRENT, /* and of runtime.m: curg */
    TASK_GO_HTTP_CONN, /* of net/http.persistConn: conn */
    TASK_GO_STREAM_NUMBER, /* of gRPC's streams: id, */
    TASK_GO_STREAM_INDIRECT, /* 1 if their first field points to the struct that has it, */
    TASK_GO_STREAM_CLIENT, /* and of client streams: ct */
    TASK_GO_CLIENT_CONN, /* of gRPC's http2Client: conn */
    TASK_GO_SERVER_CONN, /* of gRPC's http2Server: conn */
    TASK_GO_STREAM_METHOD, /* of gRPC's streams: method */
    TASK_GO_BIRTHS, /* no offset: 1 if the creation of goroutines is observed */
    TASK_GO_GIFTS, /* no offset: 1 if it is observed who gives goroutines what they wait for */
};

/* The goroutine on whose behalf a connection's own goroutine writes next. */
struct go_owner {
    struct task_ids ids;
    __u32 process;
    __u32 written; /* it has been written: what follows is the rest */
};
/* By socket address. Entries stay after the write until the socket is closed, so that the writing
 * goroutine is not taken for the owner. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 65536);
    __type(key, __u64);
    __type(value, struct go_owner);
} go_owners SEC(".maps");

struct go_key {
    __u64 goroutine; /* its number */
    __u64 process;
};
struct go_birth {
    __u64 parent;
    __u64 told;
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 65536);
    __type(key, struct go_key);
    __type(value, struct go_birth);
} go_births SEC(".maps");

/* Which goroutines have last given something to one that waited for it at a channel. */
#define GO_GIVERS 4
struct go_giver {
    struct task_ids ids;
    __u64 time_nano;
};
struct go_given {
    struct go_giver by[GO_GIVERS];
    __u64 count;
    __u64 told; /* of them */
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, struct go_key);
    __type(value, struct go_given);
} go_given SEC(".maps");

/* Maximum number of ancestors that are reported. */
#define GO_GENERATIONS 6

/* Reports a task: its parent, or a connection's stream. */
static __always_inline bool tell_task(__u64 process, const struct task_ids *ids,
                                      __u64 connection, __u32 stream)
{
    struct spanwise_event *event = bpf_ringbuf_reserve(&events, sizeof *event, 0);
    if (!event) {
        __sync_fetch_and_add(&tallies.lost_lifecycle, 1);
        return false;
    }
    fill(event, SPANWISE_TASK, 0, process << 32, bpf_ktime_get_ns());
    event->connection = connection;
    event->length = stream;
    event->task = ids->task;
    event->parent_task = ids->parent;
    bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    return true;
}

/* Reports the ancestors of a goroutine, each once, when they are about to matter. */
static __always_inline void go_tell_ancestors(__u64 process, __u64 goroutine)
{
    for (int i = 0; i < GO_GENERATIONS; i++) {
        struct go_key key = { .goroutine = goroutine, .process = process };
        struct go_birth *birth = bpf_map_lookup_elem(&go_births, &key);
        if (!birth || birth->told)
            return;
        struct task_ids ids = { .task = goroutine, .parent = birth->parent };
        birth->told = tell_task(process, &ids, 0, 0);
        goroutine = ids.parent;
    }
}

/* Reports who gave something to a goroutine since this was last reported, in order. */
static __always_inline void go_tell_givers(__u64 process, __u64 goroutine)
{
    struct go_key key = { .goroutine = goroutine, .process = process };
    struct go_given *given = bpf_map_lookup_elem(&go_given, &key);
    if (!given)
        return;
    __u64 count = given->count, told = given->told;
    given->told = count;
    if (count - told > GO_GIVERS)
        told = count - GO_GIVERS;
    for (int i = 0; i < GO_GIVERS && told + i < count; i++) {
        const struct go_giver *by = &given->by[(told + i) & (GO_GIVERS - 1)];
        struct spanwise_event *event = bpf_ringbuf_reserve(&events, sizeof *event, 0);
        if (!event) {
            __sync_fetch_and_add(&tallies.lost_lifecycle, 1);
            return;
        }
        fill(event, SPANWISE_TASK, 0, process << 32, by->time_nano);
        event->direction = 3;
        event->task = goroutine;
        event->parent_task = by->ids.parent;
        event->connection = by->ids.task;
        bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    }
}

static __always_inline bool go_numbers(const struct task_rule *rule, __u64 g, struct task_ids *ids)
{
    if (bpf_probe_read_user(&ids->task, 8, (void *)(g + rule->offset[TASK_GO_NUMBER])) || !ids->task
        || bpf_probe_read_user(&ids->parent, 8, (void *)(g + rule->offset[TASK_GO_PARENT]))) {
        ids->task = 0;
        ids->parent = 0;
        return false;
    }
    return true;
}

static __always_inline void go_running(const struct task_rule *rule, struct task_ids *ids)
{
    __u64 g, m;
    if (bpf_probe_read_user(&g, 8, (void *)(thread_pointer() + (__s64)rule->offset[TASK_GO_G]))
        || go_numbers(rule, g, ids))
        return;
    /* During a C call, the thread is on a stack without a number. Its runtime.m says which
     * goroutine called. */
    if (bpf_probe_read_user(&m, 8, (void *)(g + rule->offset[TASK_GO_M]))
        || bpf_probe_read_user(&g, 8, (void *)(m + rule->offset[TASK_GO_CURRENT])) || !g)
        return;
    go_numbers(rule, g, ids);
}

/* On whose behalf the current goroutine uses a socket: its own, unless it writes for others. */
static __always_inline void go_current(const struct task_rule *rule, struct task_lookup *lookup)
{
    __u64 written = lookup->written;
    struct go_owner *owner = written ? bpf_map_lookup_elem(&go_owners, &written) : 0;
    if (owner && owner->process == process_of(lookup)) {
        if (!owner->written)
            lookup->ids = owner->ids;
        owner->written = 1;
    } else {
        go_running(rule, &lookup->ids);
    }
    if (rule->offset[TASK_GO_BIRTHS] && lookup->written && lookup->ids.parent)
        go_tell_ancestors(process_of(lookup), lookup->ids.parent);
    if (rule->offset[TASK_GO_GIFTS] && lookup->written && lookup->ids.task)
        go_tell_givers(process_of(lookup), lookup->ids.task);
}

#endif
