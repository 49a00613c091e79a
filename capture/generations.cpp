#include "capture/generations.h"

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <system_error>

namespace cairn::capture {

ImagesFolder find_images(const std::string& directory, const std::string& host, const char* having) {
    namespace fs = std::filesystem;
    fs::path generation = directory;
    fs::path inner;
    if (!host.empty() && generation.filename().string().starts_with("host-")) {
        inner = generation.filename();
        generation = generation.parent_path();
    }
    const fs::path computation = generation.parent_path();
    ImagesFolder found{computation.parent_path().string(), {}};
    std::uint32_t newest = 0;
    std::error_code problem;
    for (const auto& entry : fs::directory_iterator(computation, problem)) {
        const auto name = entry.path().filename().string();
        std::uint32_t number = 0;
        const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), number);
        if (wrong != std::errc() || end != name.data() + name.size() || number <= newest) continue;
        const auto folder = inner.empty() ? entry.path() : entry.path() / inner;
        if (!fs::exists(folder / having, problem)) continue;
        newest = number;
        found.previous = folder.string();
    }
    return found;
}

}  // namespace cairn::capture
