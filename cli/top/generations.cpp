#include "cli/top/generations.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>

#include "common/image/manifest.h"

namespace cairn::top {

std::vector<GenerationRow> Generations::look(const std::string& folder, const std::string& cid) {
    std::map<std::string, GenerationRow> there;
    std::error_code problem;
    const auto root = std::filesystem::path(folder) / cid;
    for (auto entry = std::filesystem::directory_iterator(root, problem);
         !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem)) {
        const std::string name = entry->path().filename().string(), path = entry->path().string();
        std::uint32_t number = 0;
        const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), number);
        // Not a checkpoint that is being written (N.partial).
        if (wrong != std::errc() || end != name.data() + name.size()) continue;
        if (const auto known = known_.find(path); known != known_.end()) {
            there.insert(*known);
            continue;
        }
        const auto manifest = read_manifest(path);
        if (!manifest) continue;
        there.emplace(path, GenerationRow{.number = number,
                                          .folder = path,
                                          .bytes = manifest->bytes,
                                          .taken_at_ns = manifest->taken_at_ns,
                                          .pause_ns = manifest->pause_ns,
                                          .total_ns = manifest->total_ns,
                                          .processes = manifest->np});
    }
    known_ = std::move(there);
    std::vector<GenerationRow> rows;
    for (const auto& [path, row] : known_) rows.push_back(row);
    std::ranges::sort(rows, std::ranges::greater(), &GenerationRow::number);
    return rows;
}

}  // namespace cairn::top
