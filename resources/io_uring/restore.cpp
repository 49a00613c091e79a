// A ring of io_uring(7) is set up anew and brought to where the other one was.
//
// The kernel counts the requests that it has taken and the completions that it has posted in words of its own
// (cached_sq_head and cached_cq_tail of struct io_ring_ctx), which begin with 0. It copies them to the shared
// memory and never reads them there, while a program compares what it reads there with counts of its own
// (liburing's sqe_head and sqe_tail). So the counts have to be the same as before, and the only thing that
// moves the kernel's is requests: as many are made that do nothing (IORING_OP_NOP). One takes 50 ns
// (Linux 6.18; 190 in a ring of one entry), and since the counts have 32 bits it is four minutes at most.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "resources/io_uring/schema_ring.h"
#include "resources/restore/other.h"

namespace cairn::restart {
namespace {

class Ring {
  public:
    static Result<Ring> set_up(const schema::IoUring& saved) {
        Ring ring;
        ring.fd_ = set_up_ring(saved.entries, saved.completions, ring.parameters_);
        if (!ring.fd_ && (errno == ENOSYS || errno == EPERM))
            return fail_code(
                ExitCode::refused,
                "the kernel doesn't let us set up an io_uring ({}): sysctl kernel.io_uring_disabled, or "
                "the seccomp filter of a container",
                std::strerror(errno));
        if (!ring.fd_) return fail_errno("io_uring_setup");
        const auto& offered = ring.parameters_;
        if (offered.sq_entries != saved.entries || offered.cq_entries != saved.completions ||
            ring_offsets(offered) != saved.offsets)
            return fail_code(
                ExitCode::refused,
                "this kernel lays out the memory of an io_uring in another way than the one that the "
                "checkpoint was taken under: restart under that one, or one of its series");
        if (saved.ring.size() != ring_length(offered) || saved.requests.size() != requests_length(offered))
            return fail_code(ExitCode::damaged, "io_uring: the image has another size of its memory");
        ring.shared_ = TRY(RingMemory::map(ring.fd_.get(), IORING_OFF_SQ_RING, ring_length(offered)));
        ring.requests_ = TRY(RingMemory::map(ring.fd_.get(), IORING_OFF_SQES, requests_length(offered)));
        return ring;
    }

    // All requests are zeros: IORING_OP_NOP. `unread`: how many of the last completions the program has yet
    // to take. Its head of the queue is kept as far behind, because the kernel looks at it when it chooses
    // the places of completions, some in advance (cqe_sentinel): no later one may come where an unread one
    // is.
    Result<> post(std::uint32_t count, std::uint32_t unread) {
        const auto read_up_to = [&](std::uint32_t left) {
            shared_.store(parameters_.cq_off.head, count - left - (left < unread ? unread - left : 0));
        };
        read_up_to(count);
        for (std::uint32_t left = count; left > 0;) {
            const std::uint32_t many = std::min(left, parameters_.sq_entries);
            CHECK_OK(submit(many));
            left -= many;
            const std::uint32_t posted = shared_.load(parameters_.cq_off.tail);
            if (posted != count - left)
                return fail("io_uring: {} requests have posted {}", count - left, posted);
            read_up_to(left);
        }
        return {};
    }

    // Places of the submission queue that lead to no request are passed over, and complete nothing.
    Result<> drop(std::uint32_t count) {
        for (; count > 0; --count) {
            const std::uint32_t tail = shared_.load(parameters_.sq_off.tail);
            shared_.store(place(tail), ~0U);
            shared_.store(parameters_.sq_off.tail, tail + 1);
            (void)::syscall(SYS_io_uring_enter, fd_.get(), 1U, 0U, 0U, nullptr, 0UL);
            if (shared_.load(parameters_.sq_off.head) != tail + 1)
                return fail("io_uring: a request that is none was taken for one");
        }
        return {};
    }

