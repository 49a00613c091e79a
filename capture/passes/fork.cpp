// The pass that makes a copy-on-write child of each process, so that the programs' pause is no longer than a
// fork: what these children show is written after the programs have gone on.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "capture/passes/copy_small.h"
#include "capture/passes/copy_still.h"
#include "capture/passes/drafts.h"
#include "capture/passes/passes.h"
#include "capture/passes/watch.h"
#include "common/each_in_parallel.h"
#include "common/proc.h"
#include "common/schema/image_name.h"

namespace cairn::capture {
namespace {

// In the place of a child's id or an errno.
constexpr std::int64_t not_forked = std::numeric_limits<std::int64_t>::min();

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

void add_span(std::vector<AgentSpan>& spans, const proc::MapLine& line) {
    if (!spans.empty() && spans.back().start + spans.back().length == line.start.value())
        spans.back().length += line.end - line.start;
    else
        spans.push_back({line.start.value(), line.end - line.start});
}

// What a copy-on-write child lets go of before the program goes on; nothing if there is too much of what it
// must not have.
std::optional<std::vector<AgentSpan>> to_detach(const StillMap& map, const ObjectTable& objects) {
    std::vector<AgentSpan> huge, segments;
    for (const auto& line : map.lines) {
        const auto object = map.objects.at(line.start);
        if (is_private_huge(map, line))
            add_span(huge, line);
        else if (object >= 0 && is_segment(objects.object(object)))
            add_span(segments, line);
    }
    if (huge.size() > max_detached) return std::nullopt;
    huge.insert(huge.end(), segments.begin(), segments.end());
    if (huge.size() > max_detached) huge.resize(max_detached);
    return huge;
}

// Whether a userfaultfd would be told of a fork (UFFD_FEATURE_EVENT_FORK): the fork would wait for somebody
// of the group to read that, and a child of ours is nobody's business.
bool tells_of_forks(const ObjectTable& objects, ProgramId pid) {
    constexpr std::uint64_t event_fork = 1 << 1;
    const auto tells = [&](const schema::Object& object) {
        const auto* watching = object.get<schema::Userfaultfd>();
        return watching != nullptr && watching->process == pid && (watching->features & event_fork) != 0;
    };
    return std::ranges::any_of(objects.all(), tells);
}

Result<Draft> begin_draft(const Setting& setting, const Ahead& ahead, Member& member, const StillMap& map) {
    Draft draft;
    draft.member = &member;
    draft.map = &map;
    draft.file = schema::image_name(member.image.pid);
    if (ahead.again) ::unlinkat(ahead.directory.get(), draft.file.c_str(), 0);
    draft.label = fmt::format("{} ({})", member.image.pid, member.image.name);
    auto writer = TRY(ImageWriter::plan(ahead.directory.get(), draft.file, ImageKind::process,
                                        setting.request.compression));
    draft.writer = std::make_unique<ImageWriter>(std::move(writer));
    draft.image_id = draft.writer->id();
    return draft;
}

// The child's mappings; nothing if it has all that its process has. The kernel counts the pages of all
// mappings, and takes off what a fork leaves out (dup_mmap() in kernel/fork.c), so the map of a child that
// has them all needn't be read while everybody stands still.
using ChildMap = std::optional<std::vector<proc::MapLine>>;

Result<ChildMap> look_at_map(const Draft& draft) {
    const pid_t child = draft.snapshot->pid();
    if (!draft.detaches &&
        TRY(proc::mapped_pages(child)) == TRY(proc::mapped_pages(draft.member->process->living)))
        return ChildMap();
    return TRY(proc::maps(child, false));
}

// What is marked MADV_DONTFORK. Its flags are in smaps alone, which walks all page tables: only who marks
// memory so is asked during the pause. A System V segment isn't in the child because the agent has taken it
// out; what can't be written in it is asked for, because it may never be. Private huge pages aren't either.
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
Result<> store_early(const Setting& setting, const Ahead& ahead, Draft& draft, const ChildMap& lines,
                     const ObjectTable& objects) {
    const pid_t pid = draft.member->process->pid, living = draft.member->process->living;
    if (lines) draft.uncopied = TRY(uncopied(draft, *lines, objects));
    // Who marks memory at all may have marked other memory since; now it stands still.
    if (draft.still_flags)
        draft.wiped = flags_among(*draft.still_flags).wiped;
    else if (ahead.wipes.contains(pid) || !ahead.growing.contains(pid))
        draft.wiped = TRY(memory_flags(living)).wiped;
    if (!draft.uncopied.empty()) draft.policies = TRY(policies_of(draft.member->image, living));
    std::vector<StoreJob> jobs;
    PageMap pages(living);
    for (const auto& range : lines ? not_copied(*draft.map, *lines, draft.wiped) : draft.wiped) {
        auto& area = draft.early.emplace_back();
        area.start = range.start;
        area.end = range.end;
        const auto line = std::ranges::find_if(draft.map->lines, [&](const auto& other) {
            return other.start <= range.start && range.start < other.end;
        });
        if (line == draft.map->lines.end()) continue;
        area.prot = line->prot;
        const bool huge = is_private_huge(*draft.map, *line);
        const bool anonymous = line->inode == 0 || (huge && draft.map->objects.at(line->start) < 0);
        area.kind = anonymous ? schema::AreaKind::anonymous : schema::AreaKind::file_private;
        if (huge) area.huge_pages.emplace();
        CHECK_OK(add_jobs(draft, pages, area, jobs));
    }
    return jobs.empty() ? Result<>() : store_draft(draft, std::move(jobs), setting.reporter);
}

// What can be done about a fork that failed with ENOMEM or EAGAIN.
std::string help_for(int number, const schema::Process& image) {
    if (number == ENOMEM)
        return "give it more memory (its cgroup's memory.max, ulimit -v, /proc/sys/vm/overcommit_memory)";
    // haproxy and others forbid themselves to make processes.
    if (image.limits.size() > RLIMIT_NPROC && image.limits[RLIMIT_NPROC].soft == 0)
        return "let the program not forbid itself to fork: it has set its own limit of processes to 0 "
               "(RLIMIT_NPROC)";
    return "let the user have more processes (ulimit -u, the cgroup's pids.max, /proc/sys/kernel/pid_max)";
}

// The checkpoint is as good as any other; what it costs is told.
std::string fork_failed_words(const Draft& draft, int number) {
    return fmt::format(
        "{} couldn't be forked ({}), so all programs stood still until its memory was written, not for a "
        "moment "
        "only; the checkpoint is complete. To have short pauses again, {}",
        proc::label(draft.member->process->pid), std::strerror(number),
        help_for(number, draft.member->image));
}

Result<> look_at_copies(const Setting& setting, const Ahead& ahead, Drafts& drafts,
                        const ObjectTable& objects) {
    std::vector<Draft*> copied;
    for (auto& draft : drafts)
        if (draft.snapshot) copied.push_back(&draft);
    std::vector<ChildMap> maps(copied.size());
    CHECK_OK(each_in_parallel(copied.size(), [&](std::size_t i) -> Result<> {
        maps[i] = TRY(look_at_map(*copied[i]));
        return {};
    }));
    for (auto map = maps.begin(); auto* draft : copied) {
        CHECK_OK(ahead.participants->mark(draft->member->process->pid, draft->snapshot->pid()));
        draft->unchanged = unchanged_pages(ahead, *draft);
        CHECK_OK(store_early(setting, ahead, *draft, *map++, objects));
    }
    return {};
}

Result<> store_whole(Draft& draft, Reporter& reporter) {
    const pid_t living = draft.member->process->living;
    CHECK_OK(make_draft_areas(draft, living));
    std::vector<StoreJob> jobs;
    PageMap pages(living);
    for (auto& area : draft.member->image.areas)
        if (stored_in_image(area)) CHECK_OK(add_jobs(draft, pages, area, jobs));
    return store_draft(draft, std::move(jobs), reporter);
}

// All at the same time. Whether each was asked.
Result<std::vector<bool>> ask_for_forks(const Members& members, const ObjectTable& objects,
                                        const std::vector<Draft*>& drafts) {
    // The first process of a pid namespace would inherit the copy-on-write child as well.
    const bool has_init =
        std::ranges::any_of(members.all, [](const Member& member) { return member.process->pid == 1; });
    std::vector<bool> asked;
    for (auto* draft : drafts) {
        auto& member = *draft->member;
        const bool forkless = member.process->empty_pids || member.process->has_suspended_filters() ||
                              tells_of_forks(objects, member.image.pid);
        const auto spans = forkless ? std::nullopt : to_detach(*draft->map, objects);
        asked.push_back(spans.has_value());
        if (!spans) continue;
        draft->detaches = !spans->empty();
        CHECK_OK(member.agent->write_detached(*spans));
        const bool direct = has_init || member.process->has_inner_children();
        CHECK_OK(member.agent->ask(agent_snapshot, direct ? 1 : 0));
    }
    return asked;
}

// `answer`: the child's id or a negative errno, or not_forked.
Result<> take_fork(const Setting& setting, const Ahead& ahead, Draft& draft, std::int64_t answer) {
    if (answer >= 0) {
        auto snapshot = TRY(draft.member->agent->wait_snapshot(setting.reporter));
        draft.snapshot = std::make_unique<Snapshot>(std::move(snapshot));
        draft.from_copy = true;
        return {};
    }
    if (answer != not_forked) setting.reporter.note(fork_failed_words(draft, static_cast<int>(-answer)));
    return look_like_images(*ahead.participants, {&draft},
                            [&] { return store_whole(draft, setting.reporter); });
}

}  // namespace

Result<Drafts> pass::fork(const Setting& setting, const Ahead& ahead, Members& members,
                          const FoundObjects& objects) {
    Reporter& reporter = setting.reporter;
    reporter.phase("fork");
    CHECK_OK(set_marks(setting, ahead, members, objects));
    Drafts drafts;
    for (auto map = objects.maps.begin(); auto& member : members.all)
        drafts.push_back(TRY(begin_draft(setting, ahead, member, *map++)));
    // Not before: while flags are read nothing can be registered.
    CHECK_OK(ahead.still->copy(ahead, objects.table, drafts));
    CHECK_OK(ahead.small->copy(ahead, objects.table, drafts));
    std::vector<Draft*> rest;
    for (auto& draft : drafts)
        if (!draft.still) rest.push_back(&draft);

    CHECK_OK(step_back(setting, members, true));
    const auto asked = TRY(ask_for_forks(members, objects.table, rest));
    std::vector<std::int64_t> answers;
    for (std::size_t i = 0; i < rest.size(); ++i)
        answers.push_back(asked[i] ? TRY(rest[i]->member->agent->wait(reporter)) : not_forked);
    CHECK_OK(step_back(setting, members, false));
    for (std::size_t i = 0; i < rest.size(); ++i) CHECK_OK(take_fork(setting, ahead, *rest[i], answers[i]));
    CHECK_OK(look_at_copies(setting, ahead, drafts, objects.table));
    return drafts;
}

}  // namespace cairn::capture
