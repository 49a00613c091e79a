// System calls that the kernel hands to the thread itself (PR_SET_SYSCALL_USER_DISPATCH, as Wine's threads
// have it): one thread stands in code whose calls are handed over, one in code whose calls are made, and one
// has never asked for it.
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "support.h"

namespace {

constexpr long foreign_call = 9999, answer = 4242;
thread_local volatile char selector = SYSCALL_DISPATCH_FILTER_ALLOW;

void take_call(int, siginfo_t* info, void* context) {
    selector = SYSCALL_DISPATCH_FILTER_ALLOW;
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    registers[REG_RAX] = info->si_syscall == foreign_call ? answer : -1;
}

// By an instruction of this program's: the handler has to return first.
long call_handed_over() {
    long result = foreign_call;
    selector = SYSCALL_DISPATCH_FILTER_BLOCK;
    asm volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
    return result;
}

void ask_for_dispatch() {
    CHECK(prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector) == 0);
    CHECK(call_handed_over() == answer);
}

std::atomic<long> asked = 0, foreign_done = 0, sleeper_done = 0;
std::atomic<int> ready = 0;

// As an interpreter that runs foreign code, without a call for most of its time.
void* run_foreign_code(void*) {
    ask_for_dispatch();
    ++ready;
    for (;;) {
        selector = SYSCALL_DISPATCH_FILTER_BLOCK;
        while (asked == foreign_done) {
        }
        CHECK(call_handed_over() == answer);
        foreign_done.store(asked);
    }
}

void* sleep_between(void*) {
    ask_for_dispatch();
    ++ready;
    for (;;) {
        test::nap_between_looks();
        if (asked == sleeper_done) continue;
        CHECK(call_handed_over() == answer);
        sleeper_done.store(asked);
    }
}

}  // namespace

int main() {
    struct sigaction action = {};
    action.sa_sigaction = take_call;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    CHECK(sigaction(SIGSYS, &action, nullptr) == 0);
    struct utsname kernel = {};
    CHECK(uname(&kernel) == 0);
    int major = 0, minor = 0;
    if (std::sscanf(kernel.release, "%d.%d", &major, &minor) != 2 || major * 100 + minor < 604)
        test::skip("before Linux 6.4 nobody sees what is handed over");
    pthread_t foreign, sleeper;
    CHECK(pthread_create(&foreign, nullptr, run_foreign_code, nullptr) == 0);
    CHECK(pthread_create(&sleeper, nullptr, sleep_between, nullptr) == 0);
    while (ready < 2) test::nap(1);
    test::serve([&](bool) {
        const long number = ++asked;
        for (int tries = 0; sleeper_done != number || foreign_done != number; ++tries) {
            CHECK(tries < 5000);
            test::nap(2);
        }
        errno = 0;
        CHECK(syscall(foreign_call) == -1 && errno == ENOSYS);  // this thread's are made
    });
}
