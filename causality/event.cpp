#include "causality/event.h"

#include <fmt/format.h>

#include <array>

namespace cairn::causality {

const char* name(Kind kind) {
    constexpr std::array<const char*, kinds> names = {"internal",   "send",       "receive", "collective",
                                                      "checkpoint", "breakpoint", "post",    "complete"};
    const auto at = static_cast<unsigned>(kind);
    return at < kinds ? names[at] : "unknown";
}

const char* name(Shape shape) {
    constexpr std::array<const char*, shapes> names = {"alone", "all", "from_root", "to_root"};
    const auto at = static_cast<unsigned>(shape);
    return at < shapes ? names[at] : "unknown";
}

const char* name(Leaked what) {
    constexpr std::array<const char*, leaked_kinds> names = {"communicator", "group", "type", "operation",
                                                             "request"};
    const auto at = static_cast<unsigned>(what);
    return at < leaked_kinds ? names[at] : "unknown";
}

std::string describe(const Place& place) {
    if (place.file.empty() && place.function.empty()) return place.call;
    std::string text = place.call.empty() ? "" : place.call + " at ";
    // Without debug information the file is a module and an offset in it.
    text += place.line != 0 ? fmt::format("{}:{}", place.file, place.line) : place.file;
    if (!place.function.empty()) text += fmt::format(" ({})", place.function);
    return text;
}

std::string describe(const Event& event) {
    std::string text = name(event.kind);
    if (event.kind == Kind::send)
        text += event.peer != none ? fmt::format(" to {}", event.peer) : " to nobody (its `to` is missing)";
    if (event.kind == Kind::receive && event.peer == none) {
        text += " from nobody (its `from` is missing)";
    } else if (event.kind == Kind::receive ||
               (event.peer != none && (event.kind == Kind::internal || event.kind == Kind::post)))
        text += fmt::format(" from {}", event.peer);
    if (event.kind == Kind::collective) text += fmt::format(" {}", name(event.shape));
    if (event.peer != none && event.kind == Kind::collective) text += fmt::format(" {}", event.peer);
    if (event.communicator != 0) text += fmt::format(", communicator {}", event.communicator);
    if (event.tag != 0) text += fmt::format(", tag {}", event.tag);
    if (event.message != 0) text += fmt::format(", message {}", event.message);
    if (event.request != 0) text += fmt::format(", request {}", event.request);
    return text;
}

}  // namespace cairn::causality
