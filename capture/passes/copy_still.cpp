#include "capture/passes/copy_still.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "capture/passes/drafts.h"
#include "capture/passes/late_flags.h"
#include "capture/passes/watch.h"
#include "common/each_in_parallel.h"
#include "common/schema/image_name.h"

namespace cairn::capture {
namespace {

// Of a process's private memory at most one part in so many may have to be copied, and no more than so many
// bytes: they are kept until they are written.
constexpr std::uint64_t copied_one_in = 16, most_copied = std::uint64_t{64} << 20;
// Of each what the kernel doesn't count as private memory, its own pages for one.
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

Result<> copy_pages(Draft& draft, EarlierImages& earlier, const std::shared_ptr<StillRoom>& room) {
    const pid_t living = draft.member->process->living;
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
    draft.still = TRY(StillPages::read(living, wanted, room));
    for (auto& job : draft.still_jobs) job.still = draft.still.get();
    return {};
}

void forget_copy(Draft& draft) {
    draft.still.reset();
    draft.still_jobs.clear();
}

// Bytes of the image of a process in the newest generation; 0: there is none.
std::uint64_t stored_before(const std::string& folder, ProgramId process) {
    struct stat status {};
    const auto path = folder + "/" + schema::image_name(process);
    return ::stat(path.c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

std::string executable_of(pid_t pid) {
    return proc::read_link(fmt::format("/proc/{}/exe", pid)).value_or("");
}

// As may_share() will see it, most likely.
class Relations {
  public:
    explicit Relations(const std::vector<KeptMarks>& all) {
        for (const auto& each : all) {
            const auto stat = proc::stat(each.pid);
            if (!stat || executable_of(each.pid) != executable_of(stat->ppid)) continue;
            related_.insert(each.pid);
            related_.insert(stat->ppid);
        }
    }
    [[nodiscard]] bool has(pid_t pid) const { return related_.contains(pid); }

  private:
    std::set<pid_t> related_;
};

}  // namespace

StillOnes::StillOnes(const Setting& setting) {
    const auto& request = setting.request;
    if (!request.track_mem || compares_unchanged()) return;
    const auto before = generation_before(request);
    if (before.empty()) return;
    const Relations relations(request.marks);
    std::uint64_t wanted = 0;
    for (const auto& kept : request.marks) {
        if (relations.has(kept.pid)) continue;
        const auto all = private_memory(kept.pid);
        const auto stored = stored_before(before, setting.to_program(KernelId(kept.pid)));
        if (!all || stored == 0 || stored > *all / copied_one_in || wanted + stored > most_copied) continue;
        wanted += stored;
        all_.insert(kept.pid);
    }
    if (!all_.empty()) room_ = std::make_shared<StillRoom>(most_copied + all_.size() * room_to_spare, wanted);
}

void StillOnes::ready() {
    if (room_ != nullptr) room_->leave_off();
}

Result<> StillOnes::copy(const Ahead& ahead, const ObjectTable& objects, Drafts& drafts) const {
    if (all_.empty()) return {};
    room_->begin_anew();
    std::vector<Draft*> ours, copied;
    for (auto& draft : drafts) {
        if (!all_.contains(draft.member->process->pid)) continue;
        ours.push_back(&draft);
        if (watched_by(ahead, draft) == nullptr || may_share(draft, drafts)) continue;
        draft.unchanged = unchanged_since_marks(ahead, draft);
        if (has_changed_little(draft)) copied.push_back(&draft);
    }
    // Of one alone, too, the flags of its memory are read beside its pages: that takes longer.
    std::vector<Result<>> done(copied.size());
    const auto work = [&](std::size_t i) -> Result<> {
        if (i < copied.size()) {
            done[i] = copy_pages(*copied[i], *watched_by(ahead, *copied[i]), room_);
            return {};
        }
        auto& draft = *ours[i - copied.size()];
        draft.still_flags = TRY(proc::maps(draft.member->process->living, true));
        return {};
    };
    CHECK_OK(look_like_images(*ahead.participants, copied, [&] {
        return each_in_parallel(copied.size() + ours.size(), work, Work::computes, 2);
    }));
    const bool own = has_userfaultfd(objects);
    for (const auto* draft : ours) {
        const pid_t pid = draft->member->process->pid;
        if (!own && is_watched(ahead, pid, flags_among(*draft->still_flags)))
            return std::unexpected(watched_from_outside(pid));
    }
    for (const auto& each : done) CHECK_OK(each);
    for (auto* draft : copied) {
        if (draft->still == nullptr) {
            forget_copy(*draft);
            continue;
        }
        CHECK_OK(add_draft_flags(*draft, *draft->still_flags));
        draft->from_copy = std::ranges::all_of(draft->member->image.areas, is_as_it_seemed);
        if (!draft->from_copy) forget_copy(*draft);
    }
    return {};
}

}  // namespace cairn::capture
