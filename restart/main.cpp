// cairn-restart: brings a checkpoint back. docs/cairn.1.
#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "common/checkpoint_folder.h"
#include "common/human.h"
#include "common/image/manifest.h"
#include "common/printable.h"
#include "common/uid.h"
#include "restart/archive.h"
#include "restart/check_hosts.h"
#include "restart/computation.h"
#include "restart/restart.h"
#include "restart/tell.h"

namespace cairn::restart {
namespace {

namespace po = boost::program_options;

// Lines only where it is a coordinator's log that is quoted: a name with a line end must not begin one.
std::string said(const Error& error) {
    return error.code == ExitCode::no_coordinator ? printable_lines(error.what) : printable(error.what);
}

std::string processes_of(std::int64_t number) {
    return human_count(static_cast<std::uint64_t>(number), "process", "processes");
}

void print_part(const schema::ManifestPart& part) {
    fmt::print("part {}  host {}  terminal {}  {}\n", part.number, printable(part.host),
               part.terminal.empty() ? "-" : printable(part.terminal),
               processes_of(static_cast<std::int64_t>(part.pids.size())));
}

int list_parts(const std::string& directory) {
    auto found = find_checkpoint(directory, true);
    if (auto manifest = found ? read_manifest(*found) : std::unexpected(found.error());
        manifest && !manifest->hosts.empty() && manifest->images.empty()) {
        fmt::print("computation {}, generation {}, {} on {}\n", printable(manifest->cid),
                   manifest->generation, processes_of(manifest->np),
                   human_count(manifest->hosts.size(), "host"));
        for (const auto& part : manifest->parts) print_part(part);
        return 0;
    }
    auto computation = found ? read_computation(*found, {}) : std::unexpected(std::move(found.error()));
    if (!computation) {
        tell("cairn: {}\n", printable(computation.error().what));
        return static_cast<int>(computation.error().code);
    }
    fmt::print("computation {}, generation {}, {}\n", printable(computation->manifest.cid),
               computation->manifest.generation, processes_of(computation->manifest.np));
    for (const auto& part : computation->manifest.parts) print_part(part);
    return 0;
}

// Links in what the caller names are his own; behind it no link is followed (resources/restore/access.h).
std::string whole_path(const std::string& named) {
    std::error_code problem;
    std::string real = std::filesystem::weakly_canonical(named, problem).string();
    if (problem || named.empty()) return named;
    while (real.size() > 1 && real.ends_with('/')) real.pop_back();
    return named.ends_with('/') && real != "/" ? real + "/" : real;
}

Result<Options> read_options(const po::variables_map& given) {
    Options options;
    options.directory = given["directory"].as<std::string>();
    if (given.contains("session")) options.session = given["session"].as<std::string>();
    if (given.contains("host")) options.host = given["host"].as<std::string>();
    if (given.contains("part")) options.parts = given["part"].as<std::vector<int>>();
    if (given.contains("wait")) options.wait_seconds = given["wait"].as<int>();
    options.check_only = given.contains("check");
    options.trust_folder = given.contains("trust-folder");
    options.quiet = given.contains("quiet");
    options.verbose = given.contains("verbose");
    options.pause = given.contains("pause");
    for (const bool unset : {true, false})
        if (const char* name = unset ? "unset" : "env"; given.contains(name))
            for (const auto& text : given[name].as<std::vector<std::string>>()) {
                auto change = TRY(read_change(text, unset));
                options.environment.push_back(std::move(change));
            }
    options.verify = given.contains("verify");
    if (given.contains("eager") && given.contains("lazy"))
        return fail_code(ExitCode::usage, "--eager and --lazy: one of them");
    if (given.contains("eager")) options.memory = Memory::eager;
    if (given.contains("lazy")) options.memory = Memory::lazy;
    const auto ids = given["ids"].as<std::string>();
    if (ids == "exact")
        options.ids = Ids::exact;
    else if (ids == "virtual")
        options.ids = Ids::virtual_ids;
    else if (ids != "auto")
        return fail_code(ExitCode::usage, "--ids {}: auto, exact or virtual", ids);
    const auto clocks = given["clocks"].as<std::string>();
    if (clocks == "keep")
        options.clocks = Clocks::keep;
    else if (clocks == "host")
        options.clocks = Clocks::host;
    else if (clocks != "auto")
        return fail_code(ExitCode::usage, "--clocks {}: auto, keep or host", clocks);
    const auto files = given["files"].as<std::string>();
    if (files == "refuse")
        options.files = FilePolicy::refuse;
    else if (files == "use")
        options.files = FilePolicy::use;
    else if (files == "truncate")
        options.files = FilePolicy::truncate;
    else if (files == "make")
        options.files = FilePolicy::make;
    else if (files == "restore")
        options.restore_files = true;
    else if (files != "auto")
        return fail_code(ExitCode::usage, "--files {}: auto, restore, refuse, use, truncate or make", files);
    if (given.contains("path-map"))
        for (const auto& pair : given["path-map"].as<std::vector<std::string>>()) {
            const auto equal = pair.find('=');
            if (equal == std::string::npos) return fail_code(ExitCode::usage, "--path-map {}: OLD=NEW", pair);
            options.path_map.emplace_back(pair.substr(0, equal), whole_path(pair.substr(equal + 1)));
        }
    return options;
}

// What another host is asked with: all options that were given, but who is asked.
std::vector<std::string> options_for_others(const po::parsed_options& parsed) {
    std::vector<std::string> options;
    for (const auto& option : parsed.options)
        if (option.string_key != "on" && option.string_key != "directory")
            options.insert(options.end(), option.original_tokens.begin(), option.original_tokens.end());
    return options;
}

Result<int> check_others(const po::variables_map& given, const std::vector<std::string>& options) {
    if (!given.contains("check")) return fail_code(ExitCode::usage, "--on HOST,HOST... is for --check");
    std::error_code problem;
    const auto directory = std::filesystem::absolute(given["directory"].as<std::string>(), problem);
    return check_hosts(given["on"].as<std::string>(), options, directory.lexically_normal().string());
}

// For the coordinator that may have to be started.
void set_variables(const po::variables_map& given) {
    if (given.contains("coordinator"))
        ::setenv("CAIRN_COORDINATOR", given["coordinator"].as<std::string>().c_str(), 1);
    if (given.contains("key")) {
        std::error_code error;
        const auto path = std::filesystem::absolute(given["key"].as<std::string>(), error);
        ::setenv("CAIRN_KEY_FILE", path.c_str(), 1);
    }
}

po::options_description shown_options() {
    po::options_description shown("Options");
    auto add = shown.add_options();
    add("help,h", "this text");
    add("session,s", po::value<std::string>(), "session to restart into (default: the one it was taken in)");
    add("host", po::value<std::string>(),
        "of a checkpoint over several hosts, restart this one's part here (default: the one of this host's "
        "name)");
    add("coordinator", po::value<std::string>(),
        "HOST:PORT of the root coordinator, where this is another host");
    add("key", po::value<std::string>(), "file with the root's key");
    add("list", "show the parts of the computation, one for each terminal");
    add("part,p", po::value<std::vector<int>>(), "restart this part only, here; may be given again");
    add("wait", po::value<int>(), "seconds to wait for the other parts (default: for ever)");
    add("ids", po::value<std::string>()->default_value("auto"), "auto, exact or virtual process ids");
    add("clocks", po::value<std::string>()->default_value("auto"),
        "CLOCK_MONOTONIC of the programs: auto (go on from the checkpoint's if the machine has started "
        "anew), keep, host");
    add("files", po::value<std::string>()->default_value("auto"),
        "files that have changed since: auto (restore, if the checkpoint has saved files), restore, refuse, "
        "use, "
        "truncate or make (make anew what is gone)");
    add("path-map", po::value<std::vector<std::string>>(),
        "OLD=NEW: a path that has moved; may be given again");
    add("env", po::value<std::vector<std::string>>(),
        "NAME=VALUE: a variable of the programs' environment, as getenv(3) sees it; may be given again");
    add("unset", po::value<std::vector<std::string>>(), "NAME: a variable to take out; may be given again");
    add("pause", "the programs stand still before their first instruction, for a debugger, until SIGCONT");
    add("trust-folder", "restart a checkpoint though others than you and root can write its folder");
    add("verify",
        "say what the kernel shows of the programs otherwise than before the checkpoint, which was taken "
        "with --witness");
    add("check", "only say whether a restart could work here");
    add("on", po::value<std::string>(),
        "with --check: HOST,HOST...: say it of these hosts, which are asked by ssh, or by what CAIRN_RSH "
        "names");
    add("eager", "read all memory before the programs go on (default)");
    add("lazy",
        "the programs go on at once and get their memory when they touch it, the rest in the background; "
        "root only");
    add("quiet,q", "say nothing but errors");
    add("verbose,v", "print every note, also where many are alike");
    return shown;
}

// Where no folder is named: which checkpoint that is, with its folder as `latest` leads there now.
Result<std::string> newest_here() {
    auto found = find_checkpoint(whole_path(folder_of_old_checkpoints()), true);
    if (found) return found;
    return fail_code(found.error().code, "{}; `cairn restart DIR` names another folder", found.error().what);
}

constexpr const char* usage =
    "Usage: cairn restart [options] [DIR|FILE]\n"
    "Brings back the checkpoint in DIR (a generation's folder, or one with `latest` in it), or that in\n"
    "FILE, which `cairn export` has written: it is unpacked first. Both are $CAIRN_CKPTDIR if nothing is\n"
    "named, else the current folder, or cairn-USER in it if others can write it.\n\n";

int run(int count, char** arguments) {
    const char* session = std::getenv("CAIRN_RESTART_SESSION");
    const auto shown = shown_options();
    po::options_description all;
    all.add(shown);
    all.add_options()("directory", po::value<std::string>());
    po::positional_options_description position;
    position.add("directory", 1);
    po::variables_map given;
    std::vector<std::string> for_others;
    try {
        const auto parsed = po::command_line_parser(count, arguments).options(all).positional(position).run();
        for_others = options_for_others(parsed);
        po::store(parsed, given);
        po::notify(given);
    } catch (const po::error& error) {
        tell("cairn restart: {}\n", printable_lines(error.what()));
        return static_cast<int>(ExitCode::usage);
    }
    if (given.contains("help")) {
        std::cout << usage << shown;
        return 0;
    }
    if (!given.contains("directory")) {
        const auto newest = newest_here();
        if (!newest) {
            tell("cairn restart: {}\n", printable(newest.error().what));
            return static_cast<int>(newest.error().code);
        }
        if (!given.contains("quiet") && !given.contains("list"))
            tell("cairn restart: {}\n", printable(*newest));
        given.emplace("directory", po::variable_value(*newest, true));
    }
    set_variables(given);
    if (auto folder = unpacked(given["directory"].as<std::string>())) {
        given.at("directory").value() = *folder;
    } else {
        tell("cairn restart: {}\n", printable(folder.error().what));
        return static_cast<int>(folder.error().code);
    }
    if (given.contains("list")) return list_parts(given["directory"].as<std::string>());
    auto options = read_options(given);
    if (options && options->session.empty() && session != nullptr) options->session = session;
    const bool others = given.contains("on");
    auto result = !options ? std::unexpected(std::move(options.error()))
                  : others ? check_others(given, for_others)
                           : restart(*options);
    if (!result) {
        tell("cairn restart: {}\n", said(result.error()));
        return static_cast<int>(result.error().code);
    }
    if (options->check_only && !others && !options->quiet)
        fmt::print("{}: can be restarted here\n", printable(options->directory));
    return *result;
}

}  // namespace
}  // namespace cairn::restart

int main(int count, char** arguments) {
    return cairn::restart::run(count, arguments);
}
