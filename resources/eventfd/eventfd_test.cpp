// eventfd(2) is captured and restored, without a checkpoint.
#include <sys/eventfd.h>

#include "test/unit/objects_support.h"

namespace cairn::test {
namespace {

TEST(ObjectsEventfd, WithItsCount) {
    Stopped process([] {
        at(120, ::eventfd(7, EFD_NONBLOCK));
        at(121, ::eventfd(2, EFD_SEMAPHORE));
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    checkpoint.restore([](std::size_t) {
        std::uint64_t count = 0;
        CHILD_CHECK(::read(120, &count, 8) == 8 && count == 7 && ::read(120, &count, 8) == -1 &&
                    errno == EAGAIN);
        CHILD_CHECK(::read(121, &count, 8) == 8 && count == 1 && ::read(121, &count, 8) == 8 && count == 1);
        CHILD_CHECK(!readable(121) && (::fcntl(121, F_GETFL) & O_NONBLOCK) == 0);
    });
}

}  // namespace
}  // namespace cairn::test
