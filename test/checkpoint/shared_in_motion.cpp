// Shared memory of some MiB that is written to all the time, cut off, grown, and punched, of each kind: it is
// copied while the programs run, and what has changed since is written in the pause. A copy in private memory
// says what has to be there.
// ci: exact virtual user
// rain: soak
// narrow: none
// heirs: none
#include <signal.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>

#include <cstdint>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support.h"

namespace {

constexpr std::size_t page = 4096, pages = 6 * 256;  // 6 MiB: from 4 MiB on it is copied ahead

std::uint64_t* map_shared(int fd) {
    const int flags = MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0);
    void* const at = mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, flags, fd, 0);
    CHECK(at != MAP_FAILED);
    return static_cast<std::uint64_t*>(at);
}

struct Memory {
    explicit Memory(std::uint64_t* shared, int descriptor = -1) : at(shared), fd(descriptor) {}
    std::uint64_t* at;
    int fd;  // -1: it can't be cut off
    std::size_t end = pages;
    std::vector<std::uint64_t> expected = std::vector<std::uint64_t>(pages * page / sizeof(std::uint64_t));

    static constexpr std::size_t words = page / sizeof(std::uint64_t);

    void write(std::size_t index, std::uint64_t value) {
        for (std::size_t word = 0; word < words; word += words / 8)
            at[index * words + word] = expected[index * words + word] = value + word;
    }
    void forget(std::size_t first, std::size_t last) {
        std::fill(expected.begin() + static_cast<std::ptrdiff_t>(first * words),
                  expected.begin() + static_cast<std::ptrdiff_t>(last * words), 0);
    }
    void change(std::mt19937_64& random) {
        const auto what = random() % 400;
        const auto index = random() % end;
        if (what == 0) {
            const auto last = std::min(end, index + random() % 64 + 1);
            CHECK(madvise(at + index * words, (last - index) * page, MADV_REMOVE) == 0);
            forget(index, last);
        } else if (what == 1 && fd >= 0) {
            end = pages - random() % (pages / 2);
            CHECK(ftruncate(fd, static_cast<off_t>(end * page)) == 0);
            forget(end, pages);
        } else if (what == 2 && fd >= 0) {
            end = pages;
            CHECK(ftruncate(fd, static_cast<off_t>(end * page)) == 0);
        } else {
            // Most of it stays as it is; some pages become zeros, by a write.
            write(index / 4, what < 20 ? 0 : random());
        }
    }
    void check() const {
        CHECK(std::memcmp(at, expected.data(), end * page) == 0);
        if (fd >= 0) CHECK(lseek(fd, 0, SEEK_END) == static_cast<off_t>(end * page));
    }
};

std::vector<Memory> all_kinds() {
    std::vector<Memory> all;
    all.emplace_back(map_shared(-1));
    const int memfd = memfd_create("in motion", MFD_CLOEXEC);
    CHECK(memfd >= 0 && ftruncate(memfd, pages * page) == 0);
    all.emplace_back(map_shared(memfd), memfd);
    const auto name = "/cairn-motion-" + std::to_string(getpid());
    for (const bool removed : {true, false}) {
        const int fd = shm_open((name + (removed ? "-gone" : "")).c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
        CHECK(fd >= 0 && ftruncate(fd, pages * page) == 0);
        if (removed) CHECK(shm_unlink((name + "-gone").c_str()) == 0);
        all.emplace_back(map_shared(fd), fd);
    }
    const int segment = shmget(IPC_PRIVATE, pages * page, IPC_CREAT | 0600);
    void* const attached = shmat(segment, nullptr, 0);
    CHECK(segment >= 0 && attached != reinterpret_cast<void*>(-1) && shmctl(segment, IPC_RMID, nullptr) == 0);
    all.emplace_back(static_cast<std::uint64_t*>(attached));
    return all;
}

}  // namespace

int main() {
    auto* memories = new std::vector<Memory>(all_kinds());
    auto* mutex = new std::mutex;
    std::mt19937_64 random(std::random_device{}());
    for (auto& memory : *memories)
        for (std::size_t i = 0; i < pages / 2; ++i) memory.write(i, random());
    const auto name = "/cairn-motion-" + std::to_string(getpid());
    // Somebody who has it all as well, and has never had a thread.
    const pid_t child = fork();
    if (child == 0)
        for (;;) pause();
    CHECK(child > 0);
    std::thread([=]() mutable {
        for (;;) {
            {
                const std::lock_guard lock(*mutex);
                for (int i = 0; i < 20; ++i) (*memories)[random() % memories->size()].change(random);
            }
            if (test::is_watched()) return;
            test::nap(1);
        }
    }).detach();
    test::serve([&](bool last) {
        const std::lock_guard lock(*mutex);
        for (const auto& memory : *memories) memory.check();
        if (!last) return;
        CHECK(shm_unlink(name.c_str()) == 0 && kill(child, SIGKILL) == 0);
        CHECK(waitpid(child, nullptr, 0) == child);
    });
}
