#include "restart/forest/simulate.h"

#include <algorithm>
#include <set>

namespace cairn::restart::forest {

namespace {

constexpr std::int32_t first_free = 100'000;  // where the model's kernel takes pids from that nobody asks for

class Run {
  public:
    Run(const Plan& plan, const Simulation& how) : plan_(plan), how_(how), reached_(plan.barriers.size(), 0) {
        result_.made.resize(plan.processes.size());
        position_.assign(plan.processes.size(), 0);
    }

    Result<Simulated> run() {
        CHECK_OK(set_up_tool());
        while (!alive_.empty()) {
            std::vector<int> able;
            for (const int process : alive_)
                if (can_go(process)) able.push_back(process);
            if (able.empty()) return std::unexpected(stuck());
            const int process = able[how_.choose(able.size())];
            if (auto done = take_step(process); !done)
                return std::unexpected(std::move(done.error()).in(plan_.processes[at(process)].name));
        }
        return std::move(result_);
    }

  private:
    // A shell that leads a session and has put the tool into a group of its own.
    Result<> set_up_tool() {
        Kernel& kernel = result_.kernel;
        const KernelId shell(next_++);
        result_.tool = result_.made[0] = KernelId(next_++);
        CHECK_OK(kernel.fork(Kernel::init, shell));
        CHECK_OK(kernel.setsid(shell));
        CHECK_OK(kernel.fork(shell, result_.tool));
        alive_.push_back(0);
        if (how_.tool_leads_session) return kernel.setsid(result_.tool);
        return kernel.setpgid(result_.tool, {}, {});
    }

    [[nodiscard]] const Step& next_step(int process) const {
        return plan_.processes[at(process)].steps[at(position_[at(process)])];
    }

    [[nodiscard]] bool is_zombie(int process) const {
        const auto found = result_.kernel.tasks().find(result_.made[at(process)]);
        return found != result_.kernel.tasks().end() && found->second.zombie;
    }

    [[nodiscard]] bool can_go(int process) const {
        const Step& step = next_step(process);
        switch (step.act) {
            case Act::wait:
            case Act::serve:
                return reached_[at(step.barrier)] >= plan_.barriers[at(step.barrier)].needed;
            case Act::reap:
            case Act::see_zombie:
                return is_zombie(step.process);
            default:
                return true;
        }
    }

    [[nodiscard]] Error stuck() const {
        std::string text = "nobody can go on";
        for (const int process : alive_)
            text += fmt::format("; {}: {}", plan_.processes[at(process)].name,
                                describe(plan_, next_step(process)));
        return {text};
    }

    Result<> take_step(int process) {
        const Step step = next_step(process);
        ++position_[at(process)];
        const KernelId self = result_.made[at(process)];
        Kernel& kernel = result_.kernel;
        switch (step.act) {
            case Act::fork:
                return fork(self, step.process);
            case Act::setsid:
                return kernel.setsid(self);
            case Act::new_pids:
                return {};
            case Act::join_group:
                return kernel.setpgid(self, {},
                                      step.process == 0 ? kernel.tasks().at(result_.tool).pgid
                                                        : result_.made[at(step.process)]);
            case Act::subreaper:
                return kernel.set_subreaper(self, step.on);
            case Act::signal:
                if (++reached_[at(step.barrier)] > plan_.barriers[at(step.barrier)].needed)
                    return fail("barrier \"{}\" is signalled too often",
                                plan_.barriers[at(step.barrier)].name);
                return {};
            case Act::wait:
            case Act::serve:
                return {};
            case Act::reap:
                return kernel.wait(self, result_.made[at(step.process)]);
            case Act::see_zombie:
                if (kernel.tasks().at(result_.made[at(step.process)]).parent != self)
                    return fail("zombie {} is another's child", result_.made[at(step.process)]);
                return {};
            case Act::exit: {
                const int node = plan_.processes[at(process)].node;
                std::erase(alive_, process);
                return kernel.exit(self, node < 0 ? 0 : plan_.nodes[at(node)].wait_status);
            }
            case Act::become:
                std::erase(alive_, process);
                return process == 0 ? Result<>{} : kernel.exec(self);
        }
        return {};
    }

    Result<> fork(KernelId self, int child) {
        const Process& process = plan_.processes[at(child)];
        if (result_.made[at(child)].known()) return fail("{} is forked twice", process.name);
        const KernelId pid =
            how_.exact_ids && process.exact ? kernel_id_of_same_number(process.id) : KernelId(next_++);
        result_.made[at(child)] = pid;
        alive_.push_back(child);
        const bool as_sibling = plan_.processes[at(process.forker)].role == Role::maker;
        const KernelId parent = as_sibling ? result_.kernel.tasks().at(self).parent : self;
        return result_.kernel.fork(parent, pid);
    }

