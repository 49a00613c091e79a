#include "cli/control/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "cli/inspect_text.h"
#include "common/condense.h"
#include "common/wire/events.h"

namespace cairn::control {
namespace {

using inspect::human_size;
using inspect::human_time;
using inspect::Table;
using nlohmann::json;

std::string count(std::uint64_t n, std::string_view one, std::string_view many) {
    return fmt::format("{} {}", n, n == 1 ? one : many);
}

// Of the table. The memory isn't the coordinator's to tell.
struct Row {
    wire::Process process;
    std::optional<std::uint64_t> memory;
};

// A process of the table and those below it.
void add_rows(Table& table, const std::multimap<KernelId, const Row*>& by_parent, const Row& row,
              bool with_real, const std::string& indent) {
    const wire::Process& process = row.process;
    const std::string command =
        process.command.empty() ? "(" + printable(process.comm) + ")" : printable(process.command);
    std::string state = printable(process.state);
    if (!process.foreign.empty())
        state = "can't be saved: " + printable(process.foreign);
    else if (process.restored)
        state += ", restored";
    std::vector<std::string> words{fmt::format("{}", process.pid)};
    if (with_real)
        words.push_back(same_number(process.pid, process.real) ? "" : fmt::format("{}", process.real));
    words.insert(words.end(), {printable(process.terminal), row.memory ? human_size(*row.memory) : "",
                               duration(process.started_s), state, indent + command});
    table.row(std::move(words));
    const auto [begin, end] = by_parent.equal_range(process.real);
    for (auto child = begin; child != end; ++child)
        if (child->second->process.real != process.real)
            add_rows(table, by_parent, *child->second, with_real, indent + "  ");
}

}  // namespace

std::string duration(double value) {
    if (!(value >= 0)) value = 0;
    if (value < 10) return fmt::format("{:.1f} s", value);
    const auto whole = static_cast<std::int64_t>(value);
    if (whole < 60) return fmt::format("{} s", whole);
    if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
    if (whole < 86400) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
    return fmt::format("{} d {} h", whole / 86400, whole % 86400 / 3600);
}

std::string process_table(const std::vector<json>& processes) {
    if (processes.empty()) return "no processes\n";
    using Side = Table::Side;
    std::vector<Row> rows;
    for (const json& process : processes) {
        Row& row = rows.emplace_back(Row{wire::glean<wire::Process>(process), {}});
        if (const auto memory = process.find("memory"); memory != process.end() && memory->is_number())
            row.memory = memory->get<std::uint64_t>();
    }
    // With exact ids there is nothing to be told apart.
    const bool with_real = std::ranges::any_of(
        rows, [](const Row& row) { return !same_number(row.process.pid, row.process.real); });
    std::vector<Side> sides{Side::right, Side::left, Side::right, Side::right, Side::left, Side::left};
    std::vector<std::string> head{"PID", "TERMINAL", "MEMORY", "SINCE", "STATE", "COMMAND"};
    if (with_real) {
        sides.insert(sides.begin() + 1, Side::right);
        head.insert(head.begin() + 1, "REAL");
    }
    Table table("", sides);
    table.row(std::move(head));
    std::multimap<KernelId, const Row*> by_parent;
    std::set<KernelId> known;
    for (const Row& row : rows) {
        by_parent.emplace(row.process.parent, &row);
        known.insert(row.process.real);
    }
    for (const Row& row : rows) {
        if (known.contains(row.process.parent) && row.process.parent != row.process.real) continue;
        add_rows(table, by_parent, row, with_real, "");
    }
    return table.text();
}

std::string status_text(const json& done) {
    using Side = Table::Side;
    const auto status = wire::glean<wire::Status>(done);
    Table table("", {Side::left, Side::left});
    table.row({"session", printable(status.session)});
    table.row({"state", status.state == "idle" ? "idle: no programs" : printable(status.state)});
    table.row({"processes", std::to_string(status.processes)});
    if (status.births > 0) table.row({"being born", std::to_string(status.births)});
    if (status.overflow > 0)
        table.row({"not registered",
                   count(status.overflow, "process", "processes") +
                       ": no place is left in the session's table" +
                       (status.places > 0 ? " of " + count(status.places, "process", "processes") : "") +
                       "; checkpoints are refused (`cairn list` names them)"});
    table.row({"computation", fmt::format("{} (np {})", printable(status.cid), status.np)});
    table.row({"folder", printable(status.ckptdir)});
    for (const std::string& limit : status.limits)
        table.row({"may fail", "in the coordinator " + printable(limit)});
    table.row({"interval", status.interval > 0 ? duration(status.interval) : "none"});
    if (status.interval > 0 && !status.interval_trouble.empty())
        table.row({"not kept", fmt::format("{} times, the last: {}", status.intervals_missed,
                                           printable(status.interval_trouble))});
    if (const auto& running = status.checkpoint)
        table.row({"under way",
                   fmt::format("checkpoint {}: {}, {} of {}", running->generation, printable(running->phase),
                               human_size(running->bytes), human_size(running->total))});
    if (const auto& waiting = status.restart)
        table.row({"restart", fmt::format("{} of {} there", waiting->have,
                                          count(static_cast<std::uint64_t>(waiting->np), "process is",
                                                "processes are"))});
    if (const auto& last = status.last)
        table.row({"last", fmt::format("{} ({})", printable(last->directory), human_size(last->bytes))});
    else
        table.row({"last", "none yet"});
    table.row({"coordinator", fmt::format("pid {}, up {}", status.pid, duration(status.uptime_s))});
    return table.text();
}

std::string checkpoint_text(const json& event) {
    const auto done = wire::glean<wire::CheckpointDone>(event);
    const auto& news = done.news ? *done.news : done.notes;
    const std::size_t old = done.notes.size() - std::min(news.size(), done.notes.size());
    std::string said = fmt::format(
        "{}\n{} of {}, pause {}, durable after {}{}{}\n", printable(done.directory), human_size(done.bytes),
        count(static_cast<std::uint64_t>(done.processes), "process", "processes"), human_time(done.pause_ns),
        human_time(done.total_ns), old == 0 ? "" : ", " + count(old, "note", "notes") + " as before",
        done.killed ? ", programs ended" : "");
    for (const std::string& note : condense(news, "cairn inspect " + done.directory))
        said += "note: " + printable(note) + "\n";
    return said;
}

std::string progress_line(const json& event, std::size_t width) {
    const std::string kind = event.value("event", "");
    if (kind == "queued") return first_columns("waiting: " + printable(event.value("reason", "")), width);
    if (kind == wire::Phase::name.value) {
        const auto phase = wire::glean<wire::Phase>(event);
        std::string line = printable(phase.phase);
        std::string_view separator = ": waiting for ";
        for (const std::string& who : phase.waiting) {
            line += separator;
            line += printable(who);
            separator = ", ";
        }
        return first_columns(line, width);
    }
    if (kind != wire::Progress::name.value) return {};
    const auto progress = wire::glean<wire::Progress>(event);
    const double share =
        progress.total == 0 ? 0 : static_cast<double>(progress.bytes) / static_cast<double>(progress.total);
    std::string line = fmt::format("write {:3.0f} %  {} of {}", std::min(share, 1.0) * 100,
                                   human_size(progress.bytes), human_size(progress.total));
    if (progress.rate > 0) line += fmt::format("  {}/s", human_size(progress.rate));
    if (!progress.last.empty()) line += "  last: " + printable(progress.last);
    return first_columns(line, width);
}

}  // namespace cairn::control
