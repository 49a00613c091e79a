#include "restart/pmi/pmi_one.h"

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

Job::Answers PmiOne::read(std::size_t rank, std::string& unread) {
    Answers answers;
    for (std::size_t end = 0; (end = unread.find('\n')) != std::string::npos; unread.erase(0, end + 1))
        for (auto& each : hear(rank, std::string_view(unread).substr(0, end)))
            answers.push_back(std::move(each));
    return answers;
}

Job::Answers PmiOne::hear(std::size_t rank, std::string_view line) {
    const Words words = words_of(line);
    const std::string command = word(words, "cmd");
    if (command == "barrier_in") return to(barrier().enter(rank));
    if (command == "finalize") return to(barrier().finalize(rank));
    barrier().runs(rank);
    if (command == "abort") {
        barrier().abort(std::atoi(word(words, "exitcode").c_str()));
        return {};
    }
    return {{rank, reply(words) + '\n'}};
}

std::string PmiOne::answer(const Barrier::Release& release) {
    return release.ended ? "cmd=finalize_ack\n" : "cmd=barrier_out\n";
}

std::string PmiOne::reply(const Words& words) {
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

}  // namespace cairn::restart::pmi
