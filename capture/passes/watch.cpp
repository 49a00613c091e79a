#include "capture/passes/watch.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "capture/passes/drafts.h"
#include "resources/io_uring/schema.h"
#include "resources/io_uring/schema_ring.h"
#include "resources/userfaultfd/schema.h"

namespace cairn::capture {
namespace {

// A process with less than this is read in a moment, and so is a mapping.
constexpr std::uint64_t least_private = std::uint64_t{16} << 20, least_mapping = std::uint64_t{1} << 20;
// A message takes 253 descriptors (SCM_MAX_FD).
constexpr std::size_t most_watched = 200;
// Of so many pages of a mapping at most one in 16 may have changed.
constexpr std::size_t sampled_pages = 256, one_in = 16;
// Of the pages of a mapping that are there at most one in 4 may have been written to.
constexpr std::uint64_t written_one_in = 4;

bool can_be_watched(const proc::MapLine& line) {
    return !line.shared && line.inode == 0 && line.major == 0 && line.minor == 0 &&
           !proc::is_kernels_mapping(line.name) && !line.name.starts_with("[stack") &&
           line.end - line.start >= least_mapping;
}

std::vector<ProgramRange> mappings_to_watch(const std::vector<proc::MapLine>& lines) {
    std::vector<ProgramRange> mappings;
    for (const auto& line : lines)
        if (can_be_watched(line)) mappings.push_back({line.start, line.end});
    return mappings;
}

// Read while the program runs: one that changes just now has changed.
bool hardly_changes(pid_t pid, const EarlierImages& earlier, const PageMarks& marks, ProgramRange mapping) {
    const auto pages = earlier.sample(mapping, sampled_pages);
    if (pages.empty()) return false;
    const Fd memory(::open(fmt::format("/proc/{}/mem", pid).c_str(), O_RDONLY | O_CLOEXEC));
    std::size_t changed = 0;
    std::vector<std::uint8_t> bytes(image_page);
    for (const auto page : pages) {
        const auto at = static_cast<off_t>(page.value());
        const bool same =
            marks.is_there(page) &&
            ::pread(memory.get(), bytes.data(), bytes.size(), at) == static_cast<ssize_t>(bytes.size()) &&
            page_hash(bytes) == earlier.hash_of(page);
        if (!same && ++changed * one_in > pages.size()) return false;
    }
    return true;
}

void look_at_mappings(pid_t pid, Watched& watched) {
    const auto lines = proc::maps(pid, false);
    const auto marks = PageMarks::of(pid);
    if (!lines || !marks) return;
    for (const auto& mapping : mappings_to_watch(*lines)) {
        if (!marks->can_have_any(mapping) || marks->has_any(mapping)) continue;
        if (!hardly_changes(pid, *watched.earlier, *marks, mapping)) {
            watched.changing.push_back(mapping);
            continue;
        }
        // Even if this fails in the midst of it.
        watched.marked_just_now.push_back(mapping);
        (void)marks->set(mapping);
    }
}

// Somebody else may write past the page table, or has marks of his own.
bool may_be_believed(const FoundObjects& objects) {
    const auto writes_past = [](const schema::Object& object) {
        return object.is<schema::IoUring>() || object.is<schema::Userfaultfd>();
    };
    if (std::ranges::any_of(objects.table.all(), writes_past)) return false;
    return std::ranges::none_of(objects.maps, [](const StillMap& map) {
        return std::ranges::any_of(map.lines,
                                   [](const proc::MapLine& line) { return line.name == ring_name; });
    });
}

// A filter could forbid the call or punish it. What another user's process hands out isn't looked at.
bool member_can_be_watched(const Member& member) {
    return member.own_agent && member.image.filters.empty() && !member.process->has_suspended_filters() &&
           !member.process->simulates && member.process->region->owners;
}

// So that agents of all sizes needn't be asked: what is really there.
bool has_much(pid_t living, const std::vector<ProgramRange>& mappings) {
    std::uint64_t all = 0;
    for (const auto& mapping : mappings) all += mapping.length();
    if (all < least_private) return false;
    auto status = proc::status(living, living);
    if (!status) return false;
    return std::strtoull((*status)["RssAnon"].c_str(), nullptr, 10) * 1024 >= least_private;
}

// All of its threads stand still: nobody in the process sees the descriptor.
Result<std::optional<MarkMaker>> make_maker(Member& member, Reporter& reporter) {
    CHECK_OK(member.agent->ask(agent_watch));
    const auto number = TRY(member.agent->wait(reporter));
    if (number < 0) return std::nullopt;  // no descriptor is left, or the kernel has none
    const Fd process = member.process->open_pidfd();
    Fd taken(static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), static_cast<int>(number), 0U)));
    CHECK_OK(member.agent->ask(agent_close, static_cast<std::uint64_t>(number)));
    CHECK_OK(member.agent->wait(reporter));
    if (!taken) return std::nullopt;
    auto maker = MarkMaker::begin(std::move(taken));
    if (!maker) return std::nullopt;
    return std::optional(std::move(*maker));
}

