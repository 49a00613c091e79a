#include "restart/check_hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "common/fd.h"
#include "common/layout.h"
#include "common/printable.h"

namespace cairn::restart {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds longest_answer{60};
constexpr std::size_t at_once = 32, longest_text = 64 << 10;
constexpr int unreached = 255;        // ssh(1): an error of its own
constexpr int no_such_program = 127;  // sh(1)

struct Answer {
    int code = unreached;
    bool late = false;
    std::string text;  // both of its outputs
};

std::vector<std::string> split(std::string_view text, char between) {
    std::vector<std::string> parts;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(between, at), text.size());
        if (end > at) parts.emplace_back(text.substr(at, end - at));
        at = end + 1;
    }
    return parts;
}

// As one word of a shell's.
std::string quoted(const std::string& word) {
    std::string out = "'";
    for (const char letter : word) {
        if (letter == '\'')
            out += R"('\'')";
        else
            out += letter;
    }
    return out + "'";
}

// The cairn of the same place, which a cluster's hosts share or have each, else the one in PATH.
std::string line_for_shell(const std::vector<std::string>& options, const std::string& directory) {
    std::string line =
        fmt::format("c={}; [ -x \"$c\" ] || c=cairn; exec \"$c\" restart", quoted(own_program("cairn")));
    for (const auto& option : options) line += " " + quoted(option);
    return line + " -- " + quoted(directory);
}

class SpawnActions {
  public:
    SpawnActions() { ::posix_spawn_file_actions_init(&actions_); }
    SpawnActions(const SpawnActions&) = delete;
    SpawnActions& operator=(const SpawnActions&) = delete;
    ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions_); }
    [[nodiscard]] posix_spawn_file_actions_t* get() { return &actions_; }

  private:
    posix_spawn_file_actions_t actions_{};
};

// What comes until its end; false: there was none in time. What is more than an answer can be is dropped.
bool read_all(int fd, std::string& text) {
    const auto until = Clock::now() + longest_answer;
    std::array<char, 4096> piece{};
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
        if (left <= 0) return false;
        pollfd waiting{fd, POLLIN, 0};
        if (::poll(&waiting, 1, static_cast<int>(left)) <= 0) continue;
        const ssize_t got = ::read(fd, piece.data(), piece.size());
        if (got == 0 || (got < 0 && errno != EINTR)) return true;
        if (got > 0 && text.size() < longest_text) text.append(piece.data(), static_cast<std::size_t>(got));
    }
}

Answer ask(std::vector<std::string> command) {
    Answer answer;
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        answer.text = std::strerror(errno);
        return answer;
    }
    const Fd out(ends[0]);
    Fd in(ends[1]);
    SpawnActions actions;
    ::posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(actions.get(), in.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(actions.get(), in.get(), STDERR_FILENO);
    std::vector<char*> arguments;
    for (auto& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_t child = 0;
    const int problem =
        ::posix_spawnp(&child, arguments[0], actions.get(), nullptr, arguments.data(), environ);
    if (problem != 0) {
        answer.text = fmt::format("{}: {}", command[0], std::strerror(problem));
        return answer;
    }
    in.reset();
    answer.late = !read_all(out.get(), answer.text);
    if (answer.late) ::kill(child, SIGKILL);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status)) answer.code = WEXITSTATUS(status);
    return answer;
}

// The lines of its words, without what every one of them begins with, nor the one that says that all is well.
std::vector<std::string> lines_of(const Answer& answer) {
    std::vector<std::string> lines;
    for (std::string_view line : split(answer.text, '\n')) {
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.empty() || line.ends_with(": can be restarted here")) continue;
        for (const std::string_view head : {"cairn restart: ", "cairn: "})
            if (line.starts_with(head)) line.remove_prefix(head.size());
        lines.push_back(printable(line));
    }
    return lines;
}

void print(const std::string& host, const Answer& answer) {
    auto lines = lines_of(answer);
    const auto what = [&]() -> std::string {
        if (answer.late) return fmt::format("no answer within {} s", longest_answer.count());
        if (answer.code == 0) return "can be restarted there";
        if (answer.code == no_such_program) return "can't be asked: no cairn in its PATH";
        return answer.code == unreached ? "can't be asked" : "can't be restarted there";
    }();
    // The reason stands in the same line, if it is one.
    if (answer.code != 0 && lines.size() == 1) {
        fmt::print("{}: {}: {}\n", printable(host), what, lines[0]);
        return;
    }
    fmt::print("{}: {}\n", printable(host), what);
    for (const auto& line : lines) fmt::print("    {}\n", line);
}

}  // namespace

Result<int> check_hosts(const std::string& list, const std::vector<std::string>& options,
                        const std::string& directory) {
    const auto hosts = split(list, ',');
    if (hosts.empty())
        return fail_code(ExitCode::usage, "--on {}: names of hosts, commas between them", list);
    for (const auto& host : hosts)
        if (host.starts_with('-') ||
            std::ranges::any_of(host, [](char c) { return c <= ' ' || c == '\x7f'; }))
            return fail_code(ExitCode::usage, "--on {}: {} is no host's name", list, host);
    const char* shell = std::getenv("CAIRN_RSH");
    auto way = split(shell == nullptr ? "" : shell, ' ');
    if (way.empty()) way = {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"};
    const auto line = line_for_shell(options, directory);
    std::vector<Answer> answers(hosts.size());
    {
        std::atomic<std::size_t> next{0};
        std::vector<std::jthread> askers(std::min(at_once, hosts.size()));
        for (auto& asker : askers)
            asker = std::jthread([&] {
                for (std::size_t i = next++; i < hosts.size(); i = next++) {
                    auto command = way;
                    command.push_back(hosts[i]);
                    command.push_back(line);
                    answers[i] = ask(std::move(command));
                }
            });
    }
    for (std::size_t i = 0; i < hosts.size(); ++i) print(hosts[i], answers[i]);
    const bool all = std::ranges::all_of(answers, [](const Answer& each) { return each.code == 0; });
    return all ? 0 : static_cast<int>(ExitCode::refused);
}

}  // namespace cairn::restart
