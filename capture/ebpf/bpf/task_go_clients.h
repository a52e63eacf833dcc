/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Probes on functions of Go programs that reveal for which goroutine a connection, or a stream of
 * one, is written or read. */
#ifndef SPANWISE_TASK_GO_CLIENTS_H
#define SPANWISE_TASK_GO_CLIENTS_H

#if defined(__TARGET_ARCH_x86)
/* Go's register ABI (go.dev/s/regabi). */
#define GO_ARG1(context) ((context)->ax)
#define GO_ARG2(context) ((context)->bx)
#define GO_ARG3(context) ((context)->cx)
#define GO_ARG4(context) ((context)->di)
#define GO_RESULT1(context) ((context)->ax)
#define GO_GOROUTINE(context) ((context)->r14)
#else
#define GO_ARG1(context) ((context)->user_regs.regs[0])
#define GO_ARG2(context) ((context)->user_regs.regs[1])
#define GO_ARG3(context) ((context)->user_regs.regs[2])
#define GO_ARG4(context) ((context)->user_regs.regs[3])
#define GO_RESULT1(context) ((context)->user_regs.regs[0])
#define GO_GOROUTINE(context) ((context)->user_regs.regs[28])
#endif

/* The value word of an interface, after its type word. */
#define GO_INTERFACE_VALUE 8
/* poll.FD, the first field of net.netFD: a mutex of two words, then the descriptor. */
#define GO_POLL_FD_NUMBER 16
#define GO_MOST_DESCRIPTORS (1 << 20)
/* Maximum number of wrapped connections that are followed. */
#define GO_MOST_WRAPPED 4

/* The socket of a net.Conn with this value; 0 if it is not found. A TCPConn begins with the address
 * of its netFD. A wrapper such as tls.Conn begins with an interface. There, the type's memory does
 * not contain a valid descriptor at that offset. */
__noinline __u64 go_socket(__u64 value)
{
    for (int i = 0; i < GO_MOST_WRAPPED; i++) {
        struct {
            __u64 first, second;
        } words;
        __u64 number;
        if (!value || bpf_probe_read_user(&words, sizeof words, (void *)value))
            return 0;
        if (!bpf_probe_read_user(&number, 8, (void *)(words.first + GO_POLL_FD_NUMBER))
            && number < GO_MOST_DESCRIPTORS) {
            __u64 socket = (__u64)socket_of(number);
            if (socket)
                return socket;
        }
        value = words.second;
    }
    return 0;
}

/* The rule of a Go process, and the numbers of the goroutine in a function's registers; 0 if
 * unknown. */
static __always_inline struct task_rule *go_caller(struct pt_regs *context, __u32 process,
                                                   struct task_ids *ids)
{
    struct task_rule *rule = bpf_map_lookup_elem(&task_rules, &process);
    if (!rule || rule->kind != TASK_GO || !go_numbers(rule, GO_GOROUTINE(context), ids))
        return 0;
    return rule;
}

static const struct go_given go_nothing_given = {};

/* A goroutine gives another one something. */
static __always_inline int go_gives(__u32 process, const struct task_ids *giver, __u64 taker)
{
    struct go_key key = { .goroutine = taker, .process = process };
    struct go_given *given = bpf_map_lookup_elem(&go_given, &key);
    if (!given) {
        bpf_map_update_elem(&go_given, &key, &go_nothing_given, BPF_ANY);
        given = bpf_map_lookup_elem(&go_given, &key);
        if (!given)
            return 0;
    }
    struct go_giver *by = &given->by[given->count & (GO_GIVERS - 1)];
    by->ids = *giver;
    by->time_nano = bpf_ktime_get_ns();
    given->count++;
    return 0;
}

/* The goroutine of a runtime.sudog, which begins with it. */
static __always_inline bool go_waits(const struct task_rule *rule, __u64 sudog,
                                     struct task_ids *ids)
{
    __u64 g;
    return !bpf_probe_read_user(&g, 8, (void *)sudog) && go_numbers(rule, g, ids);
}

/* runtime.send(channel, waiting, …): this goroutine gives another one what that waits for. */
SEC("?uprobe")
int go_channel_send(struct pt_regs *context)
{
    __u32 process = bpf_get_current_pid_tgid() >> 32;
    struct task_ids ids = {}, waits = {};
    struct task_rule *rule = go_caller(context, process, &ids);
    if (!rule || !go_waits(rule, GO_ARG2(context), &waits))
        return 0;
    return go_gives(process, &ids, waits.task);
}