// A mapping that nothing was marked in waits for the next checkpoint. False: its userfaultfd belongs to
// memory that has gone.
Result<bool> set_marks_in(const PageMarks& marks, Watched& watched, ProgramRange mapping) {
    const bool changes = std::ranges::any_of(
        watched.changing, [&](const ProgramRange& each) { return each.overlaps(mapping); });
    if (changes) {
        watched.maker.let_go(mapping);
        return true;
    }
    const auto seen = TRY(marks.look(mapping));
    if (!seen.marked.empty()) {
        const auto written = length_of(seen.written), all = written + length_of(seen.marked);
        if (written * written_one_in > all) {
            watched.maker.let_go(mapping);
            return true;
        }
        auto set = TRY(marks.set(mapping));
        watched.written.insert(watched.written.end(), set.begin(), set.end());
        watched.marked.insert(watched.marked.end(), seen.marked.begin(), seen.marked.end());
    }
    // It may be a new one.
    return watched.maker.allow(mapping) || errno != ENOMEM;
}

Result<> set_marks_of(const Setting& setting, Watching& watching, Member& member, const StillMap& map) {
    const pid_t pid = member.process->pid;
    const auto mappings = mappings_to_watch(map.lines);
    auto found = watching.all.find(pid);
    if (!member_can_be_watched(member) || !has_much(member.process->living, mappings)) {
        if (found != watching.all.end()) watching.all.erase(found);
        return {};
    }
    if (found == watching.all.end()) {
        if (watching.all.size() >= most_watched) return {};
        auto maker = TRY(make_maker(member, setting.reporter));
        if (!maker) return {};
        found = watching.all.emplace(pid, Watched{.maker = std::move(*maker)}).first;
    }
    auto& watched = found->second;
    watched.spoilt = watched.stood_still;  // an attempt before this one
    watched.stood_still = true;
    watched.written.clear();
    watched.marked.clear();
    const auto marks = TRY(PageMarks::of(member.process->living));
    for (const auto& mapping : mappings) {
        if (TRY(set_marks_in(marks, watched, mapping))) continue;
        watching.all.erase(found);  // it has executed another program: it is watched from the next one on
        return {};
    }
    return {};
}

}  // namespace

void look_at_marks(const Setting& setting, Ahead& ahead) {
    const auto& request = setting.request;
    if (!request.track_mem || !has_marks_to_believe()) return;
    ahead.watching = std::make_shared<Watching>();
    const auto before = generation_before(request);
    for (const auto& kept : request.marks) {
        Fd userfault = std::move(*kept.userfault);
        if (std::ranges::find(request.members, kept.pid) == request.members.end()) continue;
        const auto id = setting.to_program(KernelId(kept.pid));
        auto& earlier = ahead.watching->earlier[id];
        earlier = std::make_unique<EarlierImages>(ahead.directory.get(), before, id);
        // Of any other image the marks say nothing: they go, and are made anew.
        if (kept.image == 0 || earlier->newest_id() != kept.image) continue;
        auto& watched = ahead.watching->all
                            .emplace(kept.pid, Watched{.maker = MarkMaker(std::move(userfault)),
                                                       .earlier = earlier.get()})
                            .first->second;
        look_at_mappings(kept.pid, watched);
    }
}

