// The C++ wrapper: spans end with their scope, also by an exception.
#include "spanwise.hpp"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

static int open_spans(int n) {
    SPANWISE_SPAN(span, "outer", SW_SERVER);
    SW_KEY(count, "count");
    SW_KEY(text, "text");
    span.set(count, n);
    span.set(text, "value");
    span.set(text, 1.5);
    SPANWISE_SPAN(inner, "inner", SW_INTERNAL);
    if (n > 1) throw std::runtime_error("thrown");
    return span.recorded() && inner.recorded();
}

int main() {
    char dir[] = "/tmp/spanwise-wrapper-XXXXXX";
    sw_options options = {};
    options.size = sizeof options;
    options.dir = mkdtemp(dir);
    options.service_name = "wrapper";
    if (sw_start(&options)) return 1;
    bool thrown = false;
    int recorded = open_spans(1);
    try {
        open_spans(2);
    } catch (const std::runtime_error &) {
        thrown = true;
    }
    sw_context context;
    int current = sw_current(&context);
    sw_stop();
    std::system((std::string("rm -rf ") + dir).c_str());
    if (!recorded || !thrown || current == 0) {
        std::fprintf(stderr, "wrapper: a span did not end with its scope\n");
        return 1;
    }
    std::puts("wrapper: ok");
}
