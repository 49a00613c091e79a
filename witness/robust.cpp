#include "witness/robust.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <optional>

namespace cairn::witness {
namespace {

template <class T>
std::optional<T> read_at(pid_t pid, std::uint64_t address) {
    T value{};
    const iovec here{&value, sizeof value}, there{reinterpret_cast<void*>(address), sizeof value};
    if (process_vm_readv(pid, &here, 1, &there, 1, 0) != static_cast<ssize_t>(sizeof value)) return {};
    return value;
}

}  // namespace

void see_robust_list(Facts& facts, std::vector<Unseen>& unseen, pid_t pid, pid_t tid) {
    void* head = nullptr;
    std::size_t size = 0;
    if (syscall(SYS_get_robust_list, tid, &head, &size) != 0 || head == nullptr) return;
    const auto at = reinterpret_cast<std::uint64_t>(head);
    const auto list = read_at<robust_list_head>(pid, at);
    if (!list) return;
    // The kernel follows so many (ROBUST_LIST_LIMIT in kernel/futex/core.c). Bit 0 says that the mutex
    // inherits priorities.
    constexpr int limit = 2048;
    constexpr std::uint64_t inherits = 1;
    auto entry = reinterpret_cast<std::uint64_t>(list->list.next) & ~inherits;
    for (int number = 0; entry != at && entry != 0 && number < limit; ++number) {
        const std::uint64_t address = entry + static_cast<std::uint64_t>(list->futex_offset);
        const auto word = read_at<std::uint32_t>(pid, address);
        const auto next = read_at<std::uint64_t>(pid, entry);
        if (!word || !next) return;
        facts.put(fmt::format("{}/task/{}/robust list/{:04}", pid, tid, number),
                  fmt::format("{:x}: owner {}{}{}", address, *word & FUTEX_TID_MASK,
                              (*word & FUTEX_OWNER_DIED) != 0 ? ", who has died" : "",
                              (*word & FUTEX_WAITERS) != 0 ? ", waited for" : ""));
        unseen.push_back({address, sizeof *word});
        // glibc writes the owner a second time (struct __pthread_mutex_s).
        constexpr std::uint64_t again = 8;
        if (const auto owner = read_at<std::uint32_t>(pid, address + again);
            owner && *owner == (*word & FUTEX_TID_MASK))
            unseen.push_back({address + again, sizeof *owner});
        entry = *next & ~inherits;
    }
}

}  // namespace cairn::witness
