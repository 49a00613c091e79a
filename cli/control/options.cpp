#include "cli/control/options.h"

#include <boost/program_options.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "common/compression.h"
#include "common/external_policy.h"
#include "common/files_policy.h"
#include "common/landlock_policy.h"

namespace cairn::control {
namespace {

namespace po = boost::program_options;

po::options_description known_options(const std::string& verb) {
    po::options_description known;
    known.add_options()("session,s", po::value<std::string>())("json,j", po::bool_switch());
    if (verb == "checkpoint")
        known.add_options()("kill,k", po::bool_switch())("timeout,t", po::value<double>())(
            "ckptdir,d", po::value<std::string>())("quiet,q", po::bool_switch())(
            "external", po::value<std::string>())("landlock", po::value<std::string>())(
            "compress", po::value<std::string>())("files", po::value<std::string>())(
            "with", po::value<std::vector<std::string>>()->composing())("self-contained", po::bool_switch())(
            "track-mem", po::bool_switch())("witness", po::bool_switch())("without-strangers",
                                                                          po::bool_switch());
    if (verb == "list")
        known.add_options()("stacks", po::bool_switch())("waits", po::bool_switch())(
            "pid", po::value<std::vector<std::string>>());
    if (verb == "interval") known.add_options()("seconds", po::value<double>());
    return known;
}

std::optional<double> number(const po::variables_map& given, const char* name) {
    return given.count(name) != 0 ? std::optional(given[name].as<double>()) : std::nullopt;
}

bool flag(const po::variables_map& given, const char* name) {
    return given.count(name) != 0 && given[name].as<bool>();
}

std::string text(const po::variables_map& given, const char* name) {
    return given.count(name) != 0 ? given[name].as<std::string>() : std::string();
}

// Of this checkpoint; the environment speaks where no option does.
Result<> read_files(const po::variables_map& given, Options& options) {
    if (options.verb != "checkpoint") return {};
    const auto variable = [](const char* name) {
        const char* value = std::getenv(name);
        return std::string(value == nullptr ? "" : value);
    };
    options.files = given.count("files") != 0 ? text(given, "files") : variable("CAIRN_FILES");
    options.with = variable("CAIRN_WITH");
    if (!options.files.empty() && !is_files_policy(options.files))
        return fail_code(ExitCode::usage, "checkpoint: --files is save or leave, not '{}'", options.files);
    if (given.count("with") != 0)
        for (const auto& folder : given["with"].as<std::vector<std::string>>()) {
            std::error_code problem;
            const auto real = std::filesystem::canonical(folder, problem).string();
            if (problem)
                return fail_code(ExitCode::usage, "checkpoint: --with {}: {}", folder, problem.message());
            if (real.find(':') != std::string::npos)
                return fail_code(ExitCode::usage,
                                 "checkpoint: --with {}: a folder with a colon in its path can't be named",
                                 real);
            options.with = joined_folders(options.with, real);
        }
    if (!options.with.empty() && options.files.empty()) options.files = files_save;
    return {};
}

}  // namespace

Result<Options> read_options(std::span<char* const> words) {
    Options options;
    options.verb = words.empty() ? std::string() : std::string(words[0]);
    const auto usage = [&](std::string_view what) {
        return fail_code(ExitCode::usage, "{}: {}; see `cairn help {}`", options.verb, what, options.verb);
    };
    po::positional_options_description positional;
    if (options.verb == "interval") positional.add("seconds", 1);
    if (options.verb == "list") positional.add("pid", -1);
    po::variables_map given;
    try {
        const std::vector<std::string> rest(words.begin() + 1, words.end());
        po::store(
            po::command_line_parser(rest).options(known_options(options.verb)).positional(positional).run(),
            given);
    } catch (const po::error& problem) {
        return usage(problem.what());
    }
    options.session = text(given, "session");
    options.checkpoint_folder = text(given, "ckptdir");
    if (!options.checkpoint_folder.empty())
        options.checkpoint_folder =
            std::filesystem::absolute(options.checkpoint_folder).lexically_normal().string();
    options.timeout = number(given, "timeout");
    options.seconds = number(given, "seconds");
    options.kill = flag(given, "kill");
    options.json = flag(given, "json");
    options.quiet = flag(given, "quiet");
    options.self_contained = flag(given, "self-contained");
    options.track_mem = flag(given, "track-mem");
    options.witness = flag(given, "witness");
    options.without_strangers = flag(given, "without-strangers");
    options.stacks = flag(given, "stacks");
    options.waits = flag(given, "waits");
    if (given.count("pid") != 0) options.pids = given["pid"].as<std::vector<std::string>>();
    if (!options.pids.empty() && !options.stacks && !options.waits)
        return usage("ids of processes are for --stacks and --waits");
    options.external = text(given, "external");
    if (!options.external.empty() && !external_policy(options.external))
        return usage("--external is reset, refuse or keep-listening");
    options.landlock = text(given, "landlock");
    if (!options.landlock.empty() && !landlock_policy(options.landlock))
        return usage(std::string("--landlock is ") + landlock_policy_words);
    options.compress = text(given, "compress");
    if (!options.compress.empty() && !compression_named(options.compress))
        return usage(std::string("--compress is ") + compression_words);
    CHECK_OK(read_files(given, options));
    if (options.verb == "interval" && !options.seconds) return usage("how many seconds?");
    constexpr double most = 1e9;
    for (const auto& seconds : {options.timeout, options.seconds})
        if (seconds && !(std::isfinite(*seconds) && *seconds >= 0 && *seconds <= most))
            return usage("seconds are a number from 0 to 1000000000");
    if (options.timeout && *options.timeout == 0)
        return usage("a timeout of 0 seconds is over before it begins");
    return options;
}

}  // namespace cairn::control
