// Pipes and FIFOs with contents: partly read, full, packets, both ends here or one in a child, sizes, a
// writer that sleeps because it is full, end of file after the restart.
// rain: soak
// narrow: none
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "support.h"

namespace {
int in_pipe(int fd) {
    int count = -1;
    CHECK(ioctl(fd, FIONREAD, &count) == 0);
    return count;
}
}  // namespace

int main() {
    signal(SIGPIPE, SIG_IGN);
    int plain[2], full[2], packets[2], empty[2], broken[2], ended[2];
    CHECK(pipe(plain) == 0 && pipe2(full, O_NONBLOCK) == 0 && pipe2(packets, O_DIRECT) == 0 &&
          pipe2(empty, O_CLOEXEC) == 0);
    CHECK(pipe(broken) == 0 && pipe(ended) == 0);
    CHECK(write(plain[1], "xxhello pipe", 12) == 12);
    char text[65536];
    CHECK(read(plain[0], text, 2) == 2);
    CHECK(fcntl(full[1], F_SETPIPE_SZ, 131072) == 131072);
    int filled = 0;
    std::vector<char> block(4096);
    for (;;) {
        for (size_t i = 0; i < block.size(); ++i)
            block[i] = static_cast<char>((static_cast<size_t>(filled) + i) * 7 >> 3);
        const ssize_t wrote = write(full[1], block.data(), block.size());
        if (wrote < 0) break;
        filled += static_cast<int>(wrote);
    }
    for (const char* packet : {"one", "two two", "three three three"})
        CHECK(write(packets[1], packet, std::strlen(packet)) == static_cast<ssize_t>(std::strlen(packet)));
    close(broken[0]);
    CHECK(write(ended[1], "last words", 10) == 10);
    close(ended[1]);

    unlink("fifo");
    CHECK(mkfifo("fifo", 0600) == 0);
    const int fifo_both = open("fifo", O_RDWR);
    const int fifo_read = open("fifo", O_RDONLY | O_NONBLOCK);
    CHECK(fifo_both >= 0 && fifo_read >= 0 && write(fifo_both, "in the fifo", 11) == 11);

    // A child sleeps in a write into a full pipe, another in a read from an empty one.
    int stuffed[2], asked[2], answer[2];
    CHECK(pipe(stuffed) == 0 && pipe(asked) == 0 && pipe(answer) == 0);
    constexpr int much = 300000;
    const pid_t writer = fork();
    if (writer == 0) {
        close(stuffed[0]);
        close(asked[1]);
        close(answer[0]);
        std::vector<char> bytes(much);
        for (int i = 0; i < much; ++i) bytes[static_cast<size_t>(i)] = static_cast<char>(i * 13 >> 4);
        CHECK(write(stuffed[1], bytes.data(), much) == much);
        _exit(5);
    }
    close(stuffed[1]);
    const pid_t reader = fork();
    if (reader == 0) {
        close(stuffed[0]);
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

    test::serve([&](bool last) {
        CHECK(in_pipe(plain[0]) == 10 && in_pipe(full[0]) == filled && in_pipe(empty[0]) == 0);
        CHECK(fcntl(full[0], F_GETPIPE_SZ) == 131072 && fcntl(plain[0], F_GETPIPE_SZ) == 65536);
        CHECK((fcntl(full[1], F_GETFL) & O_NONBLOCK) != 0 && (fcntl(packets[1], F_GETFL) & O_DIRECT) != 0);
        CHECK((fcntl(plain[0], F_GETFL) & O_ACCMODE) == O_RDONLY &&
              (fcntl(plain[1], F_GETFL) & O_ACCMODE) == O_WRONLY);
        CHECK(fcntl(empty[0], F_GETFD) == FD_CLOEXEC && fcntl(plain[0], F_GETFD) == 0);
        CHECK(write(full[1], "x", 1) == -1 && errno == EAGAIN);
        CHECK(write(broken[1], "x", 1) == -1 && errno == EPIPE);
        CHECK(in_pipe(ended[0]) == 10 && in_pipe(fifo_read) == 11);
        struct stat here {
        }, there{};
        CHECK(fstat(fifo_both, &here) == 0 && stat("fifo", &there) == 0 && here.st_ino == there.st_ino);
        CHECK(in_pipe(stuffed[0]) == 65536);
        CHECK(write(asked[1], "question", 8) == 8 && read(answer[0], text, sizeof text) == 8);
        CHECK(std::memcmp(text, "question", 8) == 0);
        if (!last) return;
        CHECK(read(plain[0], text, sizeof text) == 10 && std::memcmp(text, "hello pipe", 10) == 0);
        for (int at = 0; at < filled;) {
            const ssize_t got = read(full[0], text, sizeof text);
            CHECK(got > 0);
            for (ssize_t i = 0; i < got; ++i, ++at)
                CHECK(text[i] == static_cast<char>(static_cast<size_t>(at) * 7 >> 3));
        }
        CHECK(read(packets[0], text, sizeof text) == 3 && std::memcmp(text, "one", 3) == 0);
        CHECK(read(packets[0], text, sizeof text) == 7 && std::memcmp(text, "two two", 7) == 0);
        CHECK(read(packets[0], text, sizeof text) == 17);
        CHECK(read(ended[0], text, sizeof text) == 10 && read(ended[0], text, sizeof text) == 0);
        CHECK(read(fifo_read, text, sizeof text) == 11 && std::memcmp(text, "in the fifo", 11) == 0);
        for (int at = 0; at < much;) {
            const ssize_t got = read(stuffed[0], text, sizeof text);
            CHECK(got > 0);
            for (ssize_t i = 0; i < got; ++i, ++at) CHECK(text[i] == static_cast<char>(at * 13 >> 4));
        }
        CHECK(read(stuffed[0], text, sizeof text) == 0);
        int status = 0;
        CHECK(waitpid(writer, &status, 0) == writer && WEXITSTATUS(status) == 5);
        close(asked[1]);
        CHECK(waitpid(reader, &status, 0) == reader && WEXITSTATUS(status) == 6);
    });
}
