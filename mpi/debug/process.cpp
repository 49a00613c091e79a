#include "mpi/debug/process.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cstring>
#include <utility>

namespace cairn::mpi::debug {

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
    iovec part{const_cast<Command*>(&command), sizeof command};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof file)] = {};
    if (file >= 0) {
        message.msg_control = room;
        message.msg_controllen = sizeof room;
        cmsghdr* control = CMSG_FIRSTHDR(&message);
        control->cmsg_level = SOL_SOCKET;
        control->cmsg_type = SCM_RIGHTS;
        control->cmsg_len = CMSG_LEN(sizeof file);
        std::memcpy(CMSG_DATA(control), &file, sizeof file);
    }
    if (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof command))
        return fail_errno("asking process {}", pid_);
    return {};
}

Result<RankProcess::Message> RankProcess::hear() const {
    Message message;
    std::string text(most_text, '\0');
    iovec parts[2] = {{&message.report, sizeof message.report}, {text.data(), text.size()}};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = parts;
    header.msg_iovlen = 2;
    header.msg_control = room;
    header.msg_controllen = sizeof room;
    ssize_t size = 0;
    do {
        size = ::recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC);
    } while (size < 0 && errno == EINTR);
    if (size < static_cast<ssize_t>(sizeof message.report)) return fail("process {} has ended", pid_);
    if (const cmsghdr* control = CMSG_FIRSTHDR(&header);
        control != nullptr && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS) {
        int descriptor = -1;
        std::memcpy(&descriptor, CMSG_DATA(control), sizeof descriptor);
        message.descriptor.reset(descriptor);
    }
    text.resize(std::min<std::size_t>(message.report.text_bytes,
                                      static_cast<std::size_t>(size) - sizeof message.report));
    message.text = std::move(text);
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
