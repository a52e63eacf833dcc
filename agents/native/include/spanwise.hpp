// RAII over spanwise.h. C++17, header only.
//
//     SPANWISE_SPAN(span, "handle request", SW_SERVER);
//     span.set(key, 42);
#ifndef SPANWISE_HPP
#define SPANWISE_HPP

#include "spanwise.h"

#include <string_view>
#include <type_traits>

namespace spanwise {

/// A span that ends with its scope.
class Span {
public:
    explicit Span(sw_site &site) noexcept : span_(sw_begin(&site)) {}
    Span(sw_site &site, const sw_context &parent) noexcept : span_(sw_begin_remote(&site, &parent)) {}
    Span(const Span &) = delete;
    Span &operator=(const Span &) = delete;
    ~Span() { end(); }

    void end() noexcept {
        if (span_) sw_end(span_);
        span_ = 0;
    }
    bool recorded() const noexcept { return span_ != 0; }
    void status(sw_status status) noexcept { sw_set_status(span_, status); }
    template <class Number>
    std::enable_if_t<std::is_arithmetic_v<Number>, int> set(sw_key &key, Number value) noexcept {
        sw_attr attr;
        if constexpr (std::is_same_v<Number, bool>) attr = sw_bool(&key, value);
        else if constexpr (std::is_floating_point_v<Number>) attr = sw_f64(&key, static_cast<double>(value));
        else attr = sw_i64(&key, static_cast<int64_t>(value));
        return sw_attrs(span_, &attr, 1);
    }
    int set(sw_key &key, std::string_view value) noexcept {
        sw_attr attr = sw_string(&key, value.data(), value.size());
        return sw_attrs(span_, &attr, 1);
    }
    int set(sw_key &key, const char *value) noexcept { return set(key, std::string_view(value)); }
    int event(sw_key &name) noexcept { return sw_event(span_, &name, nullptr, 0); }
    int context(sw_context &to) const noexcept { return sw_context_of(span_, &to); }

private:
    sw_span span_;
};

} // namespace spanwise

#define SPANWISE_SPAN(variable, name, kind)            \
    SW_SITE(variable##_site, name, kind, SW_INFO);     \
    ::spanwise::Span variable(variable##_site)

#endif
