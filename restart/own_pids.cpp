#include "restart/own_pids.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "resources/namespace/restore.h"
#include "restart/keep_capabilities.h"
#include "restart/own_users.h"

namespace cairn::restart {
namespace {

constexpr int new_time = 0x80;  // CLONE_NEWTIME

// The owner of a user namespace has all rights in it only as who he is (user_namespaces(7)). `around`: where
// we are.
int become_user_of(const schema::Process& first, std::int64_t around, const Computation& computation) {
    if (around < 0 && ::geteuid() != 0) return 0;
    auto wanted = users_of(first);
    const auto now =
        around >= 0 ? born_as(*process_called(first.ppid, computation), computation) : own_users();
    if (wanted.same_as(now)) return 0;
    // In a user namespace that an ordinary user has made setgroups(2) is forbidden to root as well.
    wanted.sets_groups = wanted.groups != now.groups;
    if (!wanted.sets_groups) wanted.groups.clear();
    const auto users = users_inside(wanted, around, computation);
    if (!users) return EINVAL;
    if (::prctl(PR_SET_KEEPCAPS, 1) != 0) return errno;
    const bool done = (!users->sets_groups || ::setgroups(users->groups.size(), users->groups.data()) == 0) &&
                      ::setresgid(users->gids[0], users->gids[1], users->gids[2]) == 0 &&
                      ::setresuid(users->uids[0], users->uids[1], users->uids[2]) == 0 &&
                      keep_capabilities().has_value();
    return done ? 0 : errno;
}

// In a process that is gone afterwards: it belongs to other namespaces than we do.
Result<> mount_in(const schema::Process& first, KernelId pid, const schema::OwnNamespace& space, int mounts,
                  const Computation& computation, const ObjectSet& objects) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("pipe");
    const Fd from(ends[0]);
    Fd to(ends[1]);
    const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid.number(), 0)));
    if (!process) return fail_errno("pidfd_open of {}", pid);
    const pid_t helper = ::fork();
    if (helper < 0) return fail_errno("fork");
    if (helper == 0) {
        const auto say = [&](const std::string& what) {
            (void)!::write(to.get(), what.data(), what.size());
            ::_exit(1);
        };
        errno = enter_owner_of_pids(first, -1, computation, objects);
        if (errno != 0 || ::setns(process.get(), CLONE_NEWPID) != 0) say(std::strerror(errno));
        const pid_t inside = ::fork();
        if (inside == 0) {
            if (::setns(mounts, CLONE_NEWNS) != 0) say(std::strerror(errno));
            if (const auto done = build_late_mounts(space.mounts); !done) say(done.error().what);
            ::_exit(0);
        }
        int status = 0;
        ::_exit(inside > 0 && ::waitpid(inside, &status, 0) == inside && status == 0 ? 0 : 1);
    }
    to.reset();
    char text[512];
    const ssize_t length = ::read(from.get(), text, sizeof text);
    int status = 0;
    while (::waitpid(helper, &status, __WALL) < 0 && errno == EINTR) {
    }
    if (status == 0 && length <= 0) return {};
    return fail_code(ExitCode::refused, "the pid namespace of process {} ({}): {}", first.pid, first.name,
                     length > 0 ? std::string(text, static_cast<std::size_t>(length))
                                : "who was to mount its proc has died");
}

}  // namespace

Result<> mount_inner_procs(const Computation& computation, const ObjectSet& objects,
                           const std::function<KernelId(ProgramId)>& kernel_id) {
    for (const auto& object : computation.objects.objects.objects) {
        const auto* space = object.get<schema::Namespace>();
        if (space == nullptr || !space->own) continue;
        for (const auto& mount : space->own->mounts) {
            if (!mount.pids) continue;
            const auto first =
                std::ranges::find_if(computation.processes, [&](const schema::Process& process) {
                    return process.own_pids && process.own_pids->space == *mount.pids &&
                           process.own_pids->pid == 1;
                });
            if (first == computation.processes.end()) continue;
            const Lent mounts = TRY(objects.lend(object.id));
            CHECK_OK(
                mount_in(*first, kernel_id(first->pid), *space->own, mounts.get(), computation, objects));
            break;
        }
    }
    return {};
}

int enter_owner_of_pids(const schema::Process& first, std::int64_t around, const Computation& computation,
                        const ObjectSet& objects) {
    if (!first.own_pids || first.own_pids->owner < 0 || around == first.own_pids->owner) return 0;
    if (const int number = become_user_of(first, around, computation); number != 0) return number;
    const auto spaces = first.namespaces.value_or(std::vector<std::int64_t>{});
    // From where it is on: a way back up there is none.
    const auto here = std::ranges::find(spaces, around);
    for (const auto object :
         std::ranges::subrange(here == spaces.end() ? spaces.begin() : here + 1, spaces.end())) {
        const auto space = objects.lend(object);
        if (!space) return space.error().number == 0 ? EINVAL : space.error().number;
        // A mount namespace would take the tool's paths from who isn't rebuilt yet (check_way_in() in the
        // capture).
        const int type = ::ioctl(space->get(), NS_GET_NSTYPE);
        if (type == CLONE_NEWNS || type == new_time) return EINVAL;
        if (::setns(space->get(), type) != 0) return errno;
        if (object == first.own_pids->owner) break;
    }
    if (!keep_capabilities()) return errno;
    // A change of user, or of its namespace, has taken our children's memory out of the tool's reach.
    return ::prctl(PR_SET_DUMPABLE, 1) == 0 ? 0 : errno;
}

}  // namespace cairn::restart
