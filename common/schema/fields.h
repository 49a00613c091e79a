// The fields of a process and of a manifest (common/schema/field.h tells how they are described).
#pragma once

#include "common/schema/field.h"
#include "common/schema/manifest.h"
#include "common/schema/process.h"

namespace cairn::schema {

template <Struct<Tracing> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(tracer);
    CAIRN_FIELD(tracer_thread);
    CAIRN_FIELD(seized);
    CAIRN_FIELD(options);
    CAIRN_FIELD(resume);
    CAIRN_FIELD(stop);
    CAIRN_FIELD(told);
    CAIRN_FIELD(info);
    CAIRN_FIELD(debug_registers);
}

template <Struct<OwnIds> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(uids);
    CAIRN_FIELD(gids);
    CAIRN_FIELD(groups);
    CAIRN_FIELD(cap_bounding);
    CAIRN_FIELD(securebits);
    CAIRN_FIELD(keep_caps);
}

template <Struct<CallDispatch> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(selector);
    CAIRN_FIELD(start);
    CAIRN_FIELD(length);
}

template <Struct<OwnFolders> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(cwd);
    CAIRN_FIELD(root);
    CAIRN_FIELD(umask);
}

template <Struct<Thread> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(tid);
    CAIRN_FIELD(kernel_tid);
    CAIRN_FIELD(own_tid);
    CAIRN_FIELD(leader_dead);
    CAIRN_FIELD(registers);
    CAIRN_FIELD(xstate);
    CAIRN_FIELD(xstate_size);
    CAIRN_FIELD(blocked);
    CAIRN_FIELD(pending);
    CAIRN_FIELD(altstack_base);
    CAIRN_FIELD(altstack_size);
    CAIRN_FIELD(altstack_flags);
    CAIRN_FIELD(clear_child_tid);
    CAIRN_FIELD(robust_list);
    CAIRN_FIELD(robust_list_size);
    CAIRN_FIELD(rseq);
    CAIRN_FIELD(rseq_size);
    CAIRN_FIELD(rseq_signature);
    CAIRN_FIELD(rseq_flags);
    CAIRN_FIELD(name);
    CAIRN_FIELD(policy);
    CAIRN_FIELD(priority);
    CAIRN_FIELD(nice);
    CAIRN_FIELD(ioprio);
    CAIRN_FIELD(sched_runtime);
    CAIRN_FIELD(sched_deadline);
    CAIRN_FIELD(sched_period);
    CAIRN_FIELD(slice);
    CAIRN_FIELD(sched_flags);
    CAIRN_FIELD(affinity);
    CAIRN_FIELD(timerslack);
    CAIRN_FIELD(memory_errors);
    CAIRN_FIELD(no_time_stamps);
    CAIRN_FIELD(no_cpuid);
    CAIRN_FIELD(store_bypass);
    CAIRN_FIELD(indirect_branch);
    CAIRN_FIELD(dispatch);
    CAIRN_FIELD(death_signal);
    CAIRN_FIELD(timeout_left);
    CAIRN_FIELD(cap_effective);
    CAIRN_FIELD(cap_permitted);
    CAIRN_FIELD(cap_inheritable);
    CAIRN_FIELD(cap_ambient);
    CAIRN_FIELD(cpu_ns);
    CAIRN_FIELD(memory_policy);
    CAIRN_FIELD(memory_nodes);
    CAIRN_FIELD(no_new_privs);
    CAIRN_FIELD(filters);
    CAIRN_FIELD(seccomp_strict);
    CAIRN_FIELD(landlock_layers);
    CAIRN_FIELD(tracing);
    CAIRN_FIELD(own_ids);
    CAIRN_FIELD(own_folders);
}

template <Struct<SeccompFilter> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(code);
    CAIRN_FIELD(log);
}

template <Struct<SignalAction> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(handler);
    CAIRN_FIELD(flags);
    CAIRN_FIELD(restorer);
    CAIRN_FIELD(mask);
}

template <Struct<Borrowed> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(from);
    CAIRN_FIELD(file);
    CAIRN_FIELD(pages);
}

template <Struct<HugePages> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_WITHIN(size_log2, 13, 40);
    CAIRN_FIELD(present);
}

template <Struct<Area> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(start);
    CAIRN_FIELD(end);
    CAIRN_FIELD(prot);
    CAIRN_FIELD(kind);
    CAIRN_FIELD(grows_down);
    CAIRN_FIELD(no_reserve);
    CAIRN_FIELD(locked);
    CAIRN_FIELD(lock_on_fault);
    CAIRN_FIELD(dont_fork);
    CAIRN_FIELD(wipe_on_fork);
    CAIRN_FIELD(dont_dump);
    CAIRN_FIELD(huge);
    CAIRN_FIELD(no_huge);
    CAIRN_FIELD(mergeable);
    CAIRN_FIELD(droppable);
    CAIRN_FIELD(never_writable);
    CAIRN_FIELD(random);
    CAIRN_FIELD(sequential);
    CAIRN_FIELD(sealed);
    CAIRN_FIELD(protection_key);
    CAIRN_FIELD(memory_policy);
    CAIRN_FIELD(memory_nodes);
    CAIRN_FIELD(file_offset);
    CAIRN_FIELD(object);
    CAIRN_FIELD(name);
    CAIRN_FIELD(pages);
    CAIRN_FIELD(borrowed);
    CAIRN_FIELD(guards);
    CAIRN_FIELD(huge_pages);
}

