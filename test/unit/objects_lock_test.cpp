// File locks captured and restored without a checkpoint.
#include <sys/file.h>
#include <sys/inotify.h>

#include <algorithm>

#include "resources/lock/restore.h"
#include "test/unit/objects_support.h"

namespace cairn::test {
namespace {

struct flock region(short type, off_t start, off_t length) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = start;
    lock.l_len = length;
    return lock;
}

class ObjectsLock : public ::testing::Test {
  protected:
    ObjectsLock() { put_file(path_, "0123456789"); }
    Folder folder_;
    const std::string path_ = folder_ / "file";
};

TEST_F(ObjectsLock, AllKindsAreFoundOnce) {
    Stopped process([&] {
        at(120, ::open(path_.c_str(), O_RDWR));
        CHILD_CHECK(::dup2(120, 121) == 121);
        auto lock = region(F_WRLCK, 5, 10);
        CHILD_CHECK(::fcntl(121, F_SETLK, &lock) == 0);
        lock = region(F_RDLCK, 100, 0);
        CHILD_CHECK(::fcntl(120, F_OFD_SETLK, &lock) == 0);
        CHILD_CHECK(::flock(120, LOCK_SH) == 0);
    });
    capture::ObjectTable table;
    ASSERT_TRUE(table.descriptors(process.holder()));
    auto locks = table.take_locks(process.holder());
    ASSERT_EQ(locks.size(), 3U);
    std::ranges::sort(locks, {}, &schema::FileLock::kind);
    EXPECT_EQ(locks[0].kind, schema::LockKind::posix);
    EXPECT_EQ(locks[0].type, F_WRLCK);
    EXPECT_EQ(locks[0].start, 5);
    EXPECT_EQ(locks[0].length, 10);
    EXPECT_EQ(locks[1].kind, schema::LockKind::description);
    EXPECT_EQ(locks[1].start, 100);
    EXPECT_EQ(locks[1].length, 0);
    EXPECT_EQ(locks[2].kind, schema::LockKind::flock);
    EXPECT_EQ(locks[2].type, F_RDLCK);
    for (const auto& lock : locks) EXPECT_EQ(lock.fd, ProgramFd(120));
    EXPECT_TRUE(table.take_locks(process.holder()).empty());
}

TEST_F(ObjectsLock, OneThatAStrangerHasByNowIsRefusedByName) {
    Stopped process([&] {
        at(120, ::open(path_.c_str(), O_RDWR));
        auto lock = region(F_WRLCK, 0, 4);
        CHILD_CHECK(::fcntl(120, F_SETLK, &lock) == 0 && ::flock(120, LOCK_EX) == 0);
    });
    Checkpoint checkpoint;
    capture::ObjectTable table;
    checkpoint.add(table, process);
    checkpoint.processes.front().locks = table.take_locks(process.holder());
    checkpoint.processes.front().name = "locker";
    checkpoint.finish(table);
    process.end();
    for (const bool whole : {false, true}) {
        Stopped stranger([&] {
            at(120, ::open(path_.c_str(), O_RDWR));
            auto lock = region(F_RDLCK, 2, 1);
            CHILD_CHECK(whole ? ::flock(120, LOCK_SH) == 0 : ::fcntl(120, F_SETLK, &lock) == 0);
        });
        auto set = checkpoint.open();
        ASSERT_TRUE(set) << set.error().what;
        const auto taken = restart::take_locks(*set, checkpoint.processes, 0);
        ASSERT_FALSE(taken);
        EXPECT_EQ(taken.error().code, ExitCode::refused);
        EXPECT_NE(taken.error().what.find("(locker): descriptor 120"), std::string::npos)
            << taken.error().what;
        EXPECT_NE(taken.error().what.find(whole ? "flock" : "F_SETLK"), std::string::npos)
            << taken.error().what;
        EXPECT_NE(taken.error().what.find(std::to_string(stranger.pid())), std::string::npos)
            << taken.error().what;
    }
    auto set = checkpoint.open();
    ASSERT_TRUE(set) << set.error().what;
    const auto taken = restart::take_locks(*set, checkpoint.processes, 0);
    EXPECT_TRUE(taken) << taken.error().what;
    const Fd other(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_EQ(::flock(other.get(), LOCK_SH | LOCK_NB), -1);
    const auto own = restart::own_locks(checkpoint.processes.front());
    ASSERT_EQ(own.size(), 1U);
    EXPECT_EQ(own.front().kind, schema::LockKind::posix);
}

TEST_F(ObjectsLock, WatchesKeepTheirNumbers) {
    const std::string moved = folder_ / "moved", deep = folder_ / "deep";
    std::filesystem::create_directory(deep);
    Stopped process([&] {
        at(120, ::inotify_init1(IN_NONBLOCK));
        CHILD_CHECK(::inotify_add_watch(120, folder_.path().c_str(), IN_DELETE) == 1);
        CHILD_CHECK(::inotify_add_watch(120, path_.c_str(), IN_MODIFY) == 2);
        CHILD_CHECK(::inotify_rm_watch(120, 1) == 0);
        CHILD_CHECK(::inotify_add_watch(120, deep.c_str(), IN_CREATE | IN_ONESHOT) == 3);
        char events[1024];
        CHILD_CHECK(::read(120, events, sizeof events) > 0);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    // What is watched is elsewhere now.
    std::filesystem::rename(path_, moved);
    restart::ObjectSetOptions options;
    EXPECT_FALSE(checkpoint.open());
    options.path_map = {{path_, moved}};
    checkpoint.restore(
        [&](std::size_t) {
            char events[1024];
            CHILD_CHECK(::read(120, events, sizeof events) == -1 && errno == EAGAIN);
            const Fd file(::open(moved.c_str(), O_WRONLY));
            CHILD_CHECK(::write(file.get(), "x", 1) == 1);
            const auto* event = reinterpret_cast<const inotify_event*>(events);
            CHILD_CHECK(::read(120, events, sizeof events) == sizeof *event && event->wd == 2 &&
                        event->mask == IN_MODIFY);
            put_file(deep + "/new", "");
            CHILD_CHECK(::read(120, events, sizeof events) > 0 && event->wd == 3 && event->mask == IN_CREATE);
        },
        options);
}

// What the program has not read is gone, and it is told so as the kernel tells it (inotify(7),
// IN_Q_OVERFLOW).
TEST_F(ObjectsLock, EventsThatWaitBecomeAnOverflow) {
    Stopped process([&] {
        at(120, ::inotify_init1(IN_NONBLOCK));
        CHILD_CHECK(::inotify_add_watch(120, folder_.path().c_str(), IN_CREATE) == 1);
        put_file(folder_ / "new", "");
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    checkpoint.restore([&](std::size_t) {
        char events[1024];
        const auto* event = reinterpret_cast<const inotify_event*>(events);
        CHILD_CHECK(::read(120, events, sizeof events) >= static_cast<ssize_t>(sizeof *event) &&
                    (event->mask & IN_Q_OVERFLOW) != 0);
    });
}

}  // namespace
}  // namespace cairn::test
