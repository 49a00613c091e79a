#include "resources/namespace/capture_visit.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "resources/capture/guard.h"

namespace cairn::capture {
namespace {

bool write_all(int to, std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = ::write(to, text.data(), text.size());
        if (written < 0 && errno != EINTR) return false;
        if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

}  // namespace

Result<Visit> Visit::to(int user, int space, schema::NamespaceType type,
                        const std::function<void(Visit&)>& look) {
    const bool of_users = type == schema::NamespaceType::user;
    auto guard = TRY(Guard::begin("cairn-visitor", [&](int answer) {
        const bool in = (user < 0 || ::setns(user, CLONE_NEWUSER) == 0) &&
                        (of_users || ::setns(space, static_cast<int>(type)) == 0);
        Visit here;
        here.say(in ? "" : std::strerror(errno));
        if (in) look(here);
        return write_all(answer, here.text_);
    }));
    Visit seen;
    char buffer[65536];
    for (ssize_t got = 0; (got = ::read(guard.answer(), buffer, sizeof buffer)) > 0;)
        seen.text_.append(buffer, static_cast<std::size_t>(got));
    if (!guard.end()) return fail("who was to look into it has died");
    if (const auto problem = seen.next(); !problem.empty())
        return fail_code(ExitCode::refused, "can't be looked into: {}", problem);
    return seen;
}

void Visit::say(std::string_view part) {
    const std::uint64_t length = part.size();
    text_.append(reinterpret_cast<const char*>(&length), sizeof length);
    text_ += part;
}

void Visit::say_file(int fd) {
    std::string text;
    char buffer[65536];
    for (ssize_t got = 0; (got = ::read(fd, buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<std::size_t>(got));
    say(text);
}

std::string Visit::next() {
    std::uint64_t length = 0;
    if (text_.size() - at_ < sizeof length) return {};
    std::memcpy(&length, text_.data() + at_, sizeof length);
    at_ += sizeof length;
    std::string part = text_.substr(at_, length);
    at_ += part.size();
    return part;
}

}  // namespace cairn::capture