template <Struct<Descriptor> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(fd);
    CAIRN_FIELD(object);
    CAIRN_FIELD(close_on_exec);
}

template <Struct<FileLock> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(kind);
    CAIRN_FIELD(fd);
    CAIRN_FIELD(type);
    CAIRN_FIELD(start);
    CAIRN_FIELD(length);
    CAIRN_FIELD(breaking);
}

template <Struct<SemaphoreUndo> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(semaphores);
    CAIRN_FIELD(number);
    CAIRN_FIELD(adjust);
}

template <Struct<PosixTimer> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(id);
    CAIRN_FIELD(clock);
    CAIRN_FIELD(notify);
    CAIRN_FIELD(signal);
    CAIRN_FIELD(tid);
    CAIRN_FIELD(value);
    CAIRN_FIELD(left);
    CAIRN_FIELD(interval);
    CAIRN_FIELD(overrun);
}

template <Struct<IntervalTimer> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(left_us);
    CAIRN_FIELD(interval_us);
}

template <Struct<Limit> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(soft);
    CAIRN_FIELD(hard);
}

template <Struct<MemoryLayout> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(start_code);
    CAIRN_FIELD(end_code);
    CAIRN_FIELD(start_data);
    CAIRN_FIELD(end_data);
    CAIRN_FIELD(start_brk);
    CAIRN_FIELD(brk);
    CAIRN_FIELD(start_stack);
    CAIRN_FIELD(arg_start);
    CAIRN_FIELD(arg_end);
    CAIRN_FIELD(env_start);
    CAIRN_FIELD(env_end);
    CAIRN_FIELD(auxv);
}

template <Struct<NamespaceIds> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_WITHIN(pid, 1, 1 << 22);
    CAIRN_FIELD_WITHIN(pgid, 0, 1 << 22);
    CAIRN_FIELD_WITHIN(sid, 0, 1 << 22);
}

template <Struct<OwnPids> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(space);
    CAIRN_FIELD_WITHIN(owner, -1, INT64_MAX);
    CAIRN_FIELD_WITHIN(pid, 1, 1 << 22);
    CAIRN_FIELD_WITHIN(pgid, 0, 1 << 22);
    CAIRN_FIELD_WITHIN(sid, 0, 1 << 22);
    CAIRN_FIELD(around);
}

template <Struct<OwnMounts> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(cwd);
    CAIRN_FIELD(root);
}

template <Struct<Process> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(uid);
    CAIRN_FIELD(cid);
    CAIRN_FIELD(np);
    CAIRN_FIELD(pid);
    CAIRN_FIELD(ppid);
    CAIRN_FIELD(pgid);
    CAIRN_FIELD(sid);
    CAIRN_FIELD(session_led_outside);
    CAIRN_FIELD(group_led_outside);
    CAIRN_FIELD(subreaper);
    CAIRN_FIELD(run);
    CAIRN_FIELD(stop_signal);
    CAIRN_FIELD(stop_reported);
    CAIRN_FIELD(exit_status);
    CAIRN_FIELD(exit_signal);
    CAIRN_FIELD(name);
    CAIRN_FIELD(terminal);
    CAIRN_FIELD(foreground);
    CAIRN_FIELD(executable);
    CAIRN_FIELD(cwd);
    CAIRN_FIELD(root);
    CAIRN_FIELD(namespaces);
    CAIRN_FIELD(mounts);
    CAIRN_FIELD(own_pids);
    CAIRN_FIELD(children_pids);
    CAIRN_FIELD(empty_pids);
    CAIRN_FIELD(clocks_of_children);
    CAIRN_FIELD(umask);
    CAIRN_FIELD(uids);
    CAIRN_FIELD(gids);
    CAIRN_FIELD(groups);
    CAIRN_FIELD(cap_bounding);
    CAIRN_FIELD(securebits);
    CAIRN_FIELD(no_new_privs);
    CAIRN_FIELD(keep_caps);
    CAIRN_FIELD(dumpable);
    CAIRN_FIELD(oom_score_adj);
    CAIRN_FIELD(coredump_filter);
    CAIRN_FIELD(thp_disable);
    CAIRN_FIELD(thp_disable_flags);
    CAIRN_FIELD(deny_write_execute);
    CAIRN_FIELD(state_permission);
    CAIRN_FIELD(protection_keys);
    CAIRN_FIELD(lock_future);
    CAIRN_FIELD(personality);
    CAIRN_FIELD(limits);
    CAIRN_FIELD(cpu_user_us);
    CAIRN_FIELD(cpu_system_us);
    CAIRN_FIELD(cpu_children_user_us);
    CAIRN_FIELD(cpu_children_system_us);
    CAIRN_FIELD(cpu_ns);
    CAIRN_FIELD(membarrier);
    CAIRN_FIELD(io_uring_off);
    CAIRN_FIELD(filters);
    CAIRN_FIELD(actions);
    CAIRN_FIELD(pending);
    CAIRN_FIELD(itimers);
    CAIRN_FIELD(timers);
    CAIRN_FIELD(layout);
    CAIRN_FIELD(areas);
    CAIRN_FIELD(threads);
    CAIRN_FIELD(descriptors);
    CAIRN_FIELD(locks);
    CAIRN_FIELD(undo);
    CAIRN_FIELD(region_at);
    CAIRN_FIELD(door);
    CAIRN_FIELD(timing_tls);
}

