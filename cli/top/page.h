// The page that `cairn top` shows, as lines of text. Nothing here asks or waits.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/top/sample.h"

namespace cairn::top {

enum class Sort { tree, cpu, memory, dirty, pid };
[[nodiscard]] std::string_view name_of(Sort sort);
[[nodiscard]] Sort next_after(Sort sort);

enum class Style { plain, title, head, good, bad, dim };

struct Line {
    std::string text;
    Style style = Style::plain;
};

struct View {
    std::size_t rows = 24, columns = 80;
    Sort sort = Sort::tree;
    std::size_t scrolled = 0;  // so many processes are above the first that is shown
    std::string message{};     // in the last line, instead of the keys
    bool message_is_bad = false;
    bool help = false;
    bool whole = false;  // for a file: as many lines as it takes, as wide as they are, without the keys
};

// At most `rows` lines, each `columns` wide at most; `view.scrolled` is put to what there is to scroll.
[[nodiscard]] std::vector<Line> page(const Sample& sample, View& view);

}  // namespace cairn::top
