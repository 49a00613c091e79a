#include "mpi/record/beginning.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "common/fd.h"

namespace cairn::mpi {
namespace {

constexpr const char* first_line = "cairn mpi beginning 1";

}  // namespace

std::string beginnings_path(const std::string& folder) {
    return folder + "/beginning";
}

std::string kept_path(const std::string& folder) {
    return folder + "/kept";
}

Result<> sync_folder(const std::string& path) {
    const Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder || ::fsync(folder.get()) != 0) return fail_errno("writing {}", path);
    return {};
}

Result<Beginnings> read_beginnings(const std::string& folder) {
    const std::string path = beginnings_path(folder);
    Beginnings found;
    if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return found;
    std::ifstream file(path);
    const auto damaged = [&] {
        return fail_code(ExitCode::damaged,
                         "{} makes no sense: where the record begins isn't known, since its first part has "
                         "been removed",
                         path);
    };
    std::string line, word;
    if (!std::getline(file, line) || line != first_line) return damaged();
    while (std::getline(file, line) && line != "end") {
        std::istringstream words(line);
        words >> word;
        if (word == "job") {
            words >> found.job;
        } else {
            Beginning each;
            std::size_t rank = 0;
            words >> rank >> each.position >> each.event >> each.within >> each.offset >> each.block >>
                each.removed;
            if (word != "rank" || rank != found.ranks.size()) return damaged();
            found.ranks.push_back(each);
        }
        if (!words) return damaged();
    }
    if (line != "end" || found.ranks.empty()) return damaged();
    return found;
}

Result<> write_beginnings(const std::string& folder, const Beginnings& beginnings) {
    std::string text = fmt::format("{}\njob {}\n", first_line, beginnings.job);
    for (std::size_t rank = 0; rank < beginnings.ranks.size(); ++rank) {
        const Beginning& each = beginnings.ranks[rank];
        text += fmt::format("rank {} {} {} {} {} {} {}\n", rank, each.position, each.event,
                            each.within ? 1 : 0, each.offset, each.block, each.removed ? 1 : 0);
    }
    text += "end\n";
    const std::string path = beginnings_path(folder), made = path + ".new";
    const Fd file(::open(made.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        ::fsync(file.get()) != 0)
        return fail_errno("writing {}", made);
    if (::rename(made.c_str(), path.c_str()) != 0) return fail_errno("naming {}", path);
    return sync_folder(folder);
}

}  // namespace cairn::mpi
