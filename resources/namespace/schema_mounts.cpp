#include "resources/namespace/schema_mounts.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>

namespace cairn::schema {
namespace {

// Blanks, tabs, newlines and backslashes stand as three octal digits (mangle() in fs/proc_namespace.c).
std::string plain(const std::string& word) {
    std::string result;
    for (std::size_t i = 0; i < word.size(); ++i) {
        const bool octal = word[i] == '\\' && i + 3 < word.size();
        result += octal ? static_cast<char>(std::stoi(word.substr(i + 1, 3), nullptr, 8)) : word[i];
        if (octal) i += 3;
    }
    return result;
}

bool parse(const std::string& text, MountLine& line) {
    std::istringstream words(text);
    if (!(words >> line.id >> line.parent >> line.device >> line.root >> line.point >> line.options))
        return false;
    for (std::string word; words >> word && word != "-";)
        if (word.starts_with("shared:"))
            line.peers = static_cast<int>(std::strtol(word.c_str() + std::strlen("shared:"), nullptr, 10));
        else if (word.starts_with("master:"))
            line.receives = true;
        else if (word == "unbindable")
            line.bindable = false;
    words >> line.type >> line.source;
    words >> line.super_options;
    line.root = plain(line.root);
    line.point = plain(line.point);
    line.source = plain(line.source);
    return true;
}

}  // namespace

std::vector<MountLine> parse_mounts(std::string_view mountinfo) {
    std::vector<MountLine> lines;
    std::istringstream text{std::string(mountinfo)};
    for (std::string each; std::getline(text, each);)
        if (MountLine line; parse(each, line)) lines.push_back(std::move(line));
    std::set<int> ids, placed;
    for (const auto& line : lines) ids.insert(line.id);
    std::vector<MountLine> ordered;
    while (!lines.empty()) {
        const auto ready = std::ranges::find_if(lines, [&](const MountLine& line) {
            return line.parent == line.id || !ids.contains(line.parent) || placed.contains(line.parent);
        });
        if (ready == lines.end()) break;  // a circle is none of the kernel's
        placed.insert(ready->id);
        ordered.push_back(std::move(*ready));
        lines.erase(ready);
    }
    return ordered;
}

bool is_below(std::string_view path, std::string_view folder) {
    if (folder == "/" || folder.empty()) return true;
    return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

bool comes_late(const std::vector<Mount>& mounts, const Mount& mount) {
    for (const auto& each : mounts) {
        if (each.pids && is_below(mount.point, each.point)) return true;
        if (&each == &mount) return false;
    }
    return false;
}

std::string joined(std::string_view folder, std::string_view path) {
    std::string result(folder == "/" ? "" : folder);
    if (!path.empty() && path != "/") {
        if (path.front() != '/') result += '/';
        result += path;
    }
    return result.empty() ? "/" : result;
}

}  // namespace cairn::schema
