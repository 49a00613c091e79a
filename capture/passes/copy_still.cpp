#include "capture/passes/copy_still.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "capture/passes/drafts.h"
#include "capture/passes/late_flags.h"
#include "capture/passes/watch.h"
#include "common/helper_threads.h"
#include "common/schema/image_name.h"

namespace cairn::capture {
namespace {

// Of a process's private memory at most one part in so many may have to be copied, and no more than so many
// bytes: they are kept until they are written.
constexpr std::uint64_t copied_one_in = 16, most_copied = std::uint64_t{64} << 20;
// What the kernel doesn't count as private memory, its own pages for one.
constexpr std::uint64_t room_to_spare = std::uint64_t{1} << 20;

// Bytes of private memory that is there; none if the kernel doesn't tell, or huge pages are not among them.
std::optional<std::uint64_t> private_memory(pid_t living) {
    auto status = proc::status(living, living);
    if (!status) return {};
    const auto bytes = [&](const char* field) {
        return std::strtoull((*status)[field].c_str(), nullptr, 10) * 1024;
    };
    if ((*status)["RssAnon"].empty() || bytes("HugetlbPages") != 0) return {};
    return bytes("RssAnon") + bytes("VmSwap");
}

// The one stores what it has in common with the other only once, and that is looked for in their copies.
bool may_share(const Draft& draft, const Drafts& drafts) {
    const auto& mine = draft.member->image;
    return std::ranges::any_of(drafts, [&](const Draft& other) {
        const auto& theirs = other.member->image;
        return &other != &draft && theirs.executable == mine.executable &&
               (theirs.pid == mine.ppid || theirs.ppid == mine.pid);
    });
}

bool has_changed_little(const Draft& draft) {
    if (draft.unchanged.empty()) return false;
    const auto all = private_memory(draft.member->process->living);
    const auto same = length_of(draft.unchanged);
    return all && *all <= same + std::min(*all / copied_one_in, most_copied);
}

// Whether what was named unread may be what the newest generation has.
bool is_as_it_seemed(const schema::Area& area) {
    return !area.borrowed || can_be_borrowed(area);
}

Result<> copy_pages(Draft& draft, EarlierImages& earlier, std::shared_ptr<StillRoom> room) {
    const pid_t living = draft.member->process->living;
    draft.still_jobs.clear();
    CHECK_OK(lay_out_areas(draft, living));
    PageMap map(living);
    for (auto& area : draft.member->image.areas) {
        if (!stored_in_image(area)) continue;
        const auto before = draft.still_jobs.size();
        CHECK_OK(add_jobs(draft, map, area, draft.still_jobs));
        if (!seems_borrowable(draft, area)) continue;
        for (auto i = before; i < draft.still_jobs.size(); ++i) draft.still_jobs[i].earlier = &earlier;
        name_unchanged(draft.unchanged, draft.still_jobs, before);
    }
    std::vector<StillPages::Wanted> wanted;
    for (const auto& job : draft.still_jobs) wanted.push_back({job.range, (job.area->prot & 1) != 0});
    room->begin_anew();
    draft.still = TRY(StillPages::read(living, wanted, std::move(room)));
    for (auto& job : draft.still_jobs) job.still = draft.still.get();
    return {};
}

// Bytes of the image of a process in the newest generation; 0: there is none.
std::uint64_t stored_before(const std::string& folder, ProgramId process) {
    struct stat status {};
    const auto path = folder + "/" + schema::image_name(process);
    return ::stat(path.c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

}  // namespace

std::map<pid_t, std::shared_ptr<StillRoom>> make_still_rooms(const Setting& setting) {
    const auto& request = setting.request;
    // Several are forked on several processors at once, and what is copied of each would be kept in memory.
    if (!request.track_mem || request.marks.size() != 1 || compares_unchanged()) return {};
    const auto before = generation_before(request);
    if (before.empty()) return {};
    const pid_t pid = request.marks.front().pid;
    const auto all = private_memory(pid);
    const auto stored = stored_before(before, setting.to_program(KernelId(pid)));
    if (!all || stored == 0 || stored > std::min(*all / copied_one_in, most_copied)) return {};
    return {{pid, std::make_shared<StillRoom>(most_copied + room_to_spare, stored)}};
}

StillCopies::StillCopies(const Ahead& ahead, const Members& members) {
    for (const auto& member : members.all)
        if (ahead.still_rooms.contains(member.process->pid))
            all_[member.process->pid].living = member.process->living;
    read_ = [this] {
        for (auto& [pid, one] : all_) one.flags = proc::maps(one.living, true);
    };
    if (!all_.empty()) reader_ = helper_threads(1, read_);
}

// Beside the reading of flags. Which were copied.
Result<std::vector<Draft*>> StillCopies::copy_pages_of(const Ahead& ahead, Drafts& drafts) {
    std::vector<Draft*> copied;
    for (auto& draft : drafts) {
        const auto& process = *draft.member->process;
        auto* const earlier = watched_by(ahead, draft);
        if (earlier == nullptr || !all_.contains(process.pid) || may_share(draft, drafts)) continue;
        draft.unchanged = unchanged_since_marks(ahead, draft);
        if (!has_changed_little(draft)) continue;
        // It must look like an image for this time.
        CHECK_OK(ahead.participants->mark(process.pid, process.living));
        auto done = copy_pages(draft, *earlier, ahead.still_rooms.at(process.pid));
        ahead.participants->unmark(process.pid, process.living);
        CHECK_OK(done);
        if (draft.still) copied.push_back(&draft);
    }
    return copied;
}

Result<> StillCopies::copy(const Ahead& ahead, const ObjectTable& objects, Drafts& drafts) {
    if (all_.empty()) return {};
    const auto copied = copy_pages_of(ahead, drafts);
    if (reader_.empty()) read_();  // there was no room for a thread
    reader_.join();
    const bool own = has_userfaultfd(objects);
    for (auto& draft : drafts) {
        const pid_t pid = draft.member->process->pid;
        const auto found = all_.find(pid);
        if (found == all_.end()) continue;
        draft.still_flags = TRY(std::move(*found->second.flags));
        if (!own && is_watched(ahead, pid, flags_among(*draft.still_flags)))
            return std::unexpected(watched_from_outside(pid));
    }
    for (auto* draft : TRY(copied)) {
        CHECK_OK(add_draft_flags(*draft, *draft->still_flags));
        draft->from_copy = std::ranges::all_of(draft->member->image.areas, is_as_it_seemed);
        if (draft->from_copy) continue;
        draft->still.reset();
        draft->still_jobs.clear();
    }
    return {};
}

}  // namespace cairn::capture
