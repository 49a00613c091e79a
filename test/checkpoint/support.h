// For the programs of this folder: they set something up, say READY, and check it whenever they are told to.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <initializer_list>
#include <vector>

namespace test {

// The case that this thread sets up or checks: a CHECK that fails says its name. A thread that a case has
// started has none.
inline thread_local const char* case_name = nullptr;

[[noreturn]] inline void failed(const char* file, int line, const char* what) {
    const int number = errno;
    char text[512];
    const int length = std::snprintf(text, sizeof text, "FAILED %s:%d: %s%s%s (errno %d %s) in pid %d\n",
                                     file, line, case_name ? case_name : "", case_name ? ": " : "", what,
                                     number, std::strerror(number), static_cast<int>(getpid()));
    if (write(1, text, static_cast<size_t>(length)) < 0) _exit(3);
    _exit(1);
}

// errno is kept for the message.
#define CHECK(condition)                                                  \
    do {                                                                  \
        if (!(condition)) ::test::failed(__FILE__, __LINE__, #condition); \
    } while (0)

inline void say(const char* text) {
    // One write: lines of several processes must not mix.
    char line[4096];
    const int length = std::snprintf(line, sizeof line, "%s\n", text);
    if (write(1, line, static_cast<size_t>(length)) != length) _exit(3);
}

[[noreturn]] inline void skip(const char* why) {
    char line[200];
    std::snprintf(line, sizeof line, "SKIP %s", why);
    say(line);
    _exit(0);
}

inline void nap(long milliseconds) {
    timespec time{milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&time, &time) != 0 && errno == EINTR) {
    }
}

inline double now(clockid_t clock = CLOCK_MONOTONIC) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// Options of sockets that are an int.
inline int option(int fd, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    CHECK(getsockopt(fd, level, name, &value, &length) == 0);
    return value;
}

inline void set_option(int fd, int level, int name, int value) {
    CHECK(setsockopt(fd, level, name, &value, sizeof value) == 0);
}

// A witness looks at it before and after (witness/witness.py): what would move by itself meanwhile, and is
// seen to be right by other tests of this program, is to stand still.
inline bool is_watched() {
    return std::getenv("CAIRN_TEST_WATCHED") != nullptr;
}

// For a child that looks again and again. A watched one is asleep nearly always: where a busy machine doesn't
// let it run between three looks of the witness, it seems to stand still in the midst of what it does.
inline void nap_between_looks() {
    nap(is_watched() ? 100 : 1);
}

// The driver's orders: a file that is replaced by rename, read by its full path, and opened only where stat
// says that it is another one than the last: no descriptor of this machinery is open when a checkpoint is
// taken. A restart would rightly refuse a file that was open then and has other content since.
class Orders {
  public:
    Orders() : path_(std::getenv("CAIRN_TEST_COMMAND")) { CHECK(path_ != nullptr); }

    // Waits for the next order; false if it is "go", the last one.
    bool next() {
        for (;; nap(5))
            if (const int order = poll(); order != 0) return order > 0;
    }

    // 1: there is a new order, -1: it is the last one, 0: there is none.
    int poll() {
        struct stat there {};
        if (stat(path_, &there) != 0 ||
            (there.st_ino == read_.st_ino && there.st_dev == read_.st_dev &&
             there.st_mtim.tv_sec == read_.st_mtim.tv_sec && there.st_mtim.tv_nsec == read_.st_mtim.tv_nsec))
            return 0;
        const int fd = open(path_, O_RDONLY | O_CLOEXEC);
        if (fd < 0) return 0;
        CHECK(fstat(fd, &read_) == 0);
        char order[64] = "";
        const ssize_t got = read(fd, order, sizeof order - 1);
        close(fd);
        order[std::strcspn(order, "\n")] = 0;
        if (got <= 0 || std::strcmp(order, last_) == 0) return 0;
        std::strcpy(last_, order);
        return std::strcmp(order, "go") != 0 ? 1 : -1;
    }

    // "check ..."
    [[nodiscard]] const char* last() const { return last_; }

    void answer() const {
        char text[80];
        std::snprintf(text, sizeof text, "CHECKED %s", last_ + std::strlen("check "));
        say(text);
    }

  private:
    const char* path_;
    struct stat read_ {};  // the file of the last order
    char last_[64] = "";
};

// Says READY, calls verify(false) at every order and verify(true) at the last one, which ends the program.
template <class Verify>
[[noreturn]] void serve(Verify verify) {
    Orders orders;
    say("READY");
    while (orders.next()) {
        verify(false);
        orders.answer();
    }
    verify(true);
    say("EXIT-SUCCESS");
    _exit(0);
}

// A case sets up what it needs and gives back what checks it, which is told whether the order is the last
// one.
using Check = std::function<void(bool last)>;
struct Case {
    const char* name;
    std::function<Check()> set_up;
};

// Sets the cases up one after the other, and checks them in the same order at every order of the driver.
[[noreturn]] inline void serve(std::initializer_list<Case> cases) {
    std::vector<Check> checks;
    for (const Case& each : cases) {
        case_name = each.name;
        checks.push_back(each.set_up());
    }
    serve([&](bool last) {
        for (std::size_t i = 0; i < cases.size(); ++i) {
            case_name = cases.begin()[i].name;
            checks[i](last);
        }
    });
}

}  // namespace test
