// inotify(7): watches of folders and files with their descriptors, masks, oneshot and onlydir; of a file that
// has lost its name; a reader asleep; events that come after a restart, and none that the restart itself has
// made.
// ci: exact user
// rain: soak
// narrow: none
#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support.h"

namespace {

struct Event {
    int wd;
    std::uint32_t mask;
    std::string name;
    bool operator==(const Event&) const = default;
};

std::vector<Event> events(int fd, int milliseconds = 0) {
    std::vector<Event> all;
    pollfd polled{fd, POLLIN, 0};
    while (poll(&polled, 1, milliseconds) == 1) {
        alignas(inotify_event) char data[8192];
        const ssize_t got = read(fd, data, sizeof data);
        CHECK(got > 0);
        for (ssize_t at = 0; at < got;) {
            const auto* event = reinterpret_cast<const inotify_event*>(data + at);
            all.push_back({event->wd, event->mask, event->len != 0 ? event->name : ""});
            at += static_cast<ssize_t>(sizeof *event + event->len);
        }
        milliseconds = 0;
    }
    return all;
}
void touch(const char* name) {
    const int fd = open(name, O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0 && close(fd) == 0);
}
int add(int fd, const char* name, std::uint32_t mask) {
    const int wd = inotify_add_watch(fd, name, mask);
    CHECK(wd > 0);
    return wd;
}

test::Check watches() {
    touch("folder/file");
    touch("gone");
    const int nameless = open("gone", O_RDWR);
    const int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    CHECK(fd >= 0 && nameless >= 0);
    const int removed = add(fd, "other", IN_ALL_EVENTS);  // a hole in the numbers
    CHECK(inotify_rm_watch(fd, removed) == 0);
    const int in_folder = add(fd, "folder", IN_CREATE | IN_DELETE | IN_MOVE | IN_ONLYDIR),
              in_deep = add(fd, "folder/deep", IN_ALL_EVENTS),
              of_file = add(fd, "folder/file", IN_MODIFY | IN_ATTRIB),
              of_nameless = add(fd, "gone", IN_MODIFY);
    int once = add(fd, "other", IN_CREATE | IN_ONESHOT);
    CHECK(unlink("gone") == 0);
    (void)events(fd);
    return [=, turn = 0](bool) mutable {
        ++turn;
        int waiting = -1;
        CHECK(ioctl(fd, FIONREAD, &waiting) == 0 && waiting == 0 && events(fd).empty());
        CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
        const std::string name = "new" + std::to_string(turn), path = "folder/" + name;
        touch(path.c_str());
        const int file = open("folder/file", O_WRONLY);
        CHECK(file >= 0 && write(file, "x", 1) == 1 && close(file) == 0);
        touch("folder/deep/x");
        CHECK(pwrite(nameless, "y", 1, 0) == 1);
        touch(("other/" + name).c_str());
        CHECK(unlink(path.c_str()) == 0);
        auto found = events(fd, 1000);
        const auto has = [&](const Event& wanted) { return std::erase(found, wanted) == 1; };
        CHECK(has({in_folder, IN_CREATE, name}) && has({in_folder, IN_DELETE, name}) &&
              has({of_file, IN_MODIFY, ""}));
        CHECK(has({in_deep, IN_OPEN, "x"}) && has({in_deep, IN_CLOSE_WRITE, "x"}) &&
              has({of_nameless, IN_MODIFY, ""}));
        if (turn == 1) CHECK(has({in_deep, IN_CREATE, "x"}));
        CHECK(has({once, IN_CREATE, name}) && has({once, IN_IGNORED, ""}) && found.empty());
        const int fresh = add(fd, "other", IN_CREATE | IN_ONESHOT);
        for (const int known : {in_folder, in_deep, of_file, once, of_nameless}) CHECK(fresh != known);
        once = fresh;
        // The same file has the same number, and its mask can be changed.
        CHECK(add(fd, "folder", IN_CREATE | IN_DELETE | IN_MOVE) == in_folder);
    };
}

// Of what the restart itself opens: nothing is told.
test::Check of_a_restart() {
    const int everything = inotify_init1(IN_NONBLOCK);
    const int here = add(everything, ".", IN_CLOSE_WRITE | IN_CREATE | IN_DELETE);
    const int program = add(everything, "/proc/self/exe", IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF);
    return [=](bool) {
        for (const Event& event : events(everything)) {
            std::printf("event of watch %d: %#x %s\n", event.wd, event.mask, event.name.c_str());
            std::fflush(stdout);
            CHECK(false && "no event of the restart's own");
        }
        CHECK(add(everything, "/proc/self/exe", IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF) == program);
        touch("in-here");
        CHECK(events(everything) ==
              (std::vector<Event>{{here, IN_CREATE, "in-here"}, {here, IN_CLOSE_WRITE, "in-here"}}));
        CHECK(unlink("in-here") == 0 &&
              events(everything) == (std::vector<Event>{{here, IN_DELETE, "in-here"}}));
    };
}

// Since the last call: a pipe that a restart makes has another inode.
bool was_restarted() {
    static int ends[2] = {-1, -1};
    static ino_t known = 0;
    if (ends[0] < 0) CHECK(pipe(ends) == 0);
    struct stat now {};
    CHECK(fstat(ends[0], &now) == 0);
    return std::exchange(known, now.st_ino) != now.st_ino;
}

// Whether a restart can tell the kernel which number comes next (CONFIG_CHECKPOINT_RESTORE, Linux 4.14).
bool next_number_can_be_told() {
    constexpr unsigned long set_next = _IOW('I', 0, std::int32_t);
    const int fd = inotify_init1(0);
    const bool can = ioctl(fd, set_next, 7L) == 0;
    CHECK(close(fd) == 0);
    return can;
}

// It reads only after a restart: what waited is told as lost, once, and what comes then is as ever. Without a
// restart nothing is lost.
test::Check never_reads() {
    const int fd = inotify_init1(0);
    const int wd = add(fd, "busy", IN_CREATE | IN_DELETE);
    static const std::vector<Event> lost = {{-1, IN_Q_OVERFLOW, ""}};
    const auto happens = [] {
        touch("busy/unread");
        CHECK(unlink("busy/unread") == 0);
    };
    happens();
    was_restarted();
    const std::vector<Event> what_happens = {{wd, IN_CREATE, "unread"}, {wd, IN_DELETE, "unread"}};
    return [=, last = wd](bool) mutable {
        const auto waited = events(fd);
        CHECK(waited == (was_restarted() ? lost : what_happens));
        // Nobody has used up a number.
        const std::string one_more = "own/" + std::to_string(last);
        touch(one_more.c_str());
        const int next = add(fd, one_more.c_str(), IN_MODIFY);
        CHECK(next == last + 1 || !next_number_can_be_told());
        last = next;
        happens();
        CHECK(events(fd) == what_happens);
        happens();
    };
}

// It hears of the one file that the watches' case makes in the folder each time.
test::Check reader_asleep() {
    static std::atomic<int> heard{0};
    const int slept_in = inotify_init1(0);
    const int signalled = add(slept_in, "folder", IN_CREATE);
    std::thread([=] {
        for (;;) {
            alignas(inotify_event) char data[4096];
            const ssize_t got = read(slept_in, data, sizeof data);
            CHECK(got > 0 && reinterpret_cast<inotify_event*>(data)->wd == signalled);
            for (ssize_t at = 0; at < got; ++heard)
                at += static_cast<ssize_t>(sizeof(inotify_event) +
                                           reinterpret_cast<inotify_event*>(data + at)->len);
        }
    }).detach();
    return [all_heard = 0](bool) mutable {
        ++all_heard;
        for (int i = 0; i < 2000 && heard < all_heard; ++i) test::nap(5);
        CHECK(heard == all_heard);
    };
}

}  // namespace

int main() {
    // A folder of its own: the test's driver works in the one that we are started in.
    CHECK(mkdir("inotify", 0700) == 0 && chdir("inotify") == 0);
    CHECK(mkdir("folder", 0700) == 0 && mkdir("folder/deep", 0700) == 0 && mkdir("other", 0700) == 0 &&
          mkdir("busy", 0700) == 0 && mkdir("own", 0700) == 0);
    test::serve({{"watches", watches},
                 {"what a restart opens", of_a_restart},
                 {"a reader asleep", reader_asleep},
                 {"never reads", never_reads}});
}