bool has_marks(const Ahead& ahead, pid_t pid) {
    return ahead.watching != nullptr && ahead.watching->all.contains(pid);
}

Result<> set_marks(const Setting& setting, const Ahead& ahead, Members& members,
                   const FoundObjects& objects) {
    if (ahead.watching == nullptr) return {};
    if (!may_be_believed(objects)) {
        give_up_marks(ahead);
        return {};
    }
    auto map = objects.maps.begin();
    for (auto& member : members.all) CHECK_OK(set_marks_of(setting, *ahead.watching, member, *map++));
    return {};
}

PageRanges unchanged_pages(const Ahead& ahead, const Draft& draft) {
    if (ahead.watching == nullptr) return {};
    const auto found = ahead.watching->all.find(draft.member->process->pid);
    if (found == ahead.watching->all.end()) return {};
    auto& watched = found->second;
    if (watched.spoilt || watched.earlier == nullptr) return {};
    const auto marks = PageMarks::of(draft.member->process->living);
    if (!marks) return {};
    PageRanges unchanged;
    for (const auto& mapping : mappings_to_watch(draft.map->lines)) {
        const auto seen = marks->look(mapping);
        if (seen) unchanged.insert(unchanged.end(), seen->marked.begin(), seen->marked.end());
    }
    return without(without(unchanged, watched.written), watched.marked_just_now);
}

std::vector<KeptMarks> marks_to_keep(const Setting& setting, const Ahead& ahead, const Drafts& drafts) {
    std::vector<KeptMarks> kept;
    if (ahead.watching == nullptr || setting.request.hold) return kept;
    for (const auto& draft : drafts) {
        const pid_t pid = draft.member->process->pid;
        const auto found = ahead.watching->all.find(pid);
        if (found == ahead.watching->all.end() || !draft.from_copy || !found->second.stood_still) continue;
        kept.push_back({pid, draft.image_id, std::make_shared<Fd>(found->second.maker.release())});
    }
    return kept;
}

PageRanges unchanged_since_marks(const Ahead& ahead, const Draft& draft) {
    if (watched_by(ahead, draft) == nullptr) return {};
    const auto& watched = ahead.watching->all.at(draft.member->process->pid);
    return without(watched.marked, watched.marked_just_now);
}

EarlierImages* watched_by(const Ahead& ahead, const Draft& draft) {
    if (ahead.watching == nullptr) return nullptr;
    const auto found = ahead.watching->all.find(draft.member->process->pid);
    if (found == ahead.watching->all.end() || found->second.spoilt || found->second.earlier == nullptr)
        return nullptr;
    const auto earlier = ahead.watching->earlier.find(draft.member->image.pid);
    return earlier == ahead.watching->earlier.end() ? nullptr : earlier->second.get();
}

std::unique_ptr<EarlierImages> earlier_looked_at(const Ahead& ahead, ProgramId process) {
    if (ahead.watching == nullptr) return nullptr;
    const auto found = ahead.watching->earlier.find(process);
    return found == ahead.watching->earlier.end() ? nullptr : std::move(found->second);
}

void drop_earlier(const Ahead& ahead) {
    if (ahead.watching == nullptr) return;
    for (const auto& [process, earlier] : ahead.watching->earlier)
        if (earlier != nullptr) (void)earlier->finish();
    ahead.watching->earlier.clear();
}

void give_up_marks(const Ahead& ahead) {
    if (ahead.watching != nullptr) ahead.watching->all.clear();
}

bool is_watched(const Ahead& ahead, pid_t pid, const MemoryFlags& flags) {
    return flags.watched || (flags.write_protected && !has_marks(ahead, pid));
}

bool has_userfaultfd(const ObjectTable& table) {
    return std::ranges::any_of(table.all(),
                               [](const schema::Object& object) { return object.is<schema::Userfaultfd>(); });
}

Error watched_from_outside(pid_t pid) {
    return {fmt::format("{}: some of its memory is watched by a userfaultfd that no process of the "
                        "computation has open, which can't be saved",
                        proc::label(pid)),
            0, ExitCode::refused};
}

}  // namespace cairn::capture