    void fill(const schema::IoUring& saved) {
        const auto& sq = parameters_.sq_off;
        std::ranges::copy(saved.requests, requests_.bytes().begin());
        std::ranges::copy(saved.ring, shared_.bytes().begin());
        // What the kernel tells of itself there is of the other ring.
        shared_.store(sq.flags, 0);
        // A ring without this array (IORING_SETUP_NO_SQARRAY) is one with each place in its own order. Who
        // has the array, and uses the first request only, writes so into it for each.
        const auto array = shared_.bytes().subspan(sq.array, parameters_.sq_entries * sizeof(std::uint32_t));
        if (std::ranges::any_of(array, [](std::uint8_t byte) { return byte != 0; })) return;
        for (std::uint32_t i = 0; i < parameters_.sq_entries; ++i) shared_.store(place(i), i);
    }

    [[nodiscard]] std::uint32_t taken() const { return shared_.load(parameters_.sq_off.head); }
    [[nodiscard]] const io_uring_params& parameters() const { return parameters_; }
    [[nodiscard]] Fd release() { return std::move(fd_); }

  private:
    // Where the array says which request comes as the `number`th.
    [[nodiscard]] std::uint32_t place(std::uint32_t number) const {
        constexpr std::uint32_t each = sizeof number;
        return parameters_.sq_off.array + (number & (parameters_.sq_entries - 1)) * each;
    }
    Result<> submit(std::uint32_t many) {
        const std::uint32_t tail = shared_.load(parameters_.sq_off.tail) + many;
        shared_.store(parameters_.sq_off.tail, tail);
        for (;;) {
            const std::uint32_t left = tail - shared_.load(parameters_.sq_off.head);
            if (left == 0) return {};
            if (::syscall(SYS_io_uring_enter, fd_.get(), left, 0U, 0U, nullptr, 0UL) < 0 && errno != EINTR &&
                errno != EAGAIN)
                return fail_errno("io_uring_enter");
        }
    }

    Fd fd_;
    io_uring_params parameters_{};
    RingMemory shared_, requests_;
};

}  // namespace

Result<Fd> open_io_uring(Opening&, const schema::Object&, const schema::IoUring& saved) {
    auto ring = TRY(Ring::set_up(saved));
    std::uint32_t read = 0;
    std::memcpy(&read, saved.ring.data() + ring.parameters().cq_off.head, sizeof read);
    if (saved.posted - read > saved.completions)
        return fail_code(ExitCode::damaged, "io_uring: the image's counts don't fit each other");
    CHECK_OK(ring.post(saved.posted, saved.posted - read));
    CHECK_OK(ring.drop(saved.taken - saved.posted));
    if (ring.taken() != saved.taken)
        return fail("io_uring: {} requests were taken, not {}", ring.taken(), saved.taken);
    ring.fill(saved);
    return ring.release();
}

// All objects are there by now.
Result<> register_files(const schema::Object& object, int fd, AfterForest& after) {
    const auto& saved = *object.get<schema::IoUring>();
    if (saved.file_slots == 0) return {};
    std::vector<int> numbers(saved.file_slots, -1);
    std::vector<Lent> held;
    for (const auto& file : saved.files) {
        if (file.slot >= numbers.size())
            return fail_code(ExitCode::damaged, "io_uring: slot {} of its files", file.slot);
        held.push_back(TRY(after.lend(file.object)));
        numbers[file.slot] = held.back().get();
        if (!held.back())
            return fail_code(ExitCode::refused,
                             "an io_uring has object {} registered as a file, which only a process can "
                             "open",
                             file.object);
    }
    if (::syscall(SYS_io_uring_register, fd, IORING_REGISTER_FILES, numbers.data(), saved.file_slots) < 0)
        return fail_errno("io_uring: {} registered files", saved.file_slots);
    return {};
}

const std::vector<schema::RingBuffer>* buffers_of(const schema::Object& object,
                                                  const schema::Process& process) {
    const auto* saved = object.get<schema::IoUring>();
    return saved == nullptr || saved->holder != process.pid || saved->buffers.empty() ? nullptr
                                                                                      : &saved->buffers;
}

}  // namespace cairn::restart
