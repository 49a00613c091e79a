// timerfd_create(2): /proc/PID/fdinfo/N tells what is left and how many expirations wait (proc(5)).
#include <sys/timerfd.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>

#include "common/proc.h"
#include "resources/capture/table.h"
#include "resources/namespace/capture_own.h"

namespace cairn::capture {
namespace {

std::int64_t nanoseconds(std::string_view info, std::string_view key) {
    const std::string field(info_field(info, key).value_or(""));
    long long seconds = 0, rest = 0;
    return std::sscanf(field.c_str(), "(%lld, %lld)", &seconds, &rest) == 2 ? seconds * 1'000'000'000 + rest
                                                                            : 0;
}

}  // namespace

// it_value is the time left, also of a timer that was set for a point in time.
Result<> describe_timerfd(Table& table, const Description& found, schema::Object& object) {
    std::string info = found.info;
    // A periodic timer that has gone off stands still until somebody asks: then the kernel winds it up, and
    // counts what has passed (fs/timerfd.c, timerfd_get_remaining). Asking changes nothing for the program.
    if (nanoseconds(info, "it_interval") > 0 && nanoseconds(info, "it_value") == 0) {
        itimerspec now{};
        if (::timerfd_gettime(found.fd(), &now) != 0) return fail_errno("timerfd_gettime");
        auto again = read_text(fmt::format("/proc/self/fdinfo/{}", found.fd()));
        if (!again) return std::unexpected(std::move(again.error()));
        info = std::move(*again);
    }
    const auto clock = static_cast<int>(info_number(info, "clockid"));
    const auto flags = static_cast<int>(info_number(info, "settime flags", 8));
    std::int64_t left = nanoseconds(info, "it_value");
    const std::int64_t interval = nanoseconds(info, "it_interval");
    // Due, and its interrupt late (a processor that the host has taken away): it goes off at once.
    if (left == 0 && interval > 0) left = 1;
    auto& timer = object.what.emplace<schema::Timerfd>(
        schema::Timerfd{clock, flags, info_number(info, "ticks"), left, interval, {}});
    // A point in time is the same one after the restart, on the clock that the program sees.
    if ((flags & TFD_TIMER_ABSTIME) && left > 0) {
        const bool boot = clock == CLOCK_BOOTTIME || clock == CLOCK_BOOTTIME_ALARM;
        const bool civil = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_ALARM;
        std::int64_t ahead = 0;
        if (!civil) {
            // Who is in a time namespace of the group's own sees another clock, by the same difference then.
            const auto theirs = given_clocks(table);
            const auto ours = proc::clock_offsets("self");
            ahead = boot ? theirs.boottime - ours.boottime : theirs.monotonic - ours.monotonic;
        }
        timespec now{};
        ::clock_gettime(civil ? CLOCK_REALTIME : boot ? CLOCK_BOOTTIME : CLOCK_MONOTONIC, &now);
        timer.at_ns = now.tv_sec * 1'000'000'000 + now.tv_nsec + ahead + left;
    }
    return {};
}

// A single one that is due while its interrupt is late looks like one that isn't set. By now it has come.
Result<> capture_timerfds(Table& table) {
    for (auto& [id, description] : table.descriptions) {
        schema::Object& object = table.objects[static_cast<std::size_t>(id)];
        const auto* timer = object.get<schema::Timerfd>();
        if (timer == nullptr || timer->left_ns != 0 || timer->ticks != 0) continue;
        auto info = read_text(fmt::format("/proc/self/fdinfo/{}", description.fd()));
        if (!info) return std::unexpected(std::move(info.error()));
        description.info = std::move(*info);
        CHECK_OK(describe_timerfd(table, description, object));
    }
    return {};
}

}  // namespace cairn::capture
