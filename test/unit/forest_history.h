// Random programs: processes that fork, setsid, setpgid, exec, exit, wait and become subreapers at random,
// run on the model of the kernel, and what a checkpoint would see of them.
#pragma once

#include <random>
#include <set>
#include <vector>

#include "restart/forest/kernel.h"
#include "restart/forest/node.h"

namespace cairn::restart::forest::test {

struct Manner {
    int steps = 60;
    std::size_t most_alive = 25;
    bool subreapers = true;
    bool subreapers_cease = false;  // PR_SET_CHILD_SUBREAPER with 0, which hardly any program does
    bool outside = true;            // launched from a shell, in its session; else every root leads one
    bool odd_exits = true;          // zombies by signals
};

class History {
  public:
    History(std::uint32_t seed, const Manner& manner) : random_(seed), manner_(manner) {
        start();
        for (int i = 0; i < manner_.steps; ++i) step();
    }

    // The processes of the computation as they are now.
    [[nodiscard]] std::vector<Node> nodes() const {
        std::vector<Node> all;
        for (const KernelId pid : members_) {
            const auto found = kernel_.tasks().find(pid);
            if (found == kernel_.tasks().end()) continue;
            const Kernel::Task& task = found->second;
            all.push_back({.pid = program_id_of_same_number(pid),
                           .ppid = program_id_of_same_number(task.parent),
                           .sid = program_id_of_same_number(task.sid),
                           .pgid = program_id_of_same_number(task.pgid),
                           .subreaper = task.subreaper,
                           .zombie = task.zombie,
                           .wait_status = task.wait_status,
                           .orphan = task.parent == Kernel::init || task.parent == adoptive_,
                           .session_outside = outsider(task.sid),
                           .group_outside = outsider(task.pgid)});
        }
        return all;
    }

  private:
    std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
    bool chance(int percent) { return below(100) < static_cast<std::size_t>(percent); }
    KernelId fresh() { return KernelId(next_ += 1 + static_cast<int>(below(3))); }
    [[nodiscard]] bool outsider(KernelId id) const {
        return kernel_.tasks().contains(id) && !members_.contains(id);
    }

    KernelId born(KernelId parent, bool member) {
        const KernelId pid = fresh();
        (void)kernel_.fork(parent, pid);
        if (member) members_.insert(pid);
        return pid;
    }

    void start() {
        KernelId above = Kernel::init;
        if (chance(30)) {  // systemd --user
            above = adoptive_ = born(above, false);
            (void)kernel_.set_subreaper(adoptive_, true);
        }
        shell_ = born(above, false);
        (void)kernel_.setsid(shell_);
        launch();
    }

    // What a shell's job, a script's line, or setsid(1) starts.
    void launch() {
        if (!kernel_.tasks().contains(shell_)) return;
        if (!manner_.outside) {
            const KernelId root = born(shell_, true);
            (void)kernel_.setsid(root);
            return;
        }
        switch (below(4)) {
            case 0: {  // a job of its own
                const KernelId root = born(shell_, true);
                (void)kernel_.setpgid(shell_, root, root);
                (void)kernel_.exec(root);
                return;
            }
            case 1: {  // in the group of another that isn't ours, that may be gone
                const KernelId first = born(shell_, false);
                (void)kernel_.setpgid(shell_, first, first);
                const KernelId root = born(shell_, true);
                (void)kernel_.setpgid(shell_, root, first);
                if (chance(50)) {
                    (void)kernel_.exit(first, 0);
                    (void)kernel_.wait(shell_, first);
                }
                return;
            }
            case 2: {
                const KernelId root = born(shell_, true);
                (void)kernel_.setsid(root);
                return;
            }
            default:
                born(shell_, true);
                return;  // a script: its own group
        }
    }

    [[nodiscard]] std::vector<KernelId> living() const {
        std::vector<KernelId> all;
        for (const KernelId pid : members_)
            if (const auto found = kernel_.tasks().find(pid);
                found != kernel_.tasks().end() && !found->second.zombie)
                all.push_back(pid);
        return all;
    }

    std::int32_t status() {
        if (!manner_.odd_exits || chance(60)) return static_cast<std::int32_t>(below(256)) << 8;
        static constexpr int signals[] = {1, 2, 6, 9, 11, 15, 34};
        return signals[below(std::size(signals))];
    }

    void step() {
        const std::vector<KernelId> alive = living();
        if (alive.empty()) return launch();
        const KernelId self = alive[below(alive.size())];
        const Kernel::Task& task = kernel_.tasks().at(self);
        const std::size_t dice = below(100);
        if (dice < 22) {
            (void)kernel_.exit(self, status());
        } else if (dice < 34) {
            (void)kernel_.setsid(self);
        } else if (dice < 52) {  // setpgid, of itself or a child, to a group of its own or anybody's
            KernelId whom = self;
            if (!task.children.empty() && chance(40)) whom = *task.children.begin();
            const KernelId to = chance(40) ? KernelId() : kernel_.tasks().at(alive[below(alive.size())]).pgid;
            (void)kernel_.setpgid(self, whom, to);
        } else if (dice < 57) {
            for (const KernelId child : std::set<KernelId>(task.children)) (void)kernel_.wait(self, child);
        } else if (dice < 61) {
            if (manner_.subreapers)
                (void)kernel_.set_subreaper(self, !manner_.subreapers_cease || chance(50));
        } else if (dice < 65) {
            (void)kernel_.exec(self);
        } else if (dice < 66) {
            launch();
        } else if (dice < 67) {
            if (manner_.outside && chance(15)) (void)kernel_.exit(shell_, 0);
        } else if (alive.size() < manner_.most_alive) {
            born(self, true);
        }
        reap_outside();
    }

    void reap_outside() {
        if (adoptive_.known())
            for (const KernelId child : std::set<KernelId>(kernel_.tasks().at(adoptive_).children))
                (void)kernel_.wait(adoptive_, child);
        if (const auto shell = kernel_.tasks().find(shell_); shell != kernel_.tasks().end() && chance(70))
            for (const KernelId child : std::set<KernelId>(shell->second.children))
                (void)kernel_.wait(shell_, child);
    }

    std::mt19937 random_;
    Manner manner_;
    Kernel kernel_;
    std::set<KernelId> members_;
    KernelId shell_, adoptive_;
    int next_ = 500;
};

}  // namespace cairn::restart::forest::test
