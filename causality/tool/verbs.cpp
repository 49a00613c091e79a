// check, cuts, places.
#include "causality/tool/verbs.h"

#include <nlohmann/json.hpp>

#include "causality/open_trace.h"
#include "causality/places.h"
#include "common/human.h"
#include "common/json_text.h"

namespace cairn::causality::tool {
namespace {

using nlohmann::json;

void print_notes(const std::vector<std::string>& notes) {
    for (const std::string& each : notes) fmt::print("note: {}\n", printable(each));
}

std::string seconds(std::int64_t ns) {
    return human_duration(ns);
}

json timed(const std::optional<Cut>& cut) {
    return cut ? json(*cut) : json(nullptr);
}

}  // namespace

void print_json(const json& value) {
    fmt::print("{}\n", json_text(value, 2));
}

std::string cut_text(const std::vector<std::uint32_t>& cut) {
    std::string text;
    for (const std::uint32_t each : cut) text += (text.empty() ? "" : ",") + std::to_string(each);
    return text;
}

Result<Computation> load(const Options& options) {
    const bool writes = options.verb == "convert" || options.verb == "view";
    const auto source =
        TRY(open_trace(std::span(options.files).first(options.files.size() - (writes ? 1 : 0))));
    return Computation::load(*source);
}

Result<std::pair<std::uint32_t, std::uint32_t>> parse_pair(const std::string& text) {
    unsigned a = 0, b = 0;
    int used = 0;
    if (std::sscanf(text.c_str(), "%9u:%9u%n", &a, &b, &used) != 2 ||
        static_cast<std::size_t>(used) != text.size())
        return fail_code(ExitCode::usage, "'{}' is not PROCESS:NUMBER", text);
    return std::pair(a, b);
}

Result<Index> parse_event(const Computation& computation, const std::string& text) {
    const auto pair = TRY(parse_pair(text));
    if (pair.first >= computation.processes() || pair.second >= computation.size(pair.first))
        return fail_code(ExitCode::usage, "the trace has no event {}", text);
    return computation.index({pair.first, pair.second});
}

Result<Cut> parse_cut(const Computation& computation, const std::string& text) {
    Cut cut;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const std::string part = text.substr(begin, end - begin);
        if (part.empty() || part.size() > 9 || part.find_first_not_of("0123456789") != std::string::npos)
            return fail_code(ExitCode::usage, "'{}' is not a number of events for each process", text);
        cut.push_back(static_cast<Position>(std::stoul(part)));
        begin = end + 1;
    }
    if (cut.size() != computation.processes())
        return fail_code(ExitCode::usage, "a cut has {} numbers, one for each process; not {}",
                         computation.processes(), cut.size());
    for (Process p = 0; p < cut.size(); ++p)
        if (cut[p] > computation.size(p))
            return fail_code(ExitCode::usage, "process {} has {} events, not {}", p, computation.size(p),
                             cut[p]);
    return cut;
}

Result<> check(const Options& options) {
    const auto source = TRY(open_trace(options.files));
    const auto found = TRY(check_trace(*source));
    if (options.json) {
        print_json({{"processes", found.processes},
                    {"events", found.events},
                    {"sends", found.sends},
                    {"receives", found.receives},
                    {"collectives", found.collectives},
                    {"checkpoints", found.checkpoints},
                    {"in_transit", found.in_transit},
                    {"notes", found.notes}});
        return {};
    }
    fmt::print("{}, {}: {} sends, {} receives, {} collective, {} checkpoints; {} in transit at the end\n",
               human_count(found.processes, "process", "processes"), human_count(found.events, "event"),
               found.sends, found.receives, found.collectives, found.checkpoints,
               human_count(found.in_transit, "message"));
    print_notes(found.notes);
    return {};
}

