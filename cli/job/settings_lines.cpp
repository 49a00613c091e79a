#include "cli/job/settings_lines.h"

#include <fstream>
#include <sstream>

namespace cairn::job {
namespace {

std::string trimmed(const std::string& text) {
    const std::size_t first = text.find_first_not_of(" \t\r");
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
}

}  // namespace

Result<> take_lines(const std::string& text, const std::string& where, const std::string& page,
                    Comments comments, const TakeSetting& take) {
    std::istringstream lines(text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        line = trimmed(comments == Comments::anywhere ? line.substr(0, line.find('#')) : line);
        if (line.empty() || line[0] == '#') continue;
        const std::size_t equal = line.find('=');
        const bool known = equal != std::string::npos &&
                           take(trimmed(line.substr(0, equal)), trimmed(line.substr(equal + 1)));
        if (!known) return fail("{}, line {}: '{}' is no setting ({} lists them)", where, number, line, page);
    }
    return {};
}

Result<std::optional<std::string>> text_of_file(const std::string& path) {
    std::ifstream file(path);
    if (!file) {
        if (errno == ENOENT) return std::nullopt;
        return fail_errno("{}", path);
    }
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

}  // namespace cairn::job
