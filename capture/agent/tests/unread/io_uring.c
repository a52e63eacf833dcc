/* Uses a socket through io_uring in every way in which the registers show another system call.
 * Arguments: a port of 127.0.0.1 where each message is answered with the same number of bytes; and
 * any text, if no other call may use the socket. Exits with 77 if the kernel has no io_uring. */
#include <arpa/inet.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct ring {
    int fd;
    unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static struct ring ring(unsigned flags)
{
    struct io_uring_params p = { .flags = flags, .sq_thread_idle = 1000 };
    struct ring r = { .fd = syscall(SYS_io_uring_setup, 8, &p) };
    if (r.fd < 0) {
        perror("io_uring_setup");
        exit(77);
    }
    size_t sq_size = p.sq_off.array + p.sq_entries * sizeof(unsigned);
    size_t cq_size = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
    char *sq = mmap(0, sq_size, PROT_READ | PROT_WRITE, MAP_SHARED, r.fd, IORING_OFF_SQ_RING);
    char *cq = mmap(0, cq_size, PROT_READ | PROT_WRITE, MAP_SHARED, r.fd, IORING_OFF_CQ_RING);
    r.sqes = mmap(0, p.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
                  MAP_SHARED, r.fd, IORING_OFF_SQES);
    if (sq == MAP_FAILED || cq == MAP_FAILED || r.sqes == MAP_FAILED)
        fail("mmap");
    r.sq_tail = (unsigned *)(sq + p.sq_off.tail);
    r.sq_mask = (unsigned *)(sq + p.sq_off.ring_mask);
    r.sq_array = (unsigned *)(sq + p.sq_off.array);
    r.cq_head = (unsigned *)(cq + p.cq_off.head);
    r.cq_tail = (unsigned *)(cq + p.cq_off.tail);
    r.cq_mask = (unsigned *)(cq + p.cq_off.ring_mask);
    r.cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
    return r;
}

static void submit(struct ring *r, int op, int fd, void *buffer, unsigned length, unsigned flags)
{
    unsigned at = *r->sq_tail & *r->sq_mask;
    struct io_uring_sqe *sqe = &r->sqes[at];
    memset(sqe, 0, sizeof *sqe);
    sqe->opcode = op;
    sqe->fd = fd;
    sqe->addr = (unsigned long)buffer;
    sqe->len = length;
    sqe->flags = flags;
    r->sq_array[at] = at;
    __atomic_store_n(r->sq_tail, *r->sq_tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, r->fd, 1, 0, IORING_ENTER_SQ_WAKEUP, 0, 0) < 0)
        fail("io_uring_enter");
}

static void await(struct ring *r, int expected)
{
    while (__atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE) == *r->cq_head)
        if (syscall(SYS_io_uring_enter, r->fd, 0, 1, IORING_ENTER_GETEVENTS, 0, 0) < 0)
            fail("io_uring_enter");
    int result = r->cqes[*r->cq_head & *r->cq_mask].res;
    __atomic_store_n(r->cq_head, *r->cq_head + 1, __ATOMIC_RELEASE);
    if (result != expected) {
        fprintf(stderr, "result %d, not %d\n", result, expected);
        exit(1);
    }
}

static int pipe_ends[2];
static int socket_fd;

/* Makes the peer answer while the main thread waits in read, and ends the wait. */
static void *later(void *unused)
{
    usleep(50000);
    if (write(socket_fd, "plain", 5) != 5)
        fail("write");
    usleep(50000);
    if (write(pipe_ends[1], "x", 1) != 1)
        fail("write");
    return unused;
}

int main(int count, char **arguments)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])) };
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socket_fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(socket_fd, (struct sockaddr *)&to, sizeof to) || pipe(pipe_ends))
        fail("connect");
    char hidden[] = "hidden", into[64] = "";
    /* In the call that submits. */
    struct ring r = ring(0);
    submit(&r, IORING_OP_SEND, socket_fd, hidden, 6, 0);
    await(&r, 6);
    usleep(50000);
    submit(&r, IORING_OP_RECV, socket_fd, into, sizeof into, 0);
    await(&r, 6);
    /* In a kernel thread. */
    submit(&r, IORING_OP_SEND, socket_fd, hidden, 6, IOSQE_ASYNC);
    await(&r, 6);
    submit(&r, IORING_OP_RECV, socket_fd, into, sizeof into, IOSQE_ASYNC);
    await(&r, 6);
    /* While another call waits, whose buffer does not contain the received data. */
    char secret[64] = "SECRET SECRET SECRET";
    submit(&r, IORING_OP_RECV, socket_fd, into, sizeof into, 0);
    pthread_t thread;
    if (count > 2)
        return 0;
    pthread_create(&thread, 0, later, 0);
    if (read(pipe_ends[0], secret, sizeof secret) != 1)
        fail("read");
    await(&r, 5);
    pthread_join(thread, 0);
    /* In a thread that polls for submissions. */
    struct ring polled = ring(IORING_SETUP_SQPOLL);
    submit(&polled, IORING_OP_SEND, socket_fd, hidden, 6, 0);
    await(&polled, 6);
    submit(&polled, IORING_OP_RECV, socket_fd, into, sizeof into, 0);
    await(&polled, 6);
    return 0;
}
