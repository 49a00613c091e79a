// mlock(2), mlock2(MLOCK_ONFAULT), mlockall(MCL_FUTURE): what is locked stays locked, and so will be what is
// mapped later.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
// still: user
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>

#include "support.h"

namespace {

constexpr std::size_t page = 4096;

char* map(std::size_t pages) {
    void* at = mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return static_cast<char*>(at);
}
// VmFlags of the mapping at an address.
std::string flags_of(const char* address) {
    std::ifstream maps("/proc/self/smaps");
    bool here = false;
    for (std::string line; std::getline(maps, line);) {
        unsigned long start = 0, end = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx ", &start, &end) == 2)
            here = reinterpret_cast<unsigned long>(address) >= start &&
                   reinterpret_cast<unsigned long>(address) < end;
        else if (here && line.starts_with("VmFlags:"))
            return line + " ";
    }
    return "";
}
bool has(const char* address, const char* flag) {
    return flags_of(address).find(std::string(" ") + flag + " ") != std::string::npos;
}
long locked_kilobytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmLck:")) return std::atol(line.c_str() + 6);
    return -1;
}
bool resident(char* address) {
    unsigned char in = 0;
    CHECK(mincore(address, page, &in) == 0);
    return (in & 1) != 0;
}

}  // namespace

int main() {
    rlimit limit{};
    CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    if (limit.rlim_cur < 64 * page) test::skip("RLIMIT_MEMLOCK is too low");
    char* some = map(8);
    CHECK(mlock(some + 2 * page, 3 * page) == 0);
    some[2 * page] = 'a';
    char* touched = map(4);
    CHECK(mlock2(touched, 4 * page, MLOCK_ONFAULT) == 0);
    touched[page] = 'b';
    const bool tells = has(touched, "lf");  // since Linux 6.14
    CHECK(!resident(touched));
    const long all = locked_kilobytes();
    // Of memory to come, each in a child.
    struct Kind {
        int flags;
        bool locks, at_once;
    };
    int answers[2];
    CHECK(pipe(answers) == 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, nullptr) == 0);
    pid_t children[3];
    int count = 0;
    for (const Kind kind :
         {Kind{0, false, false}, Kind{MCL_FUTURE, true, true}, Kind{MCL_FUTURE | MCL_ONFAULT, true, false}}) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child > 0) {
            children[count++] = child;
            continue;
        }
        if (kind.flags != 0) CHECK(mlockall(kind.flags) == 0);
        for (int signal;;) {
            CHECK(sigwait(&set, &signal) == 0);
            char* fresh = map(2);
            char good = has(fresh, "lo") == kind.locks && resident(fresh) == kind.at_once ? 'y' : 'n';
            CHECK(munmap(fresh, 2 * page) == 0);
            if (write(answers[1], &good, 1) != 1) _exit(1);
        }
    }
    test::serve([&](bool last) {
        CHECK(has(some + 2 * page, "lo") && has(some + 4 * page, "lo") && !has(some, "lo") &&
              !has(some + 5 * page, "lo"));
        CHECK(resident(some + 3 * page) && some[2 * page] == 'a' && locked_kilobytes() == all);
        CHECK(has(touched, "lo") && touched[page] == 'b');
        if (tells) CHECK(has(touched, "lf") && !resident(touched) && !resident(touched + 3 * page));
        for (int i = 0; i < count; ++i) {
            char good = 0;
            CHECK(kill(children[i], SIGUSR1) == 0 && read(answers[0], &good, 1) == 1 && good == 'y');
        }
        if (!last) return;
        for (int i = 0; i < count; ++i)
            CHECK(kill(children[i], SIGKILL) == 0 && waitpid(children[i], nullptr, 0) == children[i]);
    });
}
