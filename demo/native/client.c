/* Asks for quotes: client ENDPOINT DIR COUNT. */
#include "parts.h"

SW_SITE(quote, "get quote", SW_CLIENT, SW_INFO);
SW_KEY(symbol, "quote.symbol");

int main(int count, char **words) {
    if (count != 4) return 2;
    begin_program("quotes-client", words[2]);
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_REQ);
    int patience = 5000;
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience, sizeof patience);
    must(zmq_connect(socket, words[1]), "zmq_connect");
    const char *symbols[] = { "ACME", "INIT", "NONE" };
    for (int i = 0; i < atoi(words[3]); i++) {
        const char *asked = symbols[i % 3];
        char answer[64];
        sw_span span = sw_begin(&quote);
        struct sw_attr attr = sw_string(&symbol, asked, strlen(asked));
        sw_attrs(span, &attr, 1);
        struct sw_context own;
        sw_context_of(span, &own);
        send_context(socket, &own);
        must(zmq_send(socket, asked, strlen(asked), 0), "zmq_send");
        int length = must(zmq_recv(socket, answer, sizeof answer, 0), "no answer");
        if (length == 7 && !memcmp(answer, "unknown", 7)) sw_set_status(span, SW_ERROR);
        sw_end(span);
    }
    zmq_close(socket);
    zmq_ctx_term(context);
    return -sw_stop();
}
