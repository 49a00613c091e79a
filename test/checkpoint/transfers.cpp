// Blocking transfers that are larger than the pipe: never short because of a checkpoint. A slow reader, a
// slow writer. transfers ROUNDS FILE: so many at least, and until the file is there.
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <initializer_list>
#include <vector>

#include "support.h"

int main(int argc, char** argv) {
    CHECK(argc == 3);
    const int rounds = std::atoi(argv[1]);
    constexpr size_t size = 1 << 20;
    int ends[2];
    CHECK(pipe(ends) == 0);
    test::say("READY");
    const pid_t reader = fork();
    CHECK(reader >= 0);
    std::vector<char> data(size);
    if (reader == 0) {
        close(ends[1]);
        size_t at = 0;
        for (;;) {
            char part[30000];
            const ssize_t got = read(ends[0], part, sizeof part);
            CHECK(got >= 0);
            if (got == 0) break;
            for (ssize_t i = 0; i < got; ++i, ++at)
                CHECK(part[i] == static_cast<char>(at % size * 2654435761U >> 13));
            test::nap(3);
        }
        CHECK(at % size == 0 && at >= size * static_cast<size_t>(rounds));
        _exit(0);
    }
    close(ends[0]);
    for (size_t i = 0; i < size; ++i) data[i] = static_cast<char>(i * 2654435761U >> 13);
    for (int round = 0; round < rounds || access(argv[2], F_OK) != 0; ++round) {
        if (round % 3 == 0) {
            CHECK(write(ends[1], data.data(), size) == static_cast<ssize_t>(size));
        } else if (round % 3 == 1) {
            // The kernel looks at the lower half of what a descriptor's register has.
            const long with_upper_half = ends[1] | 5L << 32;
            CHECK(syscall(SYS_write, with_upper_half, data.data(), size) == static_cast<long>(size));
        } else {
            iovec parts[3] = {
                {data.data(), 1000}, {data.data() + 1000, size - 3000}, {data.data() + size - 2000, 2000}};
            CHECK(writev(ends[1], parts, 3) == static_cast<ssize_t>(size));
        }
    }
    close(ends[1]);
    int status = 0;
    CHECK(waitpid(reader, &status, 0) == reader && status == 0);
    test::say("EXIT-SUCCESS");
    return 0;
}
