// File locks of all three kinds: a process's (fcntl F_SETLK), of an open file description (F_OFD_SETLK),
// flock(2); shared and exclusive, over part of a file and to its end, held by a process and by what it shares
// with a child; processes asleep until they get one.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "support.h"

namespace {

struct flock region(short type, off_t start, off_t length) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = start;
    lock.l_len = length;
    return lock;
}
int lock(int fd, int command, short type, off_t start, off_t length) {
    struct flock wanted = region(type, start, length);
    return fcntl(fd, command, &wanted);
}
// What stands in the way of a lock.
struct flock obstacle(int fd, int command, short type, off_t start, off_t length) {
    struct flock asked = region(type, start, length);
    CHECK(fcntl(fd, command, &asked) == 0);
    return asked;
}
int open_file(const char* name) {
    const int fd = open(name, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0);
    return fd;
}
struct Channel {
    int ends[2];
    Channel() { CHECK(pipe(ends) == 0); }
    void tell(char word) const { CHECK(write(ends[1], &word, 1) == 1); }
    char hear() const {
        char word = 0;
        CHECK(read(ends[0], &word, 1) == 1);
        return word;
    }
};
// Sleeps for the lock, tells that it has it, gives it back when it is told to.
template <class Take, class Give>
pid_t waiter(const Channel& orders, const Channel& answers, Take take, Give give) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0) return child;
    const pid_t parent = getppid();
    for (;;) {
        orders.hear();
        take(parent);
        answers.tell('h');
        orders.hear();
        give();
        answers.tell('g');
    }
}

// Runs the checks in a child, which has no locks of its own.
template <class Checks>
void ask_as_another(Checks checks) {
    const pid_t prober = fork();
    if (prober == 0) {
        checks();
        _exit(0);
    }
    int status = 0;
    CHECK(prober > 0 && waitpid(prober, &status, 0) == prober && status == 0);
}
// Who sleeps gets it when it is free, and not before.
template <class Give, class Take>
void exchange(const Channel& orders, const Channel& answers, Give give, Take take) {
    CHECK(fcntl(answers.ends[0], F_SETFL, O_NONBLOCK) == 0);
    char word;
    CHECK(read(answers.ends[0], &word, 1) == -1 && errno == EAGAIN);
    CHECK(fcntl(answers.ends[0], F_SETFL, 0) == 0);
    give();
    CHECK(answers.hear() == 'h');
    orders.tell('b');
    CHECK(answers.hear() == 'g');
    take();
    orders.tell('t');
    test::nap(20);
}
void end(pid_t pid) {
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, nullptr, 0) == pid);
}

// All locks are there before the first child is.
int ranges, of_description, whole, shared, also_shared;

void take_locks() {
    ranges = open_file("ranges");
    const int again = open_file("ranges"), twice = dup(ranges);
    of_description = open_file("description");
    whole = open_file("whole");
    shared = open_file("shared");
    also_shared = open_file("shared");
    CHECK(ftruncate(ranges, 5000) == 0 && twice >= 0);
    CHECK(lock(ranges, F_SETLK, F_WRLCK, 0, 100) == 0 && lock(twice, F_SETLK, F_RDLCK, 200, 50) == 0);
    CHECK(lock(again, F_SETLK, F_WRLCK, 1000, 0) == 0 && lock(ranges, F_SETLK, F_WRLCK, 500, 1) == 0);
    CHECK(lock(of_description, F_OFD_SETLK, F_WRLCK, 300, 10) == 0);
    CHECK(lock(of_description, F_OFD_SETLK, F_RDLCK, 1L << 40, 0) == 0);
    CHECK(flock(whole, LOCK_EX) == 0 && flock(shared, LOCK_SH) == 0 && flock(also_shared, LOCK_SH) == 0);
}

void probe_ranges(pid_t self, pid_t reader) {
    const int fd = open_file("ranges");
    struct flock found = obstacle(fd, F_GETLK, F_RDLCK, 0, 1);
    CHECK(found.l_type == F_WRLCK && found.l_pid == self && found.l_start == 0 && found.l_len == 100);
    found = obstacle(fd, F_GETLK, F_WRLCK, 200, 10);
    CHECK(found.l_type == F_RDLCK && found.l_pid == self && found.l_start == 200 && found.l_len == 50);
    CHECK(obstacle(fd, F_GETLK, F_RDLCK, 200, 120).l_type == F_UNLCK);
    found = obstacle(fd, F_GETLK, F_WRLCK, 260, 10);
    CHECK(found.l_type == F_RDLCK && found.l_pid == reader && found.l_start == 220 && found.l_len == 100);
    found = obstacle(fd, F_GETLK, F_RDLCK, 1L << 50, 1);
    CHECK(found.l_type == F_WRLCK && found.l_start == 1000 && found.l_len == 0);
    CHECK(obstacle(fd, F_GETLK, F_WRLCK, 100, 100).l_type == F_UNLCK);
    CHECK(obstacle(fd, F_GETLK, F_WRLCK, 501, 499).l_type == F_UNLCK);
}