/* Of runtime.hchan: the size of its buffer. */
#define GO_CHANNEL_SIZE 8

/* runtime.recv(channel, waiting, …): this goroutine takes what another one waits to give. From a
 * channel with a buffer, it takes what somebody else has sent earlier. */
SEC("?uprobe")
int go_channel_receive(struct pt_regs *context)
{
    __u32 process = bpf_get_current_pid_tgid() >> 32;
    struct task_ids ids = {}, waits = {};
    struct task_rule *rule = go_caller(context, process, &ids);
    __u64 size;
    if (!rule || bpf_probe_read_user(&size, 8, (void *)(GO_ARG1(context) + GO_CHANNEL_SIZE))
        || size || !go_waits(rule, GO_ARG2(context), &waits))
        return 0;
    return go_gives(process, &waits, ids.task);
}

/* (*net/http.persistConn).roundTrip(pc, request): the connection's own goroutine will write the
 * request. */
SEC("?uprobe")
int go_http_round_trip(struct pt_regs *context)
{
    __u32 process = bpf_get_current_pid_tgid() >> 32;
    struct go_owner owner = { .process = process };
    struct task_rule *rule = go_caller(context, process, &owner.ids);
    __u64 value;
    if (!rule
        || bpf_probe_read_user(&value, 8,
                               (void *)(GO_ARG1(context) + rule->offset[TASK_GO_HTTP_CONN]
                                        + GO_INTERFACE_VALUE)))
        return 0;
    __u64 socket = go_socket(value);
    if (socket)
        bpf_map_update_elem(&go_owners, &socket, &owner, BPF_ANY);
    if (rule->offset[TASK_GO_GIFTS])
        go_tell_givers(process, owner.ids.task);
    return 0;
}

/* Marks a connection whose own goroutine writes for others. */
static __always_inline void go_is_shared(__u32 process, __u64 socket)
{
    struct go_owner *known = bpf_map_lookup_elem(&go_owners, &socket);
    if (known && known->process == process)
        return;
    struct go_owner others = { .process = process, .written = 1 };
    bpf_map_update_elem(&go_owners, &socket, &others, BPF_ANY);
}

/* What a stream asks for: addresses of Go's strings. */
struct go_asked {
    __u64 method; /* 0: it is a gRPC call */
    __u64 path;
};

/* Copies a string of at most this many bytes; -1 if it is longer or cannot be read. */
static __always_inline int go_text(__u64 address, void *to, const __u64 most)
{
    struct {
        __u64 first, bytes;
    } text;
    if (bpf_probe_read_user(&text, sizeof text, (void *)address))
        return -1;
    __u64 bytes = text.bytes;
    asm volatile("" : "+r"(bytes)); /* the verifier must see the register that it has checked */
    if (bytes > most || bpf_probe_read_user(to, bytes, (void *)text.first))
        return -1;
    return bytes;
}

/* Reports what a stream asks for. */
static __always_inline void go_tell_name(__u32 process, __u64 connection, __u32 stream,
                                         const struct go_asked *asked)
{
    struct spanwise_stream_name *name = bpf_ringbuf_reserve(&events, sizeof *name, 0);
    if (!name) {
        __sync_fetch_and_add(&tallies.lost_lifecycle, 1);
        return;
    }
    fill(&name->event, SPANWISE_STREAM_NAME, 0, (__u64)process << 32, bpf_ktime_get_ns());
    name->event.connection = connection;
    name->event.length = stream;
    int method = asked->method ? go_text(asked->method, name->method, STREAM_METHOD) : 0;
    int path = go_text(asked->path, name->path, STREAM_PATH);
    if (method < 0 || path <= 0) {
        bpf_ringbuf_discard(name, BPF_RB_NO_WAKEUP);
        return;
    }
    name->method_bytes = method;
    name->path_bytes = path;
    bpf_ringbuf_submit(name, BPF_RB_NO_WAKEUP);
}

/* A goroutine works on a stream of the connection with this net.Conn. */
static __always_inline int go_owns(__u32 process, const struct task_rule *rule,
                                   const struct task_ids *ids, __u64 conn, __u32 stream,
                                   const struct go_asked *asked)
{
    __u64 value;
    /* Streams opened by clients have odd numbers (RFC 9113, section 5.1.1). */
    if (!(stream & 1) || bpf_probe_read_user(&value, 8, (void *)(conn + GO_INTERFACE_VALUE)))
        return 0;
    __u64 socket = go_socket(value);
    __u64 *connection = socket ? bpf_map_lookup_elem(&connections_by_socket, &socket) : 0;
    if (!connection)
        return 0;
    go_is_shared(process, socket);
    if (rule->offset[TASK_GO_BIRTHS] && ids->parent)
        go_tell_ancestors(process, ids->parent);
    if (rule->offset[TASK_GO_GIFTS])
        go_tell_givers(process, ids->task);
    tell_task(process, ids, *connection, stream);
    __u64 *late = bpf_map_lookup_elem(&late_connections, &socket);
    if (late && *late == *connection)
        go_tell_name(process, *connection, stream, asked);
    return 0;
}

