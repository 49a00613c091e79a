#include "mpi/debug/dap/inspector.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "common/json_text.h"
#include "mpi/debug/dap/inspector_script.h"
#include "mpi/debug/gdb_script.h"
#include "mpi/debug/history.h"

namespace cairn::mpi::debug::dap {
namespace {

bool ends_within_ms(pid_t child, int most) {
    const Fd watched(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
    pollfd ended = {watched.get(), POLLIN, 0};
    if (!watched || ::poll(&ended, 1, most) != 1) return false;
    return ::waitpid(child, nullptr, 0) == child;
}

}  // namespace

Inspector::Inspector(Inspector&& other) noexcept
    : rank_(std::move(other.rank_)),
      gdb_(std::exchange(other.gdb_, -1)),
      socket_(std::move(other.socket_)),
      said_(std::move(other.said_)),
      text_(std::move(other.text_)) {}

Inspector::~Inspector() {
    if (gdb_ <= 0) return;
    // At the end of the requests gdb lets go of the rank, and ends.
    socket_.reset();
    if (!rank_.copy && ends_within_ms(gdb_, 5000)) return;
    ::kill(gdb_, SIGKILL);
    while (::waitpid(gdb_, nullptr, 0) < 0 && errno == EINTR) {
    }
    // One that was killed while it attached leaves its SIGSTOP behind.
    if (!rank_.copy) ::kill(rank_.pid, SIGCONT);
}

Result<Inspector> Inspector::start(World::Looked rank) {
    Inspector inspector(std::move(rank));
    CHECK_OK(inspector.run());
    return inspector;
}

Result<> Inspector::run() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return fail_errno("a socket");
    socket_.reset(ends[0]);
    const Fd theirs(ends[1]);
    said_.reset(::memfd_create("cairn-gdb-says", MFD_CLOEXEC));
    const Fd script = TRY(gdb_script(with_socket(inspector_script, theirs.get())));
    gdb_ = ::fork();
    if (gdb_ < 0) return fail_errno("starting gdb");
    if (gdb_ > 0) return {};
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    const Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ::dup2(nothing.get(), STDIN_FILENO);
    ::dup2(said_.get(), STDOUT_FILENO);
    ::dup2(said_.get(), STDERR_FILENO);
    ::fcntl(theirs.get(), F_SETFD, 0);
    become_gdb(rank_.pid, script.get(), rank_.copy ? GdbMay::do_anything : GdbMay::look);
}

// By the last line that it has said.
Error Inspector::ended() const {
    std::string text(4096, '\0');
    const off_t size = ::lseek(said_.get(), 0, SEEK_END);
    const ssize_t got = ::pread(said_.get(), text.data(), text.size(), std::max<off_t>(size - 4096, 0));
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    while (!text.empty() && text.back() == '\n') text.pop_back();
    const std::size_t begin = text.rfind('\n');
    text.erase(0, begin == std::string::npos ? 0 : begin + 1);
    return {.what = fmt::format("gdb has ended{}{}", text.empty() ? "" : ": ", text)};
}

Result<nlohmann::json> Inspector::ask(const nlohmann::json& request) {
    constexpr int patience_ms = 60'000;
    const std::string line = json_text(request) + "\n";
    for (std::size_t sent = 0; sent < line.size();) {
        const ssize_t size = ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) return std::unexpected(ended());
        sent += static_cast<std::size_t>(size);
    }
    for (std::size_t end = 0; (end = text_.find('\n')) == std::string::npos;) {
        pollfd waiting{socket_.get(), POLLIN, 0};
        const int ready = ::poll(&waiting, 1, patience_ms);
        if (interrupted != 0) return fail("interrupted");
        if (ready < 0 && errno == EINTR) continue;
        if (ready == 0)
            return fail_code(ExitCode::timed_out, "gdb has said nothing for {} s", patience_ms / 1000);
        char bytes[16384];
        const ssize_t size = ::read(socket_.get(), bytes, sizeof bytes);
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) return std::unexpected(ended());
        text_.append(bytes, static_cast<std::size_t>(size));
    }
    const std::size_t end = text_.find('\n');
    const auto answer = nlohmann::json::parse(text_.substr(0, end), nullptr, false);
    text_.erase(0, end + 1);
    if (answer.is_discarded()) return fail("gdb has said no JSON");
    if (answer.contains("error"))
        return fail_code(ExitCode::refused, "{}", answer["error"].get<std::string>());
    return answer.at("told");
}

}  // namespace cairn::mpi::debug::dap
