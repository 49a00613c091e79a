// An exec inside the session: who may, with which environment, and what the coordinator is told.
#pragma once

#include <limits.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/elf_check.h"
#include "hijack/environment.h"
#include "hijack/resident.h"

namespace cairn::hijack {

// CAIRN_FOREIGN=allow, in the environment given or in our own: programs that don't load our library run
// outside.
bool foreign_allowed(char* const* environment);

// No: in another root or mount namespace, as another user or under Landlock's rules it isn't there, or can't
// be read. The loader would say so of each program.
bool loader_finds_library();

// What becomes of a program that isn't refused, or is allowed to run outside.
Membership membership_of(const ProgramCheck& check, char* const* environment);

// One line on stderr, by one write(2) past stdio.
void report_refusal(const ProgramCheck& check);

// The state of our slot around an exec. Restored if the exec fails; if it doesn't, the new image writes it.
class ExecMark {
  public:
    // `check` of a program that is to run outside, or null.
    explicit ExecMark(const ProgramCheck* outside);
    void failed() const;

  private:
    std::int32_t slot_;
    SlotState before_ = SlotState::free;
    bool given_back_ = false;
};

// Calls `exec` (execve or its like for this program; returns -1 and errno if it returns) with the environment
// that keeps the program in the session. Refused programs: -1 with EACCES.
template <class Exec>
int guarded_exec(int directory, const char* path, int flags, char* const* environment, Exec exec) {
    if (region() == nullptr)
        return loader_finds_library() ? exec(environment)
                                      : with_environment(environment, Membership::without_preload, exec);
    const ProgramCheck check = check_program(directory, path, flags);
    if (check.refused() && !foreign_allowed(environment)) {
        report_refusal(check);
        errno = EACCES;
        return -1;
    }
    const Membership membership = membership_of(check, environment);
    return with_environment(environment, membership, [&](char* const* changed) {
        const ExecMark mark(membership == Membership::outside ? &check : nullptr);
        const int result = exec(changed);
        const int error = errno;
        mark.failed();
        errno = error;
        return result;
    });
}

// Tries what execvp(3) says for a name: as it is if it has a slash, else in each folder of PATH, as libc
// does. `attempt` gets a path and returns -1 and errno if it isn't the one.
template <class Attempt>
int search_path(const char* file, const char* path, Attempt attempt) {
    if (*file == '\0') {
        errno = ENOENT;
        return -1;
    }
    if (std::strchr(file, '/') != nullptr) return attempt(file);
    if (path == nullptr) path = "/bin:/usr/bin";  // confstr(_CS_PATH)
    const std::size_t length = std::strlen(file);
    if (length > NAME_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    char candidate[PATH_MAX + NAME_MAX + 2];
    bool denied = false;
    for (const char* folder = path;; ++folder) {
        const std::size_t size = static_cast<std::size_t>(::strchrnul(folder, ':') - folder);
        if (size < PATH_MAX) {
            std::memcpy(candidate, folder, size);
            if (size != 0) candidate[size] = '/';
            std::memcpy(candidate + size + (size != 0 ? 1 : 0), file, length + 1);
            const int result = attempt(static_cast<const char*>(candidate));
            if (result != -1) return result;
            switch (errno) {
                case EACCES:
                    denied = true;  // goes on, and says so if there is no other
                    break;
                case ENOENT:
                case ENOTDIR:
                case ENODEV:
                case ESTALE:
                case ETIMEDOUT:
                    break;
                default:
                    return -1;
            }
        }
        folder += size;
        if (*folder == '\0') break;
    }
    if (denied) errno = EACCES;
    return -1;
}

}  // namespace cairn::hijack
