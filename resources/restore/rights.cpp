#include "resources/restore/rights.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "common/privileges.h"

namespace cairn::restart {
namespace {

constexpr unsigned setgid = 6, setuid = 7;  // CAP_SETGID, CAP_SETUID

bool set_effective(std::uint64_t capabilities) {
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    if (::syscall(SYS_capget, &header, data) != 0) return false;
    for (unsigned word = 0; word < 2; ++word)
        data[word].effective = static_cast<std::uint32_t>(capabilities >> (32 * word)) & data[word].permitted;
    return ::syscall(SYS_capset, &header, data) == 0;
}

// setfsuid(2) and setfsgid(2) say what was, whether they succeed or not.
bool set_file_user(uid_t user) {
    ::syscall(SYS_setfsuid, user);
    return static_cast<uid_t>(::syscall(SYS_setfsuid, -1)) == user;
}

bool set_file_group(gid_t group) {
    ::syscall(SYS_setfsgid, group);
    return static_cast<gid_t>(::syscall(SYS_setfsgid, -1)) == group;
}

bool set_groups(const std::vector<gid_t>& groups) {
    return ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0;
}

// Effective capabilities first: they are needed for the rest, and a change of fsuid takes those of files away
// or gives them back.
bool be(const Rights& rights, bool groups) {
    const Rights& own = own_rights();
    return set_effective(own.capabilities) && (!groups || set_groups(rights.groups)) &&
           set_file_group(rights.group) && set_file_user(rights.user) &&
           set_effective(rights.capabilities & own.capabilities);
}

}  // namespace

Rights rights_of(const schema::Process& process) {
    Rights rights{process.uids[3], process.gids[3], {process.groups.begin(), process.groups.end()}, 0};
    std::ranges::sort(rights.groups);
    for (const schema::Thread& thread : process.threads) rights.capabilities |= thread.cap_permitted;
    return rights;
}

const Rights& own_rights() {
    static const Rights own = [] {
        const Privileges& all = own_privileges();
        Rights rights{all.uids[3], all.gids[3], {all.groups.begin(), all.groups.end()}, all.effective};
        std::ranges::sort(rights.groups);
        return rights;
    }();
    return own;
}

bool must_take(const Rights& rights) {
    const Rights& own = own_rights();
    if (((own.capabilities >> setuid & 1) & (own.capabilities >> setgid & 1)) == 0) return false;
    // Who has every capability that we have is asked for no group.
    if (rights.user == own.user && (own.capabilities & ~rights.capabilities) == 0) return false;
    return rights != own;
}

Result<ActingAs> ActingAs::begin(const Rights& rights) {
    if (!must_take(rights)) return ActingAs(false, false);
    ActingAs acting(true, rights.groups != own_rights().groups);
    if (!be(rights, acting.groups_))
        return fail_code(
            ExitCode::refused,
            "user {}, group {}: this machine or user namespace doesn't let the restart have their "
            "rights ({})",
            rights.user, rights.group, std::strerror(errno));
    return acting;
}

ActingAs::~ActingAs() {
    if (!active_) return;
    const int problem = errno;
    if (!be(own_rights(), groups_)) std::abort();
    // A change of fsuid makes a process undumpable, and its files in /proc root's.
    ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    errno = problem;
}

Fd open_as_owner(int place, int flags) {
    const std::string path = fmt::format("/proc/self/fd/{}", place);
    Fd file(::open(path.c_str(), flags));
    struct stat status {};
    if (file || errno != EACCES) return file;
    constexpr mode_t owners = S_IRUSR | S_IWUSR;
    // Only its owner may do this (chmod(2)).
    if (::fstatat(place, "", &status, AT_EMPTY_PATH) == 0 && S_ISREG(status.st_mode) &&
        ::chmod(path.c_str(), (status.st_mode & 07777U) | owners) == 0) {
        file.reset(::open(path.c_str(), flags));
        ::chmod(path.c_str(), status.st_mode & 07777U);
    }
    if (!file) errno = EACCES;
    return file;
}

}  // namespace cairn::restart
