#include "cli/slurm/settings.h"

#include <unistd.h>

#include <boost/program_options.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cli/job/settings_lines.h"
#include "common/name_lookup.h"

namespace cairn::slurm {
namespace {

namespace po = boost::program_options;

// False if there is no such setting, or it can't have this value.
bool take_setting(const std::string& name, const std::string& value, Settings& settings) {
    if (name == "ckptdir") {
        settings.folder = value;
        return value.starts_with('/');
    }
    if (name == "interval") return job::take_number(value, settings.interval);
    if (name == "keep") return job::take_number(value, settings.keep) && settings.keep > 0;
    if (name == "before") return job::take_number(value, settings.before);
    if (name == "poll") return job::take_number(value, settings.poll);
    if (name == "signal") return (settings.warning = signal_number(value)) != 0;
    if (name == "verify") {
        settings.verify = value == "yes";
        return value == "yes" || value == "no";
    }
    return false;
}

Result<> read_site_file(Settings& settings) {
    const char* named = std::getenv("CAIRN_SLURM_CONF");
    const std::string path = named != nullptr ? named : site_file;
    const auto text = TRY(job::text_of_file(path));
    if (text) return read_site(*text, path, settings);
    if (named == nullptr) return {};
    return fail("{}: {}", path, std::strerror(ENOENT));
}

// %u is the user's name; a folder that is no whole path is below where the job was submitted.
Result<std::string> folder_of_jobs(const std::string& wish) {
    const char* submitted = std::getenv("SLURM_SUBMIT_DIR");
    std::filesystem::path folder = submitted != nullptr ? submitted : ".";
    std::string name = wish;
    if (const std::size_t at = name.find("%u"); at != std::string::npos)
        name.replace(at, 2, user_name(::getuid()).value_or(std::to_string(::getuid())));
    if (!name.empty()) folder /= name;
    std::error_code problem;
    folder = std::filesystem::absolute(folder, problem);
    if (problem) return fail("{}: {}", folder.string(), problem.message());
    return folder.lexically_normal().string();
}

}  // namespace

int signal_number(std::string name) {
    if (name.starts_with("SIG")) name.erase(0, 3);
    for (int number = 1; number < NSIG; ++number) {
        const char* abbreviation = ::sigabbrev_np(number);
        if (number == SIGKILL || number == SIGSTOP || number == SIGCHLD || abbreviation == nullptr) continue;
        if (name == abbreviation || name == std::to_string(number)) return number;
    }
    return 0;
}

Result<> read_site(const std::string& text, const std::string& where, Settings& settings) {
    return job::take_lines(text, where, "docs/slurm.md", job::Comments::anywhere,
                           [&](const std::string& name, const std::string& value) {
                               return take_setting(name, value, settings);
                           });
}

Result<Settings> read_settings(std::span<char* const> words) {
    Settings settings;
    settings.warning = SIGUSR1;
    CHECK_OK(read_site_file(settings));
    // What follows the program's name is the program's.
    std::vector<std::string> own;
    std::size_t at = 0;
    for (; at < words.size() && words[at][0] == '-'; ++at) {
        const std::string word = words[at];
        if (word == "--") {
            ++at;
            break;
        }
        own.push_back(word);
        const bool alone = word == "--no-verify" || word == "--all-nodes" || word == "--batch-script" ||
                           word.find('=') != std::string::npos || (word[1] != '-' && word.size() > 2);
        if (!alone && at + 1 < words.size()) own.emplace_back(words[++at]);
    }
    settings.program.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
    po::options_description known;
    known.add_options()("interval,i", po::value<std::string>())("ckptdir,d", po::value<std::string>())(
        "keep,k", po::value<std::string>())("before,b", po::value<std::string>())(
        "poll,p", po::value<std::string>())("signal", po::value<std::string>())(
        "name,n", po::value<std::string>())("all-nodes", po::bool_switch())("no-verify", po::bool_switch())(
        "batch-script", po::bool_switch());
    po::variables_map given;
    try {
        po::store(po::command_line_parser(own).options(known).positional({}).run(), given);
    } catch (const po::error& problem) {
        return fail_code(ExitCode::usage, "slurm run: {}; see `cairn help slurm`", problem.what());
    }
    for (const char* name : {"interval", "keep", "before", "poll", "signal"})
        if (given.contains(name) && !take_setting(name, given[name].as<std::string>(), settings))
            return fail_code(ExitCode::usage, "slurm run: --{} can't be '{}'", name,
                             given[name].as<std::string>());
    if (given.contains("ckptdir")) settings.folder = given["ckptdir"].as<std::string>();
    if (given.contains("name")) settings.name = given["name"].as<std::string>();
    if (settings.name.find('/') != std::string::npos)
        return fail_code(ExitCode::usage, "slurm run: --name is the name of a folder, without '/'");
    settings.all_nodes = given["all-nodes"].as<bool>();
    if (given["no-verify"].as<bool>()) settings.verify = false;
    settings.batch_script = given["batch-script"].as<bool>();
    if (settings.program.empty())
        return fail_code(ExitCode::usage, "slurm run: which program?\n{}", run_usage);
    settings.folder = TRY(folder_of_jobs(settings.folder));
    return settings;
}

}  // namespace cairn::slurm
