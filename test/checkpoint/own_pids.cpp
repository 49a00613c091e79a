// Pid namespaces that processes have made for themselves (unshare(2), clone(2)): what everybody in there is
// called, threads, sessions and groups as well, parents and orphans, senders of signals, children that end
// later, its /proc; and what it is seen as from outside.
// ci: exact virtual user userns
// narrow: none
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <thread>

#include "own_space.h"

namespace {
using namespace own_space;

pid_t own_tid() {
    return static_cast<pid_t>(syscall(SYS_gettid));
}

void ends_with(pid_t pid, int code) {
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == code);
}

// What a process is called, as it was told when it began.
struct Called {
    pid_t pid = getpid(), parent = getppid(), group = getpgrp(), session = getsid(0);
    void verify() const {
        CHECK(getpid() == pid && syscall(SYS_getpid) == pid && own_tid() == pid);
        CHECK(getppid() == parent && getpgrp() == group && getsid(0) == session);
    }
};

// In the first process of a namespace: threads, children, and an orphan.
class Inside {
  public:
    void set_up() {
        called_ = Called();
        CHECK(called_.pid == 1 && called_.parent == 0);
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        CHECK(sigprocmask(SIG_BLOCK, &set, nullptr) == 0);
        for (auto& each : tids_) {
            std::thread([this, &each] {
                each = own_tid();
                for (int seen = 0;; ++answers_) {
                    while (asked_ == seen) usleep(1000);
                    seen = asked_;
                    CHECK(own_tid() == each && getpid() == 1);
                }
            }).detach();
            while (each == 0) usleep(1000);
        }
        leader_ = new Child([this] { lead(); }, [this] { verify_child(); });
        joined_ = new Child([this] { join(); }, [this] { verify_child(); });
        adopt();
        send();
    }
    void verify() {
        called_.verify();
        const int before = answers_;
        ++asked_;
        while (answers_ < before + static_cast<int>(std::size(tids_))) usleep(1000);
        for (const pid_t tid : tids_) CHECK(syscall(SYS_tgkill, 1, tid, 0) == 0);
        CHECK(getpgid(leader_->pid()) == leader_->pid() && getsid(leader_->pid()) == leader_->pid());
        CHECK(getpgid(joined_->pid()) == joined_->pid() && getsid(joined_->pid()) == getsid(0));
        leader_->ask();
        joined_->ask();
        CHECK(kill(orphan_, 0) == 0 && waitpid(orphan_, nullptr, WNOHANG) == 0);
        receive();
        const pid_t child = fork();
        if (child == 0) _exit(getppid() == 1 && getpid() > orphan_ ? 5 : 6);
        ends_with(child, 5);
        send();
    }

  private:
    static constexpr int value = 4711;

