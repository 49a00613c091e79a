#include "restart/passes/rebuild.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include "common/proc.h"
#include "common/ptrace/thread.h"
#include "restart/become.h"
#include "restart/heirs/stand_in.h"
#include "restart/own_users.h"
#include "restart/rebuild/advance.h"
#include "restart/rebuild/enter.h"
#include "restart/rebuild/memory_plan.h"
#include "restart/rebuild/page_sources.h"
#include "restart/rebuild/tracee.h"

namespace cairn::restart::pass {
namespace {

// Children that will stop once more. `told`: those that the program has heard of already.
std::vector<KernelId> stopped_children(const Computation& computation, const Forest& forest,
                                       const schema::Process& parent, bool told) {
    std::vector<KernelId> result;
    for (const auto& process : computation.processes)
        if (process.ppid == parent.pid && process.run == schema::Run::stopped &&
            (process.stop_reported || !told))
            result.push_back(parent.own_pids && process.own_pids
                                 ? called_inside(*parent.own_pids, *process.own_pids)
                                 : forest.kernel_id(process.pid));
    return result;
}

// By a userfaultfd of the programs' own.
bool is_watched(const schema::Objects& objects, const schema::Process& process) {
    return std::ranges::any_of(objects.objects, [&](const schema::Object& object) {
        const auto* watching = object.get<schema::Userfaultfd>();
        return watching != nullptr && watching->process == process.pid;
    });
}

Result<pid_t> seize(const schema::Process& process, const Forest& forest) {
    const pid_t pid = forest.kernel_id(process.pid).number();
    if (auto done = ptrace::seize(pid, tracee_options); !done)
        return std::unexpected(std::move(done.error()).in(fmt::format("process {}", process.pid)));
    return pid;
}

// What an heir has by its birth is there. Neither its memory comes lazily, because nobody knows it when the
// page server begins, nor that of who bears it: the server has to tell in which order memory changes and
// children are born, and can't look at a process that the tool traces.
MemoryPlan plan_memory_of(const Computation& computation, const Heirs& heirs, const schema::Process& process,
                          MemoryWishes wishes) {
    const auto process_of = [&](ProgramId id) -> const schema::Process& {
        return *std::ranges::find(computation.processes, id, &schema::Process::pid);
    };
    const auto heir = heirs.find(process.pid);
    const bool bears =
        std::ranges::any_of(heirs, [&](const auto& each) { return each.second == process.pid; });
    wishes.lazy = wishes.lazy && !bears && heir == heirs.end();
    if (heir == heirs.end()) return plan_memory(process, wishes);
    return plan_memory(process, wishes, inherited_areas(process, process_of(heir->second)));
}

void tell_of_heirs(const Heirs& heirs, std::vector<Rebuilding>& all) {
    std::map<ProgramId, std::size_t> place_of;
    for (std::size_t i = 0; i < all.size(); ++i) place_of[all[i].process->pid] = i;
    for (const auto& [heir, parent] : heirs)
        all[place_of.at(parent)].heirs.emplace_back(place_of.at(heir), heir);
}

// Whether the pid namespace of its first process belongs to none of the group's own user namespaces.
bool is_of_tools_users(const Computation& computation, ProgramId first) {
    const auto found = std::ranges::find(computation.processes, first, &schema::Process::pid);
    return found == computation.processes.end() || !found->own_pids || found->own_pids->owner < 0;
}

// What the process's clock shows more than that of programs in no time namespace of their own, ns.
std::int64_t lead_of(const schema::Objects& objects, const schema::Process& process) {
    if (!process.namespaces) return 0;
    for (const auto& object : objects.objects)
        if (const auto* space = object.get<schema::Namespace>();
            space != nullptr && space->own && space->own->clocks &&
            std::ranges::find(*process.namespaces, object.id) != process.namespaces->end())
            return space->own->clocks->monotonic;
    return 0;
}

Result<std::vector<Rebuilding>> seize_all(const Computation& computation, const Heirs& heirs,
                                          const Spaces& spaces, bool lazy, const Forest& forest) {
    const auto wishes = memory_wishes_here(lazy);
    std::size_t more_images = 256;  // of earlier generations, for the page server
    std::vector<Rebuilding> all;
    OtherImages other_images(computation);
    for (const auto i : computation.living) {
        const auto& process = computation.processes[i];
        Rebuilding one;
        one.is_heir = heirs.contains(process.pid);
        if (!one.is_heir) one.pid = TRY(seize(process, forest));
        one.process = &process;
        one.image_path = computation.images[i].path();
        one.folder = computation.directory;
        // In a pid namespace of its own a process speaks of others as it ever did.
        const ToKernel to_kernel = process.own_pids ? ToKernel(kernel_id_of_same_number) : spaces.to_kernel;
        one.translation = {to_kernel, &spaces.regions.owners().ipc,
                           spaces.clock_shift + lead_of(computation.objects.objects, process)};
        one.other_users = TRY(other_users(process, computation));
        if (process.children_pids) {
            one.first_of_children = forest.kernel_id(*process.children_pids);
            const auto* const first = process_called(*process.children_pids, computation);
            // From within it can be entered as soon as from anywhere below.
            one.children_pids_early =
                process.own_pids || is_of_tools_users(computation, *process.children_pids);
            if (process.own_pids && first != nullptr && first->own_pids)
                one.first_of_children = called_inside(*process.own_pids, *first->own_pids);
        }
        // Two can't watch the same memory.
        auto its_wishes = wishes;
        if (is_watched(computation.objects.objects, process)) its_wishes.lazy = false;
        one.memory = plan_memory_of(computation, heirs, process, its_wishes);
        // The page server keeps each open.
        if (!one.memory.lazy_runs.empty() && one.memory.others.size() > more_images) {
            its_wishes.lazy = false;
            one.memory = plan_memory_of(computation, heirs, process, its_wishes);
        } else if (!one.memory.lazy_runs.empty()) {
            more_images -= one.memory.others.size();
        }
        CHECK_OK(find_page_sources(computation.images[i], other_images, one));
        one.told_children = stopped_children(computation, forest, process, true);
        one.untold_child = !stopped_children(computation, forest, process, false).empty();
        all.push_back(std::move(one));
    }
    tell_of_heirs(heirs, all);
    return all;
}

// Before anybody needs it: the restorer itself touches memory that isn't there yet. Null: nobody does.
Result<std::unique_ptr<pages::Service>> start_page_server(const Spaces& spaces, const std::string& lock,
                                                          std::vector<Rebuilding>& processes) {
    pages::Work work;
    std::vector<Fd> images;
    std::vector<Rebuilding*> served;
    for (const auto& each : spaces.regions.all()) work.regions.push_back({each.region, each.key});
    for (auto& one : processes) {
        if (one.memory.lazy_runs.empty()) continue;
        pages::Served its{one.pid, one.process->name, {}, one.memory.lazy_runs};
        for (std::uint32_t image = 0; image < one.page_sources.size(); ++image) {
            auto opened = TRY(open_pages(one, image));
            images.push_back(std::move(opened.file));
            its.images.push_back(std::move(opened.data));
        }
        work.processes.push_back(std::move(its));
        served.push_back(&one);
    }
    if (served.empty()) return std::unique_ptr<pages::Service>();
    auto service = TRY(pages::Service::start(std::move(work), lock));
    for (std::uint32_t number = 0; number < served.size(); ++number)
        served[number]->take_user_fault = [server = service.get(), number,
                                           pid = served[number]->pid](ProgramFd there) {
            return server->provide(number, pid, there);
        };
    return service;
}

// Traps, stops and ends of all tracees, until every process is complete.
class Rebuilder {
  public:
    Rebuilder(const Computation& computation, const Plan& plan, const Spaces& spaces, const Objects& objects,
              Rebuilt& rebuilt)
        : computation_(computation),
          spaces_(spaces),
          objects_(objects),
          rebuilt_(rebuilt),
          index_(index_objects(computation.objects.objects)),
          stand_ins_(spaces.avoid),
          arrival_{computation,    plan.nodes,       index_, objects.set, objects.image_place.get(),
                   spaces.regions, spaces.to_kernel, false} {
        for (std::size_t i = 0; i < rebuilt.processes.size(); ++i)
            if (!rebuilt.processes[i].is_heir) know(rebuilt.processes[i].pid, i);
    }

