// The proof of all the rest: a small program is launched in a session of the doctor's own, saved, killed and
// restarted.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/doctor/look.h"
#include "cli/doctor/probe.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/human.h"
#include "common/session.h"

namespace cairn::doctor {
namespace {

// A restart fills larger areas another way than small ones (restart/rebuild/memory_plan.cpp).
constexpr std::size_t words_of_memory = (std::size_t{4} << 20) / sizeof(std::uint64_t);

std::string session_folder(const Setting& setting) {
    return run_directory() + "/" + setting.session;
}

std::string go_file(const Setting& setting) {
    return session_folder(setting) + "/go";
}

// A command under way, and what it prints.
struct Command {
    pid_t pid = -1;
    Fd printed{};
};

Command begin(const Setting& setting, std::vector<std::string> words) {
    Command command;
    command.printed.reset(::memfd_create("doctor", MFD_CLOEXEC));
    std::vector<char*> arguments{const_cast<char*>("cairn")};
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    command.pid = ::fork();
    if (command.pid != 0) return command;
    const int nothing = ::open("/dev/null", O_RDWR);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(command.printed.get(), STDOUT_FILENO);
    ::dup2(command.printed.get(), STDERR_FILENO);
    ::execv(setting.front.c_str(), arguments.data());
    ::_exit(127);
}

std::string text_of(const Command& command) {
    std::string text(std::size_t{1} << 16, '\0');
    const ssize_t got = ::pread(command.printed.get(), text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    while (text.ends_with('\n')) text.pop_back();
    return text;
}

int exit_code(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int end_of(const Command& command) {
    int status = 0;
    return ::waitpid(command.pid, &status, 0) == command.pid ? exit_code(status) : -1;
}

Observation stopped_at(const std::string& step, int code, std::string said) {
    auto seen = failed(step, ECANCELED);
    // Messages begin with who says it.
    if (said.starts_with("cairn"))
        said.erase(0, said.find(": ") == std::string::npos ? 0 : said.find(": ") + 2);
    seen.said =
        said.empty() ? fmt::format("{} ended with {}", step, code) : fmt::format("{}: {}", step, said);
    seen.facts["code"] = std::to_string(code);
    return seen;
}

// Variables that are meant for the user's own sessions.
void own_surroundings(const Setting& setting) {
    for (const char* name : {"CAIRN_INTERVAL", "CAIRN_KEEP", "CAIRN_SELF_CONTAINED", "CAIRN_TRACK_MEM",
                             "CAIRN_EXTERNAL", "CAIRN_LISTEN", "CAIRN_COORDINATOR", "CAIRN_KEY_FILE",
                             "CAIRN_KEY", "CAIRN_HOST", "CAIRN_IO_URING", "CAIRN_CPU", "CAIRN_SLOTS"})
        ::unsetenv(name);
    const bool there = setting.folder_problem.empty() && ::access(setting.folder.c_str(), W_OK | X_OK) == 0;
    ::setenv("CAIRN_SESSION", setting.session.c_str(), 1);
    ::setenv("CAIRN_CKPTDIR", there ? setting.work.c_str() : (session_folder(setting) + "/ckpt").c_str(), 1);
    if (::chdir("/") != 0) ::_exit(1);
}

// A static doctor (that of a bundle) can't be launched: then a shell does the same.
std::vector<std::string> program_for(const Setting& setting, const std::string& go) {
    if (::getauxval(AT_BASE) != 0) return {"launch", "--", setting.self, "--rehearse", go};
    return {"launch",
            "--",
            "/bin/sh",
            "-c",
            fmt::format("echo ready >\"$0.ready\"; until [ -e \"$0\" ]; do sleep 0.01; done; exit {}",
                        rehearsal_code),
            go};
}

pid_t coordinator_of(const Setting& setting) {
    const auto pid =
        std::strtol(first_line(session_folder(setting) + "/coordinator.pid").c_str(), nullptr, 10);
    const bool there = pid > 1 && first_line(fmt::format("/proc/{}/comm", pid)).starts_with("cairn-coord");
    return there ? static_cast<pid_t>(pid) : -1;
}

// Until then it looks after its folder, and would make it again.
void wait_for_end(pid_t coordinator) {
    constexpr int tries = 200;
    for (int i = 0; coordinator > 0 && i < tries; ++i) {
        const auto stat = first_line(fmt::format("/proc/{}/stat", coordinator));
        if (stat.empty() || stat.find(") Z") != std::string::npos) return;
        ::usleep(2000);
    }
}

Observation rehearsal(const Setting& setting) {
    if (setting.front.empty() || setting.self.empty()) return failed("cairn isn't installed here", ENOENT);
    if (const auto made = make_session(setting.session); !made)
        return stopped_at("cairn launch", 1, made.error());
    own_surroundings(setting);
    const auto began = Clock::now();
    const auto go = go_file(setting);
    const auto launched = begin(setting, program_for(setting, go));
    int status = 0;
    while (::access((go + ".ready").c_str(), F_OK) != 0) {
        if (::waitpid(launched.pid, &status, WNOHANG) == launched.pid)
            return stopped_at("cairn launch", exit_code(status), text_of(launched));
        ::usleep(2000);
    }
    const auto checkpoint = begin(setting, {"checkpoint", "--kill", "--json"});
    if (const int code = end_of(checkpoint); code != 0) {
        ::kill(launched.pid, SIGKILL);
        return stopped_at("cairn checkpoint", code, text_of(checkpoint));
    }
    const auto told = nlohmann::json::parse(text_of(checkpoint), nullptr, false);
    if (!told.is_object()) return stopped_at("cairn checkpoint", 0, text_of(checkpoint));
    (void)end_of(launched);
    std::ofstream(go) << "go";
    const auto restarted = begin(setting, {"restart", "--quiet", told.value("directory", "")});
    const int code = end_of(restarted);
    if (code != rehearsal_code) return stopped_at("cairn restart", code, text_of(restarted));
    const auto took = Clock::now() - began;
    const pid_t coordinator = coordinator_of(setting);
    (void)end_of(begin(setting, {"quit"}));
    wait_for_end(coordinator);
    return worked(fmt::format("a program was launched, saved, killed and restarted, all in {}",
                              human_duration(std::chrono::nanoseconds(took).count())));
}

void refine_rehearsal(Line& line, const Observation& seen, const Setting&) {
    const bool timed_out = seen.fact("code") == std::to_string(static_cast<int>(ExitCode::timed_out));
    if (!seen.late() && !timed_out) return;
    line.state = State::note;
    if (seen.late()) line.found = "not finished in time";
    line.meaning = "the machine is slow, or busy: whether all of it works together isn't known";
    line.remedy = "cairn doctor --timeout 20";
}

constexpr std::array rehearsals{
    Probe{Group::restart, "rehearsal", rehearsal, State::missing, true,
          "a small program can't be saved and restarted here",
          "what is said here, or what else is missing, tells the reason", refine_rehearsal},
};

}  // namespace

std::span<const Probe> rehearsal_probes() {
    return rehearsals;
}

int rehearse(const char* file) {
    const int nothing = ::open("/dev/null", O_RDWR);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, fd);
    if (nothing > STDERR_FILENO) ::close(nothing);
    const pid_t self = ::getpid();
    std::vector<std::uint64_t> memory(words_of_memory);
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = i * i;
    std::ofstream(std::string(file) + ".ready") << "ready";
    while (::access(file, F_OK) != 0) ::usleep(2000);
    for (std::size_t i = 0; i < memory.size(); ++i)
        if (memory[i] != i * i) return 1;
    return ::getpid() == self ? rehearsal_code : 1;
}

void clean_up(const Setting& setting) {
    if (const pid_t coordinator = coordinator_of(setting); coordinator > 0) {
        ::kill(coordinator, SIGKILL);
        wait_for_end(coordinator);
    }
    std::error_code ignored;
    std::filesystem::remove_all(session_folder(setting), ignored);
    ::unlink(fmt::format("{}/.{}.region", run_directory(), setting.session)
                 .c_str());  // a coordinator's second name for it
    std::filesystem::remove_all(setting.work, ignored);
    // Folders that the doctor has made on the way to the checkpoints'; those with something in them stay.
    for (std::string path = setting.folder; path.size() > setting.above.size(); path.resize(path.rfind('/')))
        if (::rmdir(path.c_str()) != 0) break;
}

}  // namespace cairn::doctor
