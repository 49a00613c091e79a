#include "cli/control/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>

#include "cli/inspect_text.h"

namespace cairn::control {
namespace {

using inspect::human_size;
using inspect::human_time;
using inspect::Table;
using nlohmann::json;

// Fields that a coordinator of another version leaves out, or gives another type, are empty: a table is
// better than none.
template <class T>
T field(const json& object, const char* name, T otherwise) {
    const auto found = object.find(name);
    if (found == object.end()) return otherwise;
    if constexpr (std::is_same_v<T, std::string>) {
        if (!found->is_string()) return otherwise;
    } else if constexpr (std::is_same_v<T, bool>) {
        if (!found->is_boolean()) return otherwise;
    } else {
        if (!found->is_number()) return otherwise;
    }
    return found->get<T>();
}

std::string text(const json& object, const char* name) {
    return printable(field(object, name, std::string()));
}
std::uint64_t bytes(const json& object, const char* name) {
    return field<std::uint64_t>(object, name, 0);
}
double seconds(const json& object, const char* name) {
    return field(object, name, 0.0);
}
std::int64_t number(const json& object, const char* name) {
    return field<std::int64_t>(object, name, 0);
}

std::string count(std::int64_t n, std::string_view one, std::string_view many) {
    return fmt::format("{} {}", n, n == 1 ? one : many);
}

// A process of the table and those below it.
void add_rows(Table& table, const std::multimap<std::int64_t, const json*>& by_parent, const json& process,
              bool with_real, const std::string& indent) {
    const std::int64_t pid = number(process, "pid");
    const std::int64_t real = number(process, "real");
    std::string command = text(process, "command");
    if (command.empty()) command = "(" + text(process, "name") + ")";
    std::string state = text(process, "state");
    if (!text(process, "foreign").empty())
        state = "can't be saved: " + text(process, "foreign");
    else if (field(process, "restored", false))
        state += ", restored";
    std::vector<std::string> row{std::to_string(pid)};
    if (with_real) row.push_back(real == pid ? "" : std::to_string(real));
    row.insert(row.end(), {text(process, "terminal"),
                           process.contains("memory") ? human_size(bytes(process, "memory")) : "",
                           duration(seconds(process, "started_s")), state, indent + command});
    table.row(std::move(row));
    const auto [begin, end] = by_parent.equal_range(real);
    for (auto child = begin; child != end; ++child)
        if (number(*child->second, "real") != real)
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
    // With exact ids there is nothing to be told apart.
    const bool with_real = std::ranges::any_of(
        processes, [](const json& process) { return number(process, "real") != number(process, "pid"); });
    std::vector<Side> sides{Side::right, Side::left, Side::right, Side::right, Side::left, Side::left};
    std::vector<std::string> head{"PID", "TERMINAL", "MEMORY", "SINCE", "STATE", "COMMAND"};
    if (with_real) {
        sides.insert(sides.begin() + 1, Side::right);
        head.insert(head.begin() + 1, "REAL");
    }
    Table table("", sides);
    table.row(std::move(head));
    std::multimap<std::int64_t, const json*> by_parent;
    std::map<std::int64_t, const json*> by_pid;
    for (const json& process : processes) {
        by_parent.emplace(number(process, "parent"), &process);
        by_pid.emplace(number(process, "real"), &process);
    }
    for (const json& process : processes) {
        const std::int64_t parent = number(process, "parent");
        if (by_pid.contains(parent) && parent != number(process, "real")) continue;
        add_rows(table, by_parent, process, with_real, "");
    }
    return table.text();
}

std::string status_text(const json& status) {
    using Side = Table::Side;
    Table table("", {Side::left, Side::left});
    const std::string state = text(status, "state");
    table.row({"session", text(status, "session")});
    table.row({"state", state == "idle" ? "idle: no programs" : state});
    table.row({"processes", std::to_string(number(status, "processes"))});
    if (number(status, "births") > 0) table.row({"being born", std::to_string(number(status, "births"))});
    const std::int64_t places = number(status, "places");
    if (number(status, "overflow") > 0)
        table.row({"not registered", count(number(status, "overflow"), "process", "processes") +
                                         ": no place is left in the session's table" +
                                         (places > 0 ? " of " + count(places, "process", "processes") : "") +
                                         "; checkpoints are refused (`cairn list` names them)"});
    table.row({"computation", fmt::format("{} (np {})", text(status, "cid"), number(status, "np"))});
    table.row({"folder", text(status, "ckptdir")});
    if (const auto limits = status.find("limits"); limits != status.end() && limits->is_array())
        for (const json& limit : *limits)
            if (limit.is_string())
                table.row({"may fail", "in the coordinator " + printable(limit.get<std::string>())});
    const double every = seconds(status, "interval");
    table.row({"interval", every > 0 ? duration(every) : "none"});
    if (const std::string trouble = text(status, "interval_trouble"); every > 0 && !trouble.empty())
        table.row(
            {"not kept", fmt::format("{} times, the last: {}", number(status, "intervals_missed"), trouble)});
    if (const auto running = status.find("checkpoint"); running != status.end() && running->is_object())
        table.row({"under way", fmt::format("checkpoint {}: {}, {} of {}", number(*running, "generation"),
                                            text(*running, "phase"), human_size(bytes(*running, "bytes")),
                                            human_size(bytes(*running, "total")))});
    if (const auto waiting = status.find("restart"); waiting != status.end() && waiting->is_object())
        table.row({"restart", fmt::format("{} of {} processes are there", number(*waiting, "have"),
                                          number(*waiting, "np"))});
    if (const auto last = status.find("last"); last != status.end() && last->is_object())
        table.row(
            {"last", fmt::format("{} ({})", text(*last, "directory"), human_size(bytes(*last, "bytes")))});
    else
        table.row({"last", "none yet"});
    table.row({"coordinator",
               fmt::format("pid {}, up {}", number(status, "pid"), duration(seconds(status, "uptime_s")))});
    return table.text();
}

std::string checkpoint_text(const json& done) {
    const std::string folder = text(done, "directory");
    std::string said = fmt::format(
        "{}\n{} of {}, pause {}, durable after {}{}\n", folder, human_size(bytes(done, "bytes")),
        count(number(done, "processes"), "process", "processes"), human_time(number(done, "pause_ns")),
        human_time(number(done, "total_ns")), field(done, "killed", false) ? ", programs ended" : "");
    if (const auto notes = done.find("notes"); notes != done.end() && notes->is_array())
        for (const json& note : *notes)
            if (note.is_string()) said += "note: " + printable(note.get<std::string>()) + "\n";
    return said;
}

std::string progress_line(const json& event, std::size_t width) {
    const std::string kind = text(event, "event");
    if (kind == "queued") return first_columns("waiting: " + text(event, "reason"), width);
    if (kind == "phase") {
        std::string line = text(event, "name");
        if (const auto waiting = event.find("waiting");
            waiting != event.end() && waiting->is_array() && !waiting->empty()) {
            line += ": waiting for";
            std::string_view separator = " ";
            for (const json& who : *waiting) {
                if (!who.is_string()) continue;
                line += separator;
                line += printable(who.get<std::string>());
                separator = ", ";
            }
        }
        return first_columns(line, width);
    }
    if (kind != "progress") return {};
    const std::uint64_t have = bytes(event, "bytes");
    const std::uint64_t total = bytes(event, "total");
    const double share = total == 0 ? 0 : static_cast<double>(have) / static_cast<double>(total);
    std::string line = fmt::format("write {:3.0f} %  {} of {}", std::min(share, 1.0) * 100, human_size(have),
                                   human_size(total));
    if (const double rate = seconds(event, "rate"); rate > 0)
        line += fmt::format("  {}/s", human_size(static_cast<std::uint64_t>(rate)));
    if (const std::string last = text(event, "last"); !last.empty()) line += "  last: " + last;
    return first_columns(line, width);
}

}  // namespace cairn::control