    void lead() {
        CHECK(setsid() == getpid());
        child_called_ = Called();
    }
    void join() {
        CHECK(setpgid(0, 0) == 0);
        child_called_ = Called();
        zombie_ = fork();
        if (zombie_ == 0) _exit(9);
        siginfo_t info{};
        CHECK(waitid(P_PID, static_cast<id_t>(zombie_), &info, WEXITED | WNOWAIT) == 0);
    }
    void verify_child() {
        child_called_.verify();
        if (zombie_ == 0) return;
        ends_with(zombie_, 9);
        zombie_ = fork();
        if (zombie_ == 0) _exit(9);
        siginfo_t info{};
        CHECK(waitid(P_PID, static_cast<id_t>(zombie_), &info, WEXITED | WNOWAIT) == 0 &&
              info.si_pid == zombie_);
    }
    void adopt() {
        int ends[2];
        CHECK(pipe(ends) == 0);
        const pid_t middle = fork();
        if (middle == 0) {
            const pid_t child = fork();
            if (child == 0) {
                while (getppid() != 1) usleep(1000);
                for (;;) {
                    CHECK(getppid() == 1);
                    usleep(10'000);
                }
            }
            CHECK(write(ends[1], &child, sizeof child) == sizeof child);
            _exit(0);
        }
        CHECK(read(ends[0], &orphan_, sizeof orphan_) == sizeof orphan_);
        close(ends[0]);
        close(ends[1]);
        ends_with(middle, 0);
    }
    // Stays pending until the next look.
    void send() {
        sender_ = fork();
        if (sender_ == 0) _exit(sigqueue(1, SIGUSR1, {.sival_int = value}) == 0 ? 7 : 8);
        ends_with(sender_, 7);
    }
    void receive() const {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        siginfo_t info{};
        const timespec none{};
        CHECK(sigtimedwait(&set, &info, &none) == SIGUSR1);
        CHECK(info.si_pid == sender_ && info.si_value.sival_int == value);
    }

    Called called_, child_called_;
    std::atomic<pid_t> tids_[3] = {};
    std::atomic<int> asked_ = 0, answers_ = 0;
    Child *leader_ = nullptr, *joined_ = nullptr;
    pid_t orphan_ = 0, sender_ = 0, zombie_ = 0;
};

Inside inside;

void mount_own_proc() {
    CHECK(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
    CHECK(mount("of-our-own", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0);
    // As sandboxes hide parts of it.
    CHECK(mount("/dev/null", "/proc/version", nullptr, MS_BIND, nullptr) == 0);
    CHECK(mount("/usr", "/proc/fs", nullptr, MS_BIND | MS_REC, nullptr) == 0);
    CHECK(mount(nullptr, "/proc/fs", nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV,
                nullptr) == 0);
    CHECK(mount("hidden", "/proc/bus", "tmpfs", MS_RDONLY, nullptr) == 0);
}

void verify_own_proc() {
    char text[32] = {};
    CHECK(readlink("/proc/self", text, sizeof text - 1) == 1 && text[0] == '1');
    CHECK(content("/proc/1/stat").starts_with("1 (") &&
          content("/proc/self/status").find("\nNSpid:\t1\n") != std::string::npos);
    CHECK(content("/proc/sys/kernel/hostname") != "(none)");
    CHECK(content("/proc/self/mountinfo").find(" - proc of-our-own ") != std::string::npos);
    CHECK(content("/proc/version").empty() && access("/proc/fs/bin", F_OK) == 0);
    struct statvfs system {};
    CHECK(statvfs("/proc/fs", &system) == 0 && (system.f_flag & ST_RDONLY) != 0);
    CHECK(content("/proc/bus/pci/devices") == "(none)" &&
          content("/proc/self/mountinfo").find(" - tmpfs hidden ") != std::string::npos);
}

Child* first;

// What the maker sees of its child from outside.
void seen_from_outside() {
    first->ask();
    CHECK(first->pid() > 1 && kill(first->pid(), 0) == 0 && waitpid(first->pid(), nullptr, WNOHANG) == 0);
    CHECK(getpgid(first->pid()) == getpgrp() && getsid(first->pid()) == getsid(0));
}

// `rights`: CLONE_NEWUSER, or nothing for root.
test::Check by_unshare(int rights) {
    return by(new Child(
        [=] {
            if (rights != 0)
                be_root_of_ones_own(CLONE_NEWPID);
            else
                CHECK(unshare(CLONE_NEWPID) == 0);
            first = new Child([] { inside.set_up(); }, [] { inside.verify(); });
        },
        seen_from_outside));
}

test::Check by_clone(int rights, int besides) {
    return by(new Child(
        [=] {
            if (rights != 0) be_root_of_ones_own();
            first = new Child(
                [=] {
                    if (besides != 0) mount_own_proc();
                    inside.set_up();
                },
                [=] {
                    if (besides != 0) verify_own_proc();
                    inside.verify();
                },
                [=] {
                    return static_cast<pid_t>(
                        syscall(SYS_clone, CLONE_NEWPID | besides | SIGCHLD, 0, 0, 0, 0));
                });
        },
        seen_from_outside));
}

template <class Make, class... Arguments>
std::function<test::Check()> made(Make make, Arguments... arguments) {
    return [=] { return make(arguments...); };
}

}  // namespace

int main() {
    need_user_namespaces();
    const test::Case unshared = {"unshare in a user namespace", made(by_unshare, CLONE_NEWUSER)},
                     cloned = {"clone in a user namespace", made(by_clone, CLONE_NEWUSER, 0)},
                     with_proc = {"clone with a mount namespace and proc",
                                  made(by_clone, CLONE_NEWUSER, CLONE_NEWNS)};
    if (user != 0) test::serve({unshared, cloned, with_proc});
    test::serve({unshared,
                 cloned,
                 with_proc,
                 {"unshare by root", made(by_unshare, 0)},
                 {"clone by root with a mount namespace and proc", made(by_clone, 0, CLONE_NEWNS)}});
}
