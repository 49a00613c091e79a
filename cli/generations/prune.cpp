#include "cli/generations/prune.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <map>

#include "cli/generations/verify.h"
#include "common/image/manifest.h"

namespace cairn::generations {
namespace {

namespace fs = std::filesystem;

// As the coordinator calls what it is about to remove (coordinator/publish.cpp).
constexpr const char* doomed_suffix = ".removed";

std::chrono::seconds age_of(const Generation& generation) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    if (const auto manifest = read_manifest(generation.folder); manifest && manifest->taken_at_ns > 0)
        return std::chrono::duration_cast<std::chrono::seconds>(
            now - std::chrono::nanoseconds(manifest->taken_at_ns));
    struct stat status {};
    if (::stat(generation.folder.c_str(), &status) != 0) return {};
    return std::chrono::duration_cast<std::chrono::seconds>(now) - std::chrono::seconds(status.st_mtime);
}

// A link is replaced as a whole: whoever follows it meanwhile finds the old or the new one.
void lead_latest_to(const fs::path& root, const Generation& generation) {
    const auto link = root / "latest", fresh = root / ".latest.new";
    const auto target = fs::path(generation.computation).filename() / std::to_string(generation.number);
    std::error_code ignored;
    fs::remove(fresh, ignored);
    fs::create_symlink(target, fresh, ignored);
    if (!ignored) ::rename(fresh.c_str(), link.c_str());
}

}  // namespace

std::vector<Generation> choose(const std::vector<Generation>& all, const PruneWishes& wishes) {
    std::map<std::string, std::vector<Generation>> computations;
    for (const auto& each : all) computations[each.computation].push_back(each);
    std::vector<Generation> chosen;
    for (const auto& [folder, generations] : computations) {
        const std::size_t stay = std::max<std::size_t>(wishes.keep.value_or(1), 1);
        for (std::size_t i = 0; i < generations.size(); ++i) {
            const auto& each = generations[i];
            if (wishes.damaged) {
                if (!verify(each).whole()) chosen.push_back(each);
                continue;
            }
            if (i + stay >= generations.size()) break;
            if (!wishes.older || age_of(each) > *wishes.older) chosen.push_back(each);
        }
    }
    return chosen;
}

std::uint64_t bytes_freed(const std::string& folder) {
    std::uint64_t bytes = 0;
    std::error_code ignored;
    for (const auto& entry : fs::recursive_directory_iterator(folder, ignored)) {
        struct stat status {};
        if (::lstat(entry.path().c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1)
            bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
    return bytes;
}

Result<> remove(const Generation& generation) {
    const fs::path root = fs::path(generation.computation).parent_path();
    std::error_code problem;
    const bool was_latest = fs::equivalent(root / "latest", generation.folder, problem);
    const std::string doomed = generation.folder + doomed_suffix;
    fs::remove_all(doomed, problem);
    if (::rename(generation.folder.c_str(), doomed.c_str()) != 0) return fail_errno("{}", generation.folder);
    if (was_latest)
        if (const auto left = find(generation.computation);
            left && left->back().folder != generation.computation)
            lead_latest_to(root, left->back());
    fs::remove_all(doomed, problem);
    if (problem) return fail("{}: {}", doomed, problem.message());
    ::rmdir(generation.computation.c_str());  // refused unless it is empty
    return {};
}

Result<std::chrono::seconds> read_age(const std::string& text) {
    constexpr std::pair<char, std::int64_t> units[] = {
        {'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}};
    std::int64_t count = 0;
    const auto* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, count);
    const auto* unit = std::ranges::find(units, parsed.ptr == end ? '\0' : *parsed.ptr,
                                         &std::pair<char, std::int64_t>::first);
    if (parsed.ec != std::errc{} || parsed.ptr + 1 != end || unit == std::end(units) || count < 0 ||
        count > 100'000)
        return fail_code(ExitCode::usage, "--older: a number and s, m, h, d or w (7d), not '{}'", text);
    return std::chrono::seconds(count * unit->second);
}

}  // namespace cairn::generations
