#include "cli/doctor/attempt.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>

#include "common/fd.h"
#include "common/json_text.h"
#include "common/own_process.h"

namespace cairn::doctor {
namespace {

using nlohmann::json;

std::string packed(const Observation& seen) {
    return json_text(
               json{{"error", seen.error}, {"call", seen.call}, {"said", seen.said}, {"facts", seen.facts}}) +
           "\n";
}

Observation unpacked(const std::string& text) {
    const json told = json::parse(text, nullptr, false);
    Observation seen;
    if (!told.is_object()) {
        seen.end = Observation::End::not_started;
        return seen;
    }
    seen.error = told.value("error", 0);
    seen.call = told.value("call", "");
    seen.said = told.value("said", "");
    seen.facts = told.value("facts", std::map<std::string, std::string>());
    return seen;
}

[[noreturn]] void attempt_in_child(const Attempt& attempt, int to) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // One byte: no file is as short, and where cores are piped to a program the kernel takes 1 for none.
    const rlimit no_core{1, 1};
    ::setrlimit(RLIMIT_CORE, &no_core);
    std::string text;
    try {
        text = packed(attempt());
    } catch (const std::exception& problem) {
        text = packed({.error = EIO, .call = {}, .said = problem.what(), .facts = {}});
    }
    [[maybe_unused]] const ssize_t put = ::write(to, text.data(), text.size());
    ::_exit(0);
}

struct UnderWay {
    std::size_t index = 0;
    pid_t pid = -1;
    Fd from{};
    std::string text{};
};

// Takes what is there; true at the end of the line that says all.
bool take_text(UnderWay& one) {
    std::array<char, 4096> piece{};
    for (;;) {
        const ssize_t got = ::read(one.from.get(), piece.data(), piece.size());
        if (got <= 0) break;
        one.text.append(piece.data(), static_cast<std::size_t>(got));
    }
    return one.text.ends_with('\n');
}

void end_group(const UnderWay& one, bool wait) {
    ::kill(-one.pid, SIGKILL);
    ::kill(one.pid, SIGKILL);
    // Who hangs in a call to a dead file server can't be waited for.
    if (wait) ::waitpid(one.pid, nullptr, 0);
}

// Whether it has ended, and then what is known.
bool has_ended(UnderWay& one, Observation& seen) {
    if (take_text(one)) {
        seen = unpacked(one.text);
        end_group(one, true);
        return true;
    }
    int status = 0;
    if (::waitpid(one.pid, &status, WNOHANG) != one.pid) return false;
    if (take_text(one)) {
        seen = unpacked(one.text);
    } else {
        seen.end = Observation::End::killed;
        seen.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    }
    ::kill(-one.pid, SIGKILL);
    return true;
}

bool start(UnderWay& one, const Attempt& attempt, Observation& seen) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
        seen = failed("pipe");
        return false;
    }
    one.from.reset(ends[0]);
    const Fd to(ends[1]);
    one.pid = ::fork();
    if (one.pid == 0) attempt_in_child(attempt, to.get());
    if (one.pid < 0) {
        seen = failed("fork");
        return false;
    }
    ::setpgid(one.pid, one.pid);
    return true;
}

int milliseconds_to(Clock::time_point until) {
    constexpr int look_again = 10;  // whether one has died that says nothing
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    return static_cast<int>(std::clamp<long>(left, 0, look_again));
}

}  // namespace

std::string Observation::why() const {
    switch (end) {
        case End::killed:
            return signal == SIGSYS ? "killed by SIGSYS: a seccomp filter forbids it"
                   : signal != 0    ? "killed by " + name_of_signal(signal)
                                    : "it ended without a word";
        case End::late:
            return "no answer in time";
        case End::not_started:
            return "it could not be tried";
        case End::told:
            break;
    }
    if (!said.empty()) return said;
    return call.empty() ? std::strerror(error) : fmt::format("{}: {}", call, std::strerror(error));
}

std::string Observation::fact(const std::string& name) const {
    const auto found = facts.find(name);
    return found == facts.end() ? std::string() : found->second;
}

long Observation::number(const std::string& name) const {
    return std::strtol(fact(name).c_str(), nullptr, 10);
}

Observation worked(std::string said) {
    Observation seen;
    seen.said = std::move(said);
    return seen;
}

Observation failed(std::string call, int error) {
    Observation seen;
    seen.error = error != 0 ? error : EIO;
    seen.call = std::move(call);
    return seen;
}

std::vector<Observation> try_all(const std::vector<Attempt>& attempts, Clock::time_point until,
                                 std::size_t at_once) {
    std::vector<Observation> seen(attempts.size());
    std::vector<UnderWay> running;
    std::size_t next = 0;
    while (next < attempts.size() || !running.empty()) {
        for (; next < attempts.size() && running.size() < at_once; ++next) {
            UnderWay one{.index = next};
            if (start(one, attempts[next], seen[next])) running.push_back(std::move(one));
        }
        std::vector<pollfd> watched;
        for (const auto& one : running) watched.push_back({one.from.get(), POLLIN, 0});
        if (::poll(watched.data(), watched.size(), milliseconds_to(until)) > 0 &&
            std::ranges::any_of(watched, [](const pollfd& one) { return one.revents == POLLHUP; }))
            ::poll(nullptr, 0, 1);  // its end is a moment away
        std::erase_if(running, [&](UnderWay& one) { return has_ended(one, seen[one.index]); });
        if (Clock::now() < until) continue;
        for (const auto& one : running) {
            end_group(one, false);
            seen[one.index].end = Observation::End::late;
        }
        for (; next < attempts.size(); ++next) seen[next].end = Observation::End::late;
        break;
    }
    return seen;
}

Observation try_one(const Attempt& attempt, std::chrono::milliseconds patience) {
    return try_all({attempt}, Clock::now() + patience, 1).front();
}

}  // namespace cairn::doctor