test::Check of_a_process() {
    static Channel orders, answers;
    const pid_t waits = waiter(
        orders, answers, [](pid_t) { CHECK(lock(ranges, F_SETLKW, F_WRLCK, 50, 10) == 0); },
        [] { CHECK(lock(ranges, F_SETLK, F_UNLCK, 50, 10) == 0); });
    orders.tell('t');
    // A child that has read-locked what its parent has, too.
    const Channel reader_ready;
    const pid_t reader = fork();
    if (reader == 0) {
        CHECK(lock(ranges, F_SETLK, F_RDLCK, 220, 100) == 0);
        reader_ready.tell('r');
        for (;;) pause();
    }
    CHECK(reader_ready.hear() == 'r');
    return [=](bool last) {
        ask_as_another([=, self = getpid()] { probe_ranges(self, reader); });
        exchange(
            orders, answers, [] { CHECK(lock(ranges, F_SETLK, F_UNLCK, 0, 100) == 0); },
            [] { CHECK(lock(ranges, F_SETLK, F_WRLCK, 0, 100) == 0); });
        if (!last) return;
        end(waits);
        end(reader);
    };
}

test::Check of_a_file() {
    static Channel orders, answers;
    static int own = -1;
    const pid_t waits = waiter(
        orders, answers,
        [](pid_t) {
            if (own < 0) own = open_file("whole");
            CHECK(flock(own, LOCK_EX) == 0);
        },
        [] { CHECK(flock(own, LOCK_UN) == 0); });
    orders.tell('t');
    return [=](bool last) {
        ask_as_another([] {
            const int a = open_file("whole"), b = open_file("shared");
            CHECK(flock(a, LOCK_SH | LOCK_NB) == -1 && errno == EWOULDBLOCK);
            CHECK(flock(b, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK &&
                  flock(b, LOCK_SH | LOCK_NB) == 0);
            CHECK(flock(whole, LOCK_EX | LOCK_NB) == 0);
        });
        exchange(
            orders, answers, [] { CHECK(flock(whole, LOCK_UN) == 0); },
            [] { CHECK(flock(whole, LOCK_EX | LOCK_NB) == 0); });
        if (last) end(waits);
    };
}

test::Check of_an_open_file() {
    static Channel orders, answers;
    static int other = -1;
    const pid_t waits = waiter(
        orders, answers,
        [](pid_t) {
            if (other < 0) other = open_file("description");
            CHECK(lock(other, F_OFD_SETLKW, F_RDLCK, 305, 1) == 0);
        },
        [] { CHECK(lock(other, F_OFD_SETLK, F_UNLCK, 0, 0) == 0); });
    orders.tell('t');
    test::nap(50);
    return [=](bool last) {
        ask_as_another([] {
            const int free_one = open_file("description");
            struct flock found = obstacle(free_one, F_OFD_GETLK, F_RDLCK, 0, 1000);
            CHECK(found.l_type == F_WRLCK && found.l_pid == -1 && found.l_start == 300 && found.l_len == 10);
            found = obstacle(free_one, F_OFD_GETLK, F_WRLCK, 1L << 41, 1);
            CHECK(found.l_type == F_RDLCK && found.l_start == 1L << 40 && found.l_len == 0);
            // By the description that has come with the fork it is ours as well.
            CHECK(lock(of_description, F_OFD_SETLK, F_WRLCK, 302, 1) == 0);
        });
        exchange(
            orders, answers, [] { CHECK(lock(of_description, F_OFD_SETLK, F_UNLCK, 300, 10) == 0); },
            [] { CHECK(lock(of_description, F_OFD_SETLK, F_WRLCK, 300, 10) == 0); });
        if (last) end(waits);
    };
}

}  // namespace

int main() {
    take_locks();
    test::serve({{"locks of a process", of_a_process},
                 {"flock", of_a_file},
                 {"locks of an open file description", of_an_open_file}});
}
