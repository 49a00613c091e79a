#include "restart/rebuild/last_files.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "resources/restore/opening.h"
#include "restart/own_users.h"
#include "restart/rebuild/userfaultfds.h"

namespace cairn::restart {
namespace {

struct Place {
    const Rebuilding* process;
    int number;
};
using Places = std::map<std::int64_t, Place>;  // of objects that are open already

// What `caller` calls another process; 0: it doesn't see it. A pid namespace's first process is the child of
// one in that around it.
pid_t called_by(const Rebuilding& caller, const Rebuilding& called, const std::vector<Rebuilding>& all) {
    const auto& from = caller.process->own_pids;
    if (!from) return called.pid;
    const auto find = [&](const auto& is_it) {
        const auto found = std::ranges::find_if(all, is_it);
        return found == all.end() ? nullptr : &*found;
    };
    const auto* each = &called;
    while (each != nullptr && each->process->own_pids) {
        const auto space = each->process->own_pids->space;
        if (space == from->space) return called_inside(*from, *called.process->own_pids).number();
        const auto* first = find([&](const Rebuilding& one) {
            return one.process->own_pids && one.process->own_pids->space == space &&
                   one.process->own_pids->pid == 1;
        });
        each = first == nullptr
                   ? nullptr
                   : find([&](const Rebuilding& one) { return one.process->pid == first->process->ppid; });
    }
    return 0;
}

class LastFiles {
  public:
    LastFiles(const Rebuilding& rebuilding, const ObjectIndex& objects, const ToKernel& to_kernel,
              Places& places, const std::vector<Rebuilding>& all)
        : process_(*rebuilding.process),
          rebuilding_(rebuilding),
          all_(all),
          objects_(objects),
          to_kernel_(to_kernel),
          places_(places) {}

    // `by_path`: those of a proc that this process sees, and not everybody who has them; else all others.
    [[nodiscard]] Result<> open_all(bool by_path) {
        for (const auto& descriptor : process_.descriptors) {
            const auto found = objects_.find(descriptor.object);
            if (found == objects_.end() || !is_last(*found->second)) continue;
            if (by_path != sees_inner_proc_of(*found->second)) continue;
            auto placed = place(descriptor, *found->second);
            if (!placed)
                return std::unexpected(
                    std::move(placed.error()).in(fmt::format("descriptor {}", descriptor.fd)));
        }
        return {};
    }

    // Each epoll is filled once, by the first process that has both.
    [[nodiscard]] Result<> watch(std::set<std::pair<std::int64_t, std::size_t>>& watched) {
        if (first_.empty()) return {};
        for (const auto& descriptor : process_.descriptors) {
            const auto found = objects_.find(descriptor.object);
            const auto* epoll = found == objects_.end() ? nullptr : found->second->get<schema::Epoll>();
            if (epoll == nullptr) continue;
            for (std::size_t i = 0; i < epoll->targets.size(); ++i)
                if (first_.contains(epoll->targets[i].object) && watched.emplace(found->first, i).second)
                    CHECK_OK(add(descriptor.fd.number(), epoll->targets[i]));
        }
        return {};
    }

  private:
    [[nodiscard]] Result<Hand> hand() const { return Hand::of(rebuilding_); }

    [[nodiscard]] bool sees_inner_proc_of(const schema::Object& object) const {
        const auto* inner = inner_proc_of(object);
        return inner != nullptr && process_.namespaces &&
               std::ranges::find(*process_.namespaces, inner->space) != process_.namespaces->end();
    }

    Result<> place(const schema::Descriptor& descriptor, const schema::Object& object) {
        const auto make = TRY(hand());
        const int number = descriptor.fd.number();
        const int close_on_exec = descriptor.close_on_exec ? O_CLOEXEC : 0;
        const auto [first, is_new] = first_.emplace(descriptor.object, number);
        if (!is_new) return error_of(make.call("dup3", SYS_dup3, first->second, number, close_on_exec));
        CHECK_OK(make.call("close", SYS_close, number));  // there may be no other
        int opened = fetch(make, descriptor.object);
        if (opened < 0) opened = TRY(open(make, object));
        places_.try_emplace(descriptor.object, &rebuilding_, number);
        if (opened != number) {
            CHECK_OK(make.call("dup3", SYS_dup3, opened, number, close_on_exec));
            CHECK_OK(make.call("close", SYS_close, opened));
        } else {
            CHECK_OK(make.call("fcntl", SYS_fcntl, number, F_SETFD, close_on_exec != 0 ? FD_CLOEXEC : 0));
        }
        return {};
    }

    // From who has it already; -1: nobody has, or it can't be had (yama, no number is free).
    [[nodiscard]] int fetch(const Hand& make, std::int64_t object) const {
        const auto there = places_.find(object);
        if (there == places_.end()) return -1;
        const pid_t holder = called_by(rebuilding_, *there->second.process, all_);
        if (holder == 0) return -1;
        const auto from = make.call("pidfd_open", SYS_pidfd_open, holder, 0);
        if (!from) return -1;
        const auto fetched = make.call("pidfd_getfd", SYS_pidfd_getfd, *from, there->second.number, 0);
        (void)make.call("close", SYS_close, *from);
        return fetched.value_or(-1);
    }

