#include "restart/rebuild.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "common/agent.h"
#include "common/fd.h"
#include "common/ipc_arguments.h"
#include "common/pid_arguments.h"
#include "common/region.h"
#include "common/siginfo.h"
#include "common/timeout.h"
#include "restart/filters.h"
#include "restart/limits.h"
#include "restart/memory_plan.h"
#include "restart/objects/locks.h"
#include "restart/pages/user_fault.h"
#include "restart/privileges.h"
#include "restart/restorer/params.h"
#include "restart/step_words.h"

extern "C" {
extern const std::uint8_t cairn_restorer_begin[];
extern const std::uint8_t cairn_restorer_end[];
}

namespace cairn::restart {
namespace {

constexpr std::uint64_t page = 4096;

std::uint64_t whole_pages(std::uint64_t size) {
    return (size + page - 1) / page * page;
}

// The image's own areas that are the kernel's special mappings.
bool is_special(const schema::Area& area) {
    return area.kind == schema::AreaKind::vdso || area.kind == schema::AreaKind::vvar;
}

bool is_special(const proc::MapLine& line) {
    return line.name.starts_with('[') && line.name != "[stack]" && line.name != "[heap]";
}

}  // namespace

// Memory that will lie at `base` in the process; add() gives the address that a thing will have there.
class Rebuild::Block {
  public:
    explicit Block(std::uint64_t base) : base_(base), bytes_(sizeof(restorer::Params)) {}

    [[nodiscard]] restorer::Params& params() { return *reinterpret_cast<restorer::Params*>(bytes_.data()); }

    std::uint64_t add(const void* data, std::size_t size) {
        bytes_.resize((bytes_.size() + 15) / 16 * 16);
        const auto at = base_ + bytes_.size();
        const auto* begin = static_cast<const std::uint8_t*>(data);
        bytes_.insert(bytes_.end(), begin, begin + size);
        return at;
    }
    template <class T>
    std::uint64_t add(const std::vector<T>& items) {
        return items.empty() ? 0 : add(items.data(), items.size() * sizeof(T));
    }
    std::uint64_t add(const std::string& text) { return add(text.c_str(), text.size() + 1); }

    [[nodiscard]] std::span<const std::byte> bytes() const { return std::as_bytes(std::span(bytes_)); }

