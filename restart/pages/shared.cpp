#include "restart/pages/shared.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>
#include <utility>

#include "common/fd.h"
#include "common/printable.h"
#include "restart/pages/user_fault.h"

namespace cairn::restart::pages {
namespace {

// A slot says what its users like: who is killed has the region mapped.
void kill_member(pid_t pid, const FileKey& region) {
    if (pid <= 1) return;
    const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    const MappedAt at = find_mapping(pid, region);
    if (process && at.mapped == Mapped::yes && at.library)
        ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
}

void kill_programs(const Work& work, const Shared& shared) {
    for (const auto& pidfd : shared.process_descriptors())
        ::syscall(SYS_pidfd_send_signal, pidfd.load(), SIGKILL, nullptr, 0);
    for (const auto& each : work.regions)
        for (const auto& slot : each.region->slots)
            if (slot.state.load() != SlotState::free) kill_member(slot.pid.load(), each.key);
}

// All userfaultfds of this table of descriptors: of children, too, that nobody has told us of.
std::vector<int> open_user_faults() {
    std::vector<int> result;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored))
        if (std::filesystem::read_symlink(entry.path(), ignored) == "anon_inode:[userfaultfd]")
            result.push_back(std::atoi(entry.path().filename().c_str()));
    return result;
}

// Whoever sleeps until an event is read can't be killed before: he goes on, and dies.
bool has_gone(int user_fault) {
    uffd_msg ignored;
    while (::read(user_fault, &ignored, sizeof ignored) > 0) {
    }
    return probe(user_fault, anywhere) == Probe::gone;
}

}  // namespace

Result<Shared> Shared::create(std::size_t processes) {
    const auto size = sizeof(Memory) + processes * sizeof(std::atomic<int>);
    void* memory =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return fail_errno("memory for the page server");
    Shared shared(memory, size);
    for (std::size_t i = 0; i < processes; ++i) shared.user_faults_[i] = -1;
    return shared;
}

Shared::Shared(void* memory, std::size_t size)
    : size_(size),
      memory_(new (memory) Memory),
      user_faults_(reinterpret_cast<std::atomic<int>*>(static_cast<char*>(memory) + sizeof(Memory))) {}

Shared::Shared(Shared&& other) noexcept
    : size_(other.size_), memory_(std::exchange(other.memory_, nullptr)), user_faults_(other.user_faults_) {}

Shared::~Shared() {
    if (memory_ != nullptr) ::munmap(static_cast<void*>(memory_), size_);
}

void Shared::add_process(int pidfd) const {
    const auto count = memory_->count.load();
    if (count == most_processes) return;  // then its slot in the region names it
    memory_->pidfds[count].store(pidfd);
    memory_->count.store(count + 1);
}

std::span<const std::atomic<int>> Shared::process_descriptors() const {
    return std::span(memory_->pidfds).first(memory_->count.load());
}

void end_programs(const Work& work, const Shared& shared, const std::string& why) {
    if (!shared.failed().exchange(true))
        fmt::print(
            stderr,
            "cairn restart: the programs are ended, because not all of their memory can be brought back: {}. "
            "Restart them again, with --eager\n",
            printable(why));
    for (int rounds = 0; rounds < 1000; ++rounds) {
        kill_programs(work, shared);
        const auto left = open_user_faults();
        if (std::ranges::all_of(left, has_gone)) return;
        ::usleep(10'000);
    }
}

}  // namespace cairn::restart::pages
