#include "restart/forest/kernel.h"

namespace cairn::restart::forest {

namespace {

std::unexpected<Error> refuse(int number, std::string_view call, KernelId caller) {
    errno = number;
    return fail_errno("{} by {}", call, caller);
}

void leave(std::map<KernelId, int>& counts, KernelId id) {
    ++counts[id];
}
void drop(std::map<KernelId, int>& counts, KernelId id) {
    if (--counts[id] == 0) counts.erase(id);
}

}  // namespace

Kernel::Kernel() {
    tasks_[init] = {.pid = init, .parent = KernelId(), .sid = init, .pgid = init};
    leave(groups_, init);
    leave(sessions_, init);
}

Kernel::Task* Kernel::living(KernelId pid) {
    const auto found = tasks_.find(pid);
    return found == tasks_.end() || found->second.zombie ? nullptr : &found->second;
}

bool Kernel::in_use(KernelId id) const {
    return tasks_.contains(id) || groups_.contains(id) || sessions_.contains(id);
}

Result<> Kernel::fork(KernelId caller, KernelId child) {
    Task* parent = living(caller);
    if (parent == nullptr) return refuse(ESRCH, "fork", caller);
    if (in_use(child)) return refuse(EEXIST, fmt::format("fork of {}", child), caller);
    parent->children.insert(child);
    tasks_[child] = {.pid = child, .parent = caller, .sid = parent->sid, .pgid = parent->pgid};
    leave(groups_, parent->pgid);
    leave(sessions_, parent->sid);
    return {};
}

Result<> Kernel::setsid(KernelId caller) {
    Task* task = living(caller);
    if (task == nullptr) return refuse(ESRCH, "setsid", caller);
    // Not only a group's leader is refused: its pid as a group's id is enough, whoever is in that group.
    if (task->sid == caller || groups_.contains(caller)) return refuse(EPERM, "setsid", caller);
    drop(groups_, task->pgid);
    drop(sessions_, task->sid);
    task->sid = task->pgid = caller;
    leave(groups_, caller);
    leave(sessions_, caller);
    return {};
}

Result<> Kernel::setpgid(KernelId caller, KernelId pid, KernelId pgid) {
    const Task* self = living(caller);
    if (self == nullptr) return refuse(ESRCH, "setpgid", caller);
    if (pid == KernelId()) pid = caller;
    if (pgid == KernelId()) pgid = pid;
    const auto found = tasks_.find(pid);
    if (found == tasks_.end()) return refuse(ESRCH, "setpgid", caller);
    Task& task = found->second;
    if (task.parent == caller) {
        if (task.sid != self->sid) return refuse(EPERM, "setpgid", caller);
        if (task.execed) return refuse(EACCES, "setpgid", caller);
    } else if (pid != caller) {
        return refuse(ESRCH, "setpgid", caller);
    }
    if (task.sid == task.pid) return refuse(EPERM, "setpgid", caller);
    if (pgid != pid) {
        bool there = false;
        if (groups_.contains(pgid))
            for (const auto& [id, other] : tasks_)
                if (other.pgid == pgid) {
                    there = other.sid == self->sid;
                    break;
                }
        if (!there) return refuse(EPERM, fmt::format("setpgid to {}", pgid), caller);
    }
    drop(groups_, task.pgid);
    task.pgid = pgid;
    leave(groups_, pgid);
    return {};
}

Result<> Kernel::exec(KernelId caller) {
    Task* task = living(caller);
    if (task == nullptr) return refuse(ESRCH, "exec", caller);
    task->execed = true;
    return {};
}

Result<> Kernel::set_subreaper(KernelId caller, bool on) {
    Task* task = living(caller);
    if (task == nullptr) return refuse(ESRCH, "prctl", caller);
    task->subreaper = on;
    return {};
}

KernelId Kernel::adoptive_parent(const Task& task) const {
    for (KernelId above = task.parent; above != init;) {
        const Task& ancestor = tasks_.at(above);
        if (ancestor.subreaper && !ancestor.zombie) return above;
        above = ancestor.parent;
    }
    return init;
}

Result<> Kernel::exit(KernelId caller, std::int32_t wait_status) {
    Task* task = living(caller);
    if (task == nullptr || caller == init) return refuse(ESRCH, "exit", caller);
    task->zombie = true;
    task->wait_status = wait_status;
    const std::set<KernelId> orphans = std::move(task->children);
    task->children.clear();
    const KernelId adoptive = adoptive_parent(*task);
    const KernelId parent = task->parent;
    for (const KernelId orphan : orphans) {
        tasks_[orphan].parent = adoptive;
        tasks_[adoptive].children.insert(orphan);
        if (adoptive == init && tasks_[orphan].zombie) release(orphan);
    }
    if (parent == init) release(caller);
    return {};
}

Result<> Kernel::wait(KernelId caller, KernelId child) {
    if (living(caller) == nullptr) return refuse(ESRCH, "wait", caller);
    const auto found = tasks_.find(child);
    if (found == tasks_.end() || found->second.parent != caller)
        return refuse(ECHILD, fmt::format("wait for {}", child), caller);
    if (!found->second.zombie) return refuse(EAGAIN, fmt::format("wait for {}", child), caller);
    release(child);
    return {};
}

void Kernel::release(KernelId pid) {
    const auto found = tasks_.find(pid);
    drop(groups_, found->second.pgid);
    drop(sessions_, found->second.sid);
    tasks_[found->second.parent].children.erase(pid);
    tasks_.erase(found);
}

}  // namespace cairn::restart::forest
