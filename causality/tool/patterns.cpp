// zigzag, recovery-line, convert, view.
#include <nlohmann/json.hpp>

#include "causality/export.h"
#include "causality/open_trace.h"
#include "causality/otf2/otf2.h"
#include "causality/pattern.h"
#include "causality/tool/verbs.h"
#include "causality/view/view.h"
#include "causality/window.h"
#include "common/human.h"

namespace cairn::causality::tool {
namespace {

using nlohmann::json;

std::string text_of(Checkpoint c) {
    return fmt::format("{}:{}", c.process, c.number);
}

Result<std::vector<Checkpoint>> parse_set(const Pattern& pattern, const std::string& text) {
    std::vector<Checkpoint> set;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const auto c = TRY(parse_checkpoint(pattern, text.substr(begin, end - begin)));
        for (const Checkpoint other : set)
            if (other.process == c.process)
                return fail_code(ExitCode::usage, "two checkpoints of process {}", c.process);
        set.push_back(c);
        begin = end + 1;
    }
    return set;
}

// Messages by their sends.
std::string path_text(const Computation& c, const std::vector<Index>& sends,
                      const std::vector<std::uint32_t>& path) {
    std::string text;
    for (const std::uint32_t m : path) {
        const EventId id = c.id(sends[m]);
        text += fmt::format("{}{}:{}", text.empty() ? "" : " ", id.process, id.position);
    }
    return text;
}

}  // namespace

Result<Checkpoint> parse_checkpoint(const Pattern& pattern, const std::string& text) {
    const auto pair = TRY(parse_pair(text));
    if (pair.first >= pattern.processes() || pair.second >= pattern.checkpoints(pair.first))
        return fail_code(ExitCode::usage, "there is no checkpoint {}", text);
    return Checkpoint{pair.first, pair.second};
}

Result<> zigzag(const Options& options) {
    const auto c = TRY(load(options));
    std::vector<Index> events;
    const Pattern pattern = pattern_of(c, &events);
    const Zigzag graph(pattern);
    std::vector<Index> sends(pattern.messages(), 0);
    for (std::size_t i = 0; i < events.size(); ++i)
        if (pattern.steps()[i].what() == Pattern::What::send) sends[pattern.steps()[i].message] = events[i];
    json out = json::object();
    std::string text, no;
    if (!options.from.empty()) {
        const auto from = TRY(parse_checkpoint(pattern, options.from));
        const auto to = TRY(parse_checkpoint(pattern, options.to));
        const bool is = graph.zigzag(from, to), causal = DependenceVectors(pattern).precedes(from, to);
        const std::string path = path_text(c, sends, graph.path(from, to));
        out["zigzag"] = is;
        out["causal"] = causal;
        out["path"] = path;
        text +=
            fmt::format("{} {} {}{}{}\n", options.from, is ? "zigzags to" : "doesn't zigzag to", options.to,
                        !is      ? ""
                        : causal ? ", doubled by a causal path"
                                 : ", not doubled",
                        path.empty() ? "" : "; by the messages sent at " + path);
        if (!is) no = fmt::format("no zigzag path from {} to {}", options.from, options.to);
    }
    if (!options.extends.empty()) {
        const auto set = TRY(parse_set(pattern, options.extends));
        const auto least = graph.smallest(set), most = graph.largest(set);
        out["extends"] = least.has_value();
        if (least) {
            out["smallest"] = *least;
            out["largest"] = *most;
            text += fmt::format("smallest: {}\nlargest: {}\n", cut_text(*least), cut_text(*most));
        } else {
            no = "no consistent global checkpoint has " + options.extends;
        }
    }
    if (out.empty()) {
        const std::vector<Checkpoint> useless = graph.useless();
        json list = json::array();
        for (const Checkpoint each : useless) {
            if (list.size() >= options.most) break;
            const std::string path = path_text(c, sends, graph.path(each, each));
            list.push_back({{"checkpoint", text_of(each)}, {"messages", path}});
            text += fmt::format("useless: {}, by the messages sent at {}\n", text_of(each), path);
        }
        const auto hidden = hidden_dependency(pattern, graph);
        text += fmt::format("{} useless{}\n", human_count(useless.size(), "checkpoint"),
                            useless.empty() ? ": no Z-cycle" : "");
        text += hidden ? fmt::format("not trackable: {} zigzags to {}, and no causal path does\n",
                                     text_of(hidden->first), text_of(hidden->second))
                       : "rollback dependencies are trackable (RDT)\n";
        out = {{"useless", useless.size()},
               {"z_cycles", std::move(list)},
               {"z_cycle_free", useless.empty()},
               {"trackable", !hidden}};
        if (hidden) out["hidden"] = {text_of(hidden->first), text_of(hidden->second)};
    }
    if (options.json)
        print_json(out);
    else
        fmt::print("{}", text);
    if (!no.empty()) return fail_code(ExitCode::refused, "{}", no);
    return {};
}

