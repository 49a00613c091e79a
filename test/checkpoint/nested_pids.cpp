// Pid namespaces below one another, in one user namespace or each in one of its own: what everybody is called
// in each of them, threads, groups and sessions as well, and children whom those know who are further out.
// ci: exact userns
// narrow: none
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/sem.h>
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

std::string space(const char* name) {
    char path[32], link[64] = {};
    std::snprintf(path, sizeof path, "/proc/self/ns/%s", name);
    CHECK(readlink(path, link, sizeof link - 1) > 0);
    return link;
}

std::string host() {
    char name[64] = {};
    CHECK(gethostname(name, sizeof name - 1) == 0);
    return name;
}

void bring_up_lo() {
    const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq request = {};
    strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP;
    CHECK(ioctl(any, SIOCSIFFLAGS, &request) == 0 && close(any) == 0);
}

// A socket that listens where its maker is, and is called from there.
int listen_here() {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(listener >= 0 && listen(listener, 1) == 0);
    return listener;
}
bool is_called(int listener) {
    sockaddr_in name{};
    socklen_t length = sizeof name;
    auto* const address = reinterpret_cast<sockaddr*>(&name);
    CHECK(getsockname(listener, address, &length) == 0);
    const int caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool done = caller >= 0 && connect(caller, address, length) == 0;
    if (done) close(accept(listener, nullptr, nullptr));
    close(caller);
    return done;
}

// Network, host name and System V objects of the user namespace around, in which everybody of the pid
// namespace below is, but for one who has left the network.
test::Check in_what_belongs_around(int levels) {
    static Child *first, *apart;
    static Life* life;
    static std::string outer_network, own_network;
    static int listener, key;
    return by(new Child(
        [=] {
            be_root_of_ones_own(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC);
            CHECK(sethostname("around", 6) == 0);
            bring_up_lo();
            listener = listen_here();
            key = semget(IPC_PRIVATE, 3, 0600);
            outer_network = space("net");
            make_pids(true);
            first = new Child(
                [=] {
                    life = new Life(levels - 1, true);
                    life->set_up();
                    apart = new Child(
                        [] {
                            CHECK(unshare(CLONE_NEWNET) == 0);
                            own_network = space("net");
                            CHECK(own_network != outer_network);
                        },
                        [] { CHECK(host() == "around" && !is_called(listener)); });
                },
                [] {
                    life->verify();
                    apart->ask();
                    CHECK(host() == "around" && is_called(listener));
                    CHECK(semctl(key, 2, GETVAL) == 0);
                });
        },
        [] {
            CHECK(host() == "around" && is_called(listener));
            first->ask();
        }));
}

}  // namespace

int main() {
    need_user_namespaces();
    const test::Case plain = {"two in one user namespace", [] { return nested(2, true, false); }},
                     each = {"two, each in a user namespace", [] { return nested(2, true, true); }},
                     three = {"three, each in a user namespace", [] { return nested(3, true, true); }};
    const test::Case around = {"in a network of the user namespace around",
                               [] { return in_what_belongs_around(1); }},
                     around_two = {"in a network of a user namespace two levels up",
                                   [] { return in_what_belongs_around(2); }};
    // A look at some hundred processes takes long.
    if (test::is_watched()) test::serve({three, around});
    if (user != 0) test::serve({plain, each, three, around, around_two});
    test::serve({plain,
                 each,
                 three,
                 around,
                 around_two,
                 {"two of root's", [] { return nested(2, false, false); }},
                 {"one of root's, two in user namespaces", [] { return nested(3, false, true); }}});
}
