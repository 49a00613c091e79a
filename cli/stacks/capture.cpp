#include "cli/stacks/capture.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/layout.h"
#include "common/own_process.h"
#include "common/schema/msgpack.h"

namespace cairn::stacks {
namespace {

constexpr std::uint64_t longest_glance = 256 << 20;

std::vector<char*> pointers_to(std::vector<std::string>& words) {
    std::vector<char*> pointers;
    pointers.reserve(words.size() + 1);
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    return pointers;
}

}  // namespace

Result<Capture> Capture::start(const Session& session, const std::map<uid_t, std::string>& regions,
                               const std::vector<Wanted>& members) {
    std::string program = own_program("cairn-capture");
    if (program.empty())
        return fail("cairn-capture isn't where cairn's programs are (scripts/build builds it)");
    std::vector<std::string> words{program, "glance", session.region()};
    for (const auto& [user, path] : regions) words.push_back(fmt::format("{}={}", user, path));
    for (const auto& [real, python] : members)
        words.push_back(python.runtime.known()
                            ? fmt::format("{}:{}:{:x}", real, python.minor, python.runtime.value())
                            : fmt::format("{}", real));
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("a pipe for {}", program);
    Fd reading(ends[0]);
    const Fd writing(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    // A group of its own: Ctrl-C is not to end it while programs stand still; it ends with its pipe.
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETPGROUP));
    auto kept = own_environment();
    pid_t pid = -1;
    errno = ::posix_spawn(&pid, program.c_str(), &actions, &attributes, pointers_to(words).data(),
                          pointers_to(kept).data());
    const int problem = errno;
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    errno = problem;
    if (problem != 0) return fail_errno("{} can't be started", program);
    return Capture(pid, std::move(reading));
}

Capture::Capture(Capture&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), pipe_(std::move(other.pipe_)) {}

Capture::~Capture() {
    pipe_.reset();
    while (pid_ != 0 && ::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

bool Capture::read_all(void* to, std::size_t size) const {
    auto* at = static_cast<char*>(to);
    while (size > 0) {
        const ssize_t got = ::read(pipe_.get(), at, size);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        size -= static_cast<std::size_t>(got);
    }
    return true;
}

Result<wire::Glance> Capture::next() {
    std::uint64_t size = 0;
    if (!read_all(&size, sizeof size) || size > longest_glance)
        return fail("cairn-capture ended before it had looked at all");
    std::vector<std::uint8_t> packed(size);
    if (!read_all(packed.data(), packed.size()))
        return fail("cairn-capture ended before it had looked at all");
    return wire::unpack<wire::Glance>(TRY(schema::parse(packed, "what cairn-capture has seen")));
}

}  // namespace cairn::stacks
