#include "common/checkpoint_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "common/name_lookup.h"

namespace cairn {
namespace {

std::string folder_by_variable() {
    const char* named = std::getenv("CAIRN_CKPTDIR");
    return named == nullptr ? "" : named;
}

}  // namespace

std::string default_checkpoint_folder(const std::string& here) {
    struct stat status {};
    if (::stat(here.c_str(), &status) != 0) return here;
    const bool ours = status.st_uid == ::geteuid() || status.st_uid == 0;
    if (ours && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return here;
    std::string name = user_name(::geteuid()).value_or("/");
    if (name.contains('/')) name = std::to_string(::geteuid());
    return (here == "/" ? "" : here) + "/cairn-" + name;
}

std::string usual_checkpoint_folder() {
    std::string named = folder_by_variable();
    return named.empty() ? default_checkpoint_folder(".") : named;
}

std::string folder_of_old_checkpoints() {
    if (std::string named = folder_by_variable(); !named.empty()) return named;
    std::string folder = default_checkpoint_folder(".");
    return ::access(folder.c_str(), F_OK) == 0 ? folder : ".";
}

}  // namespace cairn
