#include "mpi/tool/options.h"

#include <algorithm>
#include <filesystem>

namespace cairn::mpi::tool {
namespace {

struct Verb {
    const char* name;
    const char* synopsis;
    const char* text;
    bool folder, command;
    const char* options;  // letters as below
};

constexpr Verb verbs[] = {
    {"record", "record --out DIR [--contents] [--mpi M] PROGRAM [ARGUMENT...]",
     "run a program of an MPI job and write down what could have happened otherwise", false, true, "ocm"},
    {"replay", "replay [--wait] [--trace OUT] [--rank R [--gdb]] [--mpi M] DIR PROGRAM [ARGUMENT...]",
     "run it again on the recorded path; who departs from it is told so, and stopped", true, true, "wtrgm"},
    {"trace", "trace --out DIR [--mpi M] PROGRAM [ARGUMENT...]",
     "run it and write DIR/trace.N of each process, for `cairn causality`", false, true, "om"},
    {"break", "break --rank R --at EVENT|FILE:LINE[:COUNT]|FUNCTION[:COUNT] DIR PROGRAM [ARGUMENT...]",
     "run it again until all stand at the earliest state consistent with that event of rank R", true, true,
     "Ram"},
    {"where", "where [--json] DIR", "where the processes stand at the breakpoint", true, false, "j"},
    {"check", "check [--json] DIR", "whether a record is whole, and what is in it", true, false, "j"},
    {"pass", "pass [--mpi M] PROGRAM [ARGUMENT...]",
     "run it with wrappers that do nothing: what the measurements are held against", false, true, "m"},
};

struct Option {
    char letter;
    const char* name;
    bool value;
    const char* text;
};
constexpr Option all_options[] = {
    {'o', "--out", true, "DIR: the folder to write to; made if it isn't there"},
    {'m', "--mpi", true, "mpich or openmpi, where it can't be found out"},
    {'t', "--trace", true, "OUT: write OUT/trace.N of each process as well"},
    {'c', "--contents", false,
     "write down what each process receives, too, so that it can be replayed without the others"},
    {'r', "--rank", true, "R: this process alone, without the others and without mpiexec; needs --contents"},
    {'g', "--gdb", false, "under gdb: say `run` there"},
    {'R', "--rank", true, "R: the process that the breakpoint is in"},
    {'a', "--at", true, "a call by its number, from 1, or by where it is in the source; the COUNT-th there"},
    {'w', "--wait", false,
     "a process that departs from the record waits for a debugger; else the job is ended"},
    {'j', "--json", false, "print one JSON object"},
};

const Verb* find(const std::string& name) {
    const auto* found =
        std::find_if(std::begin(verbs), std::end(verbs), [&](const Verb& v) { return name == v.name; });
    return found == std::end(verbs) ? nullptr : found;
}

void make_absolute(std::string& path) {
    if (path.empty()) return;
    std::error_code ignored;
    path = std::filesystem::absolute(path, ignored).lexically_normal().string();
    while (path.size() > 1 && path.back() == '/') path.pop_back();
}

}  // namespace

std::string help(const std::string& name) {
    const Verb* verb = find(name);
    std::string text;
    if (verb == nullptr) {
        text = "usage: mpiexec -n N cairn mpi VERB [OPTIONS] ...\n\n";
        for (const Verb& each : verbs) text += fmt::format("  {:<8}{}\n", each.name, each.text);
        return text +
               "\n`cairn mpi VERB [OPTIONS] mpiexec -n N PROGRAM...` does the same. For MPICH and Open MPI; "
               "docs/mpi.md.\n"
               "Exit codes: those of the program; 2 wrong usage; 3 another program, number of ranks or path "
               "than\n"
               "            recorded; 4 the record is damaged.\n";
    }
    text = fmt::format("usage: cairn mpi {}\n\n{}\n\n", verb->synopsis, verb->text);
    for (const Option& option : all_options)
        if (std::string_view(verb->options).find(option.letter) != std::string_view::npos)
            text += fmt::format("  {:<8} {}\n", option.name, option.text);
    return text;
}

Result<Options> read_options(std::span<char* const> words) {
    Options options;
    options.verb = words.empty() ? "" : words[0];
    const Verb* verb = find(options.verb);
    const auto usage = [&](const std::string& why) {
        return fail_code(ExitCode::usage, "{}; see `cairn mpi{}{} --help`", why, verb != nullptr ? " " : "",
                         verb != nullptr ? verb->name : "");
    };
    if (verb == nullptr)
        return usage(options.verb.empty() ? "which verb?"
                                          : fmt::format("there is no verb '{}'", options.verb));
    std::size_t at = 1;
    std::vector<std::string> rest;
    for (; at < words.size(); ++at) {
        std::string word = words[at];
        // Options of ours end where the program begins.
        if (!rest.empty() && (rest.size() > (verb->folder ? 1 : 0))) {
            rest.push_back(word);
            continue;
        }
        if (word == "--") {
            for (++at; at < words.size(); ++at) rest.emplace_back(words[at]);
            break;
        }
        if (word.size() < 2 || word[0] != '-') {
            rest.push_back(word);
            continue;
        }
        std::string value;
        bool has_value = false;
        if (const std::size_t equals = word.find('='); equals != std::string::npos) {
            value = word.substr(equals + 1);
            word = word.substr(0, equals);
            has_value = true;
        }
        const auto* option =
            std::find_if(std::begin(all_options), std::end(all_options), [&](const Option& o) {
                return (word == o.name || word == std::string("-") + o.letter) &&
                       std::string_view(verb->options).find(o.letter) != std::string_view::npos;
            });
        if (option == std::end(all_options)) return usage(fmt::format("there is no option '{}'", word));
        if (option->value && !has_value) {
            if (at + 1 == words.size()) return usage(fmt::format("{} needs a value", word));
            value = words[++at];
        }
        switch (option->letter) {
            case 'o':
                options.folder = value;
                break;
            case 'm':
                options.mpi = value;
                break;
            case 't':
                options.trace = value;
                break;
            case 'c':
                options.contents = true;
                break;
            case 'g':
                options.gdb = true;
                break;
            case 'r':
            case 'R':
                if (value.empty() || value.size() > 9 ||
                    value.find_first_not_of("0123456789") != std::string::npos)
                    return usage(fmt::format("--rank is a number, not '{}'", value));
                options.rank = std::atoi(value.c_str());
                break;
            case 'a':
                options.at = value;
                break;
            case 'w':
                options.wait = true;
                break;
            case 'j':
                options.json = true;
                break;
            default:
                break;
        }
    }
    if (verb->folder) {
        if (rest.empty()) return usage("which record?");
        options.folder = rest[0];
        rest.erase(rest.begin());
    }
    if ((options.verb == "record" || options.verb == "trace") && options.folder.empty())
        return usage("--out: the folder to write to");
    if (options.verb == "replay" && options.rank < 0 && options.gdb) return usage("--gdb: which --rank?");
    if (options.verb == "replay" && options.rank >= 0 && (options.wait || !options.trace.empty()))
        return usage("--rank goes with neither --wait nor --trace");
    if (options.verb == "break" && (options.rank < 0 || options.at.empty()))
        return usage("--rank and --at: which event?");
    if (verb->command && rest.empty()) return usage("which program?");
    if (!verb->command && !rest.empty()) return usage(fmt::format("what is '{}'?", rest[0]));
    if (!options.mpi.empty() && options.mpi != "mpich" && options.mpi != "openmpi")
        return usage(fmt::format("--mpi is mpich or openmpi, not '{}'", options.mpi));
    options.command = std::move(rest);
    make_absolute(options.folder);
    make_absolute(options.trace);
    return options;
}

}  // namespace cairn::mpi::tool
