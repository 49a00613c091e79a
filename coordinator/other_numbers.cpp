#include "coordinator/other_numbers.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <future>

namespace cairn::coordinator {

namespace {

// The kernel hands numbers out upwards, so each attempt gets another. Libraries begin threads of their own
// (asio does), which come next: while there is hope for it there are to be none of `avoid` among these,
// either, though others on the machine take numbers meanwhile.
bool is_in_the_way(pid_t number, const std::set<KernelId>& avoid, std::size_t tries) {
    constexpr std::int32_t room = 64;
    const auto next = avoid.lower_bound(KernelId(number));
    if (next == avoid.end() || tries > 2 * avoid.size() + room) return false;
    return next->number() == number || (tries <= avoid.size() + room && next->number() <= number + room);
}

}  // namespace

pid_t fork_elsewhere(const std::set<KernelId>& avoid) {
    for (std::size_t tries = 0;; ++tries) {
        const pid_t child = ::fork();
        const pid_t number = child == 0 ? ::getpid() : child;
        if (number < 0 || !is_in_the_way(number, avoid, tries)) return child;
        if (child == 0) ::_exit(0);
        while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
        }
    }
}

std::thread thread_elsewhere(const std::set<KernelId>& avoid, const std::function<void()>& body) {
    for (std::size_t tries = 0;; ++tries) {
        std::promise<bool> stays;
        auto answer = stays.get_future();
        const bool any = tries > avoid.size();
        std::thread thread([&avoid, body, any, stays = std::move(stays)]() mutable {
            const bool good = any || !avoid.contains(KernelId(::gettid()));
            stays.set_value(good);
            if (good) body();
        });
        if (answer.get()) return thread;
        thread.join();
    }
}

}  // namespace cairn::coordinator
