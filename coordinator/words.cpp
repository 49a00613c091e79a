#include "coordinator/words.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/condense.h"
#include "common/human.h"

namespace cairn::coordinator {
namespace {

std::string seconds(double value) {
    return human_duration(static_cast<std::int64_t>(value * 1e9));
}

std::vector<std::string> checkpoint_words(const wire::CheckpointDone& done) {
    std::vector<std::string> lines;
    lines.push_back(
        fmt::format("checkpoint {}: {}, {}, pause {}, total {}", done.generation,
                    human_count(static_cast<std::uint64_t>(done.processes), "process", "processes"),
                    human_bytes(done.bytes), human_duration(done.pause_ns), human_duration(done.total_ns)));
    lines.push_back("  " + printable(done.directory));
    for (const std::string& note :
         condense(done.news.value_or(done.notes), "cairn inspect " + done.directory))
        lines.push_back("  note: " + printable(note));
    if (done.killed) lines.emplace_back("  all processes were ended, as asked");
    return lines;
}

std::string missing_words(const wire::Waiting& waiting) {
    std::string text;
    for (const wire::PartOf& part : waiting.missing)
        text += fmt::format("{}part {} ({}{}{})", text.empty() ? "" : ", ", part.number, printable(part.host),
                            part.terminal.empty() ? "" : " ", printable(part.terminal));
    return text;
}

std::vector<std::string> status_words(const wire::Status& status) {
    std::vector<std::string> lines;
    lines.push_back(fmt::format("session {}, coordinator {}, since {}", printable(status.session), status.pid,
                                seconds(status.uptime_s)));
    if (status.state == "idle")
        lines.emplace_back("no program runs (CID ?)");
    else if (status.state == "restarting") {
        const wire::Waiting restart = status.restart.value_or(wire::Waiting{});
        lines.push_back(
            fmt::format("restarting {}: {} of {} have joined", status.cid, restart.have,
                        human_count(static_cast<std::uint64_t>(restart.np), "process", "processes")));
        if (const std::string missing = missing_words(restart); !missing.empty())
            lines.push_back("awaited: " + missing);
    } else {
        lines.push_back(fmt::format("computation {}, {}", status.cid,
                                    human_count(status.processes, "process", "processes")));
    }
    lines.push_back(fmt::format(
        "checkpoints to {}, {}, {}", printable(status.ckptdir),
        status.interval > 0 ? fmt::format("every {}", seconds(status.interval))
                            : std::string("when asked for"),
        status.keep > 0 ? fmt::format("the last {} are kept", status.keep) : std::string("all are kept")));
    for (const std::string& limit : status.limits)
        lines.push_back("checkpoints may fail: " + printable(limit));
    if (status.checkpoint)
        lines.push_back(fmt::format("a checkpoint is being taken: {}", status.checkpoint->phase));
    if (status.last)
        for (const std::string& line : checkpoint_words(*status.last)) lines.push_back(line);
    if (status.overflow > 0)
        lines.push_back(fmt::format("{} found no place in the session's table: checkpoints are refused",
                                    human_count(status.overflow, "process", "processes")));
    return lines;
}

std::string list_words(const wire::Process& process) {
    std::string terminal = process.terminal;
    if (terminal.starts_with("/dev/")) terminal.erase(0, 5);
    const std::string command = process.command.empty() ? "[" + process.comm + "]" : process.command;
    std::string line =
        fmt::format("{:>8} {:>8} {:<9} {:<12} {:>10}  {}", process.pid, process.parent, process.state,
                    terminal.empty() ? "-" : terminal, seconds(process.started_s), printable(command));
    if (!same_number(process.pid, process.real)) line += fmt::format("  (really {})", process.real);
    if (!process.foreign.empty()) line += "  can't be saved: " + printable(process.foreign);
    return line;
}

}  // namespace

std::string progress_words(const Json& event) {
    const auto progress = wire::glean<wire::Progress>(event);
    std::string text = "writing " + human_bytes(progress.bytes);
    if (progress.total > 0) text += " of " + human_bytes(progress.total);
    if (progress.rate > 0) text += fmt::format(", {}/s", human_bytes(progress.rate));
    if (!progress.last.empty()) text += ", last " + printable(progress.last);
    return text;
}

std::string list_head() {
    return fmt::format("{:>8} {:>8} {:<9} {:<12} {:>10}  {}", "PID", "PARENT", "STATE", "TERMINAL", "AGE",
                       "COMMAND");
}

std::vector<std::string> words_of(const Json& event) {
    const std::string kind = get_string(event, "event");
    if (kind == wire::Note::name.value) return {printable(wire::glean<wire::Note>(event).text)};
    if (kind == "queued") return {printable(get_string(event, "reason"))};
    if (kind == wire::Failed::name.value) return {printable("failed: " + get_string(event, "reason"))};
    if (kind == wire::Process::name.value) return {list_words(wire::glean<wire::Process>(event))};
    if (kind == wire::Waiting::name.value) {
        const auto waiting = wire::glean<wire::Waiting>(event);
        const std::string missing = missing_words(waiting);
        return {
            fmt::format("{} of {} joined{}", waiting.have,
                        human_count(static_cast<std::uint64_t>(waiting.np), "process has", "processes have"),
                        missing.empty() ? "" : "; awaited: " + missing)};
    }
    if (kind == wire::Phase::name.value) {
        std::vector<std::string> lines;
        for (const std::string& who : wire::glean<wire::Phase>(event).waiting)
            if (!who.empty()) lines.push_back(printable(who));
        return lines;
    }
    if (kind != "done") return {};
    if (event.contains("directory")) return checkpoint_words(wire::glean<wire::CheckpointDone>(event));
    if (event.contains("state")) return status_words(wire::glean<wire::Status>(event));
    return {};
}

}  // namespace cairn::coordinator
