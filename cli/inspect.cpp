// cairn inspect: shows what a checkpoint or an image holds.
#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/html/show.h"
#include "cli/inspect_core.h"
#include "cli/inspect_diff.h"
#include "cli/inspect_graph.h"
#include "cli/inspect_grep.h"
#include "cli/inspect_show.h"
#include "cli/inspect_stacks.h"
#include "cli/inspect_text.h"
#include "common/checkpoint_folder.h"
#include "common/schema/json.h"

namespace {

using namespace cairn;
namespace options = boost::program_options;

constexpr const char* usage =
    "usage: cairn inspect [--maps] [--fds] [--signals] [--threads] [--all] [--verify] [--json] [DIR|IMAGE]\n"
    "       cairn inspect --diff [--all] [--json] OLD NEW\n"
    "       cairn inspect --stacks [--json] [DIR|IMAGE]\n"
    "       cairn inspect --grep BYTES [--json] [DIR|IMAGE]\n"
    "       cairn inspect --core FILE [--json] [DIR|IMAGE]\n"
    "       cairn inspect --dot [DIR]\n"
    "       cairn inspect --html FILE [DIR|IMAGE]\n"
    "DIR is a folder of checkpoints (its newest is shown), or of one; IMAGE one of its images. Without\n"
    "them it is $CAIRN_CKPTDIR, else the current folder, or cairn-USER in it if others can write it.\n";

int report(const Error& error) {
    fmt::print(stderr, "cairn inspect: {}\n", printable_lines(error.what));
    return static_cast<int>(error.code);
}

void print(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
        std::exit(static_cast<int>(ExitCode::failed));
}

void show_text(const inspect::Checkpoint& checkpoint, inspect::Show show) {
    const bool folder = checkpoint.manifest.has_value();
    if (folder) print(inspect::heading(*checkpoint.manifest, checkpoint.folder) + "\n");
    if (!checkpoint.processes.empty()) print(inspect::process_tree(checkpoint));
    // One image is asked for to see into it.
    if (!folder && !show.any()) show = {true, true, true, true};
    if (show.any())
        for (const auto& each : checkpoint.processes)
            print("\n" + inspect::process_details(checkpoint, each, show));
    if ((folder && show.fds) || (!folder && checkpoint.processes.empty()))
        for (const auto& each : checkpoint.objects) print("\n" + inspect::object_list(each));
}

// Exit code 1 if anything differs, as diff(1) has it.
int show_differences(const options::variables_map& given) {
    const auto paths = given["path"].as<std::vector<std::string>>();
    const auto older = inspect::load(paths[0]), newer = inspect::load(paths[1]);
    if (!older) return report(older.error());
    if (!newer) return report(newer.error());
    for (const auto* checkpoint : {&*older, &*newer})
        if (!checkpoint->problems.empty()) return report(checkpoint->problems.front());
    const auto found = inspect::differences(*older, *newer, given.count("all") != 0);
    print(given.count("json") != 0 ? schema::dump(inspect::as_json(found)) + "\n"
                                   : inspect::as_text(*older, *newer, found));
    return found.empty() ? 0 : static_cast<int>(ExitCode::failed);
}

int show_stacks(const options::variables_map& given) {
    const auto checkpoint = inspect::load(given["path"].as<std::vector<std::string>>().front());
    if (!checkpoint) return report(checkpoint.error());
    const bool json = given.count("json") != 0;
    int code = 0;
    auto all = nlohmann::json::array();
    for (const auto& process : checkpoint->processes) {
        const auto stacks = inspect::stacks_of(*checkpoint, process);
        if (!stacks) {
            code = report(stacks.error());
            continue;
        }
        if (json)
            all.push_back(inspect::as_json(process, *stacks));
        else
            print(inspect::as_text(process, *stacks));
    }
    if (json) print(schema::dump({{"processes", std::move(all)}}) + "\n");
    for (const Error& problem : checkpoint->problems) code = report(problem);
    return code;
}

// Exit code 1 if there are none, as grep(1) has it.
int show_found(const options::variables_map& given) {
    const auto checkpoint = inspect::load(given["path"].as<std::vector<std::string>>().front());
    if (!checkpoint) return report(checkpoint.error());
    const auto bytes = inspect::bytes_of(given["grep"].as<std::string>());
    if (!bytes) return report(bytes.error());
    const auto found = inspect::find_bytes(*checkpoint, *bytes);
    if (!found) return report(found.error());
    print(given.count("json") != 0 ? schema::dump(inspect::as_json(*found)) + "\n"
                                   : inspect::as_text(*found));
    int code = found->empty() ? static_cast<int>(ExitCode::failed) : 0;
    for (const Error& problem : checkpoint->problems) code = report(problem);
    return code;
}

int show_graph(const options::variables_map& given) {
    const auto checkpoint = inspect::load(given["path"].as<std::vector<std::string>>().front());
    if (!checkpoint) return report(checkpoint.error());
    print(inspect::as_dot(*checkpoint));
    int code = 0;
    for (const Error& problem : checkpoint->problems) code = report(problem);
    return code;
}

int write_html(const options::variables_map& given) {
    const auto checkpoint = inspect::load(given["path"].as<std::vector<std::string>>().front());
    if (!checkpoint) return report(checkpoint.error());
    if (const auto done = inspect::write_page(*checkpoint, given["html"].as<std::string>()); !done)
        return report(done.error());
    int code = 0;
    for (const Error& problem : checkpoint->problems) code = report(problem);
    return code;
}

// One process into FILE, several into FILE.PID each.
int write_cores(const options::variables_map& given) {
    const auto checkpoint = inspect::load(given["path"].as<std::vector<std::string>>().front());
    if (!checkpoint) return report(checkpoint.error());
    const auto& file = given["core"].as<std::string>();
    const bool one = checkpoint->processes.size() == 1;
    int code = 0;
    std::vector<inspect::Core> cores;
    for (const auto& process : checkpoint->processes) {
        if (!one && process.process.run == schema::Run::zombie) continue;
        auto core = inspect::write_core(*checkpoint, process,
                                        one ? file : fmt::format("{}.{}", file, process.process.pid));
        if (core)
            cores.push_back(std::move(*core));
        else
            code = report(core.error());
    }
    for (const Error& problem : checkpoint->problems) code = report(problem);
    if (checkpoint->processes.empty() && code == 0)
        code = report(fail_code(ExitCode::refused,
                                "there is no process in it: name a checkpoint, or an image of a process")
                          .error());
    print(given.count("json") != 0 ? schema::dump(inspect::as_json(cores)) + "\n" : inspect::as_text(cores));
    std::fflush(stdout);
    return code;
}

int run(const options::variables_map& given) {
    auto checkpoint = inspect::load(given["path"].as<std::vector<std::string>>().front());
    if (!checkpoint) return report(checkpoint.error());
    std::string verified;
    if (given.count("verify") != 0) {
        const auto began = std::chrono::steady_clock::now();
        const std::uint64_t bytes = inspect::verify(*checkpoint);
        const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - began;
        verified = fmt::format("\nverified: {} images, {} of pages in {}, {}\n",
                               checkpoint->processes.size() + checkpoint->objects.size(),
                               inspect::human_size(bytes), inspect::human_time(took.count()),
                               checkpoint->problems.empty() ? "no damage" : "DAMAGED");
    }
    if (given.count("json") != 0) {
        print(schema::dump(inspect::as_json(*checkpoint)) + "\n");
    } else {
        const bool all = given.count("all") != 0;
        const auto wants = [&](const char* name) { return all || given.count(name) != 0; };
        show_text(*checkpoint, {wants("maps"), wants("fds"), wants("signals"), wants("threads")});
        print(verified);
    }
    std::fflush(stdout);
    int code = 0;
    for (const Error& problem : checkpoint->problems) code = report(problem);
    return code;
}

}  // namespace

