// Descriptors of namespaces are captured and restored, or refused, without a checkpoint.
#include <sched.h>
#include <sys/stat.h>

#include "test/unit/objects_support.h"

namespace cairn::test {
namespace {

TEST(ObjectsNamespace, OfTheProcess) {
    Stopped process([] {
        at(120, ::open("/proc/self/ns/net", O_RDONLY));
        at(121, ::open("/proc/self/ns/time_for_children", O_RDONLY));
        at(122, ::fcntl(120, F_DUPFD, 123));
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    checkpoint.restore([](std::size_t) {
        for (const auto& [fd, path] : {std::pair{120, "/proc/self/ns/net"}, {121, "/proc/self/ns/time"}}) {
            struct stat held = {}, own = {};
            CHILD_CHECK(::fstat(fd, &held) == 0 && ::stat(path, &own) == 0);
            CHILD_CHECK(held.st_dev == own.st_dev && held.st_ino == own.st_ino);
        }
        CHILD_CHECK(same_description(120, 122) && !same_description(120, 121));
    });
}

TEST(ObjectsNamespace, OfOthersIsRefused) {
    const auto another = [] {
        int told[2];
        CHILD_CHECK(::pipe(told) == 0);
        const pid_t child = ::fork();
        if (child == 0) {
            // An ordinary user is given one of this type, too.
            const bool done = ::unshare(CLONE_NEWUSER) == 0;
            CHILD_CHECK(done && ::write(told[1], "x", 1) == 1);
            for (;;) ::pause();
        }
        char byte = 0;
        ::close(told[1]);
        CHILD_CHECK(::read(told[0], &byte, 1) == 1);
        const int fd = ::open(fmt::format("/proc/{}/ns/user", child).c_str(), O_RDONLY);
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        at(120, fd);
    };
    expect_refused(
        another,
        "is a namespace of type user that no process of the computation is in, which can't be saved; "
        "close it before a checkpoint");
    expect_refused([] { at(120, ::open("/proc/self/ns/net", O_PATH)); },
                   "is a net: this can't be saved yet; close it before a checkpoint");
}

}  // namespace
}  // namespace cairn::test
