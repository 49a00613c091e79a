#include "common/folder_trust.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <filesystem>

#include "common/fd.h"
#include "common/name_lookup.h"

namespace cairn {
namespace {

constexpr int most_links = 40;  // as the kernel

std::deque<std::string> parts_of(const std::string& path) {
    std::deque<std::string> parts;
    std::size_t at = 0;
    while (at < path.size()) {
        std::size_t end = path.find('/', at);
        if (end == std::string::npos) end = path.size();
        if (end > at && path.compare(at, end - at, ".") != 0) parts.push_back(path.substr(at, end - at));
        at = end + 1;
    }
    return parts;
}

// In a user namespace that doesn't know the machine's root he looks like everybody else who isn't known
// there; that "/" is his is taken for granted.
uid_t root_as_seen_here() {
    struct stat status {};
    return ::stat("/", &status) == 0 ? status.st_uid : 0;
}

class Walk {
  public:
    Walk(const std::string& path, uid_t user) : user_(user), ahead_(parts_of(path)) {}

    std::string go() {
        for (to_top(); !ahead_.empty();) {
            if (std::string problem = step(); !problem.empty()) return problem;
        }
        return {};
    }

  private:
    void to_top() {
        at_.reset(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
        where_ = "";
    }

    std::string step() {
        const std::string name = std::move(ahead_.front());
        ahead_.pop_front();
        const std::string path = where_ + "/" + name;
        Fd next(::openat(at_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        struct stat status {};
        if (!next || ::fstat(next.get(), &status) != 0)
            return fmt::format("{}: {}", path, std::strerror(errno));
        if (status.st_uid != user_ && status.st_uid != 0 && status.st_uid != root_)
            return fmt::format("{} belongs to {}", path, words_for_user(status.st_uid));
        if (S_ISLNK(status.st_mode)) return follow(next.get(), path);
        const bool on_the_way = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0 && !ahead_.empty();
        if (!on_the_way)
            if (std::string problem = writable(path, status); !problem.empty()) return problem;
        at_ = std::move(next);
        where_ = path;
        if (name == "..") {
            char real[PATH_MAX];
            const ssize_t length =
                ::readlink(fmt::format("/proc/self/fd/{}", at_.get()).c_str(), real, sizeof real);
            if (length > 0) where_.assign(real, static_cast<std::size_t>(length));
            if (where_ == "/") where_.clear();
        }
        return {};
    }

    static std::string writable(const std::string& path, const struct stat& status) {
        const bool group = (status.st_mode & S_IWGRP) != 0, others = (status.st_mode & S_IWOTH) != 0;
        if (!group && !others) return {};
        return fmt::format("{} can be written by {} (mode {:04o})", path, others ? "everybody" : "its group",
                           status.st_mode & 07777);
    }

    std::string follow(int link, const std::string& path) {
        char target[PATH_MAX];
        const ssize_t length = ::readlinkat(link, "", target, sizeof target);
        if (length < 0) return fmt::format("{}: {}", path, std::strerror(errno));
        if (++links_ > most_links) return fmt::format("{}: {}", path, std::strerror(ELOOP));
        const std::string to(target, static_cast<std::size_t>(length));
        if (to.starts_with('/')) to_top();
        const auto more = parts_of(to);
        ahead_.insert(ahead_.begin(), more.begin(), more.end());
        return {};
    }

    uid_t user_, root_ = root_as_seen_here();
    std::deque<std::string> ahead_;
    Fd at_;
    std::string where_;
    int links_ = 0;
};

}  // namespace

std::string words_for_user(uid_t user) {
    const auto name = user_name(user);
    return name ? fmt::format("user {} ({})", user, *name) : fmt::format("user {}", user);
}

std::string who_else_can_write(const std::string& path, uid_t user) {
    std::error_code problem;
    const auto whole = std::filesystem::absolute(path, problem);
    if (problem) return fmt::format("{}: {}", path, problem.message());
    return Walk(whole.string(), user).go();
}

}  // namespace cairn
