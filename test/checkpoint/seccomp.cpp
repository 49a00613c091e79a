// Seccomp filters of the program's own, where the kernel gives them back (to root): each still denies what it
// denied, in the order in which they were installed, in every thread and process, also if who installed it
// has given up the right to.
// ci: exact user
// rain: soak
// narrow: none
// root: filters are told to the machine's root only
// heirs: none
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstddef>
#include <thread>
#include <vector>

#include "support.h"

namespace {

// Nobody needs the calls that are forbidden here.
std::vector<sock_filter> forbid(long call, unsigned action) {
    return {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 3),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1),
            BPF_STMT(BPF_RET | BPF_K, action),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
}

long install(std::vector<sock_filter> code, unsigned flags = 0) {
    const sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

bool denied(long call, int error) {
    errno = 0;
    return syscall(call, -1, -1, -1, -1) == -1 && errno == error;
}

// Another thread or process that checks itself when it is told to.
class Asked {
  public:
    Asked() { CHECK(pipe(go_) == 0 && pipe(told_) == 0); }
    template <class Check>
    void serve(Check check) {
        char order = 0;
        check();
        CHECK(write(told_[1], "r", 1) == 1);
        while (read(go_[0], &order, 1) == 1 && order != 'q') {
            check();
            CHECK(write(told_[1], &order, 1) == 1);
        }
    }
    void await() const {
        char answer = 0;
        CHECK(read(told_[0], &answer, 1) == 1);
    }
    void ask() const {
        CHECK(write(go_[1], "x", 1) == 1);
        await();
    }
    [[nodiscard]] int orders() const { return go_[0]; }
    void end() const { CHECK(write(go_[1], "q", 1) == 1); }

  private:
    int go_[2] = {}, told_[2] = {};
};

int no_new_privs() {
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
}

volatile sig_atomic_t trapped = 0;
void on_trap(int, siginfo_t* info, void*) {
    trapped = info->si_syscall;
}

// Four filters, one of them told to log; the newest that denies a call says how. From the third on they
// forbid seccomp(2), so the fourth came by prctl(2), as it must come again.
[[noreturn]] void four_filters(Asked& asked) {
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(install(forbid(SYS_vhangup, SECCOMP_RET_ERRNO | 71), SECCOMP_FILTER_FLAG_LOG) == 0);
    CHECK(install(forbid(SYS_vhangup, SECCOMP_RET_ERRNO | 72)) == 0);
    CHECK(install(forbid(SYS_seccomp, SECCOMP_RET_ERRNO | 74)) == 0);
    auto last = forbid(SYS_acct, SECCOMP_RET_TRAP);
    const sock_fprog program = {static_cast<unsigned short>(last.size()), last.data()};
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    struct sigaction action = {};
    action.sa_sigaction = on_trap;
    action.sa_flags = SA_SIGINFO;
    CHECK(sigaction(SIGSYS, &action, nullptr) == 0);
    const auto check = [] {
        trapped = 0;
        CHECK(denied(SYS_vhangup, 72) && denied(SYS_seccomp, 74) && no_new_privs() == 1);
        syscall(SYS_acct, -1);
        CHECK(trapped == SYS_acct);
    };
    Asked inherits;
    std::thread thread([&] { inherits.serve(check); });
    inherits.await();
    asked.serve([&] {
        check();
        inherits.ask();
    });
    inherits.end();
    thread.join();
    _exit(0);
}

// Threads that share their filters can be given one more together, which the kernel allows only if what they
// have is the same chain, not an equal one.
[[noreturn]] void together(Asked& asked) {
    Asked other;
    std::thread thread([&] { other.serve([] { CHECK(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0); }); });
    other.await();
    CHECK(install(forbid(SYS_vhangup, SECCOMP_RET_ERRNO | 71), SECCOMP_FILTER_FLAG_TSYNC) == 0);
    asked.serve([&] {
        CHECK(denied(SYS_vhangup, 71));
        other.ask();
    });
    CHECK(install(forbid(SYS_acct, SECCOMP_RET_ERRNO | 75), SECCOMP_FILTER_FLAG_TSYNC) == 0);
    other.end();
    thread.join();
    CHECK(denied(SYS_acct, 75));
    _exit(0);
}

std::uint64_t effective_capabilities() {
    const __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    CHECK(syscall(SYS_capget, &header, data) == 0 && data[0].permitted == data[0].effective &&
          data[1].permitted == data[1].effective);
    return std::uint64_t{data[1].effective} << 32 | data[0].effective;
}

// As daemons do: filters first, without no_new_privs, and the right to install any given up behind them. One
// becomes another user, whose filter forbids that rights are given up otherwise, one keeps a right.
[[noreturn]] void given_up(Asked& asked, bool other_user) {
    constexpr std::uint64_t kept = std::uint64_t{1} << CAP_NET_RAW;
    const auto keep_one = [&] {
        const __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
        const __user_cap_data_struct wanted[2] = {{kept, kept, 0}, {}};
        CHECK(other_user || syscall(SYS_capset, &header, wanted) == 0);
    };
    const auto check = [&] {
        CHECK(denied(SYS_vhangup, 71) && no_new_privs() == 0);
        CHECK(effective_capabilities() == (other_user ? 0 : kept));
        CHECK(install(forbid(SYS_acct, SECCOMP_RET_ERRNO | 1)) == -1 && errno == EACCES);
    };
    CHECK(install(forbid(SYS_vhangup, SECCOMP_RET_ERRNO | 71)) == 0);
    if (other_user) CHECK(install(forbid(SYS_capset, SECCOMP_RET_ERRNO | 73)) == 0);
    Asked other;
    std::thread thread([&] {
        char begin = 0;
        keep_one();
        CHECK(read(other.orders(), &begin, 1) == 1);
        other.serve(check);
    });
    CHECK(install(forbid(SYS_acct, SECCOMP_RET_ERRNO | 72)) == 0);
    keep_one();
    if (other_user) CHECK(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
    other.ask();
    asked.serve([&] {
        check();
        CHECK(denied(SYS_acct, 72) && (!other_user || denied(SYS_capset, 73)));
        other.ask();
    });
    other.end();
    thread.join();
    _exit(0);
}

}  // namespace

int main() {
    const char* const mode = std::getenv("CAIRN_TEST_MODE");
    if (geteuid() != 0 || (mode != nullptr && std::strcmp(mode, "userns") == 0))
        test::skip("the kernel gives filters back to the machine's root only (resource.refused)");
    static Asked first, second, other_user, one_right, sleeper, stricter;
    const auto begin = [](Asked& asked, auto become) {
        const pid_t child = fork();
        if (child == 0) become(asked);
        asked.await();
        return child;
    };
    const pid_t children[] = {begin(first, four_filters), begin(second, together),
                              begin(other_user, [](Asked& asked) { given_up(asked, true); }),
                              begin(one_right, [](Asked& asked) { given_up(asked, false); })};

    // Here: one that all have, and one that a single thread has, with no_new_privs for it alone.
    std::thread sleeping([] { sleeper.serve([] { CHECK(!denied(SYS_getpriority, 61)); }); });
    sleeper.await();
    CHECK(install(forbid(SYS_vhangup, SECCOMP_RET_ERRNO | 71), SECCOMP_FILTER_FLAG_TSYNC) == 0);
    std::thread strict([] {
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        CHECK(install(forbid(SYS_getpriority, SECCOMP_RET_ERRNO | 61)) == 0);
        stricter.serve(
            [] { CHECK(denied(SYS_getpriority, 61) && denied(SYS_vhangup, 71) && no_new_privs() == 1); });
    });
    stricter.await();
    const auto all = {&first, &second, &other_user, &one_right, &sleeper, &stricter};
    test::serve([&](bool last) {
        CHECK(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER && no_new_privs() == 0);
        CHECK(denied(SYS_vhangup, 71) && !denied(SYS_getpriority, 61));
        for (const auto* each : all) each->ask();
        if (!last) return;
        for (const auto* each : all) each->end();
        sleeping.join();
        strict.join();
        for (const pid_t child : children) {
            int status = 0;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
        }
    });
}
