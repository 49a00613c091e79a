#include "capture/collect/keyrings.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "common/human.h"

namespace cairn::capture {
namespace {

// Ours is the coordinator's.
long own_session_keyring() {
    static const long keyring = ::syscall(SYS_request_key, "keyring", "_ses", nullptr, 0);
    return keyring;
}

}  // namespace

void note_keyrings(const StoppedProcess& process, const AgentProcess& answers,
                   const std::vector<AgentThread>& threads, const std::function<void(std::string)>& note) {
    const auto tell = [&](const std::string& whose, std::int32_t keys, const char* then) {
        if (keys <= 0) return;
        note(fmt::format("{} has a {} keyring with {}: not saved, {}", proc::label(process.pid), whose,
                         human_count(static_cast<std::size_t>(keys), "key", "keys"), then));
    };
    constexpr const char* gone = "a restored process has none";
    for (std::size_t i = 0; i < threads.size(); ++i)
        if (!process.threads[i].leader_dead)
            tell(fmt::format("thread ({})", process.threads[i].tid), threads[i].keys, gone);
    tell("process", answers.keys, gone);
    if (answers.session_keyring != 0 && answers.session_keyring != own_session_keyring())
        tell("session", answers.session_keys, "a restored process has that of the restart");
}

}  // namespace cairn::capture
