#include "causality/lint/lint.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "causality/lint/loaded.h"
#include "causality/open_trace.h"
#include "common/human.h"
#include "common/json_text.h"
#include "common/printable.h"

namespace cairn::causality {

const char* name(Fault fault) {
    constexpr std::array<const char*, faults> names = {"deadlock", "race",       "collective", "truncated",
                                                       "type",     "unreceived", "request",    "leak"};
    const auto at = static_cast<unsigned>(fault);
    return at < faults ? names[at] : "unknown";
}

std::string Findings::text(const Spot& spot) const {
    std::string text = fmt::format("rank {}", spot.process);
    if (spot.event != none) text += fmt::format(", event {}", spot.event);
    const std::string where = describe(loaded_.place(spot.place));
    return where.empty() ? text : text + ", " + where;
}

namespace {

Result<LintLoaded> load_for_lint(TraceSource& source) {
    const Process n = source.processes();
    LintLoaded loaded(n);
    Event event;
    for (Process p = 0; p < n; ++p) {
        loaded.everybody.push_back(p);
        for (;;) {
            const auto more = TRY(source.next(p, event));
            if (!more) break;
            const char* what = nullptr;
            if (!plausible(event, n, source.places().size(), what))
                return fail_code(ExitCode::damaged, "process {}, event {}: {}", p,
                                 loaded.trace.events(p).size(), what);
            loaded.tells =
                loaded.tells || event.type != 0 || event.has(Flag::any_source | Flag::any_tag | Flag::asks);
            loaded.trace.append(p, event);
        }
        loaded.trace.set_ended(p, source.ended(p));
        if (const auto& standing = source.standing(p)) {
            loaded.tells = true;
            const Event& at = standing->event;
            if ((at.peer != none && at.peer >= n) || at.place >= source.places().size())
                return fail_code(ExitCode::damaged,
                                 "process {}: the call that it stands in is none of this trace", p);
            loaded.trace.set_standing(p, *standing);
        }
    }
    bool messages = false;
    for (Process p = 0; p < n; ++p)
        for (const Event& each : loaded.trace.events(p))
            messages = messages || each.kind == Kind::send || each.kind == Kind::receive;
    loaded.tells = source.says_all() && (loaded.tells || !messages);
    for (const std::string& each : source.types()) static_cast<void>(loaded.trace.type(each));
    for (std::size_t i = 1; i < source.places().size(); ++i) loaded.trace.add_place(source.places()[i]);
    for (const Communicator& each : source.communicators()) loaded.trace.communicator(each);
    for (const Leak& each : source.leaks()) loaded.trace.add_leak(each);
    for (const std::string& each : source.notes()) loaded.trace.add_note(each);
    return loaded;
}

std::vector<std::string> unknown_of(const LintLoaded& loaded) {
    std::vector<std::string> unknown;
    if (!loaded.tells)
        unknown.emplace_back(
            "this trace doesn't say what receives asked for, how long messages are, what they are made of, "
            "and what "
            "is never freed: an earlier cairn, or somebody else, wrote it. Each receive that isn't "
            "determined is taken "
            "for one from any source with the tag that it got");
    std::string where;
    std::size_t count = 0;
    for (Process p = 0; p < loaded.trace.processes(); ++p) {
        const auto& standing = loaded.trace.standing(p);
        if (loaded.trace.ended(p) || (standing && standing->event.kind != Kind::internal)) continue;
        if (++count <= 8) where += (where.empty() ? "" : ", ") + std::to_string(p);
    }
    if (count > 8) where += ", ...";
    if (count > 0)
        unknown.push_back(
            fmt::format("rank{} {} didn't come to an end, and what {} waited for isn't known: taken for "
                        "one that goes on",
                        count == 1 ? "" : "s", where, count == 1 ? "it" : "each"));
    std::size_t cut_off = 0;
    for (Process p = 0; p < loaded.trace.processes(); ++p)
        if (!loaded.trace.ended(p)) ++cut_off;
    if (cut_off > 0)
        unknown.push_back(fmt::format("{} didn't come to an end: what is left over there isn't looked for",
                                      human_count(cut_off, "rank", "ranks")));
    return unknown;
}

}  // namespace

Result<Lint> lint(TraceSource& source) {
    auto loaded = TRY(load_for_lint(source));
    for (const Communicator& each : loaded.trace.communicators())
        loaded.communicators.emplace(each.id, &each);
    Findings findings(loaded);
    find_deadlock(loaded, findings);
    find_collectives(loaded, findings);
    const auto computation = TRY(Computation::load(loaded.trace));
    find_races(loaded, computation, findings);
    find_messages(loaded, computation, findings);
    find_requests(loaded, findings);
    find_leaks(loaded, findings);
    Lint found{.processes = loaded.trace.processes(),
               .events = computation.size(),
               .findings = findings.take(),
               .places = loaded.trace.places(),
               .unknown = unknown_of(loaded),
               .notes = computation.notes()};
    std::stable_sort(found.findings.begin(), found.findings.end(),
                     [](const Finding& a, const Finding& b) { return a.fault < b.fault; });
    return found;
}

namespace {

nlohmann::json json_of(const Lint& found) {
    using nlohmann::json;
    json all = json::array();
    for (const Finding& each : found.findings) {
        json where = json::array();
        for (const Spot& spot : each.spots) {
            const Place& place = found.places[spot.place];
            json one = {{"rank", spot.process}};
            one["event"] = spot.event != none ? json(spot.event) : json(nullptr);
            if (!place.call.empty()) one["call"] = place.call;
            if (!place.file.empty()) one["at"] = fmt::format("{}:{}", place.file, place.line);
            if (!place.function.empty()) one["function"] = place.function;
            where.push_back(std::move(one));
        }
        all.push_back({{"kind", name(each.fault)},
                       {"text", each.text},
                       {"count", each.count},
                       {"where", std::move(where)}});
    }
    return {{"processes", found.processes},
            {"events", found.events},
            {"findings", std::move(all)},
            {"unknown", found.unknown},
            {"notes", found.notes}};
}

}  // namespace

Result<> lint_and_print(const std::vector<std::string>& paths, bool json) {
    const auto source = TRY(open_trace(paths));
    const auto found = TRY(lint(*source));
    if (json) {
        fmt::print("{}\n", json_text(json_of(found), 2));
    } else {
        for (const Finding& each : found.findings)
            fmt::print("{}: {}{}\n", name(each.fault), printable(each.text),
                       each.count > 1 ? fmt::format(" ({} times)", each.count) : "");
        for (const std::string& each : found.unknown) fmt::print("note: {}\n", printable(each));
        for (const std::string& each : found.notes) fmt::print("note: {}\n", printable(each));
        if (found.findings.empty())
            fmt::print("{}, {}: nothing found\n", human_count(found.processes, "rank", "ranks"),
                       human_count(found.events, "event"));
    }
    if (found.findings.empty()) return {};
    return fail_code(ExitCode::refused, "{} found", human_count(found.findings.size(), "fault"));
}

}  // namespace cairn::causality
