#include "resources/restore/first_holder.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace cairn::restart {
namespace {

constexpr std::uint64_t nobody = 0, being_opened = 1;

std::uint64_t place_of(pid_t pid, int number) {
    return static_cast<std::uint64_t>(pid) << 32U | static_cast<std::uint32_t>(number);
}

}  // namespace

std::optional<Fd> take_from_first(const FirstHolders& holders, std::int64_t object) {
    auto* holder = holders.at(static_cast<std::size_t>(object));
    std::uint64_t place = nobody;
    if (holder == nullptr || holder->compare_exchange_strong(place, being_opened)) return std::nullopt;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while ((place = holder->load()) == being_opened) {
        if (std::chrono::steady_clock::now() > limit) return std::nullopt;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    const auto pid = static_cast<pid_t>(place >> 32U);
    const auto number = static_cast<int>(static_cast<std::uint32_t>(place));
    if (pid == ::getpid()) return Fd(::fcntl(number, F_DUPFD_CLOEXEC, 0));
    const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    Fd taken(static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), number, 0U)));
    if (!taken) return std::nullopt;
    return taken;
}

void say_where(const FirstHolders& holders, std::int64_t object, int number) {
    std::uint64_t expected = being_opened;
    if (auto* holder = holders.at(static_cast<std::size_t>(object)))
        holder->compare_exchange_strong(expected, place_of(::getpid(), number));
}

}  // namespace cairn::restart
