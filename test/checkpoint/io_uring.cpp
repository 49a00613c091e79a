// io_uring(7): rings in which nothing is under way: a file's bytes by one; a thread asleep in another for
// what it completes, as database servers have it; completions that nobody has taken, around the end of their
// queue; requests that are there and not submitted; a queue with places that lead to none; one that a child
// has too. The counts of the queues, which programs keep copies of, go on. Registered files and buffers, with
// free slots among them.
// ci: exact user
// rain: soak
// narrow: none
// heirs: none
#include <fcntl.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "support.h"

namespace {

// As liburing: what the program has prepared is counted by itself, the rest is in the shared memory.
class Ring {
  public:
    explicit Ring(unsigned entries, unsigned completions = 0) {
        if (completions != 0) {
            parameters_.flags = IORING_SETUP_CQSIZE;
            parameters_.cq_entries = completions;
        }
        fd_ = static_cast<int>(syscall(SYS_io_uring_setup, entries, &parameters_));
        if (fd_ < 0) test::skip("io_uring is not allowed");
        const auto& sq = parameters_.sq_off;
        const auto& cq = parameters_.cq_off;
        length_ = std::max<std::size_t>(sq.array + parameters_.sq_entries * sizeof(unsigned),
                                        cq.cqes + parameters_.cq_entries * sizeof(io_uring_cqe));
        shared_ = map(length_, IORING_OFF_SQ_RING);
        requests_ = reinterpret_cast<io_uring_sqe*>(
            map(parameters_.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
    }

    [[nodiscard]] int fd() const { return fd_; }
    io_uring_sqe& prepare(std::uint8_t opcode, std::uint64_t data) {
        CHECK(prepared_ - word(parameters_.sq_off.head) < parameters_.sq_entries);
        io_uring_sqe& request = requests_[prepared_ & (parameters_.sq_entries - 1)];
        request = {};
        request.opcode = opcode;
        request.user_data = data;
        array()[prepared_ & (parameters_.sq_entries - 1)] = prepared_ & (parameters_.sq_entries - 1);
        ++prepared_;
        return request;
    }
    // A place that leads to no request.
    void prepare_none() {
        array()[prepared_ & (parameters_.sq_entries - 1)] = 12345;
        ++prepared_;
    }
    void publish() { __atomic_store_n(&word(parameters_.sq_off.tail), prepared_, __ATOMIC_RELEASE); }
    [[nodiscard]] unsigned published() const { return prepared_ - word(parameters_.sq_off.head); }
    // What has been published.
    long enter(unsigned wait = 0) const {
        long done;
        do
            done = syscall(SYS_io_uring_enter, fd_, published(), wait, wait != 0 ? IORING_ENTER_GETEVENTS : 0,
                           nullptr, 0);
        while (done < 0 && errno == EINTR);
        return done;
    }
    void submit(unsigned wait = 0) {
        publish();
        CHECK(enter(wait) >= 0);
    }
    [[nodiscard]] unsigned waiting() const {
        return __atomic_load_n(&word(parameters_.cq_off.tail), __ATOMIC_ACQUIRE) -
               word(parameters_.cq_off.head);
    }
    io_uring_cqe take() {
        while (waiting() == 0)
            CHECK(syscall(SYS_io_uring_enter, fd_, 0, 1, IORING_ENTER_GETEVENTS, nullptr, 0) >= 0);
        unsigned& head = word(parameters_.cq_off.head);
        const auto* all = reinterpret_cast<const io_uring_cqe*>(shared_ + parameters_.cq_off.cqes);
        io_uring_cqe copy{};
        std::memcpy(&copy, all + (head & (parameters_.cq_entries - 1)), sizeof copy);
        __atomic_store_n(&head, head + 1, __ATOMIC_RELEASE);
        return copy;
    }
    void take(std::uint64_t data, int result) {
        const auto completion = take();
        CHECK(completion.user_data == data && completion.res == result);
    }
    // Requests that do nothing, one after another.
    void turn(unsigned count) {
        for (unsigned i = 0; i < count; ++i) {
            prepare(IORING_OP_NOP, i);
            submit(1);
            take(i, 0);
        }
    }
    void keep_from_children() const {
        CHECK(madvise(shared_, length_, MADV_DONTFORK) == 0);
        CHECK(madvise(requests_, parameters_.sq_entries * sizeof(io_uring_sqe), MADV_DONTFORK) == 0);
    }
    [[nodiscard]] unsigned dropped() const { return word(parameters_.sq_off.dropped); }
    [[nodiscard]] unsigned taken() const { return word(parameters_.sq_off.head); }
    [[nodiscard]] unsigned posted() const { return word(parameters_.cq_off.tail); }

  private:
    unsigned char* map(std::size_t length, off_t offset) const {
        void* at = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, offset);
        CHECK(at != MAP_FAILED);
        return static_cast<unsigned char*>(at);
    }
    [[nodiscard]] unsigned& word(unsigned offset) const {
        return *reinterpret_cast<unsigned*>(shared_ + offset);
    }
    [[nodiscard]] unsigned* array() const { return &word(parameters_.sq_off.array); }

    io_uring_params parameters_{};
    int fd_ = -1;
    unsigned char* shared_ = nullptr;
    io_uring_sqe* requests_ = nullptr;
    unsigned prepared_ = 0;
    std::size_t length_ = 0;
};

void transfer(Ring& ring, std::uint8_t opcode, int file, char* bytes, unsigned length, std::uint64_t offset) {
    static std::uint64_t number = 1000;
    auto& request = ring.prepare(opcode, ++number);
    request.fd = file;
    request.addr = reinterpret_cast<std::uint64_t>(bytes);
    request.len = length;
    request.off = offset;
    ring.submit(1);
    ring.take(number, static_cast<int>(length));
}

// The end that has something to be read, the other one has the next number.
int socket_with(const char* text) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && ends[1] == ends[0] + 1 &&
          write(ends[1], text, 1) == 1);
    return ends[0];
}

