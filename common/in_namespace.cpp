#include "common/in_namespace.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace cairn {
namespace {

struct Errand {
    const NamespacePlace& place;
    const std::function<Result<>()>& work;
    Result<> done = fail("the process that was to do it in its namespace has died");
};

// Who has no number in the user namespace can make no files there: it becomes its root, if there is one. Of
// this process alone, where libc's functions would tell all threads of the memory.
void be_somebody() {
    constexpr uid_t nobody = 65534;  // as /proc/sys/kernel/overflowuid has it
    if (::geteuid() != nobody) return;
    ::syscall(SYS_setresgid, 0, 0, 0);
    ::syscall(SYS_setresuid, 0, 0, 0);
}

// Any type: what is opened by somebody who can be trusted.
bool enter(const NamespacePlace& place) {
    const bool may_stay = !place.as_its_users || place.user < 0;
    if (may_stay && ::setns(place.space, 0) == 0) return true;
    if (place.user < 0 || ::setns(place.user, CLONE_NEWUSER) != 0) return false;
    if (place.as_its_users) be_somebody();
    return ::setns(place.space, 0) == 0;
}

int run(void* argument) {
    auto& errand = *static_cast<Errand*>(argument);
    const int dumpable = ::prctl(PR_GET_DUMPABLE);
    const bool entered = enter(errand.place);
    const int problem = errno;
    // Somebody who gains rights takes this from the memory that both have (commit_creds(), kernel/cred.c),
    // and with it /proc/self from an ordinary user. And he loses the signal at his parent's death.
    if (dumpable == 1) ::prctl(PR_SET_DUMPABLE, 1);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    errno = problem;
    errand.done = entered ? errand.work() : fail_errno("its namespace can't be entered");
    return 0;
}

// Untouched pages of it take no memory.
class ErrandStack {
  public:
    ErrandStack()
        : memory_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0)) {}
    ErrandStack(const ErrandStack&) = delete;
    ErrandStack& operator=(const ErrandStack&) = delete;
    ~ErrandStack() {
        if (memory_ != MAP_FAILED) ::munmap(memory_, bytes);
    }
    [[nodiscard]] void* top() const {
        return memory_ == MAP_FAILED ? nullptr : static_cast<char*>(memory_) + bytes;
    }

  private:
    static constexpr std::size_t bytes = std::size_t{8} << 20;  // as a thread's of RLIMIT_STACK's default
    void* memory_;
};

}  // namespace

Result<> in_namespace(const NamespacePlace& place, const std::function<Result<>()>& work) {
    if (place.space < 0) return work();
    const ErrandStack stack;
    if (stack.top() == nullptr) return fail_errno("mmap");
    Errand errand{place, work};
    const int child = ::clone(run, stack.top(), CLONE_FILES | CLONE_VM | CLONE_VFORK | SIGCHLD, &errand);
    if (child < 0) return fail_errno("clone");
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    return std::move(errand.done);
}

}  // namespace cairn
