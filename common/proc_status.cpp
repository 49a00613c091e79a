#include "common/proc_status.h"

#include <algorithm>

namespace cairn::proc {

std::string_view Status::line(std::string_view name) const {
    const std::string_view all = text_;
    auto at = behind_last_;
    for (std::size_t gone = 0; gone < all.size();) {
        if (at >= all.size()) at = 0;
        const auto end = std::min(all.find('\n', at), all.size());
        const auto line = all.substr(at, end - at);
        gone += line.size() + 1;
        at = end + 1;
        if (!line.starts_with(name) || line.size() == name.size() || line[name.size()] != ':') continue;
        behind_last_ = at;
        return line.substr(name.size() + 1);
    }
    return {};
}

std::string Status::operator[](std::string_view name) const {
    auto value = line(name);
    value.remove_prefix(std::min(value.find_first_not_of("\t "), value.size()));
    return std::string(value);
}

// A line break and a backslash stand there as \n and \\ (proc_task_name(), fs/proc/array.c).
std::string Status::name() const {
    auto text = line("Name");
    text.remove_prefix(std::min<std::size_t>(1, text.size()));  // a tab
    std::string name;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool escape = text[i] == '\\' && i + 1 < text.size();
        if (escape) ++i;
        name += escape && text[i] == 'n' ? '\n' : text[i];
    }
    return name;
}

}  // namespace cairn::proc
