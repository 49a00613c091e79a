#include "restart/pages/log.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace cairn::restart::pages {
namespace {

// Used only as far as events come. One piece of memory is served between any 16 events.
constexpr std::uint32_t capacity = 1 << 20;
constexpr std::uint8_t closed_event = 0xff;  // ours, of no kernel

}  // namespace

Result<Log> Log::create(std::uint32_t processes) {
    const auto size = sizeof(Shared) + 64 + processes * sizeof(std::atomic<int>) + capacity * sizeof(Entry);
    void* memory =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return fail_errno("memory for the page server's log");
    // A read(2) into a page that has been swapped out could fail in a process that is being killed.
    constexpr unsigned on_fault = 1;  // MLOCK_ONFAULT
    if (::syscall(SYS_mlock2, memory, size, on_fault) != 0) {
        const int why = errno;
        ::munmap(memory, size);
        errno = why;
        return fail_errno("locking the page server's log");
    }
    Log log(memory, size);
    log.shared_->processes = processes;
    for (std::uint32_t i = 0; i < processes; ++i) log.descriptors_[i] = -1;
    return log;
}

Log::Log(void* memory, std::size_t size) : size_(size), shared_(new (memory) Shared{}) {
    auto* at = static_cast<char*>(memory) + sizeof(Shared);
    entries_ = reinterpret_cast<Entry*>((reinterpret_cast<std::uintptr_t>(at) + 63) / 64 * 64);
    descriptors_ = reinterpret_cast<std::atomic<int>*>(entries_ + capacity);
}

Log::Log(Log&& other) noexcept
    : size_(other.size_),
      shared_(std::exchange(other.shared_, nullptr)),
      descriptors_(other.descriptors_),
      entries_(other.entries_) {}

Log::~Log() {
    if (shared_ != nullptr) ::munmap(static_cast<void*>(shared_), size_);
}

std::atomic<int>& Log::descriptor(std::uint32_t process) const {
    return descriptors_[process];
}

uffd_msg* Log::slot(SpaceId space) const {
    const auto index = kept();
    if (index >= capacity) return nullptr;
    auto& next = entry(index);
    next = {};
    next.space = space;
    return &next.message;
}

void Log::keep_if_read() const {
    const auto index = kept();
    if (index >= capacity) return;
    const auto what = entry(index).message.event;
    if (what != 0 && what != UFFD_EVENT_PAGEFAULT) keep();
}

Event Log::event(std::uint32_t index) const {
    const auto& raw = entry(index);
    const auto& argument = raw.message.arg;
    Event event;
    event.space = raw.space;
    switch (raw.message.event) {
        case UFFD_EVENT_FORK:
            event.kind = Change::fork;
            event.child = processes() + index;
            break;
        case UFFD_EVENT_REMAP:
            event.kind = Change::remap;
            event.from = argument.remap.from;
            event.to = argument.remap.to;
            event.length = argument.remap.len;
            break;
        case UFFD_EVENT_REMOVE:
        case UFFD_EVENT_UNMAP:
            event.kind = raw.message.event == UFFD_EVENT_REMOVE ? Change::remove : Change::unmap;
            event.from = argument.remove.start;
            event.length = argument.remove.end - argument.remove.start;
            break;
        default:
            event.kind = Change::closed;
    }
    return event;
}

int Log::child_descriptor(std::uint32_t index) const {
    return static_cast<int>(entry(index).message.arg.fork.ufd);
}

void Log::settle(std::span<const std::uint32_t> order) const {
    const auto begin = settled(), end = kept();
    for (auto i = begin; i < end; ++i) entry(i).place = 0;
    for (std::uint32_t i = 0; i < order.size(); ++i) entry(order[i]).place = 1 + begin + i;
    shared_->settled.store(end);
}

bool Log::add(const Event& event) const {
    auto* message = slot(event.space);
    if (message == nullptr) return false;
    const auto index = kept();
    message->arg.remove.start = event.from;
    message->arg.remove.end = event.from + event.length;
    message->event = event.kind == Change::closed   ? closed_event
                     : event.kind == Change::remove ? UFFD_EVENT_REMOVE
                                                    : UFFD_EVENT_UNMAP;
    keep();
    settle(std::span(&index, 1));
    return true;
}

std::vector<std::uint32_t> Log::history() const {
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < settled(); ++i)
        if (entry(i).place != 0) order.push_back(i);
    std::ranges::sort(order, {}, [this](std::uint32_t i) { return entry(i).place; });
    return order;
}

}  // namespace cairn::restart::pages
