#include "cli/top/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "cli/top/width.h"
#include "common/human.h"

namespace cairn::top {
namespace {

std::string seconds_ago(std::int64_t ns) {
    constexpr std::int64_t second = 1'000'000'000;
    if (ns < 0) return "in the future";
    return human_duration(ns < 10 * second ? ns / (second / 10) * (second / 10) : ns / second * second) +
           " ago";
}

std::string title(const Sample& sample) {
    const auto& status = sample.status;
    return fmt::format("cairn top: session {}, {}", printable(status.session),
                       status.state == "idle" ? "no programs run" : printable(status.state));
}

std::string computation(const Sample& sample) {
    const auto& status = sample.status;
    std::string text = human_count(status.processes, "process", "processes");
    if (!status.hosts.empty()) {
        const auto lost =
            std::ranges::count_if(status.hosts, [](const auto& host) { return !host.connected; });
        text += fmt::format(" on {}", human_count(status.hosts.size() + 1, "host"));
        if (lost > 0) text += fmt::format(" ({} lost)", lost);
    } else if (!status.host.empty()) {
        text += " on " + printable(status.host);
    }
    if (status.births > 0) text += fmt::format(", {} being born", status.births);
    if (status.overflow > 0) text += fmt::format(", {} without a place", status.overflow);
    return text + ", computation " + printable(status.cid);
}

std::string plan(const Sample& sample) {
    const auto& status = sample.status;
    return fmt::format("checkpoints {}, {}, in {}",
                       status.interval > 0
                           ? "every " + human_duration(static_cast<std::int64_t>(status.interval * 1e9))
                           : std::string("when asked for"),
                       status.keep > 0 ? fmt::format("{} kept", status.keep) : std::string("all kept"),
                       printable(status.ckptdir));
}

std::string next_checkpoint(const Sample& sample) {
    if (!sample.next) return "next: nothing to save";
    const auto& next = *sample.next;
    std::string text =
        fmt::format("next: {}{}", next.at_most ? "at most " : "about ", human_bytes(next.bytes));
    if (next.total_ns) text += " in " + human_duration(*next.total_ns);
    if (next.pause_ns) text += ", pause " + human_duration(*next.pause_ns);
    if (!sample.status.last) text += " (no checkpoint yet)";
    return text;
}

std::string bar(double share, std::size_t columns) {
    const auto full = static_cast<std::size_t>(share * static_cast<double>(columns));
    return "[" + std::string(std::min(full, columns), '#') +
           std::string(columns - std::min(full, columns), '.') + "]";
}

std::string under_way(const Sample& sample) {
    const auto& checkpoint = *sample.status.checkpoint;
    std::uint64_t bytes = checkpoint.bytes, total = checkpoint.total, rate = 0;
    if (sample.progress) {
        bytes = std::max(bytes, sample.progress->bytes);
        total = std::max(total, sample.progress->total);
        rate = sample.progress->rate;
    }
    std::string text = fmt::format("checkpoint {}: {}", checkpoint.generation, printable(checkpoint.phase));
    if (total > 0) {
        constexpr std::size_t bar_width = 12;
        const double share = std::min(1.0, static_cast<double>(bytes) / static_cast<double>(total));
        text += fmt::format(" {} {:.0f} %, {} of {}", bar(share, bar_width), share * 100, human_bytes(bytes),
                            human_bytes(total));
        if (rate > 0) text += fmt::format(", {}/s", human_bytes(rate));
    }
    return text;
}

std::string generation_line(const GenerationRow& each, std::int64_t now_ns) {
    return fmt::format("{:>5}  {:>9}  pause {:>8}  durable after {:>8}  {}", each.number,
                       human_bytes(each.bytes), human_duration(each.pause_ns), human_duration(each.total_ns),
                       seconds_ago(now_ns - each.taken_at_ns));
}

struct Placed {
    const ProcessRow* row = nullptr;
    std::size_t depth = 0;
};

void add_below(std::vector<Placed>& placed, const std::multimap<KernelId, const ProcessRow*>& by_parent,
               const ProcessRow& row, std::size_t depth) {
    placed.push_back({&row, depth});
    const auto [begin, end] = by_parent.equal_range(row.process.real);
    for (auto child = begin; child != end; ++child)
        if (child->second != &row) add_below(placed, by_parent, *child->second, depth + 1);
}

// Parents before their children; those of other hosts have parents of theirs.
std::vector<Placed> as_tree(const std::vector<ProcessRow>& rows) {
    std::vector<Placed> placed;
    std::map<std::string, std::vector<const ProcessRow*>> by_host;
    for (const ProcessRow& row : rows) by_host[row.process.host.value_or("")].push_back(&row);
    for (const auto& [host, all] : by_host) {
        std::multimap<KernelId, const ProcessRow*> by_parent;
        std::set<KernelId> known;
        for (const ProcessRow* row : all) {
            by_parent.emplace(row->process.parent, row);
            known.insert(row->process.real);
        }
        for (const ProcessRow* row : all)
            if (!known.contains(row->process.parent) || row->process.parent == row->process.real)
                add_below(placed, by_parent, *row, 0);
    }
    return placed;
}

std::vector<Placed> in_order(const std::vector<ProcessRow>& rows, Sort sort) {
    if (sort == Sort::tree) return as_tree(rows);
    std::vector<Placed> placed;
    for (const ProcessRow& row : rows) placed.push_back({&row, 0});
    const auto by = [&](auto value) { std::ranges::stable_sort(placed, std::ranges::greater(), value); };
    if (sort == Sort::cpu) by([](const Placed& each) { return each.row->cpu; });
    if (sort == Sort::memory) by([](const Placed& each) { return each.row->memory; });
    if (sort == Sort::dirty) by([](const Placed& each) { return each.row->dirty.value_or(0); });
    if (sort == Sort::pid)
        std::ranges::stable_sort(placed, {}, [](const Placed& each) { return each.row->process.pid; });
    return placed;
}

std::string state_of(const ProcessRow& row) {
    if (!row.process.foreign.empty()) return "!";
    if (row.process.state == "stopped") return "T";
    if (row.process.state != "running") return printable(row.process.state).substr(0, 1);
    return std::string(1, row.run_state);
}

std::string command_of(const ProcessRow& row) {
    const auto& process = row.process;
    std::string text =
        process.command.empty() ? "(" + printable(process.comm) + ")" : printable(process.command);
    if (!process.foreign.empty()) text = "[can't be saved: " + printable(process.foreign) + "] " + text;
    return text;
}

struct Columns {
    bool host = false, real = false;
};

std::string process_head(const Columns& columns) {
    return fmt::format("{}{:>8}{} S {:>5} {:>9} {:>9}  {}", columns.host ? fitted("HOST", 10) + " " : "",
                       "PID", columns.real ? "     REAL" : "", "CPU%", "MEMORY", "DIRTY", "COMMAND");
}

std::string process_line(const Placed& placed, const Columns& columns) {
    const ProcessRow& row = *placed.row;
    const auto& process = row.process;
    std::string text;
    if (columns.host) text += fitted(printable(process.host.value_or("")), 10) + " ";
    text += fmt::format("{:>8}", process.pid);
    if (columns.real) text += fmt::format(" {:>8}", process.real);
    text +=
        fmt::format(" {} {:>5} {:>9} {:>9}  ", state_of(row), row.here ? fmt::format("{:.1f}", row.cpu) : "-",
                    row.here ? human_bytes(row.memory) : "-", row.dirty ? human_bytes(*row.dirty) : "-");
    return text + std::string(2 * placed.depth, ' ') + command_of(row);
}

const std::vector<Line>& help_lines() {
    static const std::vector<Line> lines = {
        {"q              quit; programs and coordinator go on"},
        {"c              checkpoint now"},
        {"s              sort by the next of: tree, cpu, memory, dirty, pid"},
        {"up, down, page up, page down, home, end"},
        {"               move in the list of processes"},
        {"space          look again now"},
        {"h              this help, and back"},
        {""},
        {"S      R runs, S sleeps, D sleeps for a disk, T is stopped, ! can't be saved"},
        {"CPU%   of one processor, since the last look"},
        {"MEMORY what is in memory and in no file: a checkpoint stores it"},
        {"DIRTY  how much of it has been written since the last checkpoint, at most;"},
        {"       it is known from the first checkpoint on that is taken while you look"},
    };
    return lines;
}

// What stands above the processes: all of it where there is room, the most important things where there is
// little.
std::vector<Line> top_lines(const Sample& sample, const View& view) {
    std::vector<Line> lines{{title(sample), Style::title}};
    if (!sample.trouble.empty()) lines.push_back({printable(sample.trouble), Style::bad});
    const bool roomy = view.whole || view.rows >= 16;
    lines.push_back({computation(sample)});
    if (roomy) lines.push_back({plan(sample)});
    if (sample.status.checkpoint)
        lines.push_back({under_way(sample), Style::good});
    else if (sample.status.restart)
        lines.push_back(
            {fmt::format("restart: {} of {} there", sample.status.restart->have, sample.status.restart->np),
             Style::good});
    else
        lines.push_back({next_checkpoint(sample)});
    if (sample.status.interval > 0 && !sample.status.interval_trouble.empty())
        lines.push_back(
            {"the interval isn't kept: " + printable(sample.status.interval_trouble), Style::bad});
    const std::size_t most = view.whole        ? sample.generations.size()
                             : view.rows >= 40 ? 8
                             : view.rows >= 20 ? 4
                             : view.rows >= 16 ? 2
                                               : 0;
    if (most > 0 && !sample.generations.empty()) lines.push_back({"  GEN     STORED", Style::dim});
    for (std::size_t i = 0; i < std::min(most, sample.generations.size()); ++i)
        lines.push_back({generation_line(sample.generations[i], sample.now_ns)});
    return lines;
}

Line last_line(const View& view, std::size_t shown_to, std::size_t processes) {
    if (!view.message.empty())
        return {printable(view.message), view.message_is_bad ? Style::bad : Style::good};
    return {fmt::format("q quit  c checkpoint  s sort: {}  h help  {}", name_of(view.sort),
                        processes == 0 ? ""
                                       : fmt::format("{}-{} of {}", std::min(view.scrolled + 1, shown_to),
                                                     shown_to, processes)),
            Style::dim};
}

}  // namespace

std::string_view name_of(Sort sort) {
    switch (sort) {
        case Sort::tree:
            return "tree";
        case Sort::cpu:
            return "cpu";
        case Sort::memory:
            return "memory";
        case Sort::dirty:
            return "dirty";
        case Sort::pid:
            return "pid";
    }
    return "";
}

Sort next_after(Sort sort) {
    return sort == Sort::pid ? Sort::tree : static_cast<Sort>(static_cast<int>(sort) + 1);
}

std::vector<Line> page(const Sample& sample, View& view) {
    std::vector<Line> lines =
        view.help ? std::vector<Line>{{title(sample), Style::title}} : top_lines(sample, view);
    // The last line is the keys'.
    const std::size_t bottom = view.whole ? 0 : 1, rows = view.whole ? ~std::size_t{0} : view.rows;
    std::size_t shown_to = 0;
    if (view.help) {
        lines.insert(lines.end(), help_lines().begin(), help_lines().end());
    } else {
        Columns columns;
        for (const ProcessRow& row : sample.processes) {
            columns.host = columns.host || row.process.host.has_value();
            columns.real = columns.real || !same_number(row.process.pid, row.process.real);
        }
        const auto placed = in_order(sample.processes, view.sort);
        lines.push_back({process_head(columns), Style::head});
        const std::size_t used = lines.size() + bottom, room = rows > used ? rows - used : 0;
        view.scrolled =
            view.whole ? 0 : std::min(view.scrolled, placed.size() - std::min(placed.size(), room));
        shown_to = std::min(placed.size(), view.scrolled + std::min(room, placed.size()));
        for (std::size_t i = view.scrolled; i < shown_to; ++i) {
            const bool unsaved = !placed[i].row->process.foreign.empty();
            lines.push_back({process_line(placed[i], columns), unsaved ? Style::bad : Style::plain});
        }
    }
    if (view.whole) return lines;
    lines.resize(rows - std::min(rows, bottom));
    if (rows > 0) lines.push_back(last_line(view, shown_to, sample.processes.size()));
    for (Line& line : lines) line.text = cut(line.text, view.columns);
    return lines;
}

}  // namespace cairn::top