int main(int argc, char** argv) {
    options::options_description known("options");
    known.add_options()("help,h", "this text")("maps,m", "memory map, mapped and stored sizes")(
        "fds,f", "descriptors and what they are")("signals,s", "signals and timers")(
        "threads,t", "threads and the calls they are in")("all,a", "all of these")(
        "verify,v", "read every page and check its checksum")("json,j", "everything, as JSON")(
        "diff", "what differs between two checkpoints; exit code 1 if anything does")(
        "grep", options::value<std::string>()->value_name("BYTES"),
        "where in memory these bytes are; \\n, \\0, \\xNN as in C. Exit code 1 if nowhere")(
        "dot", "processes and what connects them as a graph for dot(1)")(
        "html", options::value<std::string>()->value_name("FILE"), "all of it as one page for a browser")(
        "stacks", "what each thread is in, function by function")(
        "core", options::value<std::string>()->value_name("FILE"),
        "write an ELF core that gdb opens; of several processes FILE.PID each");
    options::options_description all(known);
    all.add_options()("path", options::value<std::vector<std::string>>());
    options::positional_options_description positions;
    positions.add("path", 2);
    options::variables_map given;
    try {
        options::store(options::command_line_parser(argc, argv).options(all).positional(positions).run(),
                       given);
    } catch (const options::error& problem) {
        fmt::print(stderr, "cairn inspect: {}\n{}", problem.what(), usage);
        return static_cast<int>(ExitCode::usage);
    }
    if (given.count("help") != 0) {
        std::cout << usage << known;
        return 0;
    }
    if (given.count("path") == 0)
        given.emplace("path", options::variable_value(std::vector{folder_of_old_checkpoints()}, true));
    const bool two = given["path"].as<std::vector<std::string>>().size() == 2;
    if (two != (given.count("diff") != 0)) {
        fmt::print(stderr, "cairn inspect: {}\n{}",
                   two ? "two checkpoints are for --diff" : "--diff wants two checkpoints", usage);
        return static_cast<int>(ExitCode::usage);
    }
    if (two) return show_differences(given);
    if (given.count("stacks") != 0) return show_stacks(given);
    if (given.count("grep") != 0) return show_found(given);
    if (given.count("dot") != 0) return show_graph(given);
    if (given.count("html") != 0) return write_html(given);
    return given.count("core") != 0 ? write_cores(given) : run(given);
}
