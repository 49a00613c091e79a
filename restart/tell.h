// Lines for whoever has started the restart. That nobody reads them (a pipe whose reader has gone, a closed
// or full standard error) is no reason not to go on: fmt::print would throw.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "common/printable.h"

namespace cairn::restart {

template <class... Args>
void tell(fmt::format_string<Args...> form, Args&&... args) {
    const std::string text = printable_lines(fmt::format(form, std::forward<Args>(args)...));
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace cairn::restart
