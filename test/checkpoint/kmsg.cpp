// Readers of the kernel's log (/dev/kmsg): in the middle, at its begin and its end, behind what was
// overwritten, held twice and by a child, asleep in it; each goes on with the record behind the last that it
// has read. A writer.
// ci: exact
// rain: soak
// narrow: none
// root: the kernel's log is for who has CAP_SYSLOG
// heirs: none
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "support.h"

namespace {

using test::Check;

constexpr const char* device = "/dev/kmsg";

int open_log(int flags) {
    const int fd = open(device, flags | O_CLOEXEC);
    if (fd < 0) test::skip("/dev/kmsg can't be opened");
    return fd;
}

// Without an end of line nobody would be shown the record before the next one comes, which might go on with
// it.
void write_to(int fd, const std::string& text) {
    const std::string line = "<7>" + text + "\n";
    CHECK(write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
}
// By a description of its own: of each one the kernel takes ten records in five seconds and drops the others
// (printk.devkmsg=ratelimit).
void write_record(const std::string& text) {
    const int fd = open_log(O_WRONLY);
    write_to(fd, text);
    close(fd);
}

// "prio,number,usec,flags;text". Numbers of records are without gaps, whoever writes them.
struct Record {
    std::int64_t number = -1;
    std::string text;
};
// -1: there is none, and errno says why.
Record take(int fd) {
    char text[8192];
    const ssize_t size = read(fd, text, sizeof text - 1);
    if (size < 0) return {};
    text[size] = 0;
    const char *comma = std::strchr(text, ','), *semicolon = std::strchr(text, ';');
    CHECK(comma != nullptr && semicolon != nullptr);
    return {std::strtoll(comma + 1, nullptr, 10), semicolon + 1};
}

// Where the log is full, each record that comes overwrites the oldest: whoever reads from there on may be
// told so.
bool was_overwritten(const Record& record) {
    return record.number < 0 && errno == EPIPE;
}

// The number of the last one, or `last` if nothing is there.
std::int64_t read_to_the_end(int fd, std::int64_t last = -1) {
    for (;;) {
        const Record record = take(fd);
        if (record.number >= 0)
            last = record.number;
        else if (!was_overwritten(record))
            break;
    }
    CHECK(errno == EAGAIN);
    return last;
}

std::int64_t oldest_of(int fd) {
    for (;;) {
        CHECK(lseek(fd, 0, SEEK_SET) == 0);
        const Record record = take(fd);
        if (record.number >= 0) return record.number;
        CHECK(was_overwritten(record));
    }
}

int events(int fd) {
    pollfd polled{fd, POLLIN, 0};
    CHECK(poll(&polled, 1, 0) >= 0);
    return polled.revents;
}

// Nobody else's, also when a program had this pid before: what it has written is still there.
const std::string& mark() {
    static const std::string made =
        "cairn-test " + std::to_string(getpid()) + "-" + std::to_string(test::now(CLOCK_REALTIME)) + " ";
    return made;
}

Check in_the_middle() {
    const int reader = open_log(O_RDONLY | O_NONBLOCK);
    CHECK(lseek(reader, 0, SEEK_END) == 0);
    for (int i = 0; i < 3; ++i) write_record(mark() + "in the middle");
    std::int64_t last = take(reader).number;
    CHECK(last >= 0);
    return [=](bool) mutable {
        CHECK(fcntl(reader, F_GETFL) & O_NONBLOCK);
        write_record(mark() + "in the middle");
        CHECK(take(reader).number == last + 1);
        ++last;
    };
}

Check at_the_begin() {
    const int reader = open_log(O_RDONLY | O_NONBLOCK), other = open_log(O_RDONLY | O_NONBLOCK);
    // Read and put back: it stands at what was the oldest then.
    std::int64_t oldest = oldest_of(reader);
    CHECK(lseek(reader, 0, SEEK_SET) == 0);
    return [=](bool) mutable {
        const Record record = take(reader);
        const bool told = was_overwritten(record);
        const std::int64_t now = oldest_of(other);
        if (record.number >= 0) CHECK(record.number == oldest || (now > oldest && record.number > oldest));
        CHECK(record.number >= 0 || (told && now > oldest));
        oldest = oldest_of(reader);
        CHECK(lseek(reader, 0, SEEK_SET) == 0);
    };
}

Check at_the_end() {
    const int reader = open_log(O_RDONLY | O_NONBLOCK);
    std::int64_t last = read_to_the_end(reader);
    return [=](bool) mutable {
        write_record(mark() + "at the end");
        CHECK(take(reader).number == last + 1);
        last = read_to_the_end(reader, last + 1);
    };
}

// Only where something was overwritten, and behind the last `dmesg -C`.
Check behind() {
    const int reader = open_log(O_RDONLY | O_NONBLOCK);
    const auto fall_behind = [=] {
        CHECK(lseek(reader, 0, SEEK_DATA) == 0);
        return (events(reader) & POLLERR) != 0;
    };
    if (!fall_behind()) return [](bool) {};
    return [=](bool) {
        CHECK(was_overwritten(take(reader)));
        Record next = take(reader);
        while (was_overwritten(next)) next = take(reader);
        CHECK(next.number >= 0);
        fall_behind();
    };
}

Check asleep() {
    struct Seen {
        int reader = open_log(O_RDONLY);
        std::string mine = mark() + "asleep ";
        std::atomic<int> got{0};
        int written = 0;
    };
    const auto seen = std::make_shared<Seen>();
    CHECK(lseek(seen->reader, 0, SEEK_END) == 0);
    std::thread([seen] {
        for (;;) {
            const Record record = take(seen->reader);
            CHECK(record.number >= 0);
            if (!record.text.starts_with(seen->mine)) continue;
            CHECK(std::atoi(record.text.c_str() + seen->mine.size()) == seen->got + 1);
            ++seen->got;
        }
    }).detach();
    return [=](bool) {
        write_record(seen->mine + std::to_string(++seen->written));
        for (int i = 0; i < 2000 && seen->got != seen->written; ++i) test::nap(5);
        CHECK(seen->got == seen->written);
    };
}

Check held_by_several() {
    const int reader = open_log(O_RDWR), twice = dup(reader);
    CHECK(lseek(reader, 0, SEEK_END) == 0);
    int orders[2], answers[2];
    CHECK(twice >= 0 && pipe(orders) == 0 && pipe(answers) == 0);
    const pid_t child = fork();
    if (child == 0) {
        char order;
        while (read(orders[0], &order, 1) == 1) {
            const std::int64_t number = take(reader).number;
            CHECK(write(answers[1], &number, sizeof number) == sizeof number);
        }
        _exit(0);
    }
    CHECK(child > 0);
    write_record(mark() + "held by several");
    std::int64_t last = take(reader).number;
    return [=](bool ends) mutable {
        CHECK((fcntl(reader, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == O_RDWR);
        for (int i = 0; i < 4; ++i) write_record(mark() + "held by several");
        CHECK(take(reader).number == ++last);
        std::int64_t number = -1;
        CHECK(write(orders[1], "r", 1) == 1 && read(answers[0], &number, sizeof number) == sizeof number);
        CHECK(number == ++last);
        CHECK(take(twice).number == ++last);
        write_to(reader, mark() + "written by who reads");
        if (ends) CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    };
}

Check written_to() {
    const int writer = open_log(O_WRONLY), reader = open_log(O_RDONLY | O_NONBLOCK);
    return [=](bool) {
        char byte;
        CHECK((fcntl(writer, F_GETFL) & O_ACCMODE) == O_WRONLY);
        CHECK(read(writer, &byte, 1) == -1 && errno == EBADF);
        CHECK(lseek(reader, 0, SEEK_END) == 0);
        const std::string line = mark() + "written";
        write_to(writer, line);
        Record record;
        do record = take(reader);
        while (record.number >= 0 && !record.text.starts_with(line));
        CHECK(record.number >= 0);
        // Of one description few records in a second are taken.
        const int fresh = open_log(O_WRONLY);
        CHECK(dup3(fresh, writer, O_CLOEXEC) == writer && close(fresh) == 0);
    };
}

}  // namespace

int main() {
    test::serve({{"in the middle", in_the_middle},
                 {"at the begin", at_the_begin},
                 {"at the end", at_the_end},
                 {"behind", behind},
                 {"asleep", asleep},
                 {"held by several", held_by_several},
                 {"written to", written_to}});
}
