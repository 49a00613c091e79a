// Who may call next to nothing: seccomp's strict mode, of a process and of a single thread, and a filter that
// kills for everything but what the program itself calls. What a checkpoint and a restart call in them is not
// in there.
// ci: exact virtual
// rain: soak
// narrow: none
// root: filters are suspended for the machine's root only
// heirs: none
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <cstddef>
#include <fstream>
#include <string>
#include <thread>

#include "support.h"

namespace {

// Nothing of libc's or libcairn.so's is between.
long call(long number, long a = 0, long b = 0, long c = 0) {
    long result = 0;
    asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

// What /proc says of a thread: 1 is strict, 2 has filters.
int mode_of(const std::string& task) {
    std::ifstream status("/proc/" + task + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("Seccomp:")) return std::stoi(line.substr(line.find(':') + 1));
    return -1;
}

void allow_reading_and_writing() {
    sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 4),
                          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 3, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program = {std::size(code), code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
}

void be_strict() {
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
}

// Its memory is more than its registers: a sum over pages that it writes to at each order.
struct Work {
    static constexpr std::size_t words = 64 * 4096 / sizeof(unsigned);
    unsigned* memory = static_cast<unsigned*>(
        mmap(nullptr, words * sizeof(unsigned), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

    unsigned step() const {
        unsigned sum = 0;
        for (std::size_t i = 0; i < words; ++i) sum += memory[i] += static_cast<unsigned>(i);
        return sum;
    }
};

// Answers each byte with what its memory sums up to; at 'x' it calls what it may not.
[[noreturn]] void answer(int orders, int answers, const Work& work) {
    for (;;) {
        char order = 0;
        if (call(SYS_read, orders, reinterpret_cast<long>(&order), 1) != 1) continue;
        if (order == 'x') call(SYS_getppid);
        const unsigned sum = work.step();
        call(SYS_write, answers, reinterpret_cast<long>(&sum), sizeof sum);
    }
}

class Bound {
  public:
    // `bind`: puts the caller under what binds it. A child of ours, or a thread.
    Bound(void (*bind)(), int mode, int death, bool of_thread) : mode_(mode), death_(death) {
        CHECK(pipe(orders_) == 0 && pipe(answers_) == 0 && work_.memory != MAP_FAILED);
        if (of_thread) {
            std::thread([this, bind] {
                task_ = "self/task/" + std::to_string(gettid());
                bind();
                answer(orders_[0], answers_[1], work_);
            }).detach();
        } else {
            child_ = fork();
            CHECK(child_ >= 0);
            if (child_ == 0) {
                CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
                bind();
                answer(orders_[0], answers_[1], work_);
            }
        }
        check();
    }

    void check() {
        const unsigned expected = expected_.step();
        unsigned sum = 0;
        CHECK(write(orders_[1], "s", 1) == 1 && read(answers_[0], &sum, sizeof sum) == sizeof sum);
        CHECK(sum == expected);
        CHECK(mode_of(child_ > 0 ? std::to_string(child_) : task_) == mode_);
        if (child_ > 0) CHECK(waitpid(child_, nullptr, WNOHANG) == 0);
    }
    // It is still bound: what it may not do is its death.
    void end() const {
        int status = 0;
        CHECK(write(orders_[1], "x", 1) == 1);
        if (child_ == 0) {
            while (mode_of(task_) >= 0) test::nap(1);
            return;
        }
        CHECK(waitpid(child_, &status, 0) == child_ && WIFSIGNALED(status) && WTERMSIG(status) == death_);
    }

  private:
    int mode_, death_;
    int orders_[2] = {}, answers_[2] = {};
    Work work_, expected_;
    pid_t child_ = 0;
    std::string task_;
};

}  // namespace

int main() {
    const char* const mode = std::getenv("CAIRN_TEST_MODE");
    if (geteuid() != 0 || (mode != nullptr && std::strcmp(mode, "userns") == 0))
        test::skip("only the machine's root can suspend filters (resource.refused)");
    if (mode_of("self") != 0) test::skip("nobody under a filter can be strict");
    static Bound strict(be_strict, 1, SIGKILL, false), filtered(allow_reading_and_writing, 2, SIGSYS, false),
        thread(be_strict, 1, SIGKILL, true);
    test::serve([&](bool last) {
        for (auto* const each : {&strict, &filtered, &thread}) each->check();
        if (!last) return;
        for (auto* const each : {&strict, &filtered, &thread}) each->end();
    });
}
