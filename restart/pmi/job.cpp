#include "restart/pmi/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace cairn::restart::pmi {
namespace {

using Words = std::map<std::string, std::string, std::less<>>;

// A value ends at the next space, but that of a key that is put is all the rest of the line.
Words words_of(std::string_view line) {
    Words words;
    while (!line.empty()) {
        const std::size_t equals = line.find('=');
        if (equals == std::string_view::npos) break;
        const std::string_view key = line.substr(0, equals);
        line.remove_prefix(equals + 1);
        const std::size_t end = key == "value" ? line.size() : std::min(line.find(' '), line.size());
        words.emplace(key, line.substr(0, end));
        line.remove_prefix(std::min(end + 1, line.size()));
    }
    return words;
}

std::string word(const Words& words, std::string_view key) {
    const auto found = words.find(key);
    return found == words.end() ? "" : found->second;
}

}  // namespace

Job::Answers Job::waits(std::size_t rank) {
    ranks_.at(rank) = State::waiting;
    return open_barrier();
}

Job::Answers Job::left(std::size_t rank) {
    if (ranks_.at(rank) != State::finished && failure_.empty()) {
        failure_ = "has ended without MPI_Finalize";
        exit_code_ = 1;
    }
    ranks_[rank] = State::gone;
    return open_barrier();
}

Job::Answers Job::hear(std::size_t rank, std::string_view line) {
    const Words words = words_of(line);
    const std::string command = word(words, "cmd");
    State& state = ranks_.at(rank);
    state = State::running;
    if (command == "barrier_in") {
        state = State::in_barrier;
        return open_barrier();
    }
    if (command == "abort") {
        exit_code_ = std::atoi(word(words, "exitcode").c_str());
        failure_ = fmt::format("has aborted the job (exit code {})", exit_code_);
        return {};
    }
    if (command == "finalize") {
        state = State::finished;
        Answers answers{{rank, "cmd=finalize_ack\n"}};
        for (auto& more : open_barrier()) answers.push_back(std::move(more));
        return answers;
    }
    return {{rank, answer(words) + '\n'}};
}

std::string Job::answer(const Words& words) {
    const std::string command = word(words, "cmd");
    if (command == "init") return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
    if (command == "get_maxes") return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024";
    if (command == "get_appnum") return "cmd=appnum appnum=0";
    if (command == "get_my_kvsname") return "cmd=my_kvsname kvsname=kvs_cairn";
    if (command == "get_universe_size") return fmt::format("cmd=universe_size size={}", size_);
    const std::string key = word(words, "key");
    if (command == "put") {
        values_[key] = word(words, "value");
        return "cmd=put_result rc=0 msg=success";
    }
    if (command == "get") {
        const auto found = values_.find(key);
        if (found == values_.end())
            return fmt::format("cmd=get_result rc=-1 msg=key_{}_not_found value=unknown", key);
        return fmt::format("cmd=get_result rc=0 msg=success value={}", found->second);
    }
    // Starting more programs, names for strangers: what only the launcher can do.
    const std::string name = command.substr(0, command.find('_'));
    return fmt::format("cmd={}_result rc=-1 msg=no_launcher_after_a_restart", name);
}

Job::Answers Job::open_barrier() {
    const auto is = [](State wanted) { return [wanted](State state) { return state == wanted; }; };
    if (std::ranges::any_of(ranks_, is(State::running))) return {};
    // Who is past the last barrier has asked for its end; an unanswered question beside such a rank is that
    // one.
    const bool ending =
        std::ranges::any_of(ranks_, is(State::finished)) || std::ranges::any_of(ranks_, is(State::gone));
    Answers answers;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        State& state = ranks_[rank];
        if (state == State::in_barrier || (state == State::waiting && !ending)) {
            answers.push_back({rank, "cmd=barrier_out\n"});
            state = State::running;
        } else if (state == State::waiting) {
            answers.push_back({rank, "cmd=finalize_ack\n"});
            state = State::finished;
        }
    }
    return answers;
}

}  // namespace cairn::restart::pmi
