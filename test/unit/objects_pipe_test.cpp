// Pipes and FIFOs captured and restored without a checkpoint.
#include <poll.h>
#include <sys/stat.h>

#include "test/unit/objects_support.h"

namespace cairn::test {
namespace {

std::string read_all(int fd, std::size_t most = 1 << 20) {
    std::string text(most, '\0');
    const ssize_t got = ::read(fd, text.data(), most);
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
}

TEST(ObjectsPipe, ContentsAreKeptAndNotConsumed) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const Fd reader(ends[0]), writer(ends[1]);
    Stopped process([&] {
        CHILD_CHECK(::dup2(ends[0], 120) == 120 && ::dup2(ends[1], 121) == 121);
        CHILD_CHECK(::fcntl(120, F_SETPIPE_SZ, 1 << 17) == 1 << 17);
        CHILD_CHECK(::write(121, std::string(100000, 'p').data(), 100000) == 100000);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    EXPECT_EQ(read_all(reader.get()), std::string(100000, 'p'));
    checkpoint.restore([&](std::size_t) {
        CHILD_CHECK(::fcntl(120, F_GETPIPE_SZ) == 1 << 17);
        CHILD_CHECK(::fcntl(120, F_GETFL) == O_RDONLY && ::fcntl(121, F_GETFL) == O_WRONLY);
        CHILD_CHECK(::write(121, "end", 3) == 3);
        CHILD_CHECK(read_all(120) == std::string(100000, 'p') + "end");
        CHILD_CHECK(::close(121) == 0);
        char byte;
        CHILD_CHECK(::read(120, &byte, 1) == 0);
    });
}

TEST(ObjectsPipe, PacketsKeepTheirBounds) {
    Stopped process([&] {
        int ends[2];
        CHILD_CHECK(::pipe2(ends, O_DIRECT) == 0);
        CHILD_CHECK(::dup2(ends[0], 120) == 120 && ::dup2(ends[1], 121) == 121);
        CHILD_CHECK(::write(121, "one", 3) == 3 && ::write(121, "three", 5) == 5);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    checkpoint.restore([&](std::size_t) {
        CHILD_CHECK(read_all(120) == "one");
        CHILD_CHECK(read_all(120) == "three");
        CHILD_CHECK((::fcntl(121, F_GETFL) & O_DIRECT) != 0);
    });
}

TEST(ObjectsPipe, ClosedOtherEndsStayClosed) {
    Stopped process([&] {
        int a[2], b[2];
        CHILD_CHECK(::pipe(a) == 0 && ::pipe(b) == 0);
        CHILD_CHECK(::write(a[1], "rest", 4) == 4);
        CHILD_CHECK(::dup2(a[0], 120) == 120 && ::dup2(b[1], 121) == 121);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    const auto objects = checkpoint.objects();
    EXPECT_FALSE(checkpoint.object_at(objects, 120).outside);
    EXPECT_FALSE(checkpoint.object_at(objects, 121).outside);
    checkpoint.restore([&](std::size_t) {
        ::signal(SIGPIPE, SIG_IGN);
        CHILD_CHECK(read_all(120) == "rest" && read_all(120).empty());
        CHILD_CHECK(::write(121, "x", 1) == -1 && errno == EPIPE);
    });
}

TEST(ObjectsPipe, StandardOutputToOutsideBecomesOurs) {
    int ends[2], now[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(now, O_CLOEXEC), 0);
    const Fd reader(ends[0]), now_reader(now[0]), now_writer(now[1]);
    Fd writer(ends[1]);
    Stopped process([&] {
        CHILD_CHECK(::dup2(ends[1], 1) == 1);
        ::close(ends[0]);
        ::close(ends[1]);
    });
    writer.reset();
    Checkpoint checkpoint;
    checkpoint.take(process);
    const auto objects = checkpoint.objects();
    EXPECT_TRUE(checkpoint.object_at(objects, 1).outside);
    restart::ObjectSetOptions options;
    options.standard = {0, now_writer.get(), 2};
    checkpoint.restore([&](std::size_t) { CHILD_CHECK(::write(1, "here", 4) == 4); }, options);
    EXPECT_EQ(read_all(now_reader.get()), "here");
}

TEST(ObjectsPipe, FifoByNameWithContents) {
    Folder folder;
    const std::string path = folder / "fifo";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    Stopped process([&] {
        CHILD_CHECK(::dup2(::open(path.c_str(), O_RDWR), 120) == 120);
        CHILD_CHECK(::dup2(::open(path.c_str(), O_RDONLY | O_NONBLOCK), 121) == 121);
        CHILD_CHECK(::dup2(::open(path.c_str(), O_WRONLY), 122) == 122);
        CHILD_CHECK(::write(122, "fifo", 4) == 4);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    checkpoint.restore([&](std::size_t) {
        CHILD_CHECK((::fcntl(121, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == (O_RDONLY | O_NONBLOCK));
        CHILD_CHECK((::fcntl(122, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == O_WRONLY);
        CHILD_CHECK(read_all(120) == "fifo");
    });
}

}  // namespace
}  // namespace cairn::test
