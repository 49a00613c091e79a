// Pipes and FIFOs with contents: partly read, full, packets, both ends here or one in a child, sizes, a
// writer that sleeps because it is full, end of file after the restart.
// rain: soak
// narrow: none
// heirs: exact
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "support.h"

namespace {
int in_pipe(int fd) {
    int count = -1;
    CHECK(ioctl(fd, FIONREAD, &count) == 0);
    return count;
}

using Ends = std::array<int, 2>;

Ends made(int flags = 0) {
    Ends ends{};
    CHECK(pipe2(ends.data(), flags) == 0);
    return ends;
}

void check_read(int fd, std::string_view expected) {
    char text[65536];
    CHECK(read(fd, text, sizeof text) == static_cast<ssize_t>(expected.size()));
    CHECK(expected == std::string_view(text, expected.size()));
}

// Reads as many bytes as it says, of which each has the value that `value` says.
template <class Value>
void drain(int fd, int count, Value value) {
    char text[65536];
    for (int at = 0; at < count;) {
        const ssize_t got = read(fd, text, sizeof text);
        CHECK(got > 0);
        for (ssize_t i = 0; i < got; ++i, ++at) CHECK(text[i] == value(at));
    }
}

test::Check partly_read() {
    const Ends plain = made();
    CHECK(write(plain[1], "xxhello pipe", 12) == 12);
    char text[2];
    CHECK(read(plain[0], text, 2) == 2);
    return [=](bool last) {
        CHECK(in_pipe(plain[0]) == 10 && fcntl(plain[0], F_GETPIPE_SZ) == 65536);
        CHECK((fcntl(plain[0], F_GETFL) & O_ACCMODE) == O_RDONLY &&
              (fcntl(plain[1], F_GETFL) & O_ACCMODE) == O_WRONLY);
        CHECK(fcntl(plain[0], F_GETFD) == 0);
        if (last) check_read(plain[0], "hello pipe");
    };
}

test::Check full_and_large() {
    const Ends full = made(O_NONBLOCK);
    CHECK(fcntl(full[1], F_SETPIPE_SZ, 131072) == 131072);
    const auto value = [](int at) { return static_cast<char>(static_cast<size_t>(at) * 7 >> 3); };
    int filled = 0;
    std::vector<char> block(4096);
    for (;;) {
        for (size_t i = 0; i < block.size(); ++i) block[i] = value(filled + static_cast<int>(i));
        const ssize_t wrote = write(full[1], block.data(), block.size());
        if (wrote < 0) break;
        filled += static_cast<int>(wrote);
    }
    return [=](bool last) {
        CHECK(in_pipe(full[0]) == filled && fcntl(full[0], F_GETPIPE_SZ) == 131072);
        CHECK((fcntl(full[1], F_GETFL) & O_NONBLOCK) != 0);
        CHECK(write(full[1], "x", 1) == -1 && errno == EAGAIN);
        if (last) drain(full[0], filled, value);
    };
}

test::Check packets() {
    const Ends ends = made(O_DIRECT);
    for (const char* packet : {"one", "two two", "three three three"})
        CHECK(write(ends[1], packet, std::strlen(packet)) == static_cast<ssize_t>(std::strlen(packet)));
    return [=](bool last) {
        CHECK((fcntl(ends[1], F_GETFL) & O_DIRECT) != 0);
        if (!last) return;
        for (const char* packet : {"one", "two two", "three three three"}) check_read(ends[0], packet);
    };
}

test::Check empty() {
    const Ends ends = made(O_CLOEXEC);
    return [=](bool) { CHECK(in_pipe(ends[0]) == 0 && fcntl(ends[0], F_GETFD) == FD_CLOEXEC); };
}

test::Check without_a_reader() {
    const Ends broken = made();
    close(broken[0]);
    return [=](bool) { CHECK(write(broken[1], "x", 1) == -1 && errno == EPIPE); };
}

test::Check without_a_writer() {
    const Ends ended = made();
    CHECK(write(ended[1], "last words", 10) == 10);
    close(ended[1]);
    return [=](bool last) {
        CHECK(in_pipe(ended[0]) == 10);
        if (!last) return;
        check_read(ended[0], "last words");
        check_read(ended[0], "");
    };
}

test::Check fifo() {
    unlink("fifo");
    CHECK(mkfifo("fifo", 0600) == 0);
    const int both = open("fifo", O_RDWR);
    const int reader = open("fifo", O_RDONLY | O_NONBLOCK);
    CHECK(both >= 0 && reader >= 0 && write(both, "in the fifo", 11) == 11);
    return [=](bool last) {
        CHECK(in_pipe(reader) == 11);
        struct stat here {
        }, there{};
        CHECK(fstat(both, &here) == 0 && stat("fifo", &there) == 0 && here.st_ino == there.st_ino);
        if (last) check_read(reader, "in the fifo");
    };
}

test::Check writer_asleep() {
    const Ends stuffed = made();
    constexpr int much = 300000;
    const auto value = [](int at) { return static_cast<char>(at * 13 >> 4); };
    const pid_t writer = fork();
    if (writer == 0) {
        close(stuffed[0]);
        std::vector<char> bytes(much);
        for (int i = 0; i < much; ++i) bytes[static_cast<size_t>(i)] = value(i);
        CHECK(write(stuffed[1], bytes.data(), much) == much);
        _exit(5);
    }
    close(stuffed[1]);
    while (in_pipe(stuffed[0]) < 65536) test::nap(1);
    return [=](bool last) {
        CHECK(in_pipe(stuffed[0]) == 65536);
        if (!last) return;
        drain(stuffed[0], much, value);
        check_read(stuffed[0], "");
        int status = 0;
        CHECK(waitpid(writer, &status, 0) == writer && WEXITSTATUS(status) == 5);
    };
}

test::Check reader_asleep() {
    const Ends asked = made(), answer = made();
    const pid_t reader = fork();
    if (reader == 0) {
        close(asked[1]);
        close(answer[0]);
        char word[64] = "";
        for (;;) {
            const ssize_t got = read(asked[0], word, sizeof word);
            CHECK(got >= 0);
            if (got == 0) _exit(6);
            CHECK(write(answer[1], word, static_cast<size_t>(got)) == got);
        }
    }
    close(asked[0]);
    close(answer[1]);
    test::nap(50);
    return [=](bool last) {
        CHECK(write(asked[1], "question", 8) == 8);
        check_read(answer[0], "question");
        if (!last) return;
        close(asked[1]);
        int status = 0;
        CHECK(waitpid(reader, &status, 0) == reader && WEXITSTATUS(status) == 6);
    };
}
}  // namespace

int main() {
    signal(SIGPIPE, SIG_IGN);
    test::serve({{"partly read", partly_read},
                 {"full, and of another size", full_and_large},
                 {"packets", packets},
                 {"empty", empty},
                 {"without a reader", without_a_reader},
                 {"without a writer", without_a_writer},
                 {"a FIFO", fifo},
                 {"a writer asleep", writer_asleep},
                 {"a reader asleep", reader_asleep}});
}
