#include "mpi/tool/options.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "causality/protocol/protocol.h"
#include "common/verb_options.h"

namespace cairn::mpi::tool {
namespace {

namespace po = boost::program_options;

constexpr const char* tool = "cairn mpi";

struct Verb {
    const char* name;
    const char* synopsis;
    const char* text;
    bool folder, command;
    const char* options;  // letters as below
};

constexpr Verb verbs[] = {
    {"record",
     "record --out DIR [--force] [--contents] [--clock] [--checkpoints PROTOCOL [--checkpoint-every N|Ns]] "
     "[--mpi M] PROGRAM [ARGUMENT...]",
     "run a program of an MPI job and write down what could have happened otherwise", false, true, "ofckPvm"},
    {"replay", "replay [--wait] [--trace OUT] [--rank R [--gdb]] [--mpi M] DIR PROGRAM [ARGUMENT...]",
     "run it again on the recorded path; who departs from it is told so, and stopped", true, true, "wtrgm"},
    {"trace", "trace --out DIR [--mpi M] PROGRAM [ARGUMENT...]",
     "run it and write DIR/trace.N of each process, for `cairn causality`", false, true, "om"},
    {"break", "break --rank R --at EVENT|FILE:LINE[:COUNT]|FUNCTION[:COUNT] DIR PROGRAM [ARGUMENT...]",
     "run it again until all stand at the earliest state consistent with that event of rank R", true, true,
     "Ram"},
    {"continue",
     "continue [[--rank R] --at EVENT|FILE:LINE[:COUNT]|FUNCTION[:COUNT] | --end] [--no-wait] DIR",
     "let all go on from a breakpoint: to its next pass, to another event, or to the end", true, false,
     "RaeN"},
    {"debug",
     "debug [--live] [--from R,...|all] [--back-within S] [--checkpoints N] [--every N] [--memory MB] "
     "[--images MB] [--json|--dap|--gdb] [--web [--port N]] [--mpi M] DIR PROGRAM [ARGUMENT...]",
     "a console that goes forward and back in a recorded run, along its messages; needs record --contents, "
     "or --live and mpiexec in front of PROGRAM",
     true, true, "lLBCEMiJDGIm"},
    {"check-places",
     "check-places --out DIR --at FILE:LINE|FUNCTION [--before] [--wait S] [--mpi M] PROGRAM [ARGUMENT...]",
     "run it and see whether nothing is in transit and nobody waits at that line", false, true, "oApbm"},
    {"recovery-line", "recovery-line [--failed R,...] [--json] DIR",
     "the last consistent global checkpoint of a record with --checkpoints, after these ranks (all, if none "
     "is named) have failed",
     true, false, "Fj"},
    {"trim", "trim [--every S] [--in FOLDER] [--may-write] [--json] [--mpi M] DIR PROGRAM [ARGUMENT...]",
     "remove from a record with --checkpoints what was received before its recovery line, also while the job "
     "runs: each rank is run alone up to there, and an image of it kept",
     true, true, "TWUjm"},
    {"where", "where [--json] DIR", "where the processes stand at the breakpoint", true, false, "j"},
    {"lint", "lint [--json] DIR",
     "what is wrong with the program, by a trace in DIR: deadlocks, races of messages, what is left over",
     true, false, "j"},
    {"check", "check [--json] DIR", "whether a record is whole, and what is in it", true, false, "j"},
    {"pass", "pass [--mpi M] PROGRAM [ARGUMENT...]",
     "run it with wrappers that do nothing: what the measurements are held against", false, true, "m"},
};

// Of `debug` alone.
void add_debug_option(char letter, po::options_description& known, Options& into) {
    auto add = known.add_options();
    switch (letter) {
        case 'B':
            add("back-within,b", po::value(&into.back_within)->default_value(1),
                "S: how many seconds a rank may have to run again for a step back");
            break;
        case 'C':
            add("checkpoints,c", po::value(&into.checkpoints)->default_value(32),
                "N: how many of each rank are kept at most, beside its beginning");
            break;
        case 'E':
            add("every,e", po::value(&into.every)->default_value(0),
                "N: a checkpoint whenever N events are behind the last one, beside those by time");
            break;
        case 'M':
            add("memory,M", po::value(&into.memory),
                "MB: what the checkpoints of all ranks may have beside the programs; half of what is free, "
                "if it isn't said");
            break;
        case 'i':
            add("images,i", po::value(&into.images)->default_value(0),
                "MB: write images of the ranks to DIR/debug/images while they run, up to so much, from which "
                "a later debugger goes on; 0: none are written");
            break;
        case 'J':
            add("json,j", po::bool_switch(&into.json), "answer each command with one line of JSON");
            break;
        case 'l':
            add("live,l", po::bool_switch(&into.live),
                "replay the whole job, under coordinated checkpoints: for any record, also one without "
                "contents; PROGRAM is mpiexec and its words");
            break;
        case 'L':
            add("from,f", po::value(&into.from),
                "R,... or all: begin at the recovery line of a record with --checkpoints, after these ranks "
                "have failed, not at the beginning");
            break;
        case 'D':
            add("dap,d", po::bool_switch(&into.dap),
                "for an editor, by the Debug Adapter Protocol on standard input and output; DIR and PROGRAM "
                "may be left to its `launch`; also with --live");
            break;
        case 'G':
            add("gdb,g", po::bool_switch(&into.gdb),
                "at a gdb, which has the rank in focus, with the commands as its own: mpi step, back, why");
            break;
        case 'I':
            add("web,w", po::bool_switch(&into.web),
                "and a page for a browser on this machine, which shows the picture and takes commands: its "
                "address is printed");
            add("port,p", po::value(&into.port), "N: the page's port; any that is free, if it isn't said");
            break;
        default:
            break;
    }
}

// Of `trim` alone.
void add_trim_option(char letter, po::options_description& known, Options& into) {
    auto add = known.add_options();
    switch (letter) {
        case 'T':
            add("every,e", po::value(&into.repeat)->default_value(0),
                "S: again and again, with so many seconds in between, until the job has ended; 0: once");
            break;
        case 'W':
            add("in,i", po::value(&into.working_folder),
                "FOLDER: the ranks' working folder, in which they may write; what they read by relative "
                "paths "
                "has to be there");
            break;
        case 'U':
            add("may-write,w", po::bool_switch(&into.may_write),
                "the ranks may write to any file; otherwise to none outside FOLDER, because the job itself "
                "may still be writing to them");
            break;
        default:
            break;
    }
}

// Of checkpoints that processes take by themselves.
void add_checkpoint_option(char letter, po::options_description& known, Options& into) {
    auto add = known.add_options();
    switch (letter) {
        case 'P':
            add("checkpoints,p", po::value(&into.checkpoints_of),
                "PROTOCOL: each process takes checkpoints, and this protocol forces others that make "
                "them belong together: bcs, bcs-sent, russell, fdas, bhmr, or uncoordinated, which "
                "forces none; with --contents, and a trace in DIR");
            break;
        case 'v':
            add("checkpoint-every,e", po::value(&into.checkpoint_every)->default_value("1000"),
                "N calls of the MPI, or with an s seconds, between two checkpoints of a process");
            break;
        case 'F':
            add("failed,f", po::value(&into.failed), "R,...: who has lost its state at the end");
            break;
        default:
            add_debug_option(letter, known, into);
            add_trim_option(letter, known, into);
            break;
    }
}

po::options_description known_options(const Verb& verb, Options& into) {
    po::options_description known;
    auto add = known.add_options();
    for (const char* letter = verb.options; *letter != 0; ++letter) switch (*letter) {
            case 'o':
                add("out,o", po::value(&into.folder), "DIR: the folder to write to; made if it isn't there");
                break;
            case 'c':
                add("contents,c", po::bool_switch(&into.contents),
                    "write down what each process receives, too, so that it can be replayed without the "
                    "others");
                break;
            case 'k':
                add("clock,k", po::bool_switch(&into.clock),
                    "write down what MPI_Wtime says, for programs that go by it");
                break;
            case 'f':
                add("force,f", po::bool_switch(&into.force), "a record that is in DIR goes");
                break;
            case 'N':
                add("no-wait,n", po::bool_switch(&into.no_wait),
                    "come back at once, not when all stand again");
                break;
            case 'm':
                add("mpi,m", po::value(&into.mpi), "mpich or openmpi, where it can't be found out");
                break;
            case 't':
                add("trace,t", po::value(&into.trace), "OUT: write OUT/trace.N of each process as well");
                break;
            case 'r':
                add("rank,r", po::value(&into.rank),
                    "R: this process alone, without the others and without mpiexec; needs --contents");
                break;
            case 'g':
                add("gdb,g", po::bool_switch(&into.gdb), "under gdb: say `run` there");
                break;
            case 'R':
                add("rank,r", po::value(&into.rank), "R: the process that the breakpoint is in");
                break;
            case 'a':
                add("at,a", po::value(&into.at),
                    "a call by its number, from 1, or by where it is in the source, or by what is called, as "
                    "`where` "
                    "prints it or without namespace and template arguments; the COUNT-th there");
                break;
            case 'A':
                add("at,a", po::value(&into.at),
                    "behind which call: FILE:LINE, or FUNCTION that calls or is called; `cairn causality "
                    "places` "
                    "finds some");
                break;
            case 'b':
                add("before,b", po::bool_switch(&into.before), "before that call, not behind it");
                break;
            case 'p':
                add("wait,w", po::value(&into.patience)->default_value(10),
                    "S: how many seconds one process waits there for the others");
                break;
            case 'e':
                add("end,e", po::bool_switch(&into.end), "to the end of the program");
                break;
            case 'w':
                add("wait,w", po::bool_switch(&into.wait),
                    "a process that departs from the record waits for a debugger; else the job is ended");
                break;
            case 'j':
                add("json,j", po::bool_switch(&into.json), "print one JSON object");
                break;
            default:
                add_checkpoint_option(*letter, known, into);
                break;
        }
    return known;
}

void make_absolute(std::string& path) {
    if (path.empty()) return;
    std::error_code ignored;
    path = std::filesystem::absolute(path, ignored).lexically_normal().string();
    while (path.size() > 1 && path.back() == '/') path.pop_back();
}

// Logging by senders counts on one order of all messages between two processes, which tags don't keep; and
// what is received is in the record in any case.
bool is_protocol(const std::string& name) {
    const auto kind = causality::protocol_named(name);
    return kind && *kind != causality::ProtocolKind::logging;
}

// nullptr, or what these options lack.
const char* lacks(const Options& options) {
    const std::string& verb = options.verb;
    if (verb == "check-places" && options.at.empty()) return "--at: which line?";
    if ((verb == "record" || verb == "trace" || verb == "check-places") && options.folder.empty())
        return "--out: the folder to write to";
    if (verb == "break" && (options.rank < 0 || options.at.empty())) return "--rank and --at: which event?";
    if (verb == "continue" && options.rank >= 0 && options.at.empty())
        return "--rank needs --at: which event?";
    if (verb == "continue" && options.end && !options.at.empty()) return "--end or --at?";
    if (verb == "record" && !options.checkpoints_of.empty() && !is_protocol(options.checkpoints_of))
        return "--checkpoints: bcs, bcs-sent, russell, fdas, bhmr or uncoordinated";
    if (verb == "record" && !checkpoint_wish(options))
        return "--checkpoint-every: a number of calls, as 1000, or of seconds, as 0.5s";
    if (verb == "debug" && !(options.back_within > 0)) return "--back-within: more than 0 seconds";
    if (verb == "debug" && options.live && (options.images > 0 || options.memory > 0))
        return "--live goes without --images and --memory";
    if (verb == "debug" && options.dap && options.json) return "--json or --dap?";
    if (verb == "debug" && options.dap && options.web) return "--dap or --web?";
    if (verb == "debug" && options.gdb && (options.dap || options.json || options.web))
        return "--gdb goes without --dap, --json and --web";
    if (verb == "debug" && options.port != 0 && !options.web) return "--port: of which page? --web";
    if (verb == "trim" && !(options.repeat >= 0)) return "--every: 0 or more seconds";
    if (verb == "replay" && options.rank < 0 && options.gdb) return "--gdb: which --rank?";
    if (verb == "replay" && options.rank >= 0 && (options.wait || !options.trace.empty()))
        return "--rank goes with neither --wait nor --trace";
    return nullptr;
}

}  // namespace

std::optional<std::string> checkpoint_wish(const Options& options) {
    const std::string& every = options.checkpoint_every;
    char* end = nullptr;
    const double value = std::strtod(every.c_str(), &end);
    const std::string unit = end;
    constexpr double most = 1e9;
    const bool whole = value == std::floor(value);
    if (!(value > 0 && value < most) || (unit != "s" && (!unit.empty() || !whole))) return std::nullopt;
    return fmt::format("{} {} {}", options.checkpoints_of, value, unit.empty() ? "calls" : "seconds");
}

std::string help(const std::string& name) {
    const Verb* verb = find_verb(verbs, name);
    if (verb == nullptr)
        return "usage: mpiexec -n N cairn mpi VERB [OPTIONS] ...\n\n" + list_of_verbs(verbs) +
               "\n`cairn mpi VERB [OPTIONS] mpiexec -n N PROGRAM...` does the same. For MPICH and Open MPI; "
               "docs/mpi.md.\n"
               "Exit codes: those of the program; 2 wrong usage; 3 another program, number of ranks or path "
               "than\n"
               "            recorded; 4 the record is damaged.\n";
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
    const auto own = words.subspan(1);
    const std::size_t folders = verb->folder ? 1 : 0;
    const std::size_t begin = verb->command ? begin_of_command(own, folders, known) : own.size();
    std::vector<std::string> rest;
    known.add_options()("folder", po::value(&rest));
    try {
        static_cast<void>(parse_words(own.first(begin), known, "folder"));
    } catch (const po::error& problem) {
        return usage(problem.what());
    }
    options.command.assign(own.begin() + static_cast<std::ptrdiff_t>(begin), own.end());
    if (!options.command.empty() && options.command[0] == "--")
        options.command.erase(options.command.begin());
    if (verb->folder && rest.empty() && !options.command.empty()) {
        rest.push_back(options.command[0]);  // behind --
        options.command.erase(options.command.begin());
    }
    const bool asked_later = options.dap;  // by the editor
    if (verb->folder && rest.empty() && !asked_later) return usage("which record?");
    if (rest.size() > folders) return usage(fmt::format("what is '{}'?", rest[folders]));
    if (verb->folder && !rest.empty()) options.folder = rest[0];
    if (const char* what = lacks(options)) return usage(what);
    if (verb->command && options.command.empty() && !asked_later) return usage("which program?");
    if (!options.mpi.empty() && options.mpi != "mpich" && options.mpi != "openmpi")
        return usage(fmt::format("--mpi is mpich or openmpi, not '{}'", options.mpi));
    make_absolute(options.folder);
    make_absolute(options.trace);
    make_absolute(options.working_folder);
    return options;
}

}  // namespace cairn::mpi::tool