Result<> recovery_line(const Options& options) {
    const auto c = TRY(load(options));
    const Pattern pattern = pattern_of(c);
    for (const Process p : options.failed)
        if (p >= c.processes()) return fail_code(ExitCode::usage, "--failed: the trace has no process {}", p);
    const Zigzag graph(pattern);
    const auto found = graph.recovery_line(options.failed);
    const auto needed = graph.needed();
    std::uint64_t stored = 0, kept = 0;
    json collectable = json::array();
    for (Process p = 0; p < c.processes(); ++p) {
        stored += pattern.intervals(p);
        kept += needed[p].size();
        json mine = json::array();
        for (std::uint32_t x = 0, i = 0; x < pattern.intervals(p); ++x)
            if (i < needed[p].size() && needed[p][i] == x)
                ++i;
            else
                mine.push_back(x);
        collectable.push_back(std::move(mine));
    }
    if (options.json) {
        print_json({{"line", found.line},
                    {"undone", found.undone},
                    {"most_undone", found.most_undone},
                    {"domino", found.rounds},
                    {"to_start", found.to_start},
                    {"collectable", std::move(collectable)}});
        return {};
    }
    for (Process p = 0; p < c.processes(); ++p) {
        const std::uint32_t number = found.line[p];
        if (number == pattern.intervals(p))
            fmt::print("process {}: goes on as it is\n", p);
        else
            fmt::print("process {}: checkpoint {}{}, {} behind it\n", p, number,
                       number == 0 ? " (its beginning)" : "",
                       human_count(pattern.intervals(p) - 1 - number, "checkpoint"));
    }
    fmt::print("{} given up, {} at most by one process; the longest chain of rollbacks has {}\n",
               human_count(found.undone, "state"), found.most_undone, human_count(found.rounds, "message"));
    fmt::print("{} of {} can be thrown away\n", stored - kept, human_count(stored, "checkpoint"));
    return {};
}

Result<> convert(const Options& options) {
    const auto source = TRY(open_trace(std::span(options.files).first(options.files.size() - 1)));
    const std::string& out = options.files.back();
    std::string form = options.form;
    if (form.empty())
        form = out == "-" || out.ends_with(".jsonl") || out.ends_with(".json") ? "lines" : "binary";
    if (form == "lines") return write_lines(*source, out);
    if (form == "binary") return write_binary(*source, out);
    if (form == "otf2") return write_otf2(*source, out);
    if (form != "perfetto" && form != "shiviz")
        return fail_code(ExitCode::usage, "--to is lines, binary, otf2, perfetto or shiviz, not '{}'", form);
    const auto computation = TRY(Computation::load(*source));
    return form == "perfetto" ? write_perfetto(computation, out) : write_shiviz(computation, out);
}

Result<> view(const Options& options) {
    auto c = TRY(load(options));
    for (const Process p : options.failed)
        if (p >= c.processes()) return fail_code(ExitCode::usage, "--failed: the trace has no process {}", p);
    std::vector<Position> base;
    Index around = none;
    if (!options.around.empty()) {
        const auto event = TRY(parse_event(c, options.around));
        around = event;
    }
    const Index all = c.size();
    if (options.events != 0 && all > options.events) {
        auto window = TRY(window_of(c, options.events, around));
        c = std::move(window.computation);
        base = std::move(window.base);
        fmt::print("drawn are {} of {} events, {}; --around P:N and --events N draw others, or more\n",
                   c.size(), all, around == none ? "the first" : "those around " + options.around);
    }
    const std::string& path = options.files.back();
    const std::string html = view_html(c, {.title = options.files[0],
                                           .failed = options.failed,
                                           .places = options.most,
                                           .base = base,
                                           .by_time = options.by_time,
                                           .by_call = false,
                                           .more = ""});
    std::FILE* file = std::fopen(path.c_str(), "wbe");
    if (file == nullptr) return fail_errno("creating {}", path);
    const bool written = std::fwrite(html.data(), 1, html.size(), file) == html.size();
    if (std::fclose(file) != 0 || !written) return fail_errno("writing {}", path);
    return {};
}

}  // namespace cairn::causality::tool
