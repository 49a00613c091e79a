// userfaultfd(2) of the program's own: pages that are there and pages that a thread or a child gives when
// they are touched, write protection, pages of a memfd that are in no page table; with MADV_DONTFORK, as qemu
// has it.
// ci: exact user
// narrow: none
// still: exact user
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "support.h"

namespace {

constexpr std::size_t page = 4096;
// linux/userfaultfd.h of 5.7, 5.11, 5.13 and 5.14.
constexpr int user_mode_only = 1;
constexpr std::uint64_t minor_shmem = 1 << 10, thread_id = 1 << 8, write_fault_flag = 2, minor_fault_flag = 4;
constexpr std::uint64_t register_missing = 1, register_protected = 2, register_minor = 4;
struct Request {
    std::uint64_t start, length, mode;
    std::int64_t done;
};
struct Protect {
    std::uint64_t start, length, mode;
};
constexpr unsigned long zero_page = _IOWR(0xAA, 0x04, Request), protect_call = _IOWR(0xAA, 0x06, Protect),
                        continue_call = _IOWR(0xAA, 0x07, Request);

std::uint64_t address(const void* at) {
    return reinterpret_cast<std::uint64_t>(at);
}

int make(std::uint64_t features) {
    const int fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | user_mode_only));
    if (fd < 0) test::skip("userfaultfd is not allowed");
    uffdio_api api = {UFFD_API, features, 0};
    if (ioctl(fd, UFFDIO_API, &api) != 0) test::skip("this kernel's userfaultfd is too old");
    return fd;
}

void watch(int fd, const void* at, std::size_t length, std::uint64_t modes) {
    uffdio_register request = {{address(at), length}, modes, 0};
    CHECK(ioctl(fd, UFFDIO_REGISTER, &request) == 0);
}

// What is in the page at an address, if it is asked for.
char expected(std::uint64_t at) {
    return static_cast<char>('a' + at / page % 26);
}

struct Counts {
    std::atomic<int> missing{0}, write_protected{0}, minor{0};
};

// Gives what is asked for, for ever.
void give(int fd, Counts& counts) {
    alignas(4096) static thread_local char full[page];
    for (;;) {
        pollfd polled{fd, POLLIN, 0};
        if (poll(&polled, 1, -1) < 0) continue;
        uffd_msg message{};
        if (read(fd, &message, sizeof message) != sizeof message) continue;
        CHECK(message.event == UFFD_EVENT_PAGEFAULT);
        const auto at = message.arg.pagefault.address & ~(page - 1);
        if ((message.arg.pagefault.flags & minor_fault_flag) != 0) {
            ++counts.minor;
            Request request = {at, page, 0, 0};
            CHECK(ioctl(fd, continue_call, &request) == 0 || errno == EEXIST);
        } else if ((message.arg.pagefault.flags & write_fault_flag) != 0) {
            ++counts.write_protected;
            Protect request = {at, page, 0};
            CHECK(ioctl(fd, protect_call, &request) == 0);
        } else {
            ++counts.missing;
            std::memset(full, expected(at), page);
            uffdio_copy request = {at, address(full), page, 0, 0};
            // A fault that a stop has cut short comes again.
            CHECK(ioctl(fd, UFFDIO_COPY, &request) == 0 || errno == EEXIST);
        }
        // Who asks a second time leaves nothing here (a witness looks at the stack).
        explicit_bzero(&message, sizeof message);
    }
}

char* memory_of(std::size_t pages, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1) {
    void* at = mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, flags, fd, 0);
    CHECK(at != MAP_FAILED);
    return static_cast<char*>(at);
}

volatile char& byte_at(char* memory, int number) {
    return memory[static_cast<std::size_t>(number) * page];
}

// Large enough for a huge page, which must not come.
test::Check missing() {
    constexpr std::size_t pages = 1536;
    auto* counts = new Counts;
    const int fd = make(thread_id);
    char* memory = memory_of(pages);
    for (int i = 0; i < 300; ++i) byte_at(memory, i) = 'w';
    watch(fd, memory, pages * page, register_missing);
    Request zeros = {address(memory) + 300 * page, page, 0, 0};
    CHECK(ioctl(fd, zero_page, &zeros) == 0);
    std::thread([=] { give(fd, *counts); }).detach();
    CHECK(byte_at(memory, 301) == expected(address(memory) + 301 * page) && counts->missing == 1);
    auto* next = new int(302);
    return [=](bool) {
        const int before = counts->missing;
        for (int i = 0; i < 300; ++i) CHECK(byte_at(memory, i) == 'w');
        CHECK(byte_at(memory, 300) == 0);
        for (int i = 301; i < *next; ++i)
            CHECK(byte_at(memory, i) == expected(address(memory) + static_cast<std::size_t>(i) * page));
        CHECK(counts->missing == before);  // all of these were there
        CHECK(byte_at(memory, *next) == expected(address(memory) + static_cast<std::size_t>(*next) * page));
        CHECK(counts->missing == before + 1);
        ++*next;
    };
}

