#include "coordinator/attempt.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>

#include "common/human.h"
#include "common/uid.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;

Attempt::Attempt(Region& region, Registry& registry) : region_(region), registry_(registry) {
    registry_.pause_searching(true);
    // Fresh: no copy-on-write child of an earlier capture may take it for its own.
    region_.capture = boottime_ns();
}

void Attempt::release() {
    if (std::exchange(released_, true)) return;
    region_.capture = 0;
    registry_.pause_searching(false);
}

Result<> check_saveable(const Registry& registry, const Region& region) {
    std::string problems;
    for (const auto& [index, member] : registry.members()) {
        char why[sizeof Slot::foreign];
        std::memcpy(why, region.slots[index].foreign, sizeof why);
        why[sizeof why - 1] = '\0';
        if (why[0] == '\0') continue;
        if (!problems.empty()) problems += "; ";
        problems += fmt::format("{} can't be saved: {}", describe(member.pid), printable(why));
    }
    if (!problems.empty()) return fail_code(ExitCode::refused, "{}", problems);
    return {};
}

asio::awaitable<void> wait_for_births(asio::io_context& io, Registry& registry, const Region& region) {
    const auto until = std::chrono::steady_clock::now() + 200ms;
    asio::steady_timer timer(io);
    for (;;) {
        registry.scan();
        bool transit = false;
        const std::uint32_t end = std::min(region.slots_end.load(), slot_count);
        for (std::uint32_t i = 0; i < end && !transit; ++i) {
            const Slot& slot = region.slots[i];
            const pid_t parent = slot.parent_pid.load();
            transit = slot.state.load() == SlotState::birth && parent > 0 && has_ended(parent);
        }
        if (!transit || std::chrono::steady_clock::now() > until) break;
        timer.expires_after(5ms);
        boost::system::error_code error;
        co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
}

bool is_standing(const std::string& phase) {
    return phase != "write" && phase != "sync" && phase != "pages";
}

}  // namespace cairn::coordinator
