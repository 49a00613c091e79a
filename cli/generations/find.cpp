#include "cli/generations/find.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "common/image/manifest.h"

namespace cairn::generations {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint32_t> generation_number(const std::string& name) {
    std::uint32_t number = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
    if (parsed.ec != std::errc{} || parsed.ptr != name.data() + name.size()) return std::nullopt;
    return number;
}

bool is_complete(const fs::path& folder) {
    std::error_code ignored;
    return fs::exists(folder / manifest_file, ignored);
}

Generation generation_at(const fs::path& folder) {
    return {folder.string(), folder.parent_path().string(),
            generation_number(folder.filename().string()).value_or(0)};
}

std::vector<fs::path> folders_in(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code problem;
    for (const auto& entry : fs::directory_iterator(folder, problem))
        if (entry.is_directory(problem) && !entry.is_symlink(problem)) found.push_back(entry.path());
    std::ranges::sort(found);
    return found;
}

std::vector<Generation> of_computation(const fs::path& folder) {
    std::vector<Generation> found;
    for (const auto& each : folders_in(folder))
        if (generation_number(each.filename().string()) && is_complete(each))
            found.push_back(generation_at(each));
    std::ranges::sort(found, {}, &Generation::number);
    return found;
}

}  // namespace

Result<std::vector<Generation>> find(const std::string& path) {
    std::error_code problem;
    const fs::path folder = fs::canonical(path, problem);
    if (problem) return fail("{}: {}", path, problem.message());
    if (is_complete(folder)) return std::vector{generation_at(folder)};
    auto found = of_computation(folder);
    if (found.empty())
        for (const auto& each : folders_in(folder))
            for (auto& generation : of_computation(each)) found.push_back(std::move(generation));
    if (!found.empty()) return found;
    return fail("{} holds no complete checkpoint", folder.string());
}

}  // namespace cairn::generations