test::Check write_protected() {
    auto* counts = new Counts;
    const int fd = make(0);
    char* memory = memory_of(4);
    CHECK(madvise(memory, 4 * page, MADV_DONTFORK) == 0);
    for (int i = 0; i < 3; ++i) byte_at(memory, i) = 'p';
    watch(fd, memory, 4 * page, register_protected | register_missing);
    const auto protect = [=](int number) {
        Protect request = {address(memory) + static_cast<std::size_t>(number) * page, page, 1};
        CHECK(ioctl(fd, protect_call, &request) == 0);
    };
    protect(1);
    std::thread([=] { give(fd, *counts); }).detach();
    return [=](bool) {
        const int before = counts->write_protected;
        CHECK(byte_at(memory, 0) == 'p' && byte_at(memory, 1) == 'p');
        byte_at(memory, 0) = 'p';
        CHECK(counts->write_protected == before);
        byte_at(memory, 1) = 'p';
        CHECK(counts->write_protected == before + 1);
        byte_at(memory, 1) = 'p';
        CHECK(counts->write_protected == before + 1);
        protect(1);
    };
}

// Pages of a file that are there, and that this process has yet to be shown.
test::Check minor_faults() {
    const int fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | user_mode_only));
    uffdio_api api = {UFFD_API, minor_shmem, 0};
    CHECK(fd >= 0);
    if (ioctl(fd, UFFDIO_API, &api) != 0) return [](bool) {};  // before Linux 5.14
    auto* counts = new Counts;
    const int file = memfd_create("minor", MFD_CLOEXEC);
    CHECK(file >= 0 && ftruncate(file, 40 * page) == 0);
    char* memory = memory_of(40, MAP_SHARED, file);
    char* filled = memory_of(40, MAP_SHARED, file);
    std::memset(filled, 'm', 40 * page);
    watch(fd, memory, 40 * page, register_minor);
    std::thread([=] { give(fd, *counts); }).detach();
    CHECK(byte_at(memory, 0) == 'm' && counts->minor == 1);
    auto* next = new int(1);
    return [=](bool) {
        const int before = counts->minor;
        for (int i = 0; i < *next; ++i) CHECK(byte_at(memory, i) == 'm');
        CHECK(counts->minor == before);
        CHECK(byte_at(memory, *next) == 'm' && counts->minor == before + 1);
        ++*next;
    };
}

// A child gives the pages, by the descriptor that it has inherited; the parent has closed its own.
test::Check given_by_a_child() {
    const int fd = make(0);
    char* memory = memory_of(64);
    watch(fd, memory, 64 * page, register_missing);
    const pid_t child = fork();
    if (child == 0) {
        Counts counts;
        give(fd, counts);
    }
    CHECK(close(fd) == 0);
    auto* next = new int(0);
    return [=](bool last) {
        CHECK(byte_at(memory, *next) == expected(address(memory) + static_cast<std::size_t>(*next) * page));
        ++*next;
        if (last) CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    };
}

test::Check without_a_range() {
    const int fresh = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | user_mode_only)), begun = make(0);
    CHECK(fresh >= 0);
    return [=](bool) {
        char* memory = memory_of(1);
        uffdio_register request = {{address(memory), page}, register_missing, 0};
        CHECK(ioctl(fresh, UFFDIO_REGISTER, &request) != 0 && errno == EINVAL);
        watch(begun, memory, page, register_missing);
        CHECK(munmap(memory, page) == 0 && (fcntl(fresh, F_GETFL) & O_NONBLOCK) == 0);
    };
}

}  // namespace

int main() {
    test::serve({{"missing pages", missing},
                 {"write protection", write_protected},
                 {"pages that are there", minor_faults},
                 {"given by a child", given_by_a_child},
                 {"without a range", without_a_range}});
}
