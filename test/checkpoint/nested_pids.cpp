// Pid namespaces below one another, in one user namespace or each in one of its own: what everybody is called
// in each of them, threads, groups and sessions as well, and children whom those know who are further out.
// ci: exact virtual user
// narrow: none
// witness: none (objects are numbered in the order of ids outside, which are others each time)
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <sstream>
#include <thread>
#include <vector>

#include "own_space.h"

namespace {
using namespace own_space;

// NSpid of /proc/self/status and the like, without the number outside of all.
std::vector<int> numbers(const std::string& field) {
    const std::string text = content("/proc/self/status");
    const auto at = text.find("\n" + field + ":");
    CHECK(at != std::string::npos);
    std::istringstream words(text.substr(at + field.size() + 2, text.find('\n', at + 1) - at));
    std::vector<int> all;
    for (int number = 0; words >> number;) all.push_back(number);
    CHECK(!all.empty());
    all.erase(all.begin());
    return all;
}

struct Called {
    std::vector<int> pids = numbers("NSpid"), groups = numbers("NSpgid"), sessions = numbers("NSsid");
    pid_t pid = getpid(), parent = getppid(), group = getpgrp(), session = getsid(0);
    void verify() const {
        const Called now;
        CHECK(now.pids == pids && now.groups == groups && now.sessions == sessions);
        CHECK(now.pid == pid && now.parent == parent && now.group == group && now.session == session);
    }
};

void make_pids(bool in_own_users) {
    if (!in_own_users) {
        CHECK(unshare(CLONE_NEWPID) == 0);
        return;
    }
    const uid_t now = getuid();
    const gid_t group_now = getgid();
    CHECK(unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0);
    put("/proc/self/setgroups", "deny");
    put("/proc/self/uid_map", "0 " + std::to_string(now) + " 1");
    put("/proc/self/gid_map", "0 " + std::to_string(group_now) + " 1");
}

// A process with children, the last of which is the first in a namespace below as long as `deeper` isn't 0.
class Life {
  public:
    Life(int deeper, bool in_own_users) : deeper_(deeper), in_own_users_(in_own_users) {}
    void set_up() {
        called_ = new Called;
        plain_ = new Child([this] { begin([] {}); }, [this] { called_->verify(); });
        leader_ =
            new Child([this] { begin([] { CHECK(setsid() == getpid()); }); }, [this] { called_->verify(); });
        joined_ =
            new Child([this] { begin([] { CHECK(setpgid(0, 0) == 0); }); }, [this] { called_->verify(); });
        zombie_ = fork();
        if (zombie_ == 0) _exit(9);
        see_zombie();
        std::thread([this] {
            tid_ = static_cast<pid_t>(syscall(SYS_gettid));
            for (int seen = 0;; ++answers_) {
                while (asked_ == seen) usleep(1000);
                seen = asked_;
                CHECK(syscall(SYS_gettid) == tid_);
            }
        }).detach();
        while (tid_ == 0) usleep(1000);
        if (deeper_ == 0) return;
        maker_ = new Child(
            [this] {
                make_pids(in_own_users_);
                called_ = new Called;
                first_ = new Child([this] { go_deeper(); }, [this] { next_->verify(); });
            },
            [this] {
                called_->verify();
                CHECK(kill(first_->pid(), 0) == 0 && waitpid(first_->pid(), nullptr, WNOHANG) == 0);
                first_->ask();
            });
    }
    void verify() {
        called_->verify();
        const int before = answers_;
        ++asked_;
        while (answers_ == before) usleep(1000);
        CHECK(getsid(leader_->pid()) == leader_->pid() && getpgid(joined_->pid()) == joined_->pid());
        for (const Child* each : {plain_, leader_, joined_}) each->ask();
        see_zombie();
        if (maker_ != nullptr) maker_->ask();
    }

  private:
    template <class Do>
    void begin(Do act) {
        act();
        called_ = new Called;
    }
    void go_deeper() {
        CHECK(getpid() == 1 && getppid() == 0);
        next_ = new Life(deeper_ - 1, in_own_users_);
        next_->set_up();
    }
    void see_zombie() const {
        siginfo_t info{};
        CHECK(waitid(P_PID, static_cast<id_t>(zombie_), &info, WEXITED | WNOWAIT) == 0);
        CHECK(info.si_pid == zombie_ && info.si_status == 9);
    }

    int deeper_;
    bool in_own_users_;
    Called* called_ = nullptr;
    Child *plain_ = nullptr, *leader_ = nullptr, *joined_ = nullptr, *maker_ = nullptr, *first_ = nullptr;
    Life* next_ = nullptr;
    pid_t zombie_ = 0;
    std::atomic<pid_t> tid_ = 0;
    std::atomic<int> asked_ = 0, answers_ = 0;
};

test::Check nested(int levels, bool outer_users, bool inner_users) {
    static Child* first;
    static Life* life;
    return by(new Child(
        [=] {
            make_pids(outer_users);
            first = new Child(
                [=] {
                    life = new Life(levels - 1, inner_users);
                    life->set_up();
                },
                [] { life->verify(); });
        },
        [] { first->ask(); }));
}

}  // namespace

int main() {
    need_user_namespaces();
    const test::Case plain = {"two in one user namespace", [] { return nested(2, true, false); }},
                     each = {"two, each in a user namespace", [] { return nested(2, true, true); }},
                     three = {"three, each in a user namespace", [] { return nested(3, true, true); }};
    if (user != 0) test::serve({plain, each, three});
    test::serve({plain,
                 each,
                 three,
                 {"two of root's", [] { return nested(2, false, false); }},
                 {"one of root's, two in user namespaces", [] { return nested(3, false, true); }}});
}
