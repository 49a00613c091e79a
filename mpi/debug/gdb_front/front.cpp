#include "mpi/debug/gdb_front/front.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "common/json_text.h"
#include "common/printable.h"
#include "mpi/debug/gdb_front/script.h"
#include "mpi/debug/gdb_script.h"

namespace cairn::mpi::debug::gdb_front {
namespace {

using nlohmann::json;

class Front {
  public:
    Front(World& world, Commands& commands, std::string from)
        : world_(world), commands_(commands), from_(std::move(from)) {}

    Result<> run() {
        CHECK_OK(start());
        while (const auto request = next()) CHECK_OK(send(answer_to(json::parse(*request, nullptr, false))));
        int status = 0;
        while (::waitpid(gdb_, &status, 0) < 0 && errno == EINTR) {
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == could_not_start)
            return fail_code(ExitCode::refused, "gdb can't be started: is it installed?");
        return {};
    }

  private:
    static constexpr int could_not_start = 127;

    Result<> start() {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return fail_errno("a socket");
        socket_.reset(ends[0]);
        const Fd theirs(ends[1]);
        const Fd script = TRY(gdb_script(with_socket(front_script, theirs.get())));
        gdb_ = ::fork();
        if (gdb_ < 0) return fail_errno("starting gdb");
        if (gdb_ > 0) return {};
        ::signal(SIGINT, SIG_DFL);
        ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        ::fcntl(theirs.get(), F_SETFD, 0);
        ::unsetenv("DEBUGINFOD_URLS");
        const std::string from = fmt::format("/dev/fd/{}", script.get());
        ::execlp("gdb", "gdb", "-q", "-iex", "set confirm off", "-x", from.c_str(), nullptr);
        ::_exit(could_not_start);
    }

    // A line of gdb's; nothing: it has ended.
    std::optional<std::string> next() {
        for (std::size_t end = 0; (end = text_.find('\n')) == std::string::npos;) {
            char bytes[4096];
            const ssize_t size = ::read(socket_.get(), bytes, sizeof bytes);
            if (size < 0 && errno == EINTR) continue;
            if (size <= 0) return std::nullopt;
            text_.append(bytes, static_cast<std::size_t>(size));
        }
        const std::size_t end = text_.find('\n');
        std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        return line;
    }

    Result<> send(const json& answer) {
        const std::string line = json_text(answer) + "\n";
        for (std::size_t sent = 0; sent < line.size();) {
            const ssize_t size = ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
            if (size < 0 && errno == EINTR) continue;
            if (size < 0) return {};  // gdb has ended, which next() finds
            sent += static_cast<std::size_t>(size);
        }
        return {};
    }

    json answer_to(const json& request) {
        interrupted = 0;
        const auto answer = answered(request);
        std::fflush(stdout);  // what ranks have printed, before gdb goes on
        return answer ? *answer : json{{"error", answer.error().what}};
    }

    Result<json> answered(const json& request) {
        const std::string what = request.is_object() ? request.value("do", "") : "";
        if (what == "hello")
            return json{{"live", dynamic_cast<AloneWorld*>(&world_) == nullptr},
                        {"commands", Commands::names()}};
        if (what == "begin") return json{{"text", printable_lines(TRY(commands_.begin(from_)).text)}};
        if (what == "line") return line(request.value("line", ""));
        if (what == "stand") return stand();
        if (what == "run") return run_ahead();
        return fail_code(ExitCode::usage, "gdb asks for '{}'", what);
    }

    Result<json> line(const std::string& words) {
        const Cut cut = world_.cut();
        const Process focus = world_.focus();
        const auto answer = TRY(commands_.execute(words));
        return json{{"text", printable_lines(answer.text)},
                    {"over", commands_.over()},
                    {"moved", world_.cut() != cut || world_.focus() != focus}};
    }

    // gdb has let go of the last one.
    Result<json> stand() {
        looked_.reset();
        looked_ = TRY(world_.look_into(world_.focus()));
        const State here = world_.state(world_.focus());
        const bool runs =
            looked_->copy && !world_.spot(here.rank).within && world_.moves().step(here, 1) != here;
        return json{{"pid", looked_->pid},
                    {"runs", runs},
                    {"prompt", fmt::format("{}:{}", here.rank, world_.moves().call_at(here))}};
    }

    // The copy gets to know it when gdb lets it go on.
    Result<json> run_ahead() {
        if (!looked_ || !looked_->copy) return fail_code(ExitCode::usage, "there is no copy");
        const State to = world_.moves().step(world_.state(world_.focus()), 1);
        CHECK_OK(looked_->copy->ask({.ask = Ask::run, .position = to.position}));
        return json::object();
    }

    World& world_;
    Commands& commands_;
    std::string from_;
    pid_t gdb_ = -1;
    Fd socket_;
    std::string text_;
    std::optional<World::Looked> looked_;
};

}  // namespace

Result<> converse(World& world, Commands& commands, const std::string& from) {
    return Front(world, commands, from).run();
}

}  // namespace cairn::mpi::debug::gdb_front
