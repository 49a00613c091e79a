// The programs of the paper whose processes don't come back by forking parents before children: forest a|b.
// Each process is named after its place, and looks all the time whether it still stands there. Its figures 9
// and 10. And its two programs on two terminals (figures 11 and 12): forest first|second FIFO FIFO pass a
// number to and fro.
#include <sys/wait.h>

#include <string_view>

#include "support.h"

namespace {
char* title = nullptr;
size_t title_size = 0;
int ready[2];

void call_myself(const char* name) {
    std::memset(title, 0, title_size);
    std::snprintf(title, title_size, "forest-%s", name);
}

[[noreturn]] void stand(const char* name, bool orphan = false) {
    call_myself(name);
    const pid_t pid = getpid(), parent = getppid(), group = getpgrp(), session = getsid(0);
    CHECK(write(ready[1], "r", 1) == 1);
    close(ready[0]);
    close(ready[1]);
    for (;; test::nap(20)) {
        CHECK(getpid() == pid && getpgrp() == group && getsid(0) == session);
        CHECK(orphan || getppid() == parent);  // who adopts it is the machine's business
    }
}

// In the child `then` doesn't return.
template <class Then>
pid_t child(Then then) {
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        then();
        _exit(9);
    }
    return pid;
}
void leaf(const char* name) {
    child([=] { stand(name); });
}

void tree_a() {
    leaf("p11");
    leaf("p12");
    child([] {
        CHECK(setsid() == getpid());
        leaf("p131");
        leaf("p132");
        const pid_t between = child([] {
            child([first = getpid()] {
                while (getppid() == first) test::nap(1);
                leaf("p21");
                leaf("p22");
                stand("p2", true);
            });
            _exit(0);
        });
        CHECK(waitpid(between, nullptr, 0) == between);
        stand("p13");
    });
}

void tree_b() {
    leaf("p11");
    leaf("p12");
    child([] {
        leaf("p131");
        leaf("p132");
        CHECK(setsid() == getpid());
        leaf("p133");
        stand("p13");
    });
}

[[noreturn]] void pass(bool first, const char* to, const char* from) {
    const int out = open(to, O_RDWR | O_CLOEXEC), in = open(from, O_RDWR | O_CLOEXEC);
    CHECK(out >= 0 && in >= 0);
    unsigned number = 0;
    if (first) CHECK(write(out, &number, sizeof number) == sizeof number);
    test::say("READY");
    for (unsigned expected = first ? 1 : 0;; expected += 2) {
        CHECK(read(in, &number, sizeof number) == sizeof number);
        CHECK(number == expected);
        if (number % 100 < 2) {
            char text[40];
            std::snprintf(text, sizeof text, "at %u", number);
            test::say(text);
        }
        ++number;
        test::nap(1);
        CHECK(write(out, &number, sizeof number) == sizeof number);
    }
}
}  // namespace

int main(int argc, char** argv) {
    const std::string_view kind = argc > 1 ? argv[1] : "";
    if (argc == 4) pass(kind == "first", argv[2], argv[3]);
    CHECK(argc == 3 && (kind == "a" || kind == "b"));  // the third is room for the names
    title = argv[0];
    title_size = static_cast<size_t>(argv[2] + std::strlen(argv[2]) - argv[0]);
    CHECK(pipe(ready) == 0);
    if (kind == "a")
        tree_a();
    else
        tree_b();
    char byte = 0;
    for (int others = kind == "a" ? 8 : 6; others > 0; --others) CHECK(read(ready[0], &byte, 1) == 1);
    test::say("READY");
    stand("p1");
}
