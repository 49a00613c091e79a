#include "cli/doctor/look.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>

#include "common/fd.h"

namespace cairn::doctor {

std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    // Some end in a zero byte.
    return line.substr(0, line.find('\0'));
}

std::string own_status(const std::string& name) {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(name + ":")) {
            const auto begin = line.find_first_not_of(" \t", name.size() + 1);
            return begin == std::string::npos ? std::string() : line.substr(begin);
        }
    return {};
}

bool has_capability(int number) {
    return (std::strtoull(own_status("CapEff").c_str(), nullptr, 16) >> number & 1) != 0;
}

Observation as_stranger(const std::function<Observation(pid_t)>& what) {
    std::array<int, 2> ready{};
    if (::pipe2(ready.data(), O_CLOEXEC) != 0) return failed("pipe");
    const Fd seen(ready[0]);
    Fd told(ready[1]);
    const pid_t still = ::fork();
    if (still < 0) return failed("fork");
    if (still == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        [[maybe_unused]] const ssize_t put = ::write(told.get(), "r", 1);
        for (;;) ::pause();
    }
    told.reset();
    char byte = 0;
    [[maybe_unused]] const ssize_t got = ::read(seen.get(), &byte, 1);
    auto result = try_one([&] { return what(still); }, std::chrono::seconds(1));
    ::kill(still, SIGKILL);
    ::waitpid(still, nullptr, 0);
    return result;
}

void note_rules(Observation& seen) {
    const auto keep = [&](const char* name, const std::string& value) {
        if (!value.empty()) seen.facts[name] = value;
    };
    keep("yama", first_line("/proc/sys/kernel/yama/ptrace_scope"));
    keep("seccomp", own_status("Seccomp"));
    keep("selinux", first_line("/sys/fs/selinux/enforce"));
    keep("deny_ptrace", first_line("/sys/fs/selinux/booleans/deny_ptrace"));
    // Before Linux 5.8 one place served all modules.
    if (const auto own = first_line("/proc/self/attr/apparmor/current"); !own.empty())
        keep("apparmor", own);
    else if (first_line("/sys/module/apparmor/parameters/enabled") == "Y")
        keep("apparmor", first_line("/proc/self/attr/current"));
}

}  // namespace cairn::doctor
