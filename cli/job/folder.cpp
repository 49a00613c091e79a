#include "cli/job/folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace cairn::job {

Result<> make_own_folder(const std::string& path) {
    std::error_code problem;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), problem);
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno("{}", path);
    // Where others can write beside it one of them may have made it first.
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return fail_errno("{}", path);
    if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() ||
        (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return fail_code(ExitCode::refused, "{} isn't a folder that you alone can write", path);
    return {};
}

}  // namespace cairn::job
