// Areas of memory and the jobs that store their pages.
#include "capture/passes/drafts.h"

#include <algorithm>

#include "capture/memory/policies.h"

namespace cairn::capture {
namespace {

Result<> add_memory_policies(schema::Process& image, pid_t source) {
    const auto any =
        TRY(ptrace::read_object<std::uint32_t>(source, image.door + offsetof(Door, memory_policies)));
    if (any == 0) return {};
    const auto living = std::ranges::find(image.threads, false, &schema::Thread::leader_dead);
    const auto policies = TRY(memory_policies(source, {living->memory_policy, living->memory_nodes}));
    for (auto& area : image.areas) {
        const auto found = policies.find(area.start);
        if (found == policies.end()) continue;
        area.memory_policy = found->second.mode;
        area.memory_nodes = found->second.nodes;
    }
    return {};
}

}  // namespace

bool stored_in_image(const schema::Area& area) {
    using schema::AreaKind;
    return area.kind == AreaKind::anonymous || area.kind == AreaKind::file_private ||
           area.kind == AreaKind::vdso;
}

Result<> make_draft_areas(Draft& draft, pid_t source, const ObjectTable& objects) {
    auto& member = *draft.member;
    auto flags = TRY(proc::maps(source, true));
    flags.insert(flags.end(), draft.uncopied.begin(), draft.uncopied.end());
    member.image.areas = TRY(make_areas(*member.process, *draft.map, flags, member.scratch, objects));
    CHECK_OK(add_memory_policies(member.image, source));
    for (auto& area : member.image.areas) {
        if (area.wipe_on_fork && draft.snapshot != nullptr && !area.droppable &&
            std::ranges::none_of(draft.wiped, [&](const ProgramRange& range) {
                return range.start <= area.start && area.end <= range.end;
            }))
            return fail(
                "{}: memory at {:#x} was marked MADV_WIPEONFORK while the checkpoint began; try again",
                proc::label(member.process->pid), area.start);
        for (const auto& early : draft.early) {
            for (const auto& run : early.pages)
                if (area.start <= run.at && run.at < area.end) area.pages.push_back(run);
            for (const auto& guard : early.guards)
                if (area.start <= guard.first && guard.first < area.end) area.guards.push_back(guard);
        }
    }
    return {};
}

Result<> add_jobs(Draft& draft, pid_t source, schema::Area& area, std::vector<StoreJob>& jobs) {
    constexpr std::uint64_t longest = 1 << 20;
    const auto& member = *draft.member;
    if (area.droppable) return {};
    auto ranges = stored_pages(source, area, longest, area.guards);
    if (!ranges) return std::unexpected(std::move(ranges.error()).in(proc::label(member.process->pid)));
    for (const auto& range : *ranges)
        jobs.push_back({source, draft.writer.get(), &area, range,
                        fmt::format("{} ({})", member.image.pid, member.image.name)});
    return {};
}

Result<> store_draft(Draft& draft, std::vector<StoreJob> jobs, Reporter& reporter) {
    CHECK_OK(draft.writer->unpark());
    auto done = store_pages(std::move(jobs), reporter, 0, 0);
    draft.writer->park();
    return done;
}

}  // namespace cairn::capture
