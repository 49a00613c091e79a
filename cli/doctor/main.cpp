// cairn doctor: tries what this machine gives, and says what that means for cairn and who has to do what.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/program_options.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/doctor/probe.h"
#include "cli/doctor/text.h"
#include "common/checkpoint_folder.h"
#include "common/error.h"
#include "common/json_text.h"
#include "common/layout.h"
#include "common/session.h"

namespace cairn::doctor {
namespace {

namespace po = boost::program_options;
using std::chrono::milliseconds;

struct Options {
    std::string folder{};
    std::string rehearse{};
    double seconds = 2;
    bool json = false;
};

Result<Options> read_options(int argc, char** argv) {
    Options options;
    po::options_description known;
    known.add_options()("ckptdir,d", po::value(&options.folder))("timeout,t", po::value(&options.seconds))(
        "json,j", po::bool_switch(&options.json))("rehearse", po::value(&options.rehearse))("version", "");
    try {
        po::variables_map given;
        po::store(po::command_line_parser(argc, argv).options(known).positional({}).run(), given);
        po::notify(given);
        if (given.count("version") != 0) std::exit(0);
    } catch (const po::error& problem) {
        return fail_code(ExitCode::usage, "doctor: {}; see `cairn help doctor`", problem.what());
    }
    if (!(std::isfinite(options.seconds) && options.seconds > 0 && options.seconds <= 3600))
        return fail_code(ExitCode::usage, "doctor: --timeout is more than 0 seconds, and at most 3600");
    return options;
}

std::string absolute(const std::string& path) {
    std::error_code problem;
    auto text = std::filesystem::absolute(path, problem).lexically_normal().string();
    while (text.size() > 1 && text.ends_with('/')) text.pop_back();
    return text;
}

// The part of the way to the checkpoints that is there already.
std::string existing_part(const std::string& folder) {
    std::string path = folder;
    while (path.size() > 1 && ::access(path.c_str(), F_OK) != 0 && errno == ENOENT)
        path.resize(std::max<std::size_t>(1, path.rfind('/')));
    return path;
}

// Makes the folder if it is missing, as `cairn launch` does.
Observation make_folder(const Setting& setting) {
    std::error_code problem;
    auto seen = worked();
    seen.facts["above"] = existing_part(setting.folder);
    ::umask(077);
    std::filesystem::create_directories(setting.folder, problem);
    if (!problem && !std::filesystem::is_directory(setting.folder, problem))
        problem = std::make_error_code(std::errc::not_a_directory);
    if (problem) {
        seen.error = problem.value();
        seen.said = fmt::format("{}: {}", setting.folder, problem.message());
    }
    return seen;
}

// The machine's own has all ids.
bool in_user_namespace() {
    std::ifstream file("/proc/self/uid_map");
    std::uint64_t first = 0, outside = 0, count = 0;
    constexpr std::uint64_t all = 0xffffffff;
    return static_cast<bool>(file >> first >> outside >> count) && count != all;
}

Setting prepare(const Options& options) {
    Setting setting;
    setting.user = ::geteuid();
    setting.root = setting.user == 0;
    if (setting.root) setting.who = in_user_namespace() ? "root of a user namespace" : "root";
    setting.folder = absolute(options.folder.empty() ? usual_checkpoint_folder() : options.folder);
    setting.session = fmt::format("doctor-{}", ::getpid());
    setting.work = fmt::format("{}/.{}", setting.folder, setting.session);
    setting.front = own_program("cairn");
    setting.self = own_program("cairn-doctor");
    setting.library = own_library();
    constexpr milliseconds patience{400};  // for a file server
    const auto seen = try_one([&] { return make_folder(setting); }, patience);
    setting.above = seen.worked() || !seen.fact("above").empty() ? seen.fact("above") : setting.folder;
    if (seen.late())
        setting.folder_problem = setting.folder + " doesn't answer (a file server that is away?)";
    else if (!seen.worked())
        setting.folder_problem = seen.why();
    return setting;
}

std::vector<Line> examine(const Setting& setting, Clock::time_point until) {
    // The rehearsal first: it takes longest.
    std::vector<const Probe*> probes;
    for (const auto& group : {rehearsal_probes(), container_probes(), checkpoint_probes(), socket_probes(),
                              restart_probes(), speed_probes(), storage_probes(), limit_probes()})
        for (const Probe& probe : group) probes.push_back(&probe);
    std::vector<Attempt> attempts;
    for (const Probe* probe : probes)
        attempts.emplace_back([probe, &setting] { return probe->attempt(setting); });
    constexpr std::size_t at_once = 4;  // a limit on processes shall not be met because of the doctor
    const auto seen = try_all(attempts, until, at_once);
    std::vector<Line> lines;
    for (std::size_t i = 1; i < probes.size(); ++i) lines.push_back(judge(*probes[i], seen[i], setting));
    lines.push_back(judge(*probes[0], seen[0], setting));
    return lines;
}

bool wants_colours() {
    const char* terminal = std::getenv("TERM");
    const char* none = std::getenv("NO_COLOR");
    return ::isatty(STDOUT_FILENO) == 1 && terminal != nullptr && std::string(terminal) != "dumb" &&
           (none == nullptr || *none == '\0');
}

Result<bool> run(const Options& options) {
    const auto until = Clock::now() + milliseconds(std::llround(options.seconds * 1000) - 100);
    // What an attempt leaves behind is ours to reap, and not init's.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    const auto setting = prepare(options);
    const auto lines = examine(setting, until);
    constexpr milliseconds patience{500};
    (void)try_one(
        [&] {
            clean_up(setting);
            return worked();
        },
        patience);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    const auto text =
        options.json ? json_text(as_json(lines, setting), 2) + "\n" : report(lines, setting, wants_colours());
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
        return fail_errno("writing to stdout");
    return works(lines);
}

Result<> main_of(int argc, char** argv) {
    const auto options = TRY(read_options(argc, argv));
    if (!options.rehearse.empty()) std::exit(rehearse(options.rehearse.c_str()));
    const bool well = TRY(run(options));
    if (!well) std::exit(static_cast<int>(ExitCode::refused));
    return {};
}

}  // namespace
}  // namespace cairn::doctor

int main(int argc, char** argv) {
    const auto done = cairn::doctor::main_of(argc, argv);
    if (done) return 0;
    fmt::print(stderr, "cairn: {}\n", cairn::printable_lines(done.error().what));
    return static_cast<int>(done.error().code);
}
