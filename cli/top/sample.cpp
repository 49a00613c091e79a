#include "cli/top/sample.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>

namespace cairn::top {
namespace {

nlohmann::json or_null(const auto& value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
}

}  // namespace

std::optional<Estimate> estimate(const Sample& sample) {
    if (sample.processes.empty()) return std::nullopt;
    Estimate next;
    std::uint64_t memory = 0, dirty = 0;
    bool counted = true;
    for (const ProcessRow& row : sample.processes) {
        memory += row.memory;
        dirty += std::min(row.dirty.value_or(0), row.memory);
        counted = counted && row.dirty && row.here;
    }
    const auto& last = sample.status.last;
    next.bytes = counted ? dirty : last ? last->bytes : memory;
    next.at_most = counted || !last;
    if (!last) return next;
    next.pause_ns = last->pause_ns;
    // As long as the bytes are many, and never shorter than the shortest of those that there are: files are
    // made and synced whatever is written to them.
    const auto writing = [](std::int64_t total, std::int64_t pause) {
        return std::max<std::int64_t>(total - pause, 0);
    };
    const std::int64_t last_one = writing(last->total_ns, last->pause_ns);
    std::int64_t shortest = last_one;
    for (const GenerationRow& each : sample.generations)
        shortest = std::min(shortest, writing(each.total_ns, each.pause_ns));
    const double share =
        last->bytes == 0 ? 1 : static_cast<double>(next.bytes) / static_cast<double>(last->bytes);
    next.total_ns =
        last->pause_ns + std::max(shortest, static_cast<std::int64_t>(static_cast<double>(last_one) * share));
    return next;
}

nlohmann::json as_json(const Sample& sample) {
    auto processes = nlohmann::json::array(), generations = nlohmann::json::array();
    for (const ProcessRow& row : sample.processes) {
        auto one = pack(row.process);
        one.erase("event");
        one["memory"] = row.here ? nlohmann::json(row.memory) : nlohmann::json();
        one["dirty"] = or_null(row.dirty);
        one["cpu"] = row.here ? nlohmann::json(row.cpu) : nlohmann::json();
        one["run_state"] = std::string(1, row.run_state);
        processes.push_back(std::move(one));
    }
    for (const GenerationRow& each : sample.generations)
        generations.push_back({{"generation", each.number},
                               {"directory", each.folder},
                               {"bytes", each.bytes},
                               {"taken_at_ns", each.taken_at_ns},
                               {"pause_ns", each.pause_ns},
                               {"total_ns", each.total_ns},
                               {"processes", each.processes}});
    auto status = pack(sample.status);
    for (const char* envelope : {"event", "code"}) status.erase(envelope);
    nlohmann::json next;
    if (sample.next)
        next = {{"bytes", sample.next->bytes},
                {"at_most", sample.next->at_most},
                {"total_ns", or_null(sample.next->total_ns)},
                {"pause_ns", or_null(sample.next->pause_ns)}};
    return {{"status", std::move(status)},
            {"processes", std::move(processes)},
            {"generations", std::move(generations)},
            {"next", std::move(next)},
            {"trouble", sample.trouble},
            {"now_ns", sample.now_ns}};
}

}  // namespace cairn::top
