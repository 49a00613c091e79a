#include "witness/proc_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <sstream>

#include "common/fd.h"

namespace cairn::witness {

std::optional<std::string> text_of(const std::string& path) {
    const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) return std::nullopt;
    std::string text;
    std::array<char, 65536> buffer{};
    for (;;) {
        const ssize_t count = read(file.get(), buffer.data(), buffer.size());
        if (count < 0) return std::nullopt;
        if (count == 0) return text;
        text.append(buffer.data(), static_cast<std::size_t>(count));
    }
}

std::optional<std::string> link_of(const std::string& path) {
    std::array<char, 8192> buffer{};
    const ssize_t size = readlink(path.c_str(), buffer.data(), buffer.size());
    if (size < 0) return std::nullopt;
    return std::string(buffer.data(), static_cast<std::size_t>(size));
}

std::vector<int> numbers_in(const std::string& folder) {
    std::vector<int> numbers;
    std::error_code none;
    for (std::filesystem::directory_iterator entry(folder, none), end; entry != end; entry.increment(none)) {
        const std::string name = entry->path().filename();
        int number = 0;
        const auto [rest, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
        if (problem == std::errc() && *rest == '\0') numbers.push_back(number);
    }
    std::ranges::sort(numbers);
    return numbers;
}

std::vector<pid_t> tree_of(pid_t pid) {
    std::vector<pid_t> found{pid};
    for (std::size_t next = 0; next < found.size(); ++next) {
        const std::string tasks = "/proc/" + std::to_string(found[next]) + "/task/";
        for (const int thread : numbers_in(tasks)) {
            std::istringstream children(text_of(tasks + std::to_string(thread) + "/children").value_or(""));
            for (pid_t child = 0; children >> child;) found.push_back(child);
        }
    }
    std::ranges::sort(found);
    return found;
}

bool has_ended(const std::string& folder) {
    const std::string status = text_of(folder + "/status").value_or("");
    return status.find("\nState:\tZ") != std::string::npos || status.find("\nState:\tX") != std::string::npos;
}

bool is_of_one_who_has_gone(const std::string& folder, const std::string& link) {
    constexpr std::string_view proc = "/proc/";
    if (!link.starts_with(proc) || link.find_first_not_of("0123456789", proc.size()) == proc.size())
        return false;
    const std::string process = link.substr(0, link.find('/', proc.size()));
    // A root folder of its own may show no proc at all.
    const bool sees = link_of(folder + "/root") == "/";
    return access(((sees ? folder + "/root" : "") + process).c_str(), F_OK) != 0;
}

}  // namespace cairn::witness
