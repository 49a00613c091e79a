#include "restart/pmi/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "common/printable.h"
#include "restart/pmi/pmi_one.h"
#include "restart/pmi/pmix.h"
#include "restart/tell.h"

namespace cairn::restart::pmi {
namespace {

struct Served {
    std::unique_ptr<Job> job;
    std::vector<std::size_t> ranks;  // indices into the list of all
};

class Launcher {
  public:
    explicit Launcher(std::vector<Rank> ranks) : ranks_(std::move(ranks)), unread_(ranks_.size()) {
        std::ranges::sort(ranks_, {}, &Rank::born);
        std::map<std::tuple<std::string, int, int>, std::size_t> seen;  // how many of this number
        std::map<std::tuple<std::string, int, std::size_t>, std::vector<std::size_t>> jobs;
        for (std::size_t i = 0; i < ranks_.size(); ++i) {
            const Rank& rank = ranks_[i];
            const std::size_t nth = seen[{rank.job, rank.size, rank.number}]++;
            jobs[{rank.job, rank.size, nth}].push_back(i);
        }
        place_.resize(ranks_.size());
        for (auto& [key, members] : jobs) {
            for (std::size_t i = 0; i < members.size(); ++i) place_[members[i]] = {jobs_.size(), i};
            jobs_.push_back({make_job(std::get<0>(key), std::get<1>(key), members), std::move(members)});
        }
    }

    [[noreturn]] void serve() {
        for (std::size_t i = 0; i < ranks_.size(); ++i)
            if (ranks_[i].waits) send(place_[i].first, jobs_[place_[i].first].job->waits(place_[i].second));
        for (;;) {
            std::vector<pollfd> polled;
            std::vector<std::size_t> who;
            for (std::size_t i = 0; i < ranks_.size(); ++i)
                if (ranks_[i].connection) {
                    polled.push_back({ranks_[i].connection.get(), POLLIN, 0});
                    who.push_back(i);
                }
            if (polled.empty()) ::_exit(0);
            if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) ::_exit(1);
            for (std::size_t i = 0; i < polled.size(); ++i)
                if (polled[i].revents != 0 && ranks_[who[i]].connection) read(who[i]);
        }
    }

  private:
    [[nodiscard]] std::unique_ptr<Job> make_job(const std::string& name, int size,
                                                const std::vector<std::size_t>& members) const {
        if (name.empty()) return std::make_unique<PmiOne>(members.size(), size);
        auto job = std::make_unique<Pmix>(members.size());
        for (std::size_t i = 0; i < members.size(); ++i) job->awaits(i, ranks_[members[i]].awaited);
        return job;
    }

    void read(std::size_t index) {
        auto& [job, member] = place_[index];
        char buffer[4096];
        const ssize_t got = ::recv(ranks_[index].connection.get(), buffer, sizeof buffer, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
        std::string& unread = unread_[index];
        if (got <= 0 || unread.size() > 1U << 20) {  // gone, or no rank speaks so
            ranks_[index].connection.reset();
            send(job, jobs_[job].job->left(member));
        } else {
            unread.append(buffer, static_cast<std::size_t>(got));
            send(job, jobs_[job].job->read(member, unread));
        }
        if (!jobs_[job].job->failure().empty()) end(job, index);
    }

    void send(std::size_t job, const Job::Answers& answers) {
        for (const auto& answer : answers) {
            const Rank& rank = ranks_[jobs_[job].ranks[answer.rank]];
            // Short, and what is not read yet is one answer at most: it fits. Who is gone is heard of by the
            // next poll.
            if (rank.connection)
                (void)::send(rank.connection.get(), answer.bytes.data(), answer.bytes.size(),
                             MSG_NOSIGNAL | MSG_DONTWAIT);
        }
    }

    // Nobody would ever answer the others again what they have asked this one.
    void end(std::size_t job, std::size_t culprit) {
        std::size_t living = 0;
        for (const std::size_t i : jobs_[job].ranks)
            living += i != culprit && ranks_[i].connection &&
                      ::syscall(SYS_pidfd_send_signal, ranks_[i].process.get(), 0, nullptr, 0) == 0;
        if (living != 0)
            tell("cairn: MPI rank {}, {}, {}: the other ranks are ended, as their launcher would\n",
                 ranks_[culprit].number, printable(ranks_[culprit].who),
                 printable(jobs_[job].job->failure()));
        for (const std::size_t i : jobs_[job].ranks) {
            if (ranks_[i].connection && (i != culprit || jobs_[job].job->exit_code() == 0))
                (void)::syscall(SYS_pidfd_send_signal, ranks_[i].process.get(), SIGKILL, nullptr, 0);
            ranks_[i].connection.reset();
        }
    }

    std::vector<Rank> ranks_;
    std::vector<std::string> unread_;
    std::vector<Served> jobs_;
    std::vector<std::pair<std::size_t, std::size_t>> place_;  // job, index in it
};

void keep_only(const std::vector<Rank>& ranks) {
    std::vector<unsigned> kept{2};
    for (const Rank& rank : ranks) {
        kept.push_back(static_cast<unsigned>(rank.connection.get()));
        kept.push_back(static_cast<unsigned>(rank.process.get()));
    }
    std::ranges::sort(kept);
    unsigned from = 0;
    for (const unsigned fd : kept) {
        if (fd > from) (void)::close_range(from, fd - 1, 0);
        from = fd + 1;
    }
    (void)::close_range(from, ~0U, 0);
}

}  // namespace

Result<pid_t> start_launcher(std::vector<Rank> ranks) {
    const pid_t child = ::fork();
    if (child < 0) return fail_errno("starting what answers MPI ranks");
    if (child > 0) return child;
    (void)::setsid();
    ::prctl(PR_SET_NAME, "cairn-pmi");
    keep_only(ranks);
    // A variable, because g++ with _FORTIFY_SOURCE doesn't let the answer be thrown away by a cast.
    [[maybe_unused]] const int in_root = ::chdir("/");
    Launcher(std::move(ranks)).serve();
}

}  // namespace cairn::restart::pmi
