// Errors are values: what failed, for whom, why; each layer adds its context in front.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <expected>
#include <string>
#include <type_traits>
#include <utility>

namespace cairn {

// Exit codes of every cairn program: an interface, documented in the man page.
enum class ExitCode : int {
    ok = 0,
    failed = 1,   // the thing asked for was not done; the message says why
    usage = 2,    // bad arguments
    refused = 3,  // refused by rule: a stranger to the group, a static program, a changed file, ...
    damaged = 4,  // an image or manifest is damaged, cut or of another version
    no_coordinator = 5,
    timed_out = 6,  // a deadline passed; the message names who waited for what
};

struct Error {
    std::string what;
    int number = 0;  // errno value, 0 if none
    ExitCode code = ExitCode::failed;
    bool passing = false;  // the next look may find it over

    // "context: what"
    [[nodiscard]] Error in(std::string_view context) && {
        what = fmt::format("{}: {}", context, what);
        return std::move(*this);
    }
};

template <class T = void>
using Result = std::expected<T, Error>;

template <class Value>
inline constexpr bool owns_nothing = std::is_void_v<Value> || std::is_trivially_destructible_v<Value>;

// Whether it has failed, and nothing of what it has given: CHECK_OK(error_of(meet(...))).
template <class Value>
[[nodiscard]] Result<> error_of(Result<Value> result) {
    if (result) return {};
    return std::unexpected(std::move(result).error());
}

template <class... Args>
[[nodiscard]] std::unexpected<Error> fail(fmt::format_string<Args...> form, Args&&... args) {
    return std::unexpected(Error{fmt::format(form, std::forward<Args>(args)...)});
}

// For a system call that has just failed: appends what errno means.
template <class... Args>
[[nodiscard]] std::unexpected<Error> fail_errno(fmt::format_string<Args...> form, Args&&... args) {
    const int number = errno;
    return std::unexpected(
        Error{fmt::format("{}: {}", fmt::format(form, std::forward<Args>(args)...), std::strerror(number)),
              number});
}

template <class... Args>
[[nodiscard]] std::unexpected<Error> fail_code(ExitCode code, fmt::format_string<Args...> form,
                                               Args&&... args) {
    return std::unexpected(Error{fmt::format(form, std::forward<Args>(args)...), 0, code});
}

}  // namespace cairn

// The value of a Result, or out of the function that this stands in, with its error. To be written as
// `auto value = TRY(call());` and not deeper in an expression, so that it is seen that the function may end
// here. A GNU statement expression, because no function can let its caller return.
#define TRY(...)                                                      \
    __extension__({                                                   \
        auto&& tried = (__VA_ARGS__);                                 \
        if (!tried) return std::unexpected(std::move(tried).error()); \
        *std::move(tried);                                            \
    })

// Out of the function with the error of a Result whose value, if it has one, isn't wanted. A value that owns
// something (a descriptor, another user's rights for as long as it lives) is wanted: auto held = TRY(...).
#define CHECK_OK(...)                                                                \
    do {                                                                             \
        auto checked = (__VA_ARGS__);                                                \
        static_assert(::cairn::owns_nothing<typename decltype(checked)::value_type>, \
                      "what the call has given would be given up at once");          \
        if (!checked) return std::unexpected(std::move(checked).error());            \
    } while (false)
