#include "mpi/debug/cairn_tools.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "common/layout.h"

namespace cairn::mpi::debug {

int code_of(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void end_tool(pid_t pid) {
    ::kill(pid, SIGKILL);
    static_cast<void>(code_of(pid));
}

bool has_ended(pid_t pid) {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid;
}

Adopting::Adopting() {
    ::prctl(PR_GET_CHILD_SUBREAPER, &before_, 0, 0, 0);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

Adopting::~Adopting() {
    ::prctl(PR_SET_CHILD_SUBREAPER, static_cast<unsigned long>(before_), 0, 0, 0);
}

Result<pid_t> CairnTools::start(const std::vector<std::string>& words, const With& with) const {
    const std::string program = own_program(words[0]);
    if (program.empty()) return fail("there is no program {} beside this one", words[0]);
    const pid_t parent = ::getpid(), pid = ::fork();
    if (pid < 0) return fail_errno("starting {}", words[0]);
    if (pid > 0) return pid;
    ::setpgid(0, 0);  // an interrupt at the terminal isn't for it
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (::getppid() != parent) ::_exit(0);
    constexpr int made = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    const int output = ::open(with.output.c_str(), made, 0600);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(with.errors == with.output ? output : ::open(with.errors.c_str(), made, 0600), STDERR_FILENO);
    const auto [key, value] = folder_of_sessions();
    ::setenv(key.c_str(), value.c_str(), 1);
    for (const auto& [name, text] : with.environment) ::setenv(name.c_str(), text.c_str(), 1);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execv(program.c_str(), arguments.data());
    ::_exit(127);
}

Result<pid_t> CairnTools::start(const std::vector<std::string>& words, const std::string& log) const {
    const std::string path = scratch_ + "/" + log;
    return start(words, With{.output = path, .errors = path, .environment = {}});
}

std::string CairnTools::said_in(const std::string& log) const {
    std::ifstream file(scratch_ + "/" + log);
    std::string said, last;
    for (std::string line; std::getline(file, line);)
        if (!line.empty() && !line.starts_with("note: ")) last = line;
    said = last.starts_with("cairn: ") ? last.substr(7) : last;
    return said.empty() ? "it has said nothing" : said;
}

std::pair<std::string, std::string> CairnTools::folder_of_sessions() const {
    return {"CAIRN_RUNDIR", scratch_ + "/run"};
}

// By itself a coordinator would end some seconds after the last member, of which there is none from time to
// time.
Result<pid_t> CairnTools::coordinator(const std::string& session, const std::string& folder) const {
    ::mkdir(folder_of_sessions().second.c_str(), 0700);
    const std::string log = "coordinator-" + session;
    const pid_t pid = TRY(start(
        {"cairn-coordinator", "--session", session, "--ckptdir", folder, "--interval", "0", "--keep", "0"},
        log));
    const std::string socket = fmt::format("{}/{}/socket", folder_of_sessions().second, session);
    const auto began = std::chrono::steady_clock::now();
    for (constexpr std::chrono::seconds longest{20}; ::access(socket.c_str(), F_OK) != 0;
         ::poll(nullptr, 0, 2))
        if (has_ended(pid) || std::chrono::steady_clock::now() - began > longest) {
            end_tool(pid);
            return fail("session {}: {}", session, said_in(log));
        }
    return pid;
}

}  // namespace cairn::mpi::debug
