#include "capture/passes/copy_memory.h"

#include <cstdint>
#include <limits>

namespace cairn::capture {
namespace {

// Each round has less to write than the one before, or it is the last: what is written to faster than it is
// copied is for the pause, as is what takes some milliseconds there.
constexpr int most_rounds = 4;
constexpr std::uint64_t little = 16 << 20;

}  // namespace

Result<> copy_memory(const Setting& setting, Ahead& ahead) {
    auto& reporter = setting.reporter;
    // The other hosts' programs would stand still for as long as ours are copied.
    if (setting.request.joint || !has_much_shared_memory(setting.request.members)) return {};
    ahead.copied = std::make_unique<CopiedMemory>();
    reporter.phase("copy");
    std::uint64_t looked_at = 0;
    const auto told = [&](std::uint64_t bytes) -> Result<> {
        looked_at += bytes;
        reporter.progress(looked_at, 0, "shared memory");
        if (reporter.coordinator_gone()) return fail("the coordinator has gone");
        return {};
    };
    std::uint64_t before = std::numeric_limits<std::uint64_t>::max();
    for (int round = 0; round < most_rounds; ++round) {
        const auto already = ahead.copied->written();
        looked_at = 0;
        CHECK_OK(copy_memory_ahead(setting.request.members, *ahead.objects_writer, *ahead.copied, told));
        const auto written = ahead.copied->written() - already;
        if (written < little || written > before / 2) break;
        before = written;
    }
    reporter.restart_deadline();
    return {};
}

}  // namespace cairn::capture
