// For the tests with virtual ids: children and threads that go by another id than the kernel's.
#pragma once

#include <sys/types.h>

#include <functional>

namespace subject {

inline constexpr int far = 1'000'000;  // virtual id = real id + far

// What a restart does for the calling thread: its ids in the map, its virtual tid in libc's block.
void make_virtual();

// A child with a virtual pid, which waits for go() and then ends with what `run` returns. `run` gets its end
// of a connection to us.
struct Child {
    explicit Child(std::function<int(int)> run);
    void go();
    void expect_end(int status_wanted);

    pid_t id = -1, real = -1;
    int control = -1;
};

// One that is traced, and forks: where newcomers get another number than the kernel's.
void traced_newcomer(bool by_number);

}  // namespace subject