/* A goroutine works on a gRPC stream. */
static __always_inline int go_owns_call(__u32 process, const struct task_rule *rule,
                                        const struct task_ids *ids, __u64 conn, __u64 stream)
{
    __u32 number;
    if ((rule->offset[TASK_GO_STREAM_INDIRECT]
         && bpf_probe_read_user(&stream, 8, (void *)stream))
        || bpf_probe_read_user(&number, 4, (void *)(stream + rule->offset[TASK_GO_STREAM_NUMBER])))
        return 0;
    struct go_asked asked = { .path = stream + rule->offset[TASK_GO_STREAM_METHOD] };
    return go_owns(process, rule, ids, conn, number, &asked);
}

/* (*transport.http2Client).NewStream returns a stream, whose frames another goroutine writes. */
SEC("?uprobe")
int go_grpc_new_stream_end(struct pt_regs *context)
{
    __u32 process = bpf_get_current_pid_tgid() >> 32;
    struct task_ids ids = {};
    struct task_rule *rule = go_caller(context, process, &ids);
    __u64 stream = GO_RESULT1(context), client;
    if (!rule || !stream
        || bpf_probe_read_user(&client, 8,
                               (void *)(stream + rule->offset[TASK_GO_STREAM_CLIENT])))
        return 0;
    return go_owns_call(process, rule, &ids, client + rule->offset[TASK_GO_CLIENT_CONN], stream);
}

/* (*grpc.Server).handleStream(server, transport, stream) handles what another one has read. */
SEC("?uprobe")
int go_grpc_handle_stream(struct pt_regs *context)
{
    __u32 process = bpf_get_current_pid_tgid() >> 32;
    struct task_ids ids = {};
    struct task_rule *rule = go_caller(context, process, &ids);
    if (!rule)
        return 0;
    return go_owns_call(process, rule, &ids, GO_ARG3(context) + rule->offset[TASK_GO_SERVER_CONN],
                        GO_ARG4(context));
}

/* The fields from an HTTP/2 responseWriter to its stream, and the stream's own fields. */
#define GO_HTTP2_STREAM_NUMBER 8
#define GO_HTTP2_SERVER_CONN 16
/* Fields of net/http.Request; those before are older than Go 1, and public. */
#define GO_REQUEST_METHOD 0
#define GO_REQUEST_URI 192

/* (*serverConn).runHandler(server connection, writer, request, handler), likewise. */
SEC("?uprobe")
int go_http2_run_handler(struct pt_regs *context)
{
    __u32 process = bpf_get_current_pid_tgid() >> 32;
    struct task_ids ids = {};
    struct task_rule *rule = go_caller(context, process, &ids);
    __u64 state, stream;
    __u32 number;
    if (!rule || bpf_probe_read_user(&state, 8, (void *)GO_ARG2(context))
        || bpf_probe_read_user(&stream, 8, (void *)state)
        || bpf_probe_read_user(&number, 4, (void *)(stream + GO_HTTP2_STREAM_NUMBER)))
        return 0;
    struct go_asked asked = { .method = GO_ARG3(context) + GO_REQUEST_METHOD,
                              .path = GO_ARG3(context) + GO_REQUEST_URI };
    return go_owns(process, rule, &ids, GO_ARG1(context) + GO_HTTP2_SERVER_CONN, number, &asked);
}

/* runtime.newproc1 returns a goroutine that does not run yet. */
SEC("?uprobe")
int go_made_end(struct pt_regs *context)
{
    __u32 process = bpf_get_current_pid_tgid() >> 32;
    struct task_rule *rule = bpf_map_lookup_elem(&task_rules, &process);
    struct task_ids ids = {};
    if (!rule || rule->kind != TASK_GO || !go_numbers(rule, GO_RESULT1(context), &ids))
        return 0;
    struct go_key key = { .goroutine = ids.task, .process = process };
    struct go_birth birth = { .parent = ids.parent };
    bpf_map_update_elem(&go_births, &key, &birth, BPF_ANY);
    return 0;
}

#endif
