#include "common/python/layout.h"

#include <algorithm>
#include <array>

namespace cairn::python {
namespace {

// By offsetof() with the headers of 3.7.16, 3.8.18, 3.9.18, 3.10.13, 3.11.2 and 3.11.7, 3.12.1 and 3.13.0.
// PyThreadState and PyCodeObject are in public headers, which stay as they are within a version.
constexpr Layout of_9 = {.minor = 9,
                         .interpreters = 32,
                         .threads = 8,
                         .next_interpreter = 0,
                         .next_thread = 8,
                         .thread_id = 176,
                         .current = 24,
                         .has_cframe = false,
                         .cframe_current = 0,
                         .code = 32,
                         .previous = 24,
                         .instruction = 104,
                         .owner = 0,
                         .is_entry = 0,
                         .file = 104,
                         .name = 112,
                         .first_line = 40,
                         .line_table = 120,
                         .instructions = 0,
                         .ascii = 48,
                         .compact = 72};

constexpr Layout of_7 = [] {
    Layout layout = of_9;
    layout.minor = 7;
    layout.interpreters = 24;
    layout.file = 96;
    layout.name = 104;
    layout.first_line = 36;
    layout.line_table = 112;
    return layout;
}();

constexpr Layout of_8 = [] {
    Layout layout = of_9;
    layout.minor = 8;
    return layout;
}();

constexpr Layout of_10 = [] {
    Layout layout = of_9;
    layout.minor = 10;
    layout.instruction = 96;
    return layout;
}();

constexpr Layout of_11 = {.minor = 11,
                          .interpreters = 40,
                          .threads = 16,
                          .next_interpreter = 0,
                          .next_thread = 8,
                          .thread_id = 152,
                          .current = 56,
                          .has_cframe = true,
                          .cframe_current = 8,
                          .code = 32,
                          .previous = 48,
                          .instruction = 56,
                          .owner = 69,
                          .is_entry = 68,
                          .file = 112,
                          .name = 128,
                          .first_line = 72,
                          .line_table = 136,
                          .instructions = 184,
                          .ascii = 48,
                          .compact = 72};

constexpr Layout of_12 = [] {
    Layout layout = of_11;
    layout.minor = 12;
    layout.threads = 72;
    layout.thread_id = 136;
    layout.cframe_current = 0;
    layout.code = 0;
    layout.previous = 8;
    layout.owner = 70;
    layout.is_entry = 0;
    layout.first_line = 68;
    layout.instructions = 192;
    layout.ascii = 40;
    layout.compact = 56;
    return layout;
}();

constexpr Layout of_13 = [] {
    Layout layout = of_12;
    layout.minor = 13;
    layout.interpreters = layout.threads = 0;
    layout.thread_id = 152;
    layout.current = 72;
    layout.has_cframe = false;
    layout.instructions = 200;
    return layout;
}();

constexpr std::array layouts = {of_7, of_8, of_9, of_10, of_11, of_12, of_13};

}  // namespace

const Layout* layout_of(unsigned minor) {
    const auto* const found = std::ranges::find(layouts, minor, &Layout::minor);
    return found == layouts.end() ? nullptr : found;
}

}  // namespace cairn::python
