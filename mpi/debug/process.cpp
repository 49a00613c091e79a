#include "mpi/debug/process.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/message_descriptors.h"

namespace cairn::mpi::debug {

// The kernel walks through all of its pages: some milliseconds for each 100 MB.
InMemory in_memory(pid_t pid) {
    std::ifstream file(fmt::format("/proc/{}/smaps_rollup", pid));
    InMemory found;
    for (std::string line; std::getline(file, line);) {
        const std::uint64_t bytes = std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10) * 1024;
        if (line.starts_with("Pss_Anon:")) found.share = bytes;
        if (line.starts_with("Private_Dirty:")) found.own = bytes;
    }
    return found;
}

RankProcess& RankProcess::operator=(RankProcess&& other) noexcept {
    if (this == &other) return *this;
    end();
    pid_ = std::exchange(other.pid_, -1);
    socket_ = std::move(other.socket_);
    return *this;
}

void RankProcess::end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    socket_.reset();
}

Result<> RankProcess::ask(const Command& command, int file) const {
    const std::string_view text(reinterpret_cast<const char*>(&command), sizeof command);
    const std::span<const int> beside(&file, file >= 0 ? 1 : 0);
    if (send_with(socket_.get(), text, beside, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof command))
        return fail_errno("asking process {}", pid_);
    return {};
}

Result<RankProcess::Message> RankProcess::hear() const {
    Message message;
    std::string came(sizeof message.report + most_text, '\0');
    std::vector<Fd> beside;
    ssize_t size = 0;
    do {
        size = receive_with(socket_.get(), came, beside, 0);
    } while (size < 0 && errno == EINTR);
    if (size < static_cast<ssize_t>(sizeof message.report)) return fail("process {} has ended", pid_);
    if (!beside.empty()) message.descriptor = std::move(beside.front());
    std::memcpy(&message.report, came.data(), sizeof message.report);
    message.text = came.substr(sizeof message.report,
                               std::min<std::size_t>(message.report.text_bytes,
                                                     static_cast<std::size_t>(size) - sizeof message.report));
    return message;
}

std::string RankProcess::how_it_ended() {
    if (pid_ <= 0) return "is gone";
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    socket_.reset();
    if (WIFSIGNALED(status))
        return fmt::format("was killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
    return fmt::format("ended with code {}", WEXITSTATUS(status));
}

}  // namespace cairn::mpi::debug