    Result<> run() {
        while (complete_ < rebuilt_.processes.size()) {
            const auto happening = next_event(process_of_, 100);
            if (happening.tid == 0) continue;
            if (happening.event == Event::ended && rebuilt_.pages &&
                rebuilt_.pages->ended(happening.tid, happening.detail))
                continue;
            if (const auto number = find(happening)) CHECK_OK(act_on(happening, *number));
        }
        return {};
    }

  private:
    // The process that the thread is of; nothing if it is none of ours, such as a reader's or a placeholder.
    std::optional<std::size_t> find(const Happening& happening) {
        auto process = process_of_.find(happening.tid);
        if (process == process_of_.end()) {
            if (happening.event == Event::ended) return {};
            auto status = proc::status(happening.tid, happening.tid);
            const pid_t leader = status ? std::atoi((*status)["Tgid"].c_str()) : 0;
            if (leader == happening.tid && !number_of_.contains(leader)) return born(leader);
            if (!number_of_.contains(leader)) return {};
            process = process_of_.emplace(happening.tid, leader).first;
        }
        return number_of_.at(process->second);
    }

    void know(pid_t pid, std::size_t number) {
        number_of_[pid] = number;
        process_of_[pid] = pid;
    }

    // Of a process that nobody has heard of: an heir, which says itself which one.
    std::optional<std::size_t> born(pid_t pid) {
        const auto stat = proc::stat(pid);
        const auto parent = stat ? number_of_.find(stat->ppid) : number_of_.end();
        if (parent == number_of_.end()) return {};
        const auto& bearer = rebuilt_.processes[parent->second];
        const auto which = ptrace::read_object<std::uint32_t>(
            pid, bearer.placement.params + offsetof(restorer::Params, born));
        if (!which || *which == 0 || *which > bearer.heirs.size()) return {};
        const auto [number, id] = bearer.heirs[*which - 1];
        auto& heir = rebuilt_.processes[number];
        heir.pid = pid;
        rebuilt_.forest.processes->made.emplace(id, KernelId(pid));
        know(pid, number);
        return number;
    }

