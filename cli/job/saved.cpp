#include "cli/job/saved.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <limits>
#include <map>
#include <tuple>

#include "cli/job/commands.h"
#include "common/human.h"
#include "common/image/manifest.h"
#include "common/layout.h"

namespace cairn::job {
namespace {

namespace fs = std::filesystem;

// As long as the slowest disk takes for the largest image.
constexpr std::chrono::hours reading_through{12};

bool is_generation(const std::string& name) {
    return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
}

std::vector<fs::path> folders_in(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code problem;
    for (fs::directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem))
        if (at->is_directory(problem) && !at->is_symlink(problem) &&
            !at->path().filename().string().starts_with('.'))
            found.push_back(at->path());
    return found;
}

// Each host has its images in a folder of its own.
bool is_whole(const Saved& saved) {
    std::vector<std::string> folders{saved.folder};
    if (!saved.manifest.hosts.empty() && saved.manifest.images.empty()) {
        folders.clear();
        for (const auto& host : saved.manifest.hosts) folders.push_back(saved.folder + "/" + host.folder);
    }
    return std::ranges::all_of(folders, [](const std::string& folder) {
        return ask_command({own_program("cairn"), "inspect", "--verify", folder}, reading_through)
            .has_value();
    });
}

}  // namespace

std::vector<Saved> saved_below(const std::string& folder, std::vector<std::string>& damaged) {
    std::vector<Saved> found;
    std::error_code problem;
    // COMPUTATION/GENERATION
    const std::string last = fs::read_symlink(folder + "/latest", problem).parent_path();
    std::map<std::string, std::int64_t> newest{{last, std::numeric_limits<std::int64_t>::max()}};
    for (const fs::path& computation : folders_in(folder))
        for (const fs::path& generation : folders_in(computation)) {
            if (!is_generation(generation.filename())) continue;
            auto manifest = read_manifest(generation);
            if (manifest) {
                std::int64_t& taken = newest[computation.filename()];
                taken = std::max(taken, manifest->taken_at_ns);
                found.push_back({generation, std::move(*manifest)});
            } else {
                damaged.push_back(manifest.error().what);
            }
        }
    std::ranges::sort(found, std::ranges::greater{}, [&](const Saved& saved) {
        const fs::path path(saved.folder);
        return std::tuple(newest[path.parent_path().filename()], path.parent_path().string(),
                          saved.manifest.generation);
    });
    return found;
}

std::optional<Saved> newest_good(const std::string& folder, bool verify, std::vector<std::string>& notes) {
    for (Saved& saved : saved_below(folder, notes)) {
        if (!verify || is_whole(saved)) return std::move(saved);
        notes.push_back(saved.folder + " is damaged");
    }
    return std::nullopt;
}

std::string describe(const Saved& saved) {
    const std::time_t taken = saved.manifest.taken_at_ns / 1'000'000'000;
    std::tm local{};
    ::localtime_r(&taken, &local);
    char text[32];
    const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    return fmt::format("checkpoint {} of {}, {}", saved.manifest.generation, std::string_view(text, length),
                       human_bytes(saved.manifest.bytes));
}

}  // namespace cairn::job
