// fanotify: marks of a folder and a file with what they ignore, events after each restart, and events that
// nobody has read; as root also of a mount and of a whole file system. An ordinary user may have one that
// tells of files by their handles.
// ci: exact user
// rain: soak
// narrow: none
#include <sys/fanotify.h>
#include <sys/stat.h>

#include <string>
#include <utility>

#include "support.h"

namespace {

// What the kernel says of a group and its marks.
std::string marks_of(int fd) {
    char path[64], text[4096] = "";
    std::snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    const int info = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(info >= 0);
    const ssize_t size = read(info, text, sizeof text - 1);
    close(info);
    CHECK(size > 0);
    const char* begin = std::strstr(text, "fanotify ");
    CHECK(begin != nullptr);
    return begin;
}

// The masks of what has happened since the last time, one after the other.
std::string events(int fd) {
    std::string all;
    alignas(fanotify_event_metadata) char buffer[8192];
    ssize_t size = 0;
    while ((size = read(fd, buffer, sizeof buffer)) > 0) {
        auto* event = reinterpret_cast<fanotify_event_metadata*>(buffer);
        for (; FAN_EVENT_OK(event, size); event = FAN_EVENT_NEXT(event, size)) {
            CHECK(event->vers == FANOTIFY_METADATA_VERSION);
            if (event->fd >= 0) close(event->fd);
            if ((event->mask & FAN_MODIFY) != 0) all += "m";
            if ((event->mask & FAN_CLOSE_WRITE) != 0) all += "c";
            if ((event->mask & FAN_Q_OVERFLOW) != 0) all += "o";
        }
    }
    CHECK(errno == EAGAIN);
    return all;
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

void write_to(const std::string& path) {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
}

}  // namespace

int main() {
    bool privileged = true;
    int fd = fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK | FAN_UNLIMITED_QUEUE,
                           O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        privileged = false;
        fd = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY);
    }
    if (fd < 0) test::skip("no fanotify");
    char folder[] = "fanotify.XXXXXX";
    CHECK(mkdtemp(folder) != nullptr);
    char here[4096];
    CHECK(getcwd(here, sizeof here) != nullptr);
    const std::string stem = std::string(here) + "/" + folder, watched = stem + "/watched",
                      other = stem + "/other";
    for (const std::string& path : {watched, other}) CHECK(close(creat(path.c_str(), 0600)) == 0);
    if (fanotify_mark(fd, FAN_MARK_ADD, FAN_CLOSE_WRITE | FAN_EVENT_ON_CHILD, AT_FDCWD, stem.c_str()) != 0)
        test::skip("this file system can't be marked");
    CHECK(fanotify_mark(fd, FAN_MARK_ADD, FAN_MODIFY, AT_FDCWD, watched.c_str()) == 0);
    CHECK(fanotify_mark(fd, FAN_MARK_ADD | FAN_MARK_IGNORED_MASK | FAN_MARK_IGNORED_SURV_MODIFY,
                        FAN_CLOSE_WRITE, AT_FDCWD, other.c_str()) == 0);
    const int copy = dup(fd);
    if (privileged) {
        // Nobody executes anything there.
        CHECK(fanotify_mark(fd, FAN_MARK_ADD | FAN_MARK_MOUNT, FAN_OPEN_EXEC, AT_FDCWD, "/dev/shm") == 0);
        CHECK(fanotify_mark(fd, FAN_MARK_ADD | FAN_MARK_FILESYSTEM, FAN_OPEN_EXEC, AT_FDCWD, "/proc") == 0);
    }
    const std::string marks = marks_of(fd);
    // One that is seldom read, and whose queue has an end.
    const int slow =
        privileged ? fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY)
                   : fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY);
    CHECK(slow >= 0 && fanotify_mark(slow, FAN_MARK_ADD, FAN_MODIFY, AT_FDCWD, other.c_str()) == 0);
    write_to(other);
    CHECK(events(fd).empty());
    was_restarted();
    test::serve([&](bool) {
        // What it had not read is told as lost, once, and what comes then is as ever.
        CHECK(events(slow) == (was_restarted() ? "o" : "m"));
        write_to(other);
        CHECK(events(slow) == "m" && events(fd).empty());
        write_to(other);
        CHECK(events(fd).empty());
        const std::string now = marks_of(fd);
        if (now != marks) test::say((marks + "---\n" + now).c_str());
        CHECK(now == marks);
        CHECK(events(fd).empty());
        write_to(watched);
        CHECK(events(copy) == "mc" || (write_to(watched), events(copy) == "mc"));
        write_to(other);
        CHECK(events(fd).empty());
    });
}