    Result<int> open(const Hand& make, const schema::Object& object) const {
        if (object.is<schema::Userfaultfd>()) return fail("a userfaultfd can't be taken from who has it");
        if (const auto* pidfd = object.get<schema::Pidfd>())
            return make.call("pidfd_open", SYS_pidfd_open, kernel_id(to_kernel_, pidfd->pid).number(),
                             static_cast<unsigned>(object.flags & O_NONBLOCK) | O_EXCL);
        std::array<char, 256> text = {};
        const auto* inner = inner_proc_of(object);
        if (inner != nullptr && !sees_inner_proc_of(object))
            return fail("{}: a file of another pid namespace's proc can't be taken from who has it",
                        object.path);
        const std::string path = inner != nullptr ? inner->path : kernel_path(object.path, to_kernel_);
        if (path.size() >= text.size()) return fail("{}: too long", path);
        path.copy(text.data(), path.size());
        const auto at = TRY(make.put(text));
        const int file = TRY(make.call(path.c_str(), SYS_open, at, reopen_flags(object.flags), 0));
        if (object.position != 0 && (object.flags & O_PATH) == 0)
            CHECK_OK(make.call("lseek", SYS_lseek, file, object.position, SEEK_SET));
        return file;
    }

    // By the number that it was added by, which may be another's by now, or nobody's.
    Result<> add(int epoll, const schema::EpollTarget& target) const {
        const auto make = TRY(hand());
        epoll_event event{};
        event.events = target.events;
        event.data.u64 = target.data;
        const int from = first_.at(target.object), number = target.fd.number();
        const auto same = [&](const schema::Descriptor& each) {
            return each.fd == target.fd && each.object == target.object;
        };
        if (std::ranges::any_of(process_.descriptors, same))
            return error_of(
                make.call("epoll_ctl", SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, number, TRY(make.put(event))));
        const auto before = make.call("dup", SYS_dup, number);
        CHECK_OK(make.call("dup2", SYS_dup2, from, number));
        CHECK_OK(make.call("epoll_ctl", SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, number, TRY(make.put(event))));
        if (!before) return error_of(make.call("close", SYS_close, number));
        const auto held = std::ranges::find(process_.descriptors, target.fd, &schema::Descriptor::fd);
        const bool close_on_exec = held != process_.descriptors.end() && held->close_on_exec;
        CHECK_OK(make.call("dup3", SYS_dup3, *before, number, close_on_exec ? O_CLOEXEC : 0));
        return error_of(make.call("close", SYS_close, *before));
    }

    const schema::Process& process_;
    const Rebuilding& rebuilding_;
    const std::vector<Rebuilding>& all_;
    const ObjectIndex& objects_;
    const ToKernel& to_kernel_;
    Places& places_;
    std::map<std::int64_t, int> first_;  // object -> its first number here
};

// Where they are until everybody has what he had of them.
struct Made {
    const Rebuilding* owner;
    int number;
};

Result<std::vector<Made>> make_userfaultfds(const std::vector<Rebuilding>& processes,
                                            const ObjectIndex& objects, Places& places) {
    std::vector<Made> made;
    for (const auto& [id, object] : objects) {
        const auto* saved = object->get<schema::Userfaultfd>();
        if (saved == nullptr) continue;
        const auto owner = std::ranges::find(processes, saved->process,
                                             [](const Rebuilding& one) { return one.process->pid; });
        if (owner == processes.end())
            return fail_code(ExitCode::damaged, "a userfaultfd watches process {}, which isn't there",
                             saved->process);
        const auto hand = TRY(Hand::of(*owner));
        const int number = TRY(make_userfaultfd(hand, *object, *saved));
        made.push_back({&*owner, number});
        places.try_emplace(id, &*owner, number);
    }
    return made;
}

}  // namespace

Result<> open_last_files(const std::vector<Rebuilding>& processes, const ObjectIndex& objects) {
    std::map<ProgramId, KernelId> threads;
    for (const auto& one : processes)
        for (const auto& [image, now] : one.thread_ids) threads.emplace(image, now);
    std::set<std::pair<std::int64_t, std::size_t>> watched;
    Places places;
    const auto made = TRY(make_userfaultfds(processes, objects, places));
    std::vector<ToKernel> to_kernel;
    for (const auto& one : processes)
        to_kernel.emplace_back([&](ProgramId id) {
            const auto found = threads.find(id);
            return found == threads.end() ? kernel_id(one.translation.to_kernel, id) : found->second;
        });
    std::vector<LastFiles> all;
    for (std::size_t i = 0; i < processes.size(); ++i)
        all.emplace_back(processes[i], objects, to_kernel[i], places, processes);
    for (auto& files : all) CHECK_OK(files.open_all(true));
    for (auto& files : all) {
        CHECK_OK(files.open_all(false));
        CHECK_OK(files.watch(watched));
    }
    for (const auto& [owner, number] : made) CHECK_OK(TRY(Hand::of(*owner)).call("close", SYS_close, number));
    return {};
}

}  // namespace cairn::restart
