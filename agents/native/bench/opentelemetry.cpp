// What a span costs with opentelemetry-cpp, simple and batching: a peer of the library. Its exporter
// throws spans away, so this is the least that it can cost.
#include <opentelemetry/sdk/trace/batch_span_processor.h>
#include <opentelemetry/sdk/trace/batch_span_processor_options.h>
#include <opentelemetry/sdk/trace/exporter.h>
#include <opentelemetry/sdk/trace/simple_processor.h>
#include <opentelemetry/sdk/trace/span_data.h>
#include <opentelemetry/sdk/trace/tracer_provider.h>

#include <cstdio>
#include <memory>

#include "timing.h"

namespace sdk = opentelemetry::sdk;
using opentelemetry::nostd::shared_ptr;
using opentelemetry::trace::Tracer;

namespace {

class Discarding final : public sdk::trace::SpanExporter {
  public:
    std::unique_ptr<sdk::trace::Recordable> MakeRecordable() noexcept override {
        return std::make_unique<sdk::trace::SpanData>();
    }
    sdk::common::ExportResult
    Export(const opentelemetry::nostd::span<std::unique_ptr<sdk::trace::Recordable>> &) noexcept override {
        return sdk::common::ExportResult::kSuccess;
    }
    bool ForceFlush(std::chrono::microseconds) noexcept override { return true; }
    bool Shutdown(std::chrono::microseconds) noexcept override { return true; }
};

shared_ptr<Tracer> tracer;

void span() { tracer->StartSpan("benchmark")->End(); }

void measure(const char *name, std::unique_ptr<sdk::trace::SpanProcessor> processor) {
    constexpr int ROUNDS = 101, SPANS = 1000;
    sdk::trace::TracerProvider provider(std::move(processor));
    tracer = provider.GetTracer("benchmark");
    double each[ROUNDS];
    for (double &of : each) {
        double from = nanoseconds();
        for (int i = 0; i < SPANS; i++) span();
        of = (nanoseconds() - from) / SPANS;
        usleep(5000); // its thread takes the batch
    }
    std::printf("figure opentelemetry_cpp.%s_hot_ns %.0f\n", name, median(each, ROUNDS));
    std::printf("figure opentelemetry_cpp.%s_cold_ns %.0f\n", name, cold_nanoseconds(span));
    tracer = shared_ptr<Tracer>();
}

} // namespace

int main() {
    measure("simple", std::make_unique<sdk::trace::SimpleSpanProcessor>(std::make_unique<Discarding>()));
    sdk::trace::BatchSpanProcessorOptions options;
    measure("batching", std::make_unique<sdk::trace::BatchSpanProcessor>(std::make_unique<Discarding>(), options));
}