  private:
    std::uint64_t base_;
    std::vector<std::uint8_t> bytes_;
};

Rebuild::Rebuild(pid_t pid, RebuildContext context) : pid_(pid), context_(std::move(context)) {
    static const MemoryWishes here = [] {
        cpu_set_t processors;
        const bool known = ::sched_getaffinity(0, sizeof processors, &processors) == 0;
        return MemoryWishes{machine_has_huge_pages(),
                            known ? static_cast<unsigned>(CPU_COUNT(&processors)) : 1, false,
                            // for tests of what is done where the kernel has none, or forbids it
                            std::getenv("CAIRN_NO_USERFAULTFD") == nullptr};
    }();
    auto wishes = here;
    wishes.lazy = context_.lazy;
    memory_ = plan_memory(process(), wishes);
}

// An exec stop lies inside execve: its result would overwrite rax. One step further there is none.
Result<> Rebuild::settle_exec() {
    CHECK_OK(ptrace::interrupt(pid_));
    CHECK_OK(ptrace::resume(pid_, 0));
    int status = 0;
    if (::waitpid(pid_, &status, __WALL) != pid_) return fail_errno("waiting for {}", pid_);
    if (!WIFSTOPPED(status)) return fail("process {} died after its exec (status {:#x})", pid_, status);
    return {};
}

// A place that neither the image nor the fresh program uses, far from stacks that may grow.
Result<std::uint64_t> Rebuild::find_hole(const std::vector<proc::MapLine>& lines, std::uint64_t size) const {
    constexpr std::uint64_t margin = 64 << 20, lowest = std::uint64_t{1} << 32, highest = 0x7ffff0000000ULL;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> used;
    for (const auto& line : lines) used.emplace_back(line.start, line.end);
    for (const auto& area : process().areas) used.emplace_back(area.start, area.end);
    std::ranges::sort(used);
    std::uint64_t end = lowest;
    for (const auto& [start, stop] : used) {
        if (start > end && start - end >= size + 2 * margin) return end + margin;
        end = std::max(end, stop);
    }
    if (end < highest && highest - end >= size + 2 * margin) return end + margin;
    return fail("process {}: no free place of {} bytes between its mappings", process().pid, size);
}

Result<> Rebuild::enter() {
    CHECK_OK(settle_exec());
    auto lines = TRY(proc::maps(pid_, false));
    std::uint64_t special = 0;
    for (const auto& line : lines)
        if (is_special(line)) special += line.end - line.start;

    const auto reading_size = memory_.readers * restorer::reader_space;
    const auto attaching_size = largest_segment();

    Block measure(0);
    CHECK_OK(fill(measure, lines, 0));
    blob_size_ = whole_pages(static_cast<std::uint64_t>(cairn_restorer_end - cairn_restorer_begin));
    total_size_ = blob_size_ + whole_pages(measure.bytes().size() + page);
    auto hole =
        find_hole(lines, total_size_ + special + page + restorer::huge_page + reading_size + attaching_size);
    if (!hole) return std::unexpected(std::move(hole.error()));
    base_ = *hole;
    params_at_ = base_ + blob_size_;
    staging_ = base_ + total_size_;
    reader_spaces_ = (staging_ + special + restorer::huge_page) / restorer::huge_page * restorer::huge_page;
    attach_at_ = reader_spaces_ + reading_size;

    const auto vdso = std::ranges::find(lines, std::string("[vdso]"), &proc::MapLine::name);
    if (vdso == lines.end()) return fail("process {} has no vdso", pid_);
    auto call_at = TRY(find_syscall(pid_, vdso->start, vdso->end - vdso->start));
    const std::array<std::uint64_t, 6> map = {base_,
                                              total_size_,
                                              PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                                              ~std::uint64_t{0},
                                              0};
    auto mapped = TRY(remote_call(pid_, call_at, SYS_mmap, map));
    if (static_cast<std::uint64_t>(mapped) != base_)
        return fail("process {}: no memory for the restorer ({})", pid_,
                    std::strerror(static_cast<int>(-mapped)));
    const auto blob = std::as_bytes(std::span(cairn_restorer_begin, cairn_restorer_end));
    CHECK_OK(ptrace::write_memory(pid_, base_, blob));
    const std::array<std::uint64_t, 3> protect = {base_, blob_size_, PROT_READ | PROT_EXEC};
    auto protection = remote_call(pid_, call_at, SYS_mprotect, protect);
    if (!protection || *protection != 0)
        return fail("process {}: the restorer can't be made executable", pid_);

    Block block(params_at_);
    CHECK_OK(fill(block, lines, staging_));
    CHECK_OK(ptrace::write_memory(pid_, params_at_, block.bytes()));

    restorer::Entries entries = {};
    std::memcpy(&entries, cairn_restorer_begin, sizeof entries);
    auto registers = TRY(ptrace::registers(pid_));
    registers.rip = base_ + entries.rebuild;
    registers.rdi = params_at_;
    registers.rsp = params_at_ + offsetof(restorer::Params, stack) + sizeof(restorer::Params::stack) - 8;
    registers.eflags = 0x202;
    registers.orig_rax = static_cast<std::uint64_t>(-1);
    CHECK_OK(ptrace::set_registers(pid_, registers));
    return ptrace::resume(pid_, 0);
}

Result<> Rebuild::fill(Block& block, const std::vector<proc::MapLine>& lines, std::uint64_t staging) {
    std::vector<restorer::Span> unmap;
    std::vector<restorer::Move> moves;
    for (const auto& line : lines) {
        if (line.name == "[vsyscall]") continue;
        if (is_special(line)) {
            const auto area = std::ranges::find_if(process().areas, [&](const auto& other) {
                return is_special(other) && other.name == line.name;
            });
            if (area != process().areas.end()) {
                if (area->end - area->start != line.end - line.start)
                    return fail_code(ExitCode::refused,
                                     "process {}: {} has {} bytes in the image and {} here: another kernel",
                                     process().pid, line.name, area->end - area->start,
                                     line.end - line.start);
                moves.push_back({line.start, staging, area->start, line.end - line.start});
                staging += line.end - line.start;
                continue;
            }
        }
        unmap.push_back({line.start, line.end - line.start});
    }
    for (const auto& area : process().areas)
        if (is_special(area) && std::ranges::find(lines, area.name, &proc::MapLine::name) == lines.end())
            return fail_code(ExitCode::refused, "process {}: this kernel has no {}", process().pid,
                             area.name);

    const auto unmap_at = block.add(unmap);
    const auto moves_at = block.add(moves);
    block.params().unmap = unmap_at;
    block.params().unmap_count = unmap.size();
    block.params().moves = moves_at;
    block.params().move_count = moves.size();
    fill_areas(block);
    fill_threads(block);
    fill_signals(block);
    fill_credentials(block);
    CHECK_OK(fill_descriptors(block));
    fill_undo(block);
    filters_at_.clear();
    for (const auto& filter : process().filters) {
        const auto code = block.add(filter.code);
        const sock_fprog program = {static_cast<unsigned short>(filter.code.size() / sizeof(sock_filter)),
                                    reinterpret_cast<sock_filter*>(code)};
        filters_at_.push_back(block.add(&program, sizeof program));
    }

    const auto& layout = process().layout;
    const auto auxv = block.add(layout.auxv);
    prctl_mm_map map = {};
    map.start_code = layout.start_code;
    map.end_code = layout.end_code;
    map.start_data = layout.start_data;
    map.end_data = layout.end_data;
    map.start_brk = layout.start_brk;
    map.brk = layout.brk;
    map.start_stack = layout.start_stack;
    map.arg_start = layout.arg_start;
    map.arg_end = layout.arg_end;
    map.env_start = layout.env_start;
    map.env_end = layout.env_end;
    map.auxv = reinterpret_cast<__u64*>(auxv);
    map.auxv_size = static_cast<__u32>(layout.auxv.size());
    map.exe_fd = ~0U;
    const auto map_at = block.add(&map, sizeof map);
    auto& params = block.params();
    params.layout = map_at;
    params.layout_size = sizeof map;
    params.umask = process().umask;
    params.subreaper = process().subreaper ? 1 : 0;
    params.thp_disable = process().thp_disable ? 1 : 0;
    params.dumpable = process().dumpable;
    params.membarrier = process().membarrier;
    params.lock_future = process().lock_future;
    params.personality = process().personality;
    params.root_fd = process().root >= 0 ? context_.objects->place_of(process(), process().root) : -1;
    params.cwd_fd = process().cwd >= 0 ? context_.objects->place_of(process(), process().cwd) : -1;
    return {};
}

void Rebuild::fill_areas(Block& block) {
    std::vector<restorer::Area> areas;
    std::map<std::int64_t, std::uint64_t> paths;
    for (const auto& area : process().areas) {
        if (is_special(area)) continue;
        restorer::Area out = {area.start,
                              area.end,
                              area.prot,
                              0,
                              -1,
                              0,
                              0,
                              area.file_offset,
                              -1,
                              area.memory_policy,
                              area.memory_policy == 0 ? 0 : block.add(area.memory_nodes),
                              area.memory_nodes.size() * 8 + 1};
        using schema::AreaKind;
        const bool shared = area.kind == AreaKind::file_shared || area.kind == AreaKind::shared_memory ||
                            area.kind == AreaKind::region;
        const auto flag = [&](bool set, std::uint32_t bit) { out.flags |= set ? bit : 0; };
        flag(shared, restorer::area_shared);
        flag(area.grows_down, restorer::area_grows_down);
        flag(area.no_reserve, restorer::area_no_reserve);
        flag(area.locked, restorer::area_locked);
        flag(area.lock_on_fault, restorer::area_lock_on_fault);
        flag(area.dont_fork, restorer::area_dont_fork);
        flag(area.wipe_on_fork, restorer::area_wipe_on_fork);
        flag(area.dont_dump, restorer::area_dont_dump);
        flag(area.huge, restorer::area_huge);
        flag(area.no_huge, restorer::area_no_huge);
        flag(area.mergeable, restorer::area_mergeable);
        flag(!area.pages.empty(), restorer::area_filled);
        if (const int segment = context_.system_v->segment(area.object); segment >= 0) {
            out.segment = segment;
            out.flags |= restorer::area_segment;
        } else if (area.kind == AreaKind::region) {
            out.fd = context_.region_fd;
        } else if (area.kind != AreaKind::anonymous) {
            out.fd = context_.objects->place_of(process(), area.object);
            if (out.fd < 0) {
                auto& at = paths[area.object];
                if (at == 0) at = block.add(context_.path_of(area.object));
                out.path = at;
            }
        }
        areas.push_back(out);
    }
    const auto areas_at = block.add(areas);
    const auto runs_at = block.add(memory_.runs);
    const auto units_at = block.add(memory_.units);
    const auto watched_at = block.add(memory_.watched);
    const auto guards_at = block.add(memory_.guards);
    auto& params = block.params();
    params.areas = areas_at;
    params.area_count = areas.size();
    params.runs = runs_at;
    params.run_count = memory_.runs.size();
    params.units = units_at;
    params.unit_count = memory_.units.size();
    params.watched = watched_at;
    params.watched_count = memory_.watched.size();
    params.guards = guards_at;
    params.guard_count = memory_.guards.size();
    const auto lazy_at = block.add(memory_.lazy_areas);
    block.params().lazy = lazy_at;
    block.params().lazy_count = memory_.lazy_areas.size();
    block.params().lazy_features = pages::wanted_features;
    block.params().readers = memory_.readers;
    block.params().reader_spaces = reader_spaces_;
    block.params().wide_hash = __builtin_cpu_supports("avx2") != 0 ? 1 : 0;
    block.params().image_fd = context_.image_fd;
}

void Rebuild::fill_threads(Block& block) {
    std::vector<restorer::Thread> threads;
    const auto own = own_scheduling();
    for (const auto& thread : process().threads) {
        restorer::Thread out = {};
        out.image_tid = thread.tid;
        out.old_tid = thread.kernel_tid;
        out.tid = context_.exact_ids && !threads.empty() ? thread.tid : 0;
        out.altstack_base = thread.altstack_base;
        out.altstack_size = thread.altstack_size;
        out.altstack_flags = thread.altstack_flags;
        out.death_signal = thread.death_signal;
        out.clear_child_tid = thread.clear_child_tid;
        out.robust_list = thread.robust_list;
        out.robust_list_size = thread.robust_list_size;
        out.rseq = thread.rseq;
        out.rseq_size = thread.rseq_size;
        out.rseq_signature = thread.rseq_signature;
        out.timerslack = thread.timerslack;
        std::strncpy(out.name, thread.name.c_str(), sizeof out.name - 1);
        out.sched_policy = static_cast<std::uint32_t>(thread.policy);
        out.sched_priority = static_cast<std::uint32_t>(thread.priority);
        out.nice = thread.nice;
        out.ioprio = thread.ioprio;
        out.sched_runtime = thread.sched_runtime;
        out.sched_deadline = thread.sched_deadline;
        out.sched_period = thread.sched_period;
        if (thread.leader_dead) out.altstack_flags = 2;  // SS_DISABLE
        out.set_scheduling = !thread.leader_dead && !own.same_as(thread) ? 1 : 0;
        out.affinity = block.add(thread.affinity);
        out.affinity_size = thread.affinity.size();
        out.cap_effective = thread.cap_effective;
        out.cap_permitted = thread.cap_permitted;
        out.cap_inheritable = thread.cap_inheritable;
        out.cap_ambient = thread.cap_ambient;
        schema::Bytes infos;
        for (auto info : thread.pending) {
            info.resize(sizeof(siginfo_t));
            translate_sender(info, context_.to_kernel);
            infos.insert(infos.end(), info.begin(), info.end());
        }
        out.memory_policy = thread.memory_policy;
        out.memory_nodes = thread.memory_policy == 0 ? 0 : block.add(thread.memory_nodes);
        out.node_count = thread.memory_nodes.size() * 8 + 1;
        out.no_new_privs = thread.no_new_privs ? 1 : 0;
        out.pending = block.add(infos);
        out.pending_count = static_cast<std::uint32_t>(thread.pending.size());
        threads.push_back(out);
    }
    threads_at_ = block.add(threads);
    block.params().threads = threads_at_;
    block.params().thread_count = threads.size();
    expected_ = threads.size();
}

void Rebuild::fill_signals(Block& block) {
    schema::Bytes infos;
    for (auto info : process().pending) {
        info.resize(sizeof(siginfo_t));
        translate_sender(info, context_.to_kernel);
        infos.insert(infos.end(), info.begin(), info.end());
    }
    std::vector<restorer::Timer> timers;
    for (const auto& timer : process().timers)
        timers.push_back({timer.id, timer.clock, timer.notify, timer.signal, timer.tid, 0, timer.value,
                          timer.left, timer.interval});
    std::ranges::sort(timers, {}, &restorer::Timer::id);  // the kernel counts upwards
    const auto infos_at = block.add(infos);
    const auto timers_at = block.add(timers);
    auto& params = block.params();
    params.pending = infos_at;
    params.pending_count = process().pending.size();
    params.timers = timers_at;
    params.timer_count = timers.size();
    for (std::size_t i = 0; i < process().actions.size() && i < 64; ++i) {
        const auto& action = process().actions[i];
        params.actions[i] = {action.handler, action.flags, action.restorer, action.mask};
    }
    for (std::size_t i = 0; i < process().itimers.size() && i < 3; ++i) {
        const auto& timer = process().itimers[i];
        params.itimers[i] = {timer.interval_us / 1'000'000, timer.interval_us % 1'000'000,
                             timer.left_us / 1'000'000, timer.left_us % 1'000'000};
    }
}

void Rebuild::fill_credentials(Block& block) {
    const auto& own = own_privileges();
    const auto groups_at = block.add(process().groups);
    auto& wanted = block.params().credentials;
    wanted.change = own.same_as(process()) ? 0 : 1;
    std::ranges::copy(process().uids, wanted.uids);
    std::ranges::copy(process().gids, wanted.gids);
    wanted.securebits = process().securebits;
    wanted.no_new_privs = process().no_new_privs ? 1 : 0;
    wanted.keep_caps = process().keep_caps ? 1 : 0;
    wanted.set_groups = own.groups == process().groups ? 0 : 1;
    wanted.groups = groups_at;
    wanted.group_count = process().groups.size();
    wanted.cap_bounding = own.bounding_of(process());
}

Result<> Rebuild::fill_descriptors(Block& block) {
    const auto postponed = TRY(context_.objects->postponed(process()));
    std::vector<restorer::Postponed> last;
    for (const auto& each : postponed.descriptors)
        last.push_back({each.fd, each.kept.keeper, each.kept.number, each.twin});
    const auto last_at = block.add(last);
    block.params().first_own = postponed.first_own;
    block.params().last_own = postponed.last_own;
    block.params().seat = postponed.seat;
    block.params().postponed = last_at;
    block.params().postponed_count = last.size();
    std::vector<std::int32_t> cloexec;
    std::vector<restorer::Late> late;
    for (const auto& descriptor : process().descriptors)
        if (descriptor.close_on_exec) cloexec.push_back(descriptor.fd);
    for (const auto& file : context_.objects->late_descriptors(process(), context_.to_kernel))
        late.push_back(
            {file.fd, file.flags, block.add(file.path), file.position, file.close_on_exec ? 1U : 0U, 0});
    const auto cloexec_at = block.add(cloexec);
    const auto late_at = block.add(late);
    std::vector<restorer::Lock> locks;
    for (const auto& lock : own_locks(process()))
        locks.push_back(
            {lock.fd, lock.kind == schema::LockKind::lease ? 1 : 0, lock.type, lock.start, lock.length});
    const auto locks_at = block.add(locks);
    std::vector<restorer::Notify> notifications;
    for (const auto& each : context_.objects->notifications(process()))
        notifications.push_back({each.fd, each.signal, each.notify, 0, each.value});
    const auto notifications_at = block.add(notifications);
    const auto stopped_at = block.add(stopped_children_);
    auto& params = block.params();
    params.close_from = static_cast<std::uint32_t>(context_.close_from);
    params.cloexec = cloexec_at;
    params.cloexec_count = static_cast<std::uint32_t>(cloexec.size());
    params.late = late_at;
    params.late_count = late.size();
    params.locks = locks_at;
    params.lock_count = locks.size();
    params.notifications = notifications_at;
    params.notification_count = notifications.size();
    params.stopped_children = stopped_at;
    params.drop_child_signals = any_stopped_child_ ? 1 : 0;
    params.stopped_children_count = static_cast<std::uint32_t>(stopped_children_.size());
    return {};
}

// An upper bound, whatever part of it is mapped.
std::uint64_t Rebuild::largest_segment() const {
    std::uint64_t largest = 0;
    for (const auto& area : process().areas)
        if (context_.system_v->segment(area.object) >= 0)
            largest = std::max(largest, context_.system_v->size(area.object));
    return whole_pages(largest);
}

void Rebuild::fill_undo(Block& block) {
    std::vector<restorer::Undo> all;
    for (const auto& undo : process().undo) {
        restorer::Undo out = {};
        out.semaphores = ipc_to_real(*context_.ipc, IpcKind::semaphores, undo.semaphores);
        const auto number = static_cast<std::uint16_t>(undo.number);
        const auto amount = static_cast<std::int16_t>(std::abs(undo.adjust));
        // The kernel promises the opposite of what is done.
        const auto up = static_cast<std::int16_t>(undo.adjust < 0 ? IPC_NOWAIT | SEM_UNDO : IPC_NOWAIT);
        const auto down = static_cast<std::int16_t>(undo.adjust < 0 ? IPC_NOWAIT : IPC_NOWAIT | SEM_UNDO);
        out.operations[0] = {number, amount, up};
        out.operations[1] = {number, static_cast<std::int16_t>(-amount), down};
        all.push_back(out);
    }
    const auto at = block.add(all);
    block.params().undo = at;
    block.params().undo_count = all.size();
    block.params().attach_at = attach_at_;
}

Result<> Rebuild::failure() const {
    auto head = ptrace::read_object<std::array<std::uint64_t, 2>>(pid_, params_at_);
    if (!head) return {};
    std::uint32_t step = 0;
    std::int32_t number = 0;
    std::memcpy(&step, head->data(), sizeof step);
    std::memcpy(&number, reinterpret_cast<const char*>(head->data()) + 4, sizeof number);
    if (step == restorer::step_none) return {};
    const auto detail = (*head)[1];
    if (step == restorer::step_damaged)
        return fail_code(
            ExitCode::damaged,
            "image {}: pages for address {:#x} are damaged (checksum): take another generation, or a "
            "copy of this file",
            context_.image_path, detail);
    std::string what = fmt::format("{:#x}", detail);
    if (step == restorer::step_thread || step == restorer::step_scheduling ||
        step == restorer::step_pending || step == restorer::step_signals || step == restorer::step_timers ||
        step == restorer::step_locks || step == restorer::step_undo || step == restorer::step_descriptors ||
        step == restorer::step_notify)
        what = fmt::format("{}", detail);
    if (step == restorer::step_open_file) {
        std::array<char, 256> path = {};
        if (ptrace::read_memory(pid_, detail, std::as_writable_bytes(std::span(path)))) what = path.data();
    }
    return fail("process {} ({}): {} at {}: {}", process().pid, process().name, step_words(step), what,
                std::strerror(number));
}

Result<bool> Rebuild::trapped(pid_t) {
    CHECK_OK(failure());
    if (!memory_.lazy_areas.empty() && !handed_over_) {
        handed_over_ = true;
        auto there =
            ptrace::read_object<std::int32_t>(pid_, params_at_ + offsetof(restorer::Params, lazy_fault));
        if (!there) return std::unexpected(std::move(there.error()));
        CHECK_OK(take_user_fault_(*there));
        CHECK_OK(ptrace::resume(pid_, 0));
        return false;
    }
    if (++ready_ < expected_) return false;
    for (std::size_t i = 0; i < expected_; ++i) {
        const auto at = threads_at_ + i * sizeof(restorer::Thread);
        auto image = TRY(ptrace::read_object<std::int32_t>(pid_, at + offsetof(restorer::Thread, image_tid)));
        auto real = TRY(ptrace::read_object<std::int32_t>(pid_, at + offsetof(restorer::Thread, real_tid)));
        thread_ids_.emplace_back(image, real);
    }
    return true;
}

Result<> Rebuild::prepare_to_go() {
    restorer::Entries entries = {};
    std::memcpy(&entries, cairn_restorer_begin, sizeof entries);
    auto registers = TRY(ptrace::registers(pid_));
    registers.rip = base_ + entries.go;
    registers.rdi = params_at_;
    registers.rsp = params_at_ + offsetof(restorer::Params, stack) + sizeof(restorer::Params::stack) - 8;
    registers.orig_rax = static_cast<std::uint64_t>(-1);
    CHECK_OK(ptrace::set_registers(pid_, registers));
    CHECK_OK(ptrace::resume(pid_, 0));
    int status = 0;
    if (::waitpid(pid_, &status, __WALL) != pid_) return fail_errno("waiting for {}", pid_);
    if (!WIFSTOPPED(status))
        return fail("process {} ({}) was killed before it could go on", process().pid, process().name);
    CHECK_OK(failure());
    return {};
}

// A new process for the kernel: what the image's had used is added by the library, from the moment on at
// which it goes on. Whatever was spent on rebuilding isn't the program's.
Result<> Rebuild::set_cpu_time() {
    const auto stat = TRY(proc::stat(pid_));
    constexpr std::int64_t second_us = 1'000'000, second_ns = 1'000'000'000;
    const std::int64_t tick_us = second_us / ::sysconf(_SC_CLK_TCK);
    const auto clock =
        static_cast<clockid_t>(~static_cast<unsigned>(pid_) << 3 | 2);  // clock_getcpuclockid(3)
    timespec used = {};
    if (::clock_gettime(clock, &used) != 0) return fail_errno("process {}: its CPU clock", process().pid);
    const CpuBase base = {process().cpu_ns - (used.tv_sec * second_ns + used.tv_nsec),
                          process().cpu_user_us - static_cast<std::int64_t>(stat.utime) * tick_us,
                          process().cpu_system_us - static_cast<std::int64_t>(stat.stime) * tick_us,
                          process().cpu_children_user_us, process().cpu_children_system_us};
    return ptrace::write_object(pid_, process().door + offsetof(Door, cpu), base);
}

Result<> Rebuild::set_thread_cpu_time(const schema::Thread& thread, pid_t tid,
                                      const ptrace::Registers& registers) {
    const auto offset =
        TRY(ptrace::read_object<std::int64_t>(pid_, process().door + offsetof(Door, cpu_tls)));
    if (offset == 0) return {};
    // "time on a processor, time waiting for one, slices", ns
    const auto text = proc::read_file(fmt::format("/proc/{}/task/{}/schedstat", pid_, tid));
    const std::int64_t used = text ? std::atoll(text->c_str()) : 0;
    return ptrace::write_object(pid_, registers.fs_base + static_cast<std::uint64_t>(offset),
                                thread.cpu_ns - used);
}

Result<> Rebuild::set_thread(std::size_t index) {
    const auto& thread = process().threads[index];
    const pid_t tid = thread_ids_[index].second;
    ptrace::Registers registers = {};
    if (thread.registers.size() != sizeof registers)
        return fail_code(ExitCode::damaged, "process {}: registers of thread {} are of another size",
                         process().pid, thread.tid);
    std::memcpy(&registers, thread.registers.data(), sizeof registers);
    translate_pid_arguments(registers, context_.to_kernel);
    translate_ipc_arguments(
        registers, [this](IpcKind kind, std::int32_t id) { return ipc_to_real(*context_.ipc, kind, id); });
    constexpr std::int64_t restart_block = -516, restart_no_hand = -514;
    // The kernel's restart block has gone with the old thread: the call is made anew, with what is left of
    // its timeout.
    if (static_cast<std::int64_t>(registers.orig_rax) >= 0 &&
        static_cast<std::int64_t>(registers.rax) == restart_block)
        registers.rax = static_cast<std::uint64_t>(restart_no_hand);
    if (thread.timeout_left >= 0) {
        if (const auto left = shorten_timeout(registers, thread.timeout_left)) {
            const std::array<std::int64_t, 2> value = {left->seconds, left->nanoseconds};
            CHECK_OK(ptrace::write_object(pid_, left->address, value));
        }
        // The library's note goes by this machine's clock.
        const auto at = registers.fs_base + static_cast<std::uint64_t>(process().timing_tls);
        if (auto note = ptrace::read_object<TimingNote>(pid_, at)) {
            timespec now = {};
            ::clock_gettime(CLOCK_MONOTONIC, &now);
            note->began_ns = now.tv_sec * 1'000'000'000 + now.tv_nsec + context_.clock_shift -
                             (note->length_ns - thread.timeout_left);
            CHECK_OK(ptrace::write_object(pid_, at, *note));
        }
    }
    CHECK_OK(set_thread_cpu_time(thread, tid, registers));
    CHECK_OK(ptrace::set_xstate(tid, thread.xstate));
    CHECK_OK(ptrace::set_registers(tid, registers));
    return ptrace::set_mask(tid, thread.blocked);
}

// The restorer, which traps, can't have one of these wait. Who has sent it is lost.
bool Rebuild::has_pending_trap() const {
    const auto is_trap = [](const schema::Bytes& info) {
        std::int32_t signal = 0;
        std::memcpy(&signal, info.data(), std::min(info.size(), sizeof signal));
        return signal == SIGTRAP;
    };
    return std::ranges::any_of(process().pending, is_trap) ||
           std::ranges::any_of(process().threads[0].pending, is_trap);
}

// Where SIGTRAP is ignored, the last trap of the blob has made it the default.
Result<> Rebuild::ignore_traps(std::uint64_t call_at) {
    const auto& actions = process().actions;
    constexpr std::size_t trap = SIGTRAP - 1;
    if (actions.size() <= trap || actions[trap].handler != reinterpret_cast<std::uint64_t>(SIG_IGN))
        return {};
    const std::array<std::uint64_t, 4> arguments = {
        SIGTRAP, params_at_ + offsetof(restorer::Params, actions) + trap * sizeof(restorer::Action), 0,
        sizeof(std::uint64_t)};
    auto done = TRY(remote_call(pid_, call_at, SYS_rt_sigaction, arguments));
    if (done != 0) return fail("process {}: SIGTRAP can't be ignored again", process().pid);
    return {};
}

Result<> Rebuild::set_threads() {
    // The main thread unmaps the blob, by the vdso in its place; it is the last to get its registers.
    const auto vdso = std::ranges::find(process().areas, schema::AreaKind::vdso, &schema::Area::kind);
    if (vdso == process().areas.end()) return fail("process {}: no vdso in the image", process().pid);
    auto call_at = TRY(find_syscall(pid_, vdso->start, vdso->end - vdso->start));
    CHECK_OK(set_cpu_time());
    CHECK_OK(ignore_traps(call_at));
    // They are in the blob's memory, so it is still there; what is called from here on is judged by them.
    CHECK_OK(install_filters(process(), thread_ids_, filters_at_, call_at));
    for (std::size_t i = 1; i < thread_ids_.size(); ++i) CHECK_OK(set_thread(i));
    const std::array<std::uint64_t, 2> all = {base_, total_size_};
    auto unmapped = remote_call(pid_, call_at, SYS_munmap, all);
    if (!unmapped) return std::unexpected(std::move(unmapped.error()).in("the restorer can't be unmapped"));
    if (*unmapped != 0)
        return fail("process {}: the restorer can't be unmapped: {}", process().pid,
                    std::strerror(static_cast<int>(-*unmapped)));
    if (!process().threads[0].leader_dead) {
        auto done = set_thread(0);
        if (done && has_pending_trap()) ::syscall(SYS_tgkill, pid_, pid_, SIGTRAP);
        return done;
    }
    // its main thread had exited: let it do so again
    auto registers = TRY(ptrace::registers(pid_));
    registers.rip = call_at;
    registers.rax = SYS_exit;
    registers.rdi = 0;
    registers.orig_rax = static_cast<std::uint64_t>(-1);
    CHECK_OK(ptrace::set_registers(pid_, registers));
    return ptrace::detach(pid_, 0);
}

// By the process itself where it belongs to another user than ours: of such a one the kernel lets only
// CAP_SYS_RESOURCE set limits from outside (check_prlimit_permission() in kernel/sys.c).
void Rebuild::set_limits(std::vector<std::string>& notes) const {
    const auto from_outside = [this](unsigned resource, const rlimit64* fresh, rlimit64* old) {
        return ::syscall(SYS_prlimit64, pid_, resource, fresh, old) == 0 ? 0 : errno;
    };
    const auto from_inside = [this](unsigned resource, const rlimit64* fresh, rlimit64* old) {
        const auto vdso = std::ranges::find(process().areas, schema::AreaKind::vdso, &schema::Area::kind);
        if (vdso == process().areas.end()) return ENOEXEC;
        const auto call_at = find_syscall(pid_, vdso->start, vdso->end - vdso->start);
        // The far end of the blob's stack.
        const auto at = params_at_ + offsetof(restorer::Params, stack);
        if (!call_at || (fresh != nullptr && !ptrace::write_object(pid_, at, *fresh))) return EFAULT;
        const std::array<std::uint64_t, 4> arguments = {0, resource, fresh != nullptr ? at : 0,
                                                        old != nullptr ? at : 0};
        const auto done = remote_call(pid_, *call_at, SYS_prlimit64, arguments);
        if (!done || *done != 0) return done ? static_cast<int>(-*done) : EFAULT;
        if (old == nullptr) return 0;
        const auto found = ptrace::read_object<rlimit64>(pid_, at);
        if (found) *old = *found;
        return found ? 0 : EFAULT;
    };
    rlimit64 any = {};
    const bool foreign = from_outside(RLIMIT_CORE, nullptr, &any) == EPERM;
    restart::set_limits(process(), foreign ? LimitCall(from_inside) : LimitCall(from_outside), notes);
    const Fd fd(::open(fmt::format("/proc/{}/oom_score_adj", pid_).c_str(), O_WRONLY | O_CLOEXEC));
    const auto text = fmt::format("{}", process().oom_score_adj);
    if (fd) (void)!::write(fd.get(), text.data(), text.size());
}

void Rebuild::go() {
    const bool stopped = process().run == schema::Run::stopped;
    const auto let_go = [&](std::size_t i) {
        if (process().threads[i].leader_dead) return;
        // the main thread is in a signal's delivery stop: what is given here is delivered
        (void)ptrace::detach(thread_ids_[i].second, stopped && i == 0 ? SIGSTOP : 0);
    };
    // The main thread first, or last if it stops the others: an ignored signal that comes while it is traced
    // would wake another that isn't any more, out of a call that nobody makes again (capture/stop.cpp).
    if (!stopped) let_go(0);
    for (std::size_t i = thread_ids_.size(); i-- > 1;) let_go(i);
    if (stopped) let_go(0);
}

}  // namespace cairn::restart
