#include "coordinator/words.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/human.h"

namespace cairn::coordinator {
namespace {

std::string seconds(double value) {
    return human_duration(static_cast<std::int64_t>(value * 1e9));
}

std::vector<std::string> checkpoint_words(const Json& done) {
    std::vector<std::string> lines;
    const std::uint64_t total = get_count(done, "total_ns");
    lines.push_back(fmt::format("checkpoint {}: {}, {}, pause {}, total {}", get_number(done, "generation"),
                                human_count(get_count(done, "processes"), "process", "processes"),
                                human_bytes(get_count(done, "bytes")),
                                human_duration(get_number(done, "pause_ns")),
                                human_duration(static_cast<std::int64_t>(total))));
    lines.push_back("  " + printable(get_string(done, "directory")));
    const Json notes = done.value("notes", Json::array());
    for (const Json& note : notes)
        if (note.is_string()) lines.push_back("  note: " + printable(note.get<std::string>()));
    if (get_flag(done, "killed")) lines.emplace_back("  all processes were ended, as asked");
    return lines;
}

std::string missing_words(const Json& waiting) {
    std::string text;
    const Json missing = waiting.value("missing", Json::array());
    for (const Json& part : missing) {
        const std::string terminal = get_string(part, "terminal");
        text += fmt::format("{}part {} ({}{}{})", text.empty() ? "" : ", ", get_number(part, "number"),
                            printable(get_string(part, "host")), terminal.empty() ? "" : " ",
                            printable(terminal));
    }
    return text;
}

}  // namespace

std::string progress_words(const Json& event) {
    const std::uint64_t total = get_count(event, "total"), rate = get_count(event, "rate");
    std::string text = "writing " + human_bytes(get_count(event, "bytes"));
    if (total > 0) text += " of " + human_bytes(total);
    if (rate > 0) text += fmt::format(", {}/s", human_bytes(rate));
    if (const std::string last = get_string(event, "last"); !last.empty())
        text += ", last " + printable(last);
    return text;
}

std::vector<std::string> status_words(const Json& done) {
    std::vector<std::string> lines;
    const std::string state = get_string(done, "state"), cid = get_string(done, "cid");
    lines.push_back(fmt::format("session {}, coordinator {}, since {}",
                                printable(get_string(done, "session")), get_number(done, "pid"),
                                seconds(get_real(done, "uptime_s"))));
    if (state == "idle")
        lines.emplace_back("no program runs (CID ?)");
    else if (state == "restarting") {
        const Json restart = done.value("restart", Json::object());
        lines.push_back(fmt::format("restarting {}: {} of {} have joined", cid, get_number(restart, "have"),
                                    human_count(get_count(restart, "np"), "process", "processes")));
        if (const std::string missing = missing_words(restart); !missing.empty())
            lines.push_back("awaited: " + missing);
    } else {
        lines.push_back(fmt::format("computation {}, {}", cid,
                                    human_count(get_count(done, "processes"), "process", "processes")));
    }
    const double interval = get_real(done, "interval");
    const std::int64_t keep = get_number(done, "keep");
    lines.push_back(
        fmt::format("checkpoints to {}, {}, {}", printable(get_string(done, "ckptdir")),
                    interval > 0 ? fmt::format("every {}", seconds(interval)) : std::string("when asked for"),
                    keep > 0 ? fmt::format("the last {} are kept", keep) : std::string("all are kept")));
    for (const Json& limit : done.value("limits", Json::array()))
        if (limit.is_string())
            lines.push_back("checkpoints may fail: " + printable(limit.get<std::string>()));
    if (const Json now = done.value("checkpoint", Json()); now.is_object())
        lines.push_back(fmt::format("a checkpoint is being taken: {}", get_string(now, "phase")));
    if (const Json last = done.value("last", Json()); last.is_object())
        for (const std::string& line : checkpoint_words(last)) lines.push_back(line);
    if (const std::uint64_t lost = get_count(done, "overflow"); lost > 0)
        lines.push_back(fmt::format("{} found no place in the session's table: checkpoints are refused",
                                    human_count(lost, "process", "processes")));
    return lines;
}

std::string list_head() {
    return fmt::format("{:>8} {:>8} {:<9} {:<12} {:>10}  {}", "PID", "PARENT", "STATE", "TERMINAL", "AGE",
                       "COMMAND");
}

std::string list_words(const Json& process) {
    std::string terminal = get_string(process, "terminal");
    if (terminal.starts_with("/dev/")) terminal.erase(0, 5);
    std::string command = get_string(process, "command");
    if (command.empty()) command = "[" + get_string(process, "name") + "]";
    std::string line = fmt::format("{:>8} {:>8} {:<9} {:<12} {:>10}  {}", get_number(process, "pid"),
                                   get_number(process, "parent"), get_string(process, "state"),
                                   terminal.empty() ? "-" : terminal, seconds(get_real(process, "started_s")),
                                   printable(command));
    if (get_number(process, "real") != get_number(process, "pid"))
        line += fmt::format("  (really {})", get_number(process, "real"));
    if (const std::string why = get_string(process, "foreign"); !why.empty())
        line += "  can't be saved: " + printable(why);
    return line;
}

std::vector<std::string> words_of(const Json& event) {
    const std::string kind = get_string(event, "event");
    if (kind == "note") return {printable(get_string(event, "text"))};
    if (kind == "queued") return {printable(get_string(event, "reason"))};
    if (kind == "failed") return {printable("failed: " + get_string(event, "reason"))};
    if (kind == "process") return {list_words(event)};
    if (kind == "waiting")
        return {fmt::format("{} of {} processes have joined{}", get_number(event, "have"),
                            get_number(event, "np"),
                            missing_words(event).empty() ? "" : "; awaited: " + missing_words(event))};
    if (kind == "phase") {
        std::vector<std::string> lines;
        const Json waiting = event.value("waiting", Json::array());
        for (const Json& who : waiting)
            if (who.is_string() && !who.get<std::string>().empty())
                lines.push_back(printable(who.get<std::string>()));
        return lines;
    }
    if (kind == "done") {
        if (event.contains("directory")) return checkpoint_words(event);
        if (event.contains("state")) return status_words(event);
    }
    return {};
}

}  // namespace cairn::coordinator
