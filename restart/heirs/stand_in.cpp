#include "restart/heirs/stand_in.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace cairn::restart {
namespace {

// One that has got an id which the computation needs is kept until another one has been made.
constexpr int most_tries = 1000;

// The heir may take from it what it likes, for the same reasons as from a keeper of descriptors
// (resources/restore/holding.cpp).
[[noreturn]] void wait_to_be_taken_from() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2]{};
    ::syscall(SYS_capset, &header, none);
    ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    ::raise(SIGSTOP);
    for (;;) ::pause();
}

[[noreturn]] void stand_in(pid_t tool, const std::function<bool()>& arrange) {
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);  // of a terminal; it ends with the tool
    ::prctl(PR_SET_NAME, "cairn-stand-in", 0, 0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (::getppid() != tool || !arrange()) ::_exit(1);
    wait_to_be_taken_from();
}

void end(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, __WALL);
}

// Those that an exec leaves open, in order.
Result<std::vector<int>> open_behind_exec(pid_t pid) {
    std::vector<int> numbers;
    std::error_code problem;
    const std::string folder = fmt::format("/proc/{}/fdinfo", pid);
    for (const auto& entry : std::filesystem::directory_iterator(folder, problem)) {
        std::ifstream file(entry.path());
        for (std::string word; file >> word;) {
            if (word != "flags:") continue;
            file >> word;
            if ((std::strtoul(word.c_str(), nullptr, 8) & O_CLOEXEC) == 0)
                numbers.push_back(std::atoi(entry.path().filename().c_str()));
            break;
        }
    }
    if (problem) return fail("{}: {}", folder, problem.message());
    std::ranges::sort(numbers);
    return numbers;
}

}  // namespace

HeirStandIns::~HeirStandIns() {
    for (const pid_t pid : all_) end(pid);
}

Result<HeirStandIn> HeirStandIns::start(const std::function<bool()>& arrange) {
    const pid_t tool = ::getpid();
    pid_t pid = -1;
    std::vector<pid_t> refused;
    for (int tries = 0; tries < most_tries; ++tries) {
        pid = ::fork();
        if (pid == 0) stand_in(tool, arrange);
        if (pid < 0 || !avoid_.contains(KernelId(pid))) break;
        refused.push_back(pid);
    }
    const int problem = errno;
    for (const pid_t each : refused) end(each);
    errno = problem;
    if (pid < 0) return fail_errno("a process that stands in for another's descriptors can't be made");
    all_.push_back(pid);
    int status = 0;
    if (::waitpid(pid, &status, __WALL | WUNTRACED) != pid || !WIFSTOPPED(status)) {
        std::erase(all_, pid);
        return fail("the process that stands in for its descriptors has ended");
    }
    auto held = TRY(open_behind_exec(pid));
    return HeirStandIn{pid, std::move(held)};
}

}  // namespace cairn::restart
