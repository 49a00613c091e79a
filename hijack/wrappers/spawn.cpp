// posix_spawn, and wordexp, which starts programs by libc's own posix_spawn. What else does so in libc:
// shells.cpp.
#include <paths.h>
#include <spawn.h>
#include <wordexp.h>

#include "hijack/exec.h"
#include "hijack/ids.h"
#include "hijack/next.h"
#include "hijack/raw.h"

using namespace cairn;
using namespace cairn::hijack;

namespace {

// Which file posix_spawnp would start, as far as that can be told before it: the child may change its
// directory.
ProgramCheck check_search(const char* file) {
    ProgramCheck found;
    search_path(file, variable(environ, "PATH"), [&](const char* path) {
        found = check_program(AT_FDCWD, path);
        if (found.kind != ProgramKind::not_found && found.kind != ProgramKind::not_executable) return 0;
        errno = found.error;
        return -1;
    });
    return found;
}

// `spawn` is libc's function for all but the environment; it returns 0 and the child's pid or an errno value.
template <class Spawn>
int guarded_spawn(const ProgramCheck& check, pid_t* pid_wanted, char* const* environment, Spawn spawn) {
    if (check.refused() && !foreign_allowed(environment)) {
        report_refusal(check);
        return EACCES;
    }
    const Membership membership = membership_of(check, environment);
    return with_environment(environment, membership, [&](char* const* changed) {
        // The child shares our memory until it execs: it registers then, and finds what we claim for it here.
        const Birthplace place = membership != Membership::outside
                                     ? claim_spawn_birth(*region(), raw::pid())
                                     : Birthplace{no_slot, new_token(*region())};
        pid_t pid = -1;
        const int error = spawn(&pid, changed);
        const ProgramId child = end_spawn(place, KernelId(error == 0 ? pid : -1));
        if (error == 0 && pid_wanted != nullptr) *pid_wanted = child.number();
        return error;
    });
}

// Attributes with which the child joins a process group that is there: by its virtual id.
class KernelAttributes {
  public:
    explicit KernelAttributes(const posix_spawnattr_t* given) : used_(given) {
        short flags = 0;
        pid_t group = 0;
        if (given == nullptr || ::posix_spawnattr_getflags(given, &flags) != 0 ||
            (flags & POSIX_SPAWN_SETPGROUP) == 0 || ::posix_spawnattr_getpgroup(given, &group) != 0 ||
            group <= 0 || real_id(group) == group)
            return;
        changed_ = *given;
        ::posix_spawnattr_setpgroup(&changed_, real_id(group));
        used_ = &changed_;
    }
    KernelAttributes(const KernelAttributes&) = delete;
    KernelAttributes& operator=(const KernelAttributes&) = delete;
    [[nodiscard]] const posix_spawnattr_t* get() const { return used_; }

  private:
    posix_spawnattr_t changed_;
    const posix_spawnattr_t* used_;
};

// Can the shell that libc is about to start be a member? It is started with `environ` as it is.
bool shell_allowed() {
    const ProgramCheck check = check_program(AT_FDCWD, _PATH_BSHELL);
    if (!check.refused()) {
        complete_environ();
        return true;
    }
    if (foreign_allowed(environ)) return true;
    report_refusal(check);
    return false;
}

}  // namespace

CAIRN_EXPORT int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                             const posix_spawnattr_t* attributes, char* const arguments[],
                             char* const environment[]) noexcept {
    const auto real = next<"posix_spawn">(&::posix_spawn);
    if (region() == nullptr || !speaks_by_its_own_ids())
        return real(pid, path, actions, attributes, arguments, environment);
    const KernelAttributes of_kernel(attributes);
    return guarded_spawn(check_program(AT_FDCWD, path), pid, environment,
                         [=, &of_kernel](pid_t* child, char* const* changed) {
                             return real(child, path, actions, of_kernel.get(), arguments, changed);
                         });
}

CAIRN_EXPORT int posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                              const posix_spawnattr_t* attributes, char* const arguments[],
                              char* const environment[]) noexcept {
    const auto real = next<"posix_spawnp">(&::posix_spawnp);
    if (region() == nullptr || !speaks_by_its_own_ids())
        return real(pid, file, actions, attributes, arguments, environment);
    const KernelAttributes of_kernel(attributes);
    return guarded_spawn(check_search(file), pid, environment,
                         [=, &of_kernel](pid_t* child, char* const* changed) {
                             return real(child, file, actions, of_kernel.get(), arguments, changed);
                         });
}

CAIRN_EXPORT int wordexp(const char* words, wordexp_t* result, int flags) {
    if (region() != nullptr && (flags & WRDE_NOCMD) == 0 && !shell_allowed()) flags |= WRDE_NOCMD;
    return next<"wordexp">(&::wordexp)(words, result, flags);
}
