/* What the three programs have in common. A message is: envelope, empty frame, context, payload. */
#ifndef PARTS_H
#define PARTS_H
#include <errno.h>
#include <spanwise.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

static inline void begin_program(const char *service, const char *dir) {
    struct sw_options options = { .size = sizeof options, .dir = dir, .service_name = service };
    int error = sw_start(&options);
    if (error) {
        fprintf(stderr, "%s: cannot record to %s: %s\n", service, dir, strerror(-error));
        exit(1);
    }
}

static inline int must(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, zmq_strerror(errno));
        exit(1);
    }
    return result;
}

/* The frame that carries a span to the next program. */
static inline void send_context(void *socket, const struct sw_context *context) {
    uint8_t bytes[32];
    sw_pack(context, bytes);
    must(zmq_send(socket, bytes, sizeof bytes, ZMQ_SNDMORE), "zmq_send");
}
#endif
