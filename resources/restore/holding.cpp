#include "resources/restore/holding.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace cairn::restart {
namespace {

// Numbers below are the tool's own standard descriptors.
constexpr int first_number = 3;

// A keeper that has got an id which the computation needs is kept until another one has been made.
constexpr int most_keepers = 1000;

void close_all_but(const std::vector<int>& sorted) {
    unsigned next = 0;
    for (const int number : sorted) {
        const auto fd = static_cast<unsigned>(number);
        if (fd > next) ::close_range(next, fd - 1, 0);
        next = fd + 1;
    }
    ::close_range(next, UINT_MAX, 0);
}

// Whoever of the same user asks is given what is here (PTRACE_MODE_ATTACH): it has no capability, for the
// kernel asks that who takes has all that who is taken from has; it is dumpable, which the tool may not be
// any more since it has acted as others; and it allows everybody, for yama would allow its ancestors only.
[[noreturn]] void keep(pid_t tool, std::vector<int> numbers, int ready) {
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);  // of a terminal; it ends with the tool
    ::prctl(PR_SET_NAME, "cairn-keeper", 0, 0, 0);
    numbers.push_back(ready);
    std::ranges::sort(numbers);
    close_all_but(numbers);
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2]{};
    ::syscall(SYS_capset, &header, none);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (::getppid() != tool) ::_exit(1);
    ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    (void)!::write(ready, "k", 1);
    ::close(ready);
    for (;;) ::pause();
}

struct Child {
    pid_t pid = -1;
    Fd pidfd;

    void end() {
        ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
        ::waitpid(pid, nullptr, __WALL);
    }
};

Result<Child> make_keeper(const std::vector<int>& numbers) {
    const pid_t tool = ::getpid();
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("pipe");
    const Fd ready(ends[0]);
    Fd theirs(ends[1]);
    Child child{::fork(), {}};
    if (child.pid == 0) keep(tool, numbers, theirs.get());
    if (child.pid < 0) return fail_errno("a process that keeps descriptors can't be made");
    // Nobody has waited for it, so the number is its own.
    child.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, child.pid, 0)));
    const int problem = errno;
    theirs.reset();
    char byte = 0;
    if (child.pidfd && ::read(ready.get(), &byte, 1) == 1) return child;
    ::kill(child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, __WALL);
    errno = child.pidfd ? ECHILD : problem;
    return fail_errno("a process that keeps descriptors");
}

}  // namespace

Result<Fd> Fetcher::fetch(const Kept& kept) {
    if (keeper_ != kept.keeper) {
        const Fd low(static_cast<int>(::syscall(SYS_pidfd_open, kept.keeper, 0)));
        pidfd_.reset();
        if (low) pidfd_.reset(::fcntl(low.get(), F_DUPFD_CLOEXEC, floor_));
        if (!pidfd_) return fail_errno("process {}, which keeps descriptors", kept.keeper);
        keeper_ = kept.keeper;
    }
    Fd fetched(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd_.get(), kept.number, 0U)));
    if (!fetched)
        return fail_errno("descriptor {} of process {}, which keeps it (pidfd_getfd)", kept.number,
                          kept.keeper);
    return fetched;
}

Holding::Holding(std::size_t at_most, std::set<KernelId> avoid)
    : floor_(first_number), at_most_(std::max(at_most, std::size_t{1})), avoid_(std::move(avoid)) {}

Holding& Holding::operator=(Holding&& other) noexcept {
    if (this == &other) return *this;
    end_keepers();
    floor_ = other.floor_;
    at_most_ = other.at_most_;
    avoid_ = std::move(other.avoid_);
    doors_open_ = other.doors_open_;
    here_ = std::move(other.here_);
    kept_ = std::move(other.kept_);
    keepers_ = std::exchange(other.keepers_, {});
    return *this;
}

Holding::~Holding() {
    end_keepers();
}

void Holding::end_keepers() {
    for (auto& [pid, pidfd] : keepers_) Child{pid, std::move(pidfd)}.end();
    keepers_.clear();
    kept_.clear();
}

Result<> Holding::put(std::int64_t id, int fd) {
    if (uses_keepers() && doors_open_ && here_.size() >= at_most_) CHECK_OK(hand_over());
    Fd copy(::fcntl(fd, F_DUPFD, floor_));
    if (!copy) return fail_errno("F_DUPFD");
    kept_.erase(id);
    here_.insert_or_assign(id, std::move(copy));
    return {};
}

int Holding::here(std::int64_t id) const {
    const auto found = here_.find(id);
    return found == here_.end() ? -1 : found->second.get();
}

std::optional<Kept> Holding::kept(std::int64_t id) const {
    const auto found = kept_.find(id);
    return found == kept_.end() ? std::nullopt : std::optional(found->second);
}

Result<Lent> Holding::lend(std::int64_t id) const {
    if (const int held = here(id); held >= 0) return Lent(held);
    const auto where = kept(id);
    if (!where) return Lent();
    auto fetched = TRY(Fetcher(0).fetch(*where));
    return Lent(std::move(fetched));
}

Result<> Holding::hand_over() {
    if (!uses_keepers() || here_.empty()) return {};
    return start_keeper();
}

Result<> Holding::start_keeper() {
    std::vector<int> numbers;
    for (const auto& [id, fd] : here_) numbers.push_back(fd.get());
    std::vector<Child> misplaced;
    Result<Child> child = fail("no process id is free");
    for (int tries = 0; tries < most_keepers; ++tries) {
        child = make_keeper(numbers);
        if (!child || !avoid_.contains(KernelId(child->pid))) break;
        misplaced.push_back(std::move(*child));
        child = fail("no process id is free");
    }
    for (Child& each : misplaced) each.end();
    if (!child) return std::unexpected(std::move(child.error()));
    for (const auto& [id, fd] : here_) kept_.insert_or_assign(id, Kept{child->pid, fd.get()});
    keepers_.emplace_back(child->pid, std::move(child->pidfd));
    here_.clear();
    return {};
}

Result<> Holding::keep_only(const std::function<bool(std::int64_t id)>& wanted) {
    std::vector<std::int64_t> away;
    for (const auto& [id, where] : kept_)
        if (wanted(id)) away.push_back(id);
    std::erase_if(here_, [&](const auto& each) { return !wanted(each.first); });
    for (const std::int64_t id : away) {
        auto lent = TRY(lend(id));
        Fd copy(::fcntl(lent.get(), F_DUPFD, floor_));
        if (!copy) return fail_errno("F_DUPFD");
        here_.insert_or_assign(id, std::move(copy));
    }
    end_keepers();
    return {};
}

}  // namespace cairn::restart
