// The pass that makes a copy-on-write child of each process, so that the programs' pause is no longer than a
// fork: what these children show is written after the programs have gone on.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "capture/passes/drafts.h"
#include "capture/passes/passes.h"

namespace cairn::capture {
namespace {

// Child subreapers of the group would inherit the copy-on-write children of others.
Result<> step_back(const Setting& setting, Members& members, bool back) {
    for (auto& member : members.all)
        if (member.image.subreaper) CHECK_OK(member.agent->step_back(back, setting.reporter));
    return {};
}

bool is_segment(const schema::Object& object) {
    const auto* memory = object.get<schema::Memory>();
    return memory != nullptr && memory->type == schema::MemoryType::sysv;
}

std::vector<AgentSpan> attached_segments(const StillMap& map, const ObjectTable& objects) {
    std::vector<AgentSpan> spans;
    for (const auto& line : map.lines)
        if (const auto object = map.objects.at(line.start);
            object >= 0 && is_segment(objects.object(object)) && spans.size() < max_detached)
            spans.push_back({line.start.value(), line.end - line.start});
    return spans;
}

Result<Draft> begin_draft(const Ahead& ahead, Member& member, const StillMap& map) {
    Draft draft;
    draft.member = &member;
    draft.map = &map;
    draft.file = fmt::format("p{}.image", member.image.pid);
    auto writer = TRY(ImageWriter::create(ahead.directory.get(), draft.file, ImageKind::process));
    draft.writer = std::make_unique<ImageWriter>(std::move(writer));
    draft.writer->park();
    return draft;
}

// What is marked MADV_DONTFORK. Its flags are in smaps alone, which walks all page tables: only who marks
// memory so is asked during the pause. A System V segment isn't in the child because the agent has taken it
// out; what can't be written in it is asked for, because it may never be.
Result<std::vector<proc::MapLine>> uncopied(const Draft& draft, const std::vector<proc::MapLine>& child,
                                            const ObjectTable& objects) {
    const auto is_missing = [&](const proc::MapLine& line) {
        const auto object = draft.map->objects.at(line.start);
        const bool segment = object >= 0 && is_segment(objects.object(object));
        return is_uncopied(line, child) && (!segment || (line.prot & PROT_WRITE) == 0);
    };
    if (std::ranges::none_of(draft.map->lines, is_missing)) return std::vector<proc::MapLine>();
    auto lines = TRY(proc::maps(draft.member->process->living, true));
    std::erase_if(lines, [&](const proc::MapLine& line) { return !is_uncopied(line, child); });
    return lines;
}

// What the copy-on-write child of a process doesn't show.
Result<> store_early(const Setting& setting, const Ahead& ahead, Draft& draft, const ObjectTable& objects) {
    const pid_t pid = draft.member->process->pid, living = draft.member->process->living;
    const auto lines = TRY(proc::maps(draft.snapshot->pid(), false));
    draft.uncopied = TRY(uncopied(draft, lines, objects));
    // Who marks memory at all may have marked other memory since; now it stands still.
    if (ahead.wipes.contains(pid) ||
        std::ranges::find(setting.request.members, pid) == setting.request.members.end())
        draft.wiped = TRY(wiped_by_fork(living));
    std::vector<StoreJob> jobs;
    for (const auto& range : not_copied(*draft.map, lines, draft.wiped)) {
        auto& area = draft.early.emplace_back();
        area.start = range.start;
        area.end = range.end;
        const auto line = std::ranges::find_if(draft.map->lines, [&](const auto& other) {
            return other.start <= range.start && range.start < other.end;
        });
        if (line == draft.map->lines.end()) continue;
        area.prot = line->prot;
        area.kind = line->inode != 0 ? schema::AreaKind::file_private : schema::AreaKind::anonymous;
        CHECK_OK(add_jobs(draft, living, area, jobs));
    }
    return jobs.empty() ? Result<>() : store_draft(draft, std::move(jobs), setting.reporter);
}

// The checkpoint is as good as any other; what it costs is told.
std::string fork_failed_words(pid_t pid, int number) {
    const bool memory = number == ENOMEM;
    return fmt::format(
        "{} couldn't be forked ({}), so all programs stood still until its memory was written, not for a "
        "moment "
        "only; the checkpoint is complete. To have short pauses again, {}",
        proc::label(pid), std::strerror(number),
        memory ? "give it more memory (its cgroup's memory.max, ulimit -v, /proc/sys/vm/overcommit_memory)"
               : "let the user have more processes (ulimit -u, the cgroup's pids.max, "
                 "/proc/sys/kernel/pid_max)");
}

Result<> store_whole(Draft& draft, const ObjectTable& objects, Reporter& reporter) {
    const pid_t living = draft.member->process->living;
    CHECK_OK(make_draft_areas(draft, living, objects));
    std::vector<StoreJob> jobs;
    for (auto& area : draft.member->image.areas)
        if (stored_in_image(area)) CHECK_OK(add_jobs(draft, living, area, jobs));
    return store_draft(draft, std::move(jobs), reporter);
}

}  // namespace

Result<Drafts> pass::fork(const Setting& setting, const Ahead& ahead, Members& members,
                          const FoundObjects& objects) {
    Reporter& reporter = setting.reporter;
    reporter.phase("fork");
    CHECK_OK(step_back(setting, members, true));
    const bool has_init =
        std::ranges::any_of(members.all, [](const Member& member) { return member.process->pid == 1; });
    Drafts drafts;
    auto map = objects.maps.begin();
    for (auto& member : members.all) {
        auto draft = TRY(begin_draft(ahead, member, *map));
        CHECK_OK(member.agent->write_detached(attached_segments(*map++, objects.table)));
        CHECK_OK(member.agent->ask(agent_snapshot, has_init ? 1 : 0));
        drafts.push_back(std::move(draft));
    }
    std::vector<std::int64_t> forked;
    for (auto& member : members.all) {
        const auto child = TRY(member.agent->wait(reporter));
        forked.push_back(child);
    }
    CHECK_OK(step_back(setting, members, false));
    auto answer = forked.begin();
    for (auto& draft : drafts) {
        const auto& member = *draft.member;
        if (const auto child = *answer++; child < 0) {
            reporter.note(fork_failed_words(member.process->pid, static_cast<int>(-child)));
            // Its memory is read from itself, and so it must look like an image for this time.
            const auto& process = *member.process;
            CHECK_OK(ahead.participants->mark(process.pid, process.living));
            const auto stored = store_whole(draft, objects.table, reporter);
            ahead.participants->unmark(process.pid, process.living);
            CHECK_OK(stored);
        } else {
            auto snapshot = TRY(member.agent->wait_snapshot(reporter));
            draft.snapshot = std::make_unique<Snapshot>(std::move(snapshot));
            CHECK_OK(ahead.participants->mark(member.process->pid, draft.snapshot->pid()));
            CHECK_OK(store_early(setting, ahead, draft, objects.table));
        }
    }
    return drafts;
}

}  // namespace cairn::capture
