// eventfd(2) is captured and restored, without a checkpoint.
#include <sys/eventfd.h>

#include "resources/eventfd/capture.h"
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

// As on kernels that don't tell it.
TEST(ObjectsEventfd, ASemaphoreIsFoundByWhatItDoes) {
    for (const bool semaphore : {false, true})
        for (const std::uint64_t count :
             {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{7}}) {
            const Fd event(::eventfd(0, semaphore ? EFD_SEMAPHORE : 0));
            if (count != 0) {
                ASSERT_EQ(::write(event.get(), &count, sizeof count), 8);
            }
            const auto found = capture::eventfd_is_semaphore(event.get(), count);
            ASSERT_TRUE(found) << found.error().what;
            EXPECT_EQ(*found, std::optional(semaphore)) << count;
            std::uint64_t left = 0;
            for (std::uint64_t taken = 0; readable(event.get()); left += taken)
                ASSERT_EQ(::read(event.get(), &taken, sizeof taken), 8);
            EXPECT_EQ(left, count);
        }
    const std::uint64_t full = ~std::uint64_t{0} - 1;
    const Fd event(::eventfd(0, 0));
    ASSERT_EQ(::write(event.get(), &full, sizeof full), 8);
    const auto found = capture::eventfd_is_semaphore(event.get(), full);
    ASSERT_TRUE(found);
    EXPECT_EQ(*found, std::nullopt);
}

}  // namespace
}  // namespace cairn::test