template <Struct<ManifestImage> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(file);
    CAIRN_FIELD(uid);
    CAIRN_FIELD(pid);
    CAIRN_FIELD(name);
    CAIRN_FIELD(bytes);
    CAIRN_FIELD(part);
}

template <Struct<ManifestEarlier> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(file);
    CAIRN_FIELD(pid);
    CAIRN_FIELD(bytes);
}

template <Struct<ManifestPart> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(number);
    CAIRN_FIELD(host);
    CAIRN_FIELD(terminal);
    CAIRN_FIELD(pids);
}

template <Struct<ManifestHost> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(name);
    CAIRN_FIELD(folder);
    CAIRN_FIELD(addresses);
    CAIRN_FIELD(parts);
}

template <Struct<StateComponent> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_WITHIN(number, 2, 62);
    CAIRN_FIELD_WITHIN(offset, 576, 1 << 20);
    CAIRN_FIELD_WITHIN(size, 1, 1 << 20);
}

template <Struct<Manifest> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(version);
    CAIRN_FIELD(cid);
    CAIRN_FIELD(np);
    CAIRN_FIELD(generation);
    CAIRN_FIELD(session);
    CAIRN_FIELD(host);
    CAIRN_FIELD(boot_id);
    CAIRN_FIELD(kernel);
    CAIRN_FIELD(cpu_model);
    CAIRN_FIELD(cpu_flags);
    CAIRN_FIELD(cpu_state);
    CAIRN_FIELD(linker_room);
    CAIRN_FIELD(cpu_level);
    CAIRN_FIELD(raw_ids);
    CAIRN_FIELD(taken_at_ns);
    CAIRN_FIELD(monotonic_ns);
    CAIRN_FIELD(boottime_ns);
    CAIRN_FIELD(pause_ns);
    CAIRN_FIELD(total_ns);
    CAIRN_FIELD(bytes);
    CAIRN_FIELD(parts);
    CAIRN_FIELD(hosts);
    CAIRN_FIELD(images);
    CAIRN_FIELD(earlier);
    CAIRN_FIELD(saved_files);
    CAIRN_FIELD(notes);
}

template <>
struct EnumNames<Run> {
    static constexpr auto table = std::to_array<std::pair<Run, std::string_view>>(
        {{Run::running, "running"}, {Run::stopped, "stopped"}, {Run::zombie, "zombie"}});
};

template <>
struct EnumNames<EmptyPids> {
    static constexpr auto table = std::to_array<std::pair<EmptyPids, std::string_view>>(
        {{EmptyPids::unborn, "unborn"}, {EmptyPids::ended, "ended"}});
};

template <>
struct EnumNames<TracedStop> {
    static constexpr auto table =
        std::to_array<std::pair<TracedStop, std::string_view>>({{TracedStop::running, "running"},
                                                                {TracedStop::in_call, "in_call"},
                                                                {TracedStop::interrupted, "interrupted"},
                                                                {TracedStop::signal, "signal"},
                                                                {TracedStop::call_entry, "call_entry"},
                                                                {TracedStop::call_exit, "call_exit"}});
};

template <>
struct EnumNames<AreaKind> {
    static constexpr auto table =
        std::to_array<std::pair<AreaKind, std::string_view>>({{AreaKind::anonymous, "anonymous"},
                                                              {AreaKind::file_private, "file_private"},
                                                              {AreaKind::file_shared, "file_shared"},
                                                              {AreaKind::shared_memory, "shared_memory"},
                                                              {AreaKind::vdso, "vdso"},
                                                              {AreaKind::vvar, "vvar"},
                                                              {AreaKind::region, "region"}});
};

template <>
struct EnumNames<LockKind> {
    static constexpr auto table =
        std::to_array<std::pair<LockKind, std::string_view>>({{LockKind::posix, "posix"},
                                                              {LockKind::description, "description"},
                                                              {LockKind::flock, "flock"},
                                                              {LockKind::lease, "lease"}});
};

}  // namespace cairn::schema
