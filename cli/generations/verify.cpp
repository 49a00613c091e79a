#include "cli/generations/verify.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include "cli/inspect_load.h"
#include "common/fd.h"
#include "resources/saved/schema_files.h"

namespace cairn::generations {
namespace {

void verify_saved_file(const std::string& folder, const schema::SavedFile& file, Verified& result) {
    const std::string path = folder + "/" + saved_folder + "/" + file.stored;
    const Fd stored(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!stored)
        return result.problems.push_back(fail_errno("{} (a copy of {})", path, file.path).error().what);
    const auto hash = contents_hash(stored.get());
    if (!hash) return result.problems.push_back(path + ": " + hash.error().what);
    if (*hash != file.hash)
        return result.problems.push_back(path + " (a copy of " + file.path + ") is damaged (checksum)");
    struct stat status {};
    if (::fstat(stored.get(), &status) == 0) result.bytes += static_cast<std::uint64_t>(status.st_size);
}

void verify_saved_files(const std::string& folder, Verified& result) {
    std::error_code ignored;
    if (!std::filesystem::exists(folder + "/" + saved_list, ignored)) return;
    const auto saved = read_saved_files(folder);
    if (!saved) return result.problems.push_back(saved.error().what);
    for (const auto& file : saved->files)
        if (!file.stored.empty()) verify_saved_file(folder, file, result);
}

}  // namespace

Verified verify(const Generation& generation) {
    Verified result{.generation = generation, .problems = {}};
    auto checkpoint = inspect::load(generation.folder);
    if (!checkpoint) {
        result.problems.push_back(checkpoint.error().what);
        return result;
    }
    if (checkpoint->manifest) result.taken_at_ns = checkpoint->manifest->taken_at_ns;
    result.bytes = inspect::verify(*checkpoint);
    for (const Error& problem : checkpoint->problems) result.problems.push_back(problem.what);
    verify_saved_files(generation.folder, result);
    return result;
}

}  // namespace cairn::generations
