// The pass that finds what is behind descriptors and mappings, and saves what stands still only now.
#include <algorithm>
#include <array>
#include <map>

#include "capture/passes/passes.h"
#include "capture/passes/save_files.h"
#include "capture/passes/watch.h"

namespace cairn::capture {
namespace {

// How long to wait for what passes and could be left out with a note.
constexpr auto short_patience = std::chrono::seconds(2);
constexpr auto shortest_patience = std::chrono::milliseconds(200);

// By the kernel's id; null: it is none.
Member* member_of(Members& members, pid_t pid) {
    const auto member =
        std::ranges::find(members.all, pid, [](const Member& each) { return each.process->pid; });
    return member == members.all.end() ? nullptr : &*member;
}

AgentRun* agent_in(Members& members, pid_t pid) {
    const Member* const member = member_of(members, pid);
    return member == nullptr ? nullptr : member->agent;
}

// The descriptors of a process that lead to one of these objects.
std::vector<ProgramFd> leading_to(const schema::Process& image, std::span<const std::int64_t> objects) {
    std::vector<ProgramFd> all;
    for (const auto& descriptor : image.descriptors)
        if (std::ranges::find(objects, descriptor.object) != objects.end()) all.push_back(descriptor.fd);
    return all;
}

Result<RenewedNotice> renew_notice(Members& members, const Reporter& reporter, pid_t process,
                                   std::span<const std::int64_t> queue,
                                   std::span<const std::int64_t> sockets) {
    const Member* const member = member_of(members, process);
    if (member == nullptr) return fail("process {} is no member", process);
    // A filter was asked of other calls only.
    if (!member->image.filters.empty()) return fail("it has a seccomp filter");
    const auto queues = leading_to(member->image, queue), all = leading_to(member->image, sockets);
    if (queues.empty() || all.empty())
        return fail("it has no descriptor of {}", queues.empty() ? "it" : "its socket");
    const auto renewed = TRY(member->agent->renew(queues.front(), all, reporter));
    return RenewedNotice{ProgramFd(renewed.socket), {std::begin(renewed.notice), std::end(renewed.notice)}};
}

// `members` has to outlive the table.
ObjectOptions object_options(const Setting& setting, const Ahead& ahead, std::int32_t np, Members& members) {
    const Request& request = setting.request;
    ObjectOptions options;
    options.to_program = setting.to_program;
    options.cid = request.cid;
    options.np = np;
    options.self_contained = request.self_contained;
    options.may_wait = !request.joint && Clock::now() - ahead.began < short_patience;
    options.may_wait_briefly = options.may_wait && Clock::now() - ahead.began < shortest_patience;
    options.external = request.external;
    if (request.joint) {
        options.meet.connections = [&reporter = setting.reporter](const auto& ours) {
            return reporter.meet(ours);
        };
        options.meet.flowed = [&reporter = setting.reporter] {
            return error_of(reporter.meet(wire::Flowed{}));
        };
    }
    options.region = &setting.regions.owners();
    options.copied = ahead.copied.get();
    options.borrow = [&members, &reporter = setting.reporter](const Holder& holder,
                                                              std::span<const ProgramFd> numbers) {
        AgentRun* const agent = agent_in(members, holder.pid);
        if (agent == nullptr) return Result<std::vector<Fd>>(fail("process {} is no member", holder.pid));
        return members.loans.borrow(*agent, holder.pid, numbers, reporter);
    };
    options.complete = [&members, &reporter = setting.reporter](const Holder& holder,
                                                                ProgramFd ring) -> Result<> {
        const Member* const member = member_of(members, holder.pid);
        // A filter was asked of other calls only.
        if (member == nullptr || !member->image.filters.empty()) return {};
        CHECK_OK(member->agent->ask(agent_complete, static_cast<std::uint64_t>(ring.number())));
        return error_of(member->agent->wait(reporter));
    };
    options.renew_notice = [&members, &reporter = setting.reporter](pid_t process,
                                                                    std::span<const std::int64_t> queue,
                                                                    std::span<const std::int64_t> sockets) {
        return renew_notice(members, reporter, process, queue, sockets);
    };
    options.mincore = [&members, &reporter = setting.reporter](const Holder& holder, ProgramAddress start,
                                                               std::uint64_t length) {
        AgentRun* const agent = agent_in(members, holder.pid);
        return agent == nullptr ? Result<std::vector<std::uint8_t>>()
                                : agent->resident(start, length, reporter);
    };
    return options;
}

Result<> find_notifications(const Member& member, ObjectTable& table) {
    const auto& descriptors = member.image.descriptors;
    if (std::ranges::none_of(descriptors, [&](const schema::Descriptor& descriptor) {
            return table.object(descriptor.object).is<schema::Mqueue>();
        }))
        return {};
    const auto known = TRY(ptrace::read_object<std::array<AgentNotification, max_notifications>>(
        member.process->living, member.process->door + offsetof(Door, notifications)));
    for (const auto& each : known)
        for (const auto& descriptor : descriptors)
            if (each.notify >= 0 && descriptor.fd == ProgramFd(each.queue) && each.used != 0)
                table.notification(member.holder, descriptor.object, each.value);
    return {};
}

// A restart makes a pid namespace from within the user namespace that it belongs to, to which nobody comes
// back who has left it: what its processes are in that belongs to one further out, its maker enters on its
// way in. In a mount or time namespace it couldn't become what it is to be
// (docs/decisions/0035-pid-namespaces.md).
Result<> check_way_in(const Member& member, const std::vector<std::int64_t>& own, const ObjectTable& table) {
    const auto owner = member.image.own_pids->owner;
    if (owner < 0) return {};
    for (const auto id : own) {
        const auto type = table.object(id).get<schema::Namespace>()->type;
        if (type == schema::NamespaceType::mnt || type == schema::NamespaceType::time)
            return fail_code(
                ExitCode::refused,
                "{} is in a pid namespace of a user namespace, and in a {} namespace that belongs to "
                "a user namespace further out, or to none, which can't be saved; let it make one of its own "
                "with the pid namespace (unshare -m, -T)",
                proc::label(member.process->pid), schema::name_of(type));
        if (id == owner) return {};
    }
    return fail_code(
        ExitCode::refused,
        "{} is in a pid namespace of a user namespace that it isn't in itself, which can't be saved",
        proc::label(member.process->pid));
}

Result<> find_namespaces(Member& member, ObjectTable& table) {
    auto own = TRY(table.namespaces(member.holder));
    if (member.image.own_pids) {
        member.image.own_pids->owner = TRY(table.owner_of_pids(member.holder));
        CHECK_OK(check_way_in(member, own, table));
    }
    if (member.image.empty_pids == schema::EmptyPids::ended && !TRY(table.nobody_is_born(member.holder)))
        return fail_code(
            ExitCode::refused,
            "{} has another pid namespace for its children than for itself (unshare, setns), whose first "
            "process is no child of its, which can't be saved",
            proc::label(member.process->pid));
    member.image.clocks_of_children = TRY(table.clocks_of_children(member.holder));
    if (own.empty()) return {};
    for (const auto& thread : member.image.threads)
        if (thread.own_ids)
            return fail_code(ExitCode::refused,
                             "{}: thread {} has a user or groups of its own in a namespace of the "
                             "computation's own, which can't be saved",
                             proc::label(member.process->pid), thread.tid);
    member.image.namespaces = std::move(own);
    return {};
}

// The kernel's number of a pid namespace is another after each restart; its first process stays who it is.
void name_pid_namespaces(Members& members, ObjectTable& table) {
    std::map<std::uint64_t, std::uint64_t> names;
    for (const auto& member : members.all)
        if (const auto& own = member.image.own_pids; own && own->pid == 1)
            names[own->space] = static_cast<std::uint64_t>(member.image.pid.number());
    const auto name = [&](schema::Process& image) {
        if (image.own_pids) image.own_pids->space = names[image.own_pids->space];
    };
    for (auto& member : members.all) name(member.image);
    for (auto& zombie : members.zombies) name(zombie);
    if (!names.empty()) table.name_pid_namespaces(names);
}

// A restart gives everybody in a pid namespace of a user namespace the user and groups that its first process
// has, and others only as far as they can be had from in there.
Result<> check_users(const Member& member, const Member& first, const ObjectTable& table) {
    if (std::ranges::equal(member.image.groups, first.image.groups)) return {};
    const auto* space = table.object(member.image.own_pids->owner).get<schema::Namespace>();
    if (space->own->set_groups) return {};
    return fail_code(ExitCode::refused,
                     "{} is in a pid namespace of the computation's own, and in other groups than the first "
                     "process there, {}, in a user namespace in which nobody may choose groups (setgroups), "
                     "which can't be saved",
                     proc::label(member.process->pid), proc::label(first.process->pid));
}

schema::NamespaceType type_of(std::int64_t id, const ObjectTable& table) {
    return table.object(id).get<schema::Namespace>()->type;
}

// Who is born among those that `base` was the first of is in what that one's maker has entered, and stays
// there unless it has another one of its own.
Result<> check_birth(const Member& member, const Member& base, const ObjectTable& table) {
    const auto none = std::vector<std::int64_t>{};
    const auto owner = base.image.own_pids->owner;
    const auto &its = member.image.namespaces ? *member.image.namespaces : none,
               &bases = base.image.namespaces ? *base.image.namespaces : none;
    const auto inner = std::ranges::find(its, owner), end = std::ranges::find(bases, owner);
    const auto is_born_there = [&](std::int64_t id) { return std::find(bases.begin(), end, id) != end; };
    const auto has_left = [&](std::int64_t id) {
        return std::find(its.begin(), inner, id) != inner ||
               std::any_of(inner, its.end(),
                           [&](std::int64_t own) { return type_of(own, table) == type_of(id, table); });
    };
    if (std::all_of(its.begin(), inner, is_born_there) && std::all_of(bases.begin(), end, has_left))
        return {};
    return fail_code(
        ExitCode::refused,
        "{} is in a pid namespace of a user namespace, and not in the same namespaces that belong to "
        "user namespaces further out as {}, by which it came there, which can't be saved",
        proc::label(member.process->pid), proc::label(base.process->pid));
}

// In a pid namespace that belongs to a user namespace everybody comes back with another number outside, and
// the parent of its first process is told it (0035).
Result<> check_pid_namespaces(const Members& members, const ObjectTable& table) {
    const auto of_users = [](const Member& member) {
        return member.image.own_pids && member.image.own_pids->owner >= 0;
    };
    std::map<std::uint64_t, const Member*> first;
    for (const auto& member : members.all)
        if (of_users(member) && member.image.own_pids->pid == 1)
            first[member.image.own_pids->space] = &member;
    for (const auto& member : members.all)
        if (const auto found = of_users(member) ? first.find(member.image.own_pids->space) : first.end();
            found != first.end())
            CHECK_OK(check_users(member, *found->second, table));
    for (const auto& member : members.all) {
        // The first of its own namespace, or, of such a one, of its parent's.
        const auto* from = &member;
        if (member.image.own_pids && member.image.own_pids->pid == 1) {
            const auto parent = std::ranges::find_if(
                members.all, [&](const Member& each) { return each.image.pid == member.image.ppid; });
            from = parent == members.all.end() ? nullptr : &*parent;
        }
        if (from == nullptr || !of_users(*from)) continue;
        const auto base = first.find(from->image.own_pids->space);
        if (base != first.end() && base->second != &member)
            CHECK_OK(check_birth(member, *base->second, table));
    }
    for (const auto& [space, child] : first)
        for (const auto& parent : members.all)
            if (parent.image.pid == child->image.ppid && parent.raw_ids)
                return fail_code(
                    ExitCode::refused,
                    "{} makes its system calls past libcairn.so and has made a pid namespace in a user "
                    "namespace, whose first process {} will have another number outside after a restart, "
                    "which nothing translates for it; let a dynamic program make it (unshare(1), "
                    "bubblewrap), start cairn inside of it (`unshare -rpf --mount-proc cairn launch "
                    "...`), or have root make it without a user namespace",
                    proc::label(parent.process->pid), proc::label(child->process->pid));
    return {};
}

// Of threads that have left those of their process (unshare(2) with CLONE_FS).
Result<> find_own_folders(Member& member, ObjectTable& table) {
    for (std::size_t i = 0; i < member.image.threads.size(); ++i) {
        auto& thread = member.image.threads[i];
        if (!thread.own_folders) continue;
        if (member.image.mounts)
            return fail_code(ExitCode::refused,
                             "{}: thread {} has a working folder of its own in a mount namespace of the "
                             "computation's own, which can't be saved",
                             proc::label(member.process->pid), thread.tid);
        Holder holder = member.holder;
        holder.tid = member.process->threads[i].tid;
        thread.own_folders->cwd = TRY(table.file(holder, "cwd"));
        thread.own_folders->root = TRY(table.file(holder, "root"));
        if (thread.own_folders->root < 0 && member.image.root >= 0)
            return fail_code(ExitCode::refused,
                             "{}: thread {} has the session's root folder, and the process has another one "
                             "(chroot), which can't be saved",
                             proc::label(member.process->pid), thread.tid);
    }
    return {};
}

Result<StillMap> find_objects(Member& member, std::vector<proc::MapLine> mappings, ObjectTable& table) {
    const auto& process = *member.process;
    auto& image = member.image;
    const Fd pidfd = process.open_pidfd();
    if (!pidfd) return fail_errno("pidfd of {}", proc::label(process.pid));
    Holder holder = member.holder;
    holder.pidfd = pidfd.get();
    image.descriptors = TRY(table.descriptors(holder));
    CHECK_OK(find_notifications(member, table));
    image.locks = table.take_locks(member.holder);
    image.executable = TRY(table.file(member.holder, "exe"));
    const auto own_mounts = TRY(table.own_mounts(member.holder));
    if (own_mounts) {
        image.mounts = *own_mounts;
    } else {
        image.cwd = TRY(table.file(member.holder, "cwd"));
        image.root = TRY(table.file(member.holder, "root"));
    }
    CHECK_OK(find_own_folders(member, table));
    const auto& stat = process.stat;
    image.terminal =
        TRY(table.terminal_of(member.holder, stat.tty_nr, KernelId(stat.session), KernelId(stat.tpgid)));
    return still_map(process, member.holder, std::move(mappings), table);
}

// What a userfaultfd of the group's own watches is its room's to judge. Somebody outside could watch as well.
Result<> refuse_watched_from_outside(const Ahead& ahead, const ObjectTable& table) {
    if (ahead.watched.empty() || has_userfaultfd(table)) return {};
    for (const pid_t pid : ahead.watched) {
        const auto flags = memory_flags(pid);
        if (flags && (flags->watched || flags->write_protected))
            return std::unexpected(watched_from_outside(pid));
    }
    return {};
}

}  // namespace

Result<FoundObjects> pass::objects(const Setting& setting, Ahead& ahead, const Group& group,
                                   Members& members) {
    setting.reporter.phase("objects");
    FoundObjects found{ObjectTable(object_options(setting, ahead, group.np, members)), {}, {}};
    for (const auto& zombie : group.stopped.zombies()) found.table.add_member(zombie.pid);
    for (const auto& member : members.all) found.table.add_member(member.process->pid);
    for (auto& member : members.all) CHECK_OK(find_namespaces(member, found.table));
    name_pid_namespaces(members, found.table);
    CHECK_OK(check_pid_namespaces(members, found.table));
    std::vector<pid_t> living;
    for (const auto& member : members.all) living.push_back(member.process->living);
    auto mappings = TRY(mappings_of_all(living));
    auto next = mappings.begin();
    for (auto& member : members.all) {
        auto map = TRY(find_objects(member, std::move(*next++), found.table));
        found.maps.push_back(std::move(map));
    }
    IpcMap& ipc = setting.regions.ipc();
    CHECK_OK(found.table.system_v(ipc));
    const auto undo = promised_undo(ipc, false), undo_in_own = promised_undo(ipc, true);
    for (auto& member : members.all) {
        const bool in_own = found.table.is_in_own_ipc(member.holder);
        const auto [begin, end] = (in_own ? undo_in_own : undo).equal_range(member.process->pid);
        for (auto each = begin; each != end; ++each) member.image.undo.push_back(each->second);
    }
    // What it watches is found out by asking to watch it as well, which ours would answer.
    if (has_userfaultfd(found.table)) give_up_marks(ahead);
    CHECK_OK(found.table.capture_contents(*ahead.objects_writer));
    CHECK_OK(refuse_watched_from_outside(ahead, found.table));
    if (ahead.saved) found.saved = TRY(save_open_files(setting, ahead, members, found));
    return found;
}

}  // namespace cairn::capture
