/* Passes requests on: proxy FRONT BACK DIR COUNT. Many may be under way, so its spans belong to no
 * thread's stack. It ends after COUNT answers. */
#include "parts.h"

#define WAYS 256

SW_SITE(forward, "forward", SW_SERVER, SW_INFO);

static struct way {
    uint8_t from[64];
    int length;
    struct sw_detached span;
} ways[WAYS];

/* The request of this client that is under way, or a free place. */
static struct way *way_of(const uint8_t *from, int length) {
    for (int i = 0; i < WAYS; i++) {
        if (ways[i].length == length && !memcmp(ways[i].from, from, (size_t)length)) return &ways[i];
    }
    return NULL;
}

int main(int count, char **words) {
    if (count != 5) return 2;
    begin_program("quotes-proxy", words[3]);
    void *context = zmq_ctx_new(), *front = zmq_socket(context, ZMQ_ROUTER), *back = zmq_socket(context, ZMQ_DEALER);
    must(zmq_bind(front, words[1]), "zmq_bind");
    must(zmq_connect(back, words[2]), "zmq_connect");
    zmq_pollitem_t sockets[] = { { front, 0, ZMQ_POLLIN, 0 }, { back, 0, ZMQ_POLLIN, 0 } };
    for (int answers = 0; answers < atoi(words[4]);) {
        if (must(zmq_poll(sockets, 2, 10000), "zmq_poll") == 0) break;
        uint8_t from[64], carried[32];
        char payload[256];
        if (sockets[0].revents) {
            int length = must(zmq_recv(front, from, sizeof from, 0), "zmq_recv");
            must(zmq_recv(front, payload, sizeof payload, 0), "zmq_recv"); /* the empty frame */
            int bytes = must(zmq_recv(front, carried, sizeof carried, 0), "zmq_recv");
            int size = must(zmq_recv(front, payload, sizeof payload, 0), "zmq_recv");
            struct way *way = way_of(from, length);
            if (!way) way = way_of(from, 0);
            struct sw_context parent, own = { 0, 0, 0, 0 };
            int known = !sw_unpack(carried, (size_t)bytes, &parent);
            if (way) {
                memcpy(way->from, from, (size_t)length);
                way->length = length;
                sw_detached_begin(&way->span, &forward, known ? &parent : NULL);
                own = way->span.context;
            }
            must(zmq_send(back, from, (size_t)length, ZMQ_SNDMORE), "zmq_send");
            must(zmq_send(back, "", 0, ZMQ_SNDMORE), "zmq_send");
            send_context(back, &own);
            must(zmq_send(back, payload, (size_t)(size > 256 ? 256 : size), 0), "zmq_send");
        }
        if (sockets[1].revents) {
            int length = must(zmq_recv(back, from, sizeof from, 0), "zmq_recv");
            must(zmq_recv(back, payload, sizeof payload, 0), "zmq_recv");
            int size = must(zmq_recv(back, payload, sizeof payload, 0), "zmq_recv");
            must(zmq_send(front, from, (size_t)length, ZMQ_SNDMORE), "zmq_send");
            must(zmq_send(front, "", 0, ZMQ_SNDMORE), "zmq_send");
            must(zmq_send(front, payload, (size_t)size, 0), "zmq_send");
            struct way *way = way_of(from, length);
            if (way) {
                sw_detached_end(&way->span);
                way->length = 0;
            }
            answers++;
        }
    }
    zmq_close(front);
    zmq_close(back);
    zmq_ctx_term(context);
    return -sw_stop();
}