    Result<> enter_heir(Rebuilding& heir, std::size_t number) {
        if (!spaces_.exact_ids)
            CHECK_OK(rebuilt_.forest.bound_ids->bind(heir.process->pid, KernelId(heir.pid)));
        const auto index = computation_.living[number];
        auto stand_in = stand_ins_.start([&] {
            const auto done = arrange_descriptors(index, arrival_);
            if (!done) rebuilt_.forest.stage.report(index, done.error().what);
            return done.has_value();
        });
        if (!stand_in) {
            const auto why = rebuilt_.forest.stage.reported(index);
            return fail("process {} ({}): {}", heir.process->pid, heir.process->name,
                        why.empty() ? stand_in.error().what : why);
        }
        heir.stand_in = std::move(*stand_in);
        return enter(heir, inherited(*heir.process));
    }

    Result<> act_on(const Happening& happening, std::size_t number) {
        auto& one = rebuilt_.processes[number];
        switch (happening.event) {
            case Event::execed:
                return enter(one, inherited(*one.process));
            case Event::trapped: {
                if (one.is_heir && one.stand_in.pid == 0) return enter_heir(one, number);
                if (!one.to_place.empty()) return place_restorer(one);
                const bool complete = TRY(trapped(one));
                if (complete) ++complete_;
                return {};
            }
            case Event::stopped:
                (void)ptrace::resume(happening.tid, 0);
                return {};
            case Event::ended:
                return fail_ended(number, happening.detail);
            case Event::crashed:
                if (happening.detail == SIGSEGV || happening.detail == SIGBUS || happening.detail == SIGILL)
                    return fail("process {} ({}) crashed while it was rebuilt: {}", one.process->pid,
                                one.process->name, ::strsignal(happening.detail));
                (void)ptrace::resume(happening.tid, happening.detail);
                return {};
        }
        return {};
    }

    [[nodiscard]] Inherited inherited(const schema::Process& process) const {
        return {objects_.set,
                *objects_.system_v,
                objects_.image_place.get(),
                spaces_.regions.of(process).fd.get(),
                objects_.close_from,
                spaces_.exact_ids,
                [this](std::int64_t object) { return path_of(index_, object); },
                [this](std::int64_t object) { return in_proc_of_the_dead(index_, object); }};
    }

    [[nodiscard]] Result<> fail_ended(std::size_t number, int status) const {
        const auto& process = *rebuilt_.processes[number].process;
        const auto why = rebuilt_.forest.stage.reported(computation_.living[number]);
        return fail("process {} ({}) {}", process.pid, process.name,
                    why.empty() ? fmt::format("ended while it was rebuilt (status {:#x})", status) : why);
    }

    const Computation& computation_;
    const Spaces& spaces_;
    const Objects& objects_;
    Rebuilt& rebuilt_;
    const ObjectIndex index_;
    HeirStandIns stand_ins_;
    const Arrival arrival_;
    std::map<pid_t, std::size_t> number_of_;  // of each process, in Rebuilt::processes
    std::map<pid_t, pid_t> process_of_;       // of each thread that has been heard of
    std::size_t complete_ = 0;
};

}  // namespace

Result<Rebuilt> rebuild(const Computation& computation, const Plan& plan, const Spaces& spaces,
                        Objects& objects, const Meeting& meeting, Forest forest) {
    Rebuilt rebuilt{nullptr, std::move(forest), {}};
    CHECK_OK(objects.set.open_processes(spaces.to_kernel));
    rebuilt.processes = TRY(seize_all(computation, plan.heirs, spaces, objects.lazy, rebuilt.forest));
    rebuilt.pages = TRY(start_page_server(spaces, meeting.session().pages(), rebuilt.processes));
    for (const auto i : computation.living) rebuilt.forest.stage.release(i);
    CHECK_OK(Rebuilder(computation, plan, spaces, objects, rebuilt).run());
    return rebuilt;
}

}  // namespace cairn::restart::pass
