/* Answers: server ENDPOINT DIR COUNT. */
#include "parts.h"

SW_SITE(handle, "handle quote", SW_SERVER, SW_INFO);
SW_SITE(look_up, "look up", SW_INTERNAL, SW_DEBUG);
SW_KEY(cents, "quote.cents");

int main(int count, char **words) {
    if (count != 4) return 2;
    begin_program("quotes-server", words[2]);
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_REP);
    int patience = 10000;
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience, sizeof patience);
    must(zmq_bind(socket, words[1]), "zmq_bind");
    for (int i = 0; i < atoi(words[3]); i++) {
        uint8_t carried[32];
        char asked[64] = "";
        int bytes = must(zmq_recv(socket, carried, sizeof carried, 0), "no request");
        must(zmq_recv(socket, asked, sizeof asked - 1, 0), "zmq_recv");
        struct sw_context parent;
        int known = !sw_unpack(carried, (size_t)bytes, &parent);
        sw_span span = known ? sw_begin_remote(&handle, &parent) : sw_begin(&handle);
        sw_span inner = sw_begin(&look_up);
        const char *answer = strcmp(asked, "NONE") ? "12345" : "unknown";
        struct sw_attr attr = sw_i64(&cents, atoi(answer));
        sw_attrs(inner, &attr, 1);
        sw_end(inner);
        if (*answer == 'u') {
            sw_log(SW_WARN, "no such symbol", NULL, 0);
            sw_set_status(span, SW_ERROR);
        }
        must(zmq_send(socket, answer, strlen(answer), 0), "zmq_send");
        sw_end(span);
    }
    zmq_close(socket);
    zmq_ctx_term(context);
    return -sw_stop();
}