    const Plan& plan_;
    const Simulation& how_;
    Simulated result_;
    std::vector<int> position_;  // of each process: its next step
    std::vector<int> alive_;
    std::vector<int> reached_;
    std::int32_t next_ = first_free;
};

// Ids of the plan and the kernel's, each way at most one.
class Mapping {
  public:
    Result<> add(Id id, KernelId made, const char* what) {
        const auto [found, fresh] = made_.emplace(id, made);
        if (!fresh && found->second != made)
            return fail("{} {} is {} here and {} there", what, id, found->second, made);
        return {};
    }
    [[nodiscard]] KernelId operator()(Id id) const {
        const auto found = made_.find(id);
        return found == made_.end() ? KernelId() : found->second;
    }

  private:
    std::map<Id, KernelId> made_;
};

}  // namespace

Result<Simulated> simulate(const Plan& plan, const Simulation& how) {
    return Run(plan, how).run();
}

Result<> compare(const Plan& plan, const std::vector<KernelId>& made, const std::map<KernelId, Seen>& seen,
                 const Surroundings& around) {
    Mapping pids, groups;  // apart: a group led from outside may have the id of nobody
    std::set<KernelId> used;
    for (std::size_t i = 0; i < plan.processes.size(); ++i) {
        const Process& process = plan.processes[i];
        if (!process.id.known() || !made[i].known()) continue;
        if (!used.insert(made[i]).second) return fail("{} has got a pid that another has too", process.name);
        if (process.exact) CHECK_OK(pids.add(process.id, made[i], "process"));
        CHECK_OK(groups.add(process.id, made[i], "group"));
    }
    for (const Id id : plan.outer_groups) CHECK_OK(groups.add(id, around.tool_pgid, "group"));
    const auto session = [&](Id id) {
        return std::ranges::find(plan.outer_sessions, id) != plan.outer_sessions.end() ? around.tool_sid
                                                                                       : pids(id);
    };
    for (const Node& node : plan.nodes) {
        const auto found = seen.find(pids(node.pid));
        if (found == seen.end()) return fail("process {} is not there", node.pid);
        const Seen& is = found->second;
        const auto same = [&](const char* what, Id old, KernelId should, KernelId now) -> Result<> {
            if (should == now) return {};
            return fail("process {} ({} now): {} was {}, so {} is expected, but it is {}", node.pid, is.pid,
                        what, old, should, now);
        };
        const KernelId parent = pids(node.ppid);
        if (auto done = same("parent", node.ppid,
                             parent.known() ? parent
                             : node.orphan  ? around.adoptive
                                            : around.tool,
                             is.ppid);
            !done)
            return done;
        CHECK_OK(same("session", node.sid, session(node.sid), is.sid));
        CHECK_OK(same("group", node.pgid, groups(node.pgid), is.pgid));
        if (node.zombie != is.zombie)
            return fail("process {} is {} zombie", node.pid, is.zombie ? "a" : "no");
        if (node.zombie && node.wait_status != is.wait_status)
            return fail("zombie {}: wait status {:#x}, expected {:#x}", node.pid, is.wait_status,
                        node.wait_status);
        if (!node.zombie && node.subreaper != is.subreaper)
            return fail("process {} is {} subreaper", node.pid, is.subreaper ? "a" : "no");
    }
    return {};
}

Result<> check(const Plan& plan, const Simulation& how) {
    auto done = TRY(simulate(plan, how));
    const auto& tasks = done.kernel.tasks();
    std::map<KernelId, Seen> seen;
    for (const auto& [pid, task] : tasks)
        seen[pid] = {.pid = pid,
                     .ppid = task.parent,
                     .sid = task.sid,
                     .pgid = task.pgid,
                     .zombie = task.zombie,
                     .wait_status = task.wait_status,
                     .subreaper = task.subreaper};
    const Seen& tool = seen.at(done.tool);
    if (tool.subreaper) return fail("the tool is still a subreaper");
    for (std::size_t i = 1; i < plan.processes.size(); ++i) {
        const Process& process = plan.processes[i];
        if (!done.made[i].known()) return fail("{} was never forked", process.name);
        if (process.node < 0 && seen.contains(done.made[i])) return fail("{} is left over", process.name);
        if (process.exact && how.exact_ids && !same_number(process.id, done.made[i]))
            return fail("{} has pid {}", process.name, done.made[i]);
    }
    return compare(
        plan, done.made, seen,
        {.tool = done.tool, .tool_sid = tool.sid, .tool_pgid = tool.pgid, .adoptive = Kernel::init});
}

}  // namespace cairn::restart::forest