struct Fixed {
    Ring ring{8};
    char *first = nullptr, *second = nullptr;
    int socket_end = socket_with("x");
};

// Slot 1 is a file, 3 a socket; buffer 0 has 8192 bytes, 1 has 100.
void register_fixed(Fixed& fixed, int file) {
    const int numbers[] = {-1, file, -1, fixed.socket_end};
    CHECK(syscall(SYS_io_uring_register, fixed.ring.fd(), IORING_REGISTER_FILES, numbers, 4) == 0);
    // Not the program's own variables: before Linux 6.5 memory that a file lies behind can't be registered.
    void* const buffers = mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(buffers != MAP_FAILED);
    fixed.first = static_cast<char*>(buffers);
    fixed.second = fixed.first + 8192;
    const iovec pieces[] = {{fixed.first, 8192}, {fixed.second, 100}};
    CHECK(syscall(SYS_io_uring_register, fixed.ring.fd(), IORING_REGISTER_BUFFERS, pieces, 2) == 0);
    // A child that had it mapped could have registered them as well.
    fixed.ring.keep_from_children();
}

void use_fixed(Fixed& all, unsigned round) {
    auto& [fixed, first, second, socket_end] = all;
    const auto ask = [&](std::uint8_t opcode, int slot, char* bytes, unsigned length, int result) {
        auto& request = fixed.prepare(opcode, round);
        request.fd = slot;
        request.flags = IOSQE_FIXED_FILE;
        request.buf_index = opcode == IORING_OP_WRITE_FIXED ? 1 : 0;
        request.addr = reinterpret_cast<std::uint64_t>(bytes);
        request.len = length;
        request.off = slot == 1 ? 1 << 20 : 0;
        fixed.submit(1);
        fixed.take(round, result);
    };
    std::snprintf(second, 100, "fixed %u", round);
    ask(IORING_OP_WRITE_FIXED, 1, second, 100, 100);
    ask(IORING_OP_READ_FIXED, 1, first + 4000, 100, 100);
    CHECK(std::strcmp(first + 4000, second) == 0);
    char byte = 0;
    ask(IORING_OP_READ, 3, &byte, 1, 1);
    CHECK(byte == 'x' && write(socket_end + 1, "x", 1) == 1);
    ask(IORING_OP_READ, 2, &byte, 1, -EBADF);
}

void five_more(Ring& full) {
    for (const unsigned many : {3U, 2U}) {
        const unsigned from = full.posted();
        for (unsigned i = 0; i < many; ++i) full.prepare(IORING_OP_NOP, 100 + from + i);
        full.submit();
    }
}

void leave_a_gap(Ring& gaps) {
    gaps.turn(3);
    gaps.prepare_none();
    gaps.submit();
}

}  // namespace

int main() {
    Ring files(8), served(4), full(4, 8), idle(16), gaps(2), shared(32);

    const int file = open("ring.data", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(file >= 0);
    files.turn(1001);

    // A server's: one thread takes what others have submitted.
    static std::atomic<std::uint64_t> sum{0};
    std::thread([&served] {
        for (;;) sum += served.take().user_data;
    }).detach();

    // 6, 7 and 0, 1, 2 of 8.
    full.turn(6);
    five_more(full);
    CHECK(full.waiting() == 5);

    leave_a_gap(gaps);
    CHECK(gaps.dropped() == 1 && gaps.taken() == 4 && gaps.posted() == 3);

    Fixed fixed;
    register_fixed(fixed, file);

    int orders[2], answers[2];
    CHECK(pipe(orders) == 0 && pipe(answers) == 0);
    const pid_t child = fork();
    if (child == 0)
        for (char order = 0; read(orders[0], &order, 1) == 1;) {
            shared.turn(static_cast<unsigned>(order));
            CHECK(write(answers[1], "y", 1) == 1);
        }
    CHECK(child > 0);

    std::uint64_t all = 0;
    unsigned turns = 0, round = 0;
    test::serve([&](bool last) {
        ++round;
        char text[64] = {}, back[64] = {};
        std::snprintf(text, sizeof text, "round %u", round);
        transfer(files, IORING_OP_WRITE, file, text, sizeof text, round * 64);
        transfer(files, IORING_OP_READ, file, back, sizeof back, round * 64);
        CHECK(std::strcmp(text, back) == 0 && files.taken() == 1001 + 2 * round &&
              files.posted() == files.taken());

        served.prepare(IORING_OP_NOP, round);
        served.submit();
        all += round;
        for (int i = 0; i < 2000 && sum != all; ++i) test::nap(5);
        CHECK(sum == all);

        CHECK(full.waiting() == 5);
        for (int i = 0; i < 5; ++i) full.take(100 + full.posted() - full.waiting(), 0);
        five_more(full);

        if (round > 1) {
            CHECK(idle.published() == 2 && idle.waiting() == 0 && idle.enter() == 2);
            idle.take(round - 1, 0);
            idle.take(round, 0);
        }
        idle.prepare(IORING_OP_NOP, round);
        idle.prepare(IORING_OP_NOP, round + 1);
        idle.publish();

        use_fixed(fixed, round);

        CHECK(gaps.dropped() == round && gaps.taken() - gaps.posted() == round);
        leave_a_gap(gaps);

        const char order = 7;
        char answer = 0;
        CHECK(write(orders[1], &order, 1) == 1 && read(answers[0], &answer, 1) == 1);
        turns += 7;
        CHECK(shared.taken() == turns);
        if (!last) return;
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    });
}
