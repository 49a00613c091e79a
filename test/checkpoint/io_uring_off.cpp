// Launched with --io-uring=enosys: the kernel has no io_uring for this program, its threads, its children,
// and what these execute; everything else is as ever.
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <thread>

#include "support.h"

namespace {

bool is_off() {
    io_uring_params parameters = {};
    long result = SYS_io_uring_setup;
    register long r10 asm("r10") = 0;
    // As liburing does it: no function of libc's.
    asm volatile("syscall"
                 : "+a"(result)
                 : "D"(4), "S"(&parameters), "d"(0), "r"(r10)
                 : "rcx", "r11", "memory");
    return result == -ENOSYS;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 2) _exit(is_off() ? 17 : 18);
    CHECK(is_off());
    test::serve([&](bool) {
        CHECK(is_off());
        bool in_thread = false;
        std::thread([&] { in_thread = is_off(); }).join();
        CHECK(in_thread);
        const pid_t child = fork();
        if (child == 0) {
            execl(argv[0], argv[0], "child", nullptr);
            _exit(1);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 17);
    });
}
