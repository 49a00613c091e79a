// Rings of io_uring(7) are captured and restored, or refused, without a checkpoint.
#include <sys/syscall.h>

#include "resources/io_uring/schema_ring.h"
#include "test/unit/objects_support.h"

namespace cairn::test {
namespace {

struct Ring {
    io_uring_params parameters{};
    RingMemory shared, requests;
};

Ring map_ring(int fd, const io_uring_params& parameters) {
    auto shared = RingMemory::map(fd, IORING_OFF_SQ_RING, ring_length(parameters));
    auto requests = RingMemory::map(fd, IORING_OFF_SQES, requests_length(parameters));
    CHILD_CHECK(shared && requests);
    return {parameters, std::move(*shared), std::move(*requests)};
}

// `data` of each is its number, from 0 on.
void submit_nothing(int fd, const Ring& ring, std::uint32_t count) {
    const auto& sq = ring.parameters.sq_off;
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t tail = ring.shared.load(sq.tail), index = tail % ring.parameters.sq_entries;
        reinterpret_cast<io_uring_sqe*>(ring.requests.bytes().data())[index].user_data = tail;
        ring.shared.store(sq.array + index * 4, index);
        ring.shared.store(sq.tail, tail + 1);
        CHILD_CHECK(::syscall(SYS_io_uring_enter, fd, 1, 0, 0, nullptr, 0) == 1);
    }
}

std::uint64_t data_of(const Ring& ring, std::uint32_t completion) {
    io_uring_cqe found{};
    const auto at = ring.parameters.cq_off.cqes + completion % ring.parameters.cq_entries * sizeof found;
    std::memcpy(&found, ring.shared.bytes().data() + at, sizeof found);
    return found.user_data;
}

bool rings_are_allowed() {
    io_uring_params parameters{};
    return static_cast<bool>(set_up_ring(1, 2, parameters));
}

TEST(ObjectsIoUring, WithItsCountsAndWhatIsUnread) {
    if (!rings_are_allowed()) GTEST_SKIP() << "no io_uring";
    io_uring_params parameters{};
    (void)set_up_ring(4, 8, parameters);
    Stopped process([] {
        io_uring_params own{};
        Fd fd = set_up_ring(4, 8, own);
        const auto ring = map_ring(fd.get(), own);
        for (int i = 0; i < 13; ++i) {
            submit_nothing(fd.get(), ring, 1);
            if (i < 8) ring.shared.store(own.cq_off.head, static_cast<std::uint32_t>(i) + 1);
        }
        at(120, fd.release());
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    checkpoint.restore([&](std::size_t) {
        const auto ring = map_ring(120, parameters);
        const auto& [sq, cq] = std::tie(parameters.sq_off, parameters.cq_off);
        CHILD_CHECK(ring.shared.load(sq.head) == 13 && ring.shared.load(sq.tail) == 13);
        CHILD_CHECK(ring.shared.load(cq.head) == 8 && ring.shared.load(cq.tail) == 13);
        // The three places that are left, and no more.
        submit_nothing(120, ring, 3);
        for (std::uint32_t i = 8; i < 16; ++i) CHILD_CHECK(data_of(ring, i) == i);
    });
}

TEST(ObjectsIoUring, WithAnEventfdIsRefused) {
    if (!rings_are_allowed()) GTEST_SKIP() << "no io_uring";
    expect_refused(
        [] {
            io_uring_params own{};
            Fd fd = set_up_ring(4, 8, own);
            const int event = static_cast<int>(::syscall(SYS_eventfd2, 0, 0));
            CHILD_CHECK(::syscall(SYS_io_uring_register, fd.get(), IORING_REGISTER_EVENTFD, &event, 1) == 0);
            at(120, fd.release());
        },
        "is an io_uring that tells an eventfd of its completions (IORING_REGISTER_EVENTFD), and the kernel "
        "doesn't say which: this can't be saved");
}

}  // namespace
}  // namespace cairn::test
