// The command line of cairn-causality.
#include <algorithm>
#include <cmath>

#include "causality/tool/verbs.h"
#include "common/verb_options.h"

namespace cairn::causality::tool {
namespace {

namespace po = boost::program_options;

constexpr const char* tool = "cairn causality";

struct Verb {
    const char* name;
    const char* synopsis;
    const char* text;
    const char* options;  // letters of the groups below
};

constexpr Verb verbs[] = {
    {"check", "check TRACE...", "whether a trace makes sense, and what is in it; for traces of any size", ""},
    {"cuts", "cuts [--after P:N] [--before P:N] [--is N,N,...] TRACE...",
     "consistent cuts: the earliest with an event, the latest without it, how many there are", "eim"},
    {"places", "places [--after P:N] [--before P:N] [--is N,N,...] [--interval S] [--most N] TRACE...",
     "where nothing is in transit: lines of the source, and the moments with the shortest waits", "eimI"},
    {"zigzag", "zigzag [--from P:X --to P:X] [--extends P:X,...] TRACE...",
     "useless checkpoints, hidden dependencies, zigzag paths", "zm"},
    {"recovery-line", "recovery-line --failed P,... TRACE...",
     "the largest consistent global checkpoint after failures, and what can be thrown away", "f"},
    {"simulate", "simulate [OPTIONS] [TRACE...]", "protocols compared on made-up or recorded traffic", "s"},
    {"lint", "lint TRACE...",
     "deadlocks, races of messages, collectives that don't fit, what is never received, completed or freed",
     ""},
    {"convert", "convert [--to lines|binary|otf2|perfetto|shiviz] TRACE... OUT",
     "between the binary form, JSON lines and OTF2; for Perfetto and ShiViz", "c"},
    {"view", "view [--failed P,...] [--by-time] [--most N] [--around P:N] [--events N] TRACE... OUT.html",
     "the space-time diagram, as one HTML file", "fmv"},
};

po::options_description known_options(const Verb& verb, Options& into) {
    po::options_description known;
    auto add = known.add_options();
    add("json,j", po::bool_switch(&into.json), "print one JSON object");
    for (const char* letter = verb.options; *letter != 0; ++letter) switch (*letter) {
            case 'e':
                add("after", po::value(&into.after), "P:N: with event N of process P")(
                    "before", po::value(&into.before), "P:N: without it");
                break;
            case 'i':
                add("is", po::value(&into.is), "N,N,...: is it one, with so many events of each process?");
                break;
            case 'm':
                add("most,m", po::value(&into.most)->default_value(10), "how many to show (cuts: to count)");
                break;
            case 'I':
                add("interval", po::value(&into.interval), "seconds between one and the next");
                break;
            case 'z':
                add("from", po::value(&into.from), "P:X: a zigzag path from checkpoint X of process P ...")(
                    "to", po::value(&into.to), "... to this one")(
                    "extends", po::value(&into.extends),
                    "P:X,...: do these belong to a consistent global checkpoint?");
                break;
            case 'f':
                add("failed,f", po::value<std::vector<std::string>>()->composing(),
                    "P,...: processes that fail");
                break;
            case 'v':
                add("around", po::value(&into.around), "P:N: draw what is around event N of process P")(
                    "events", po::value(&into.events)->default_value(200000),
                    "how many events to draw; 0: all, about 30 bytes each");
                add("by-time", po::bool_switch(&into.by_time),
                    "across: the processes' clocks, not the order of causes; shows how long calls took");
                break;
            case 'c':
                add("to", po::value(&into.form),
                    "the form of OUT; by default .jsonl and - are lines, all else is binary. otf2: OUT is a "
                    "folder, with "
                    "traces.otf2 in it; perfetto: Chrome's JSON; shiviz: its log");
                break;
            case 's':
                add("protocol", po::value<std::string>()->default_value("all"),
                    "uncoordinated,bcs,bcs-sent,russell,fdas,bhmr,logging")(
                    "traffic", po::value<std::string>()->default_value("random"),
                    "ring, client-server, stencil, random, groups")(
                    "processes", po::value<std::string>()->default_value("8"),
                    "how many; several for a plot")(
                    "messages", po::value(&into.messages)->default_value(10000), "how many")(
                    "checkpoint-every", po::value<std::string>()->default_value("20"),
                    "mean time between basic checkpoints, in sends of a process; several for a plot")(
                    "delay", po::value(&into.delay)->default_value(1), "mean time of a message on its way")(
                    "unordered", po::bool_switch(), "channels aren't FIFO")(
                    "differences", po::bool_switch(&into.differences), "control data as differences (FIFO)")(
                    "failures", po::value(&into.failures)->default_value(10),
                    "moments at which a process fails")("seed", po::value(&into.seed)->default_value(1),
                                                        "of the random numbers")("svg", po::value(&into.svg),
                                                                                 "write a plot to this file")(
                    "figure", po::value(&into.figure)->default_value("forced"),
                    "what it shows: forced, bytes, undone, domino, logged");
                break;
            default:
                break;
        }
    return known;
}

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        parts.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

template <class T>
bool number(const std::string& text, T& value) {
    std::size_t used = 0;
    double read = 0;
    try {
        read = std::stod(text, &used);
    } catch (const std::exception&) {
        return false;
    }
    value = static_cast<T>(read);
    return used == text.size() && std::isfinite(read) && read >= 0 && read <= 1e9 &&
           (!std::is_integral_v<T> || read == std::floor(read));
}

template <class T>
Result<> numbers(const std::string& text, const char* option, std::vector<T>& into) {
    for (const std::string& each : split(text)) {
        T value{};
        if (!number(each, value))
            return fail_code(ExitCode::usage, "--{}: '{}' is no number that fits", option, each);
        into.push_back(value);
    }
    return {};
}

}  // namespace

std::string help(const std::string& name) {
    const Verb* verb = find_verb(verbs, name);
    if (verb == nullptr)
        return "usage: cairn causality VERB [OPTIONS] TRACE...\n\n" + list_of_verbs(verbs) +
               "\nA TRACE is binary (one file, or one for each process) or JSON lines (- is standard input); "
               "docs/trace-format.md.\n"
               "Events and checkpoints are P:N, the N-th of process P, from 0.\n"
               "Exit codes: 0 done, or yes; 1 failed; 2 wrong usage; 3 the answer to --is, --extends, --from "
               "is no,\n"
               "            or lint has found something; 4 the trace is damaged or contradicts itself.\n";
    Options ignored;
    return help_of_verb(tool, *verb, known_options(*verb, ignored));
}

Result<Options> read_options(std::span<char* const> words) {
    Options options;
    options.verb = words.empty() ? "" : words[0];
    const Verb* verb = find_verb(verbs, options.verb);
    if (verb == nullptr) return unknown_verb<Verb>(tool, options.verb);
    const auto usage = [&](const std::string& why) { return usage_error(tool, verb, why); };
    po::options_description known = known_options(*verb, options);
    known.add_options()("file", po::value(&options.files));
    po::variables_map given;
    try {
        given = parse_words(words.subspan(1), known, "file");
    } catch (const po::error& problem) {
        return usage(problem.what());
    }
    const auto list = [&](const char* name) {
        return given.count(name) != 0 ? split(given[name].as<std::string>()) : std::vector<std::string>();
    };
    if (given.count("failed") != 0)
        for (const std::string& each : given["failed"].as<std::vector<std::string>>())
            CHECK_OK(numbers(each, "failed", options.failed));
    if (std::string_view(verb->options) == "s") {
        options.protocols = list("protocol");
        options.traffic = list("traffic");
        options.fifo = !given["unordered"].as<bool>();
        CHECK_OK(numbers(given["processes"].as<std::string>(), "processes", options.processes));
        if (auto done = numbers(given["checkpoint-every"].as<std::string>(), "checkpoint-every",
                                options.checkpoint_every);
            !done)
            return std::unexpected(done.error());
        if (!std::isfinite(options.delay) || options.delay < 0) return usage("--delay is a time");
        if (options.differences && !options.fifo)
            return usage("--differences needs channels that keep the order");
    } else if (options.files.empty()) {
        return usage("which trace?");
    }
    const bool writes = options.verb == "convert" || options.verb == "view";
    if (writes && options.files.size() < 2) return usage("a trace, and the file to write");
    if (!std::isfinite(options.interval) || options.interval < 0 || options.interval > 1e9)
        return usage("--interval is a time in seconds");
    if (options.verb == "recovery-line" && options.failed.empty()) return usage("--failed: which processes?");
    if (options.from.empty() != options.to.empty()) return usage("--from and --to go together");
    return options;
}

}  // namespace cairn::causality::tool
