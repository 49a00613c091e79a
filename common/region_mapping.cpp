#include "common/region_mapping.h"

#include <fmt/format.h>

#include <cinttypes>
#include <cstdio>
#include <string>
#include <string_view>

#include "common/proc.h"

namespace cairn {
namespace {

struct Line {
    std::uint64_t start = 0, end = 0;
    FileKey key;
    std::string_view text;
};

// False for a line that is none of maps'.
bool read_line(std::string_view text, Line& line) {
    line.text = text;
    return std::sscanf(std::string(text).c_str(),
                       "%" SCNx64 "-%" SCNx64 " %*4s %*x %" SCNx32 ":%" SCNx32 " %" SCNu64, &line.start,
                       &line.end, &line.key.major, &line.key.minor, &line.key.inode) == 5;
}

// Calls `look` with each line until it returns true.
template <class Look>
void each_line(std::string_view rest, Look look) {
    while (!rest.empty()) {
        const std::size_t end = rest.find('\n');
        Line line;
        if (read_line(rest.substr(0, end), line) && look(line)) return;
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
}

}  // namespace

FileKey mapped_file(const void* address) {
    const auto start = reinterpret_cast<std::uintptr_t>(address);
    FileKey key;
    each_line(proc::read_file("/proc/self/maps").value_or(""), [&](const Line& line) {
        if (line.start == start) key = line.key;
        return line.start == start;
    });
    return key;
}

MappedAt find_mapping(pid_t pid, const FileKey& file) {
    MappedAt result;
    auto maps = proc::read_file(fmt::format("/proc/{}/maps", pid));
    // Of a main thread that has exited nothing is shown.
    if (maps && maps->empty()) maps = proc::read_file(fmt::format("/proc/{}/maps", proc::living_thread(pid)));
    if (!maps) return result;
    result.mapped = Mapped::no;
    each_line(*maps, [&](const Line& line) {
        if (line.key == file && result.mapped == Mapped::no) {
            result.mapped = Mapped::yes;
            result.at = {ProgramAddress(line.start), ProgramAddress(line.end)};
        }
        if (line.text.ends_with("/libcairn.so") || line.text.ends_with("/libcairn.so (deleted)"))
            result.library = true;
        return false;
    });
    return result;
}

std::optional<UserIds> user_ids(pid_t id) {
    const auto status = proc::read_file(fmt::format("/proc/{}/status", id));
    const std::size_t at = status ? status->find("\nUid:") : std::string::npos;
    UserIds ids;
    if (at == std::string::npos ||
        std::sscanf(status->c_str() + at, "\nUid: %u %u %u", &ids.real, &ids.effective, &ids.saved) != 3)
        return std::nullopt;
    return ids;
}

}  // namespace cairn
