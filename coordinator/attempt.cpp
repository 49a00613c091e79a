#include "coordinator/attempt.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/human.h"
#include "common/part_words.h"
#include "common/region_ops.h"
#include "common/uid.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;

// Fresh: no copy-on-write child of an earlier capture may take it for its own.
Attempt::Attempt(const Regions& regions, Registry& registry)
    : regions_(regions), registry_(registry), capture_(boottime_ns()) {
    registry_.pause_searching(true);
    regions_.set_capture(capture_);
}

void Attempt::release() {
    if (std::exchange(released_, true)) return;
    regions_.set_capture(0);
    registry_.pause_searching(false);
}

std::vector<wire::RegionAt> regions_of_others(const Regions& regions) {
    std::vector<wire::RegionAt> list;
    for (std::size_t number = 1; number < regions.size(); ++number)
        list.push_back({.user = regions.user(number), .path = regions.path(number)});
    return list;
}

std::vector<wire::CapturedMember> members_told(const Registry& registry) {
    std::vector<wire::CapturedMember> members;
    for (const auto& [place, member] : registry.members()) {
        wire::CapturedMember& one = members.emplace_back(wire::CapturedMember{.pid = KernelId(member.pid)});
        // What another user's slot says of its birth is his word.
        if (Regions::number_of(place) == 0) continue;
        one.born_ns = born_of_uid(member.uid);
        one.door = member.door;
    }
    return members;
}

Result<> check_saveable(const Registry& registry) {
    std::string problems;
    for (const auto& [place, member] : registry.members()) {
        const std::string why = registry.foreign(member);
        if (why.empty()) continue;
        if (!problems.empty()) problems += "; ";
        problems += fmt::format("{} can't be saved: {}", describe(member.pid), why);
    }
    if (registry.unread() > 0) {
        if (!problems.empty()) problems += "; ";
        problems += fmt::format(
            "of {} that is registered nothing can be read: this coordinator has no descriptor left (ulimit "
            "-Hn)",
            human_count(registry.unread(), "process", "processes"));
    }
    if (!problems.empty()) return fail_code(ExitCode::refused, "{}", problems);
    return {};
}

asio::awaitable<void> wait_for_births(asio::io_context& io, Registry& registry) {
    const auto until = std::chrono::steady_clock::now() + 200ms;
    asio::steady_timer timer(io);
    for (;;) {
        registry.scan();
        if (!registry.orphans_on_their_way() || std::chrono::steady_clock::now() > until) break;
        timer.expires_after(5ms);
        boost::system::error_code error;
        co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
}

std::uint64_t rate_of(std::uint64_t bytes, std::chrono::nanoseconds time) {
    const double seconds = std::chrono::duration<double>(time).count();
    return seconds > 0.01 ? static_cast<std::uint64_t>(static_cast<double>(bytes) / seconds) : 0;
}

bool is_standing(const std::string& phase) {
    return phase != "write" && phase != "sync" && phase != "pages" && phase != "copy" && phase != "hooks";
}

void answer_member(const Regions& regions, Place place, pid_t pid, ExitCode code) {
    Slot& slot = regions.slot(place);
    if (slot.pid.load(std::memory_order_acquire) != pid) return;
    constexpr long futex_wake = 1, all = 1 << 30;
    slot.flags.fetch_and(~(0xffU << slot_answer_shift));
    slot.flags.fetch_or(slot_answered | (static_cast<std::uint32_t>(code) & 0xffU) << slot_answer_shift);
    region_futex(slot.flags, futex_wake, all);
}

}  // namespace cairn::coordinator
