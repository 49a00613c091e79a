// Areas of memory and the jobs that store their pages.
#include "capture/passes/drafts.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "capture/generations.h"
#include "common/image/manifest.h"

namespace cairn::capture {
namespace {

std::vector<std::pair<ProgramAddress, std::uint64_t>> joined(const std::vector<ProgramRange>& ranges) {
    std::vector<std::pair<ProgramAddress, std::uint64_t>> all;
    for (const auto& range : ranges)
        if (!all.empty() && all.back().first + all.back().second == range.start)
            all.back().second += range.length();
        else
            all.emplace_back(range.start, range.length());
    return all;
}

// For who wants each generation to stand alone: CAIRN_FULL=1 in the coordinator's environment.
bool asks_for_everything() {
    const char* value = std::getenv("CAIRN_FULL");
    return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

std::string generation_before(const Request& request) {
    if (asks_for_everything()) return "";
    return find_images(request.directory, request.host, manifest_file).previous;
}

bool stored_in_image(const schema::Area& area) {
    using schema::AreaKind;
    return area.kind == AreaKind::anonymous || area.kind == AreaKind::file_private ||
           area.kind == AreaKind::vdso;
}

Result<std::map<ProgramAddress, MemoryPolicy>> policies_of(const schema::Process& image, pid_t source) {
    const auto any =
        TRY(ptrace::read_object<std::uint32_t>(source, image.door + offsetof(Door, memory_policies)));
    if (any == 0) return {};
    const auto living = std::ranges::find(image.threads, false, &schema::Thread::leader_dead);
    return memory_policies(source, {living->memory_policy, living->memory_nodes});
}

Result<> lay_out_areas(Draft& draft, pid_t source) {
    auto& member = *draft.member;
    member.image.areas = TRY(make_areas(*member.process, *draft.map, member.scratch));
    auto policies = TRY(policies_of(member.image, source));
    policies.merge(draft.policies);
    for (auto& area : member.image.areas) {
        if (const auto found = policies.find(area.start); found != policies.end()) {
            area.memory_policy = found->second.mode;
            area.memory_nodes = found->second.nodes;
        }
        for (const auto& early : draft.early) {
            for (const auto& run : early.pages)
                if (area.start <= run.at && run.at < area.end) area.pages.push_back(run);
            for (const auto& guard : early.guards)
                if (area.start <= guard.first && guard.first < area.end) area.guards.push_back(guard);
            if (!area.huge_pages || !early.huge_pages) continue;
            for (const auto& there : early.huge_pages->present)
                if (area.start <= there.first && there.first < area.end)
                    area.huge_pages->present.push_back(there);
        }
    }
    return {};
}

Result<> add_draft_flags(Draft& draft, std::vector<proc::MapLine> flags) {
    auto& member = *draft.member;
    flags.insert(flags.end(), draft.uncopied.begin(), draft.uncopied.end());
    CHECK_OK(add_flags(*member.process, flags, member.image.areas));
    for (const auto& area : member.image.areas)
        if (area.wipe_on_fork && draft.snapshot != nullptr && !area.droppable &&
            std::ranges::none_of(draft.wiped, [&](const ProgramRange& range) {
                return range.start <= area.start && area.end <= range.end;
            }))
            return fail(
                "{}: memory at {:#x} was marked MADV_WIPEONFORK while the checkpoint began; try again",
                proc::label(member.process->pid), area.start);
    return {};
}

Result<> make_draft_areas(Draft& draft, pid_t source) {
    CHECK_OK(lay_out_areas(draft, source));
    return add_draft_flags(draft, TRY(proc::maps(source, true)));
}

Result<> add_jobs(Draft& draft, PageMap& source, schema::Area& area, std::vector<StoreJob>& jobs) {
    constexpr std::uint64_t longest = 1 << 20;
    const auto& member = *draft.member;
    if (area.droppable) return {};
    auto ranges = stored_pages(source, area, longest, area.guards);
    if (!ranges) return std::unexpected(std::move(ranges.error()).in(proc::label(member.process->pid)));
    if (area.huge_pages) area.huge_pages->present = joined(*ranges);
    for (const auto& range : *ranges)
        jobs.push_back({.source = source.pid(),
                        .writer = draft.writer.get(),
                        .area = &area,
                        .range = range,
                        .label = draft.label,
                        .hashes = draft.hashes.get(),
                        .process = member.image.pid});
    return {};
}

Result<> look_like_images(const Participants& participants, const std::vector<Draft*>& drafts,
                          const std::function<Result<>()>& work) {
    Result<> done;
    for (const auto* draft : drafts)
        if (done) done = participants.mark(draft->member->process->pid, draft->member->process->living);
    if (done) done = work();
    for (const auto* draft : drafts)
        participants.unmark(draft->member->process->pid, draft->member->process->living);
    return done;
}

Result<> store_draft(Draft& draft, std::vector<StoreJob> jobs, Reporter& reporter) {
    CHECK_OK(draft.writer->unpark());
    auto done = store_pages(std::move(jobs), reporter, 0, 0);
    draft.writer->park();
    return done;
}

}  // namespace cairn::capture
