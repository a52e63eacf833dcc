/* The ring, killed after every instruction.
 *
 * A child makes spans; its parent steps it instruction by instruction and reads its files after
 * each, as a reader would find them after kill -9 at this very place. That is every state that a
 * crash can leave, of the code itself and not of a model of it: of whole blocks of nested spans and
 * of changes of block. At each: spans begun are stored or open, and no span is there twice.
 */
#include "../src/internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

struct progress {
    volatile uint64_t begun, ended, step_from, done;
};

SW_SITE(outer, "outer", SW_SERVER, SW_INFO);
SW_SITE(inner, "inner", SW_INTERNAL, SW_INFO);
SW_KEY(key, "key");

static void one(struct progress *p, int remote) {
    struct sw_context parent = { 1, 2, 3, 1 };
    sw_span a = remote ? sw_begin_remote(&outer, &parent) : sw_begin(&outer);
    p->begun++;
    struct sw_attr attr = sw_i64(&key, 7);
    if (remote) sw_attrs(a, &attr, 1);
    sw_span b = sw_begin(&inner);
    p->begun++;
    sw_end(b);
    p->ended++;
    sw_end(a);
    p->ended++;
}

static void child(const char *dir, struct progress *p, enum sw_policy policy) {
    struct sw_options o = { .size = sizeof o, .dir = dir, .service_name = "steps", .policy = policy, .ring_bytes = 2 * BLOCK };
    if (sw_start(&o)) _exit(1);
    sw_stop(); /* no other thread while it is stepped; then on again */
    atomic_store(&sw_lib.started, 1);
    memset((void *)(uintptr_t)sw_lib.process->enabled, 1, SITES_MAX);
    one(p, 1);
    p->step_from = 1;
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    for (int i = 0; i < 20; i++) one(p, i % 3 == 0);
    /* To just before the block's end at full speed, then over it by steps. */
    p->step_from = 0;
    raise(SIGSTOP);
    while (sw_thread->end - sw_thread->at > 10) one(p, 0);
    p->step_from = 1;
    raise(SIGSTOP);
    for (int i = 0; i < 6; i++) one(p, i == 3);
    p->done = 1;
    raise(SIGSTOP);
    _exit(0);
}

static struct ring_file *find(const char *dir) {
    DIR *d = opendir(dir);
    struct ring_file *found = NULL;
    for (struct dirent *e; !found && (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (n < 5 || strcmp(e->d_name + n - 5, ".ring")) continue;
        char path[512];
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        int fd = open(path, O_RDONLY);
        found = mmap(NULL, HEADER + 2 * BLOCK, PROT_READ, MAP_SHARED, fd, 0);
        close(fd);
    }
    closedir(d);
    return found;
}

/* Reads the ring from `from` on. Returns complete spans; their last start and depth. */
static uint64_t spans_of(const struct ring_file *f, uint64_t *last_start, uint64_t *last_depth) {
    const uint8_t *data = (const uint8_t *)f + HEADER;
    uint64_t head = f->head, spans = 0;
    uint64_t first = (head + BLOCK - 1) / BLOCK > 2 ? (head + BLOCK - 1) / BLOCK - 2 : 0;
    for (uint64_t b = first; b * BLOCK < head; b++) {
        const uint64_t *w = (const uint64_t *)(const void *)(data + b % 2 * BLOCK);
        uint64_t used = head - b * BLOCK < BLOCK ? head - b * BLOCK : BLOCK, before = spans, base = w[2], previous = 0;
        if (w[1] != b) continue;
        if (b == first) spans = w[3];
        else if (w[3] != before) return UINT64_MAX;
        for (uint64_t at = 4; at < used / 8;) {
            uint8_t type = (uint8_t)w[at];
            uint64_t depth = w[at] >> 8 & 255, start = 0;
            if (type == PAD) break;
            if (type == SPAN) start = base + (w[at] >> 32) - (w[at + 1] & 0xffffffffffff);
            if (type == SPAN_LONG) start = w[at + 1];
            if (type == CLOCK) base = w[at + 1];
            if (start) {
                if (start == previous) return UINT64_MAX;
                previous = *last_start = start;
                *last_depth = depth;
                spans++;
            }
            at += type == SPAN ? 2 : w[at] >> 32 & 0xffff;
        }
    }
    return spans;
}

static uint64_t check(const struct ring_file *f, const struct progress *p, uint64_t step) {
    uint64_t start = 0, depth = 99;
    uint64_t spans = spans_of(f, &start, &depth), open = f->depth;
    /* The one that was killed between its record and its slot is in both. */
    if (open && depth == open - 1 && f->slots[depth].start == start) open--;
    bool good = spans >= p->ended && spans <= p->ended + 1 && spans + open >= p->begun && spans + open <= p->begun + 1 &&
                f->dropped_full + f->dropped_ends + f->misused == 0;
    if (!good) {
        fprintf(stderr, "every_instruction: after step %llu: %llu begun, %llu ended; stored %llu, open %llu\n", (unsigned long long)step,
                (unsigned long long)p->begun, (unsigned long long)p->ended, (unsigned long long)spans, (unsigned long long)open);
        exit(1);
    }
    return 1;
}

static void run(enum sw_policy policy) {
    char dir[] = "/tmp/spanwise-steps-XXXXXX";
    if (!mkdtemp(dir)) exit(1);
    struct progress *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork();
    if (!pid) child(dir, p, policy);
    int status;
    waitpid(pid, &status, 0);
    if (!WIFSTOPPED(status)) exit(fprintf(stderr, "every_instruction: the child ended: %d\n", status));
    const struct ring_file *f = find(dir);
    uint64_t checked = 0;
    while (!p->done) {
        if (ptrace(p->step_from ? PTRACE_SINGLESTEP : PTRACE_CONT, pid, NULL, NULL)) exit(1);
        waitpid(pid, &status, 0);
        if (!WIFSTOPPED(status)) exit(1);
        checked += check(f, p, checked);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command) || checked < 2000) exit(fprintf(stderr, "every_instruction: only %llu states\n", (unsigned long long)checked));
    printf("every_instruction: ok, %llu states\n", (unsigned long long)checked);
}

int main(void) {
    run(SW_OVERWRITE);
    run(SW_DROP);
    return 0;
}
