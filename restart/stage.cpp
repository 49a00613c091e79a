#include "restart/stage.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace cairn::restart {

Result<Stage> Stage::create(std::size_t count) {
    void* memory =
        ::mmap(nullptr, count * sizeof(Place), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return fail_errno("memory for {} processes", count);
    Stage stage(std::span(static_cast<Place*>(memory), count));
    stage.tool_.reset(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
    if (!stage.tool_) return fail_errno("pidfd_open of the restart tool itself");
    return stage;
}

Stage::Stage(Stage&& other) noexcept
    : places_(std::exchange(other.places_, {})), tool_(std::move(other.tool_)) {}

Stage::~Stage() {
    if (!places_.empty()) ::munmap(places_.data(), places_.size_bytes());
}

void Stage::release(std::size_t index) {
    auto& word = places_[index].released;
    word.store(1, std::memory_order_release);
    ::syscall(SYS_futex, &word, FUTEX_WAKE, 1);
}

void Stage::await(std::size_t index) const {
    auto& word = places_[index].released;
    const timespec slice{0, 100'000'000};
    while (word.load(std::memory_order_acquire) == 0) {
        ::syscall(SYS_futex, &word, FUTEX_WAIT, 0, &slice, nullptr, 0);
        // Until it has seized us nobody else ends us when the tool is killed.
        pollfd tool{tool_.get(), POLLIN, 0};
        if (::poll(&tool, 1, 0) > 0) ::_exit(127);
    }
}

void Stage::report(std::size_t index, const std::string& why) {
    std::strncpy(places_[index].why, why.c_str(), sizeof(Place::why) - 1);
}

std::string Stage::reported(std::size_t index) const {
    return places_[index].why;
}

}  // namespace cairn::restart