Result<> cuts(const Options& options) {
    const auto c = TRY(load(options));
    const ClockTable clocks(c);
    json out = json::object();
    std::string text;
    if (!options.after.empty()) {
        const auto event = TRY(parse_event(c, options.after));
        const Cut cut = earliest_after(c, clocks, event);
        out["earliest_after"] = cut;
        text += fmt::format("earliest with {}: {}\n", options.after, cut_text(cut));
    }
    if (!options.before.empty()) {
        const auto event = TRY(parse_event(c, options.before));
        const Cut cut = latest_before(c, clocks, event);
        out["latest_before"] = cut;
        text += fmt::format("latest without {}: {}\n", options.before, cut_text(cut));
    }
    bool answer = true;
    if (!options.is.empty()) {
        const auto cut = TRY(parse_cut(c, options.is));
        answer = consistent(c, clocks, cut);
        out["consistent"] = answer;
        text += fmt::format("{} is {}consistent\n", options.is, answer ? "" : "not ");
    }
    if (text.empty()) {
        std::uint64_t count = 0;
        const std::uint64_t most = std::max<std::uint64_t>(options.most, 1);
        bool all = true;
        for_each_consistent_cut(c, clocks, [&](const Cut&) {
            all = count < most;
            if (all) ++count;
            return all;
        });
        out["cuts"] = count;
        out["all_counted"] = all;
        text = fmt::format("{}{} consistent cuts\n", all ? "" : "more than ", count);
    }
    if (options.json)
        print_json(out);
    else
        fmt::print("{}", text);
    if (!answer) return fail_code(ExitCode::refused, "{} is no consistent cut", options.is);
    return {};
}

Result<> places(const Options& options) {
    const auto c = TRY(load(options));
    const Places all(c);
    json out = json::object();
    std::string text;
    const auto show = [&](const char* key, const std::string& what, const std::optional<Cut>& cut) {
        out[key] = timed(cut);
        text += fmt::format("{}: {}\n", what, cut ? cut_text(*cut) : "none");
    };
    if (!options.after.empty()) {
        const auto event = TRY(parse_event(c, options.after));
        show("earliest_after", "earliest behind " + options.after, all.earliest_after(event));
    }
    if (!options.before.empty()) {
        const auto event = TRY(parse_event(c, options.before));
        show("latest_before", "latest before " + options.before, all.latest_before(event));
    }
    std::string no;
    if (!options.is.empty()) {
        const auto cut = TRY(parse_cut(c, options.is));
        const auto obstacle = all.obstacle(cut);
        out["is_place"] = all.is_place(cut);
        if (!all.is_place(cut)) {
            no = options.is + " is no place";
            if (obstacle && obstacle->before != none) no += "; before it is " + c.text(obstacle->before);
            if (obstacle && obstacle->behind != none) no += "; behind it is " + c.text(obstacle->behind);
        } else {
            text += options.is + " is a place\n";
        }
    }
    if (out.empty()) {
        json lines = json::array(), best = json::array();
        for (const auto& line : all.lines()) {
            if (lines.size() >= options.most) break;
            const std::string where = describe(c.places()[line.place]);
            lines.push_back({{"place", where},
                             {"after", line.after},
                             {"passes", line.passes},
                             {"good", line.good},
                             {"mean_wait_ns", line.mean_wait},
                             {"cut", line.cut}});
            text += fmt::format("{} {}: {} of {} passes, wait {} on average; first at {}\n",
                                line.after ? "behind" : "before", printable(where), line.good, line.passes,
                                seconds(line.mean_wait), cut_text(line.cut));
        }
        if (lines.empty()) text += "no line of the source where all processes stand at a place\n";
        // Clocks count from anywhere; who reads it wants to know how long after the program's beginning.
        std::int64_t begun = INT64_MAX;
        for (Index e = 0; e < c.size(); ++e) begun = std::min(begun, c.event(e).time);
        for (const auto& each : all.best(options.most, static_cast<std::int64_t>(options.interval * 1e9))) {
            best.push_back(
                {{"cut", each.cut}, {"time_ns", each.time}, {"wait_ns", each.wait}, {"events", each.events}});
            text += fmt::format("{} after the first event: wait {}, {}\n", seconds(each.time - begun),
                                seconds(each.wait), cut_text(each.cut));
        }
        // Where no times are known the best can't be told, and lines need the source.
        json others = json::array();
        if (best.empty() && lines.empty() && options.most > 0)
            all.for_each([&](const Cut& cut) {
                if (cut == all.first() || cut == all.last()) return true;
                others.push_back(cut);
                text += fmt::format("a place: {}\n", cut_text(cut));
                return others.size() < options.most;
            });
        if (best.empty() && lines.empty() && others.empty())
            text += "no place but before and behind everything\n";
        out = {{"lines", std::move(lines)},
               {"best", std::move(best)},
               {"others", std::move(others)},
               {"first", timed(all.first())},
               {"last", timed(all.last())}};
    }
    if (options.json)
        print_json(out);
    else
        fmt::print("{}", text);
    if (!no.empty()) return fail_code(ExitCode::refused, "{}", no);
    return {};
}

}  // namespace cairn::causality::tool
