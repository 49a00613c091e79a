#include "capture/passes/copy_small.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "capture/passes/drafts.h"
#include "capture/passes/watch.h"
#include "common/each_in_parallel.h"
#include "common/image/format.h"
#include "common/proc.h"
#include "common/room_left.h"

namespace cairn::capture {
namespace {

// Who is copied.
struct Limits {
    // Fewer are forked: that is done on several processors at once, and takes no memory.
    std::size_t least_many = 32;
    // Bytes of private memory: of each, which is copied in the time of a fork, and of all together, which are
    // kept until they are written.
    std::uint64_t most_of_one = std::uint64_t{1} << 20, most_of_all = std::uint64_t{256} << 20;
    // And of what is free one part in so many: nobody is to be killed for it.
    std::int64_t most_one_in = 8;
    // What comes in addition to what the kernel counts as private memory: its own pages, and some of the
    // newest.
    std::uint64_t to_spare = std::uint64_t{64} << 10;
};

// For tests: CAIRN_COPY_SMALL=always takes everybody for small and many, and CAIRN_COPY_SMALL=never nobody.
Limits limits() {
    const char* wish = std::getenv("CAIRN_COPY_SMALL");
    if (wish == nullptr) return {};
    if (std::string_view(wish) != "always") return {.least_many = static_cast<std::size_t>(-1)};
    constexpr std::uint64_t much = std::uint64_t{1} << 30;
    return {
        .least_many = 1, .most_of_one = much, .most_of_all = much, .most_one_in = 2, .to_spare = much / 16};
}

}  // namespace

SmallOnes::SmallOnes(const Setting& setting) {
    const auto& members = setting.request.members;
    const auto limit = limits();
    most_of_one_ = limit.most_of_one + limit.to_spare;
    if (members.size() < limit.least_many) return;
    const auto left = std::max<std::int64_t>(0, std::min(available_memory(), memory_in_groups().left));
    const auto most = std::min(limit.most_of_all, static_cast<std::uint64_t>(left / limit.most_one_in));
    std::uint64_t wanted = 0;
    for (const pid_t pid : members) {
        const auto pages = proc::anonymous_pages(pid);
        if (!pages) continue;
        const auto bytes = *pages * image_page;
        if (bytes > limit.most_of_one || wanted + bytes > most) continue;
        wanted += bytes;
        all_.insert(pid);
    }
    if (all_.size() < limit.least_many) all_.clear();
    if (!all_.empty()) room_ = std::make_shared<StillRoom>(wanted + all_.size() * limit.to_spare, wanted);
}

Result<> SmallOnes::copy_one(const Ahead& ahead, bool own_userfaultfd, Draft& draft) const {
    const auto& process = *draft.member->process;
    draft.still_flags = TRY(proc::maps(process.living, true));
    if (!own_userfaultfd && is_watched(ahead, process.pid, flags_among(*draft.still_flags)))
        return std::unexpected(watched_from_outside(process.pid));
    CHECK_OK(lay_out_areas(draft, process.living));
    CHECK_OK(add_draft_flags(draft, *draft.still_flags));
    PageMap pages(process.living);
    std::vector<StillPages::Wanted> wanted;
    std::uint64_t all = 0;
    for (auto& area : draft.member->image.areas) {
        const auto before = draft.still_jobs.size();
        if (stored_in_image(area)) CHECK_OK(add_jobs(draft, pages, area, draft.still_jobs));
        for (auto i = before; i < draft.still_jobs.size(); ++i) {
            wanted.push_back({draft.still_jobs[i].range, (area.prot & 1) != 0});
            all += wanted.back().range.length();
        }
    }
    if (all <= most_of_one_) draft.still = TRY(StillPages::read(process.living, wanted, room_));
    draft.from_copy = draft.still != nullptr;
    if (!draft.from_copy) draft.still_jobs.clear();
    for (auto& job : draft.still_jobs) job.still = draft.still.get();
    return {};
}

Result<> SmallOnes::copy(const Ahead& ahead, const ObjectTable& objects, Drafts& drafts) const {
    if (all_.empty()) return {};
    std::vector<Draft*> small;
    for (auto& draft : drafts) {
        const pid_t pid = draft.member->process->pid;
        // Whoever has marks is looked at as well: nobody has looked at its flags, and it may be watched.
        if (all_.contains(pid) && draft.still == nullptr) small.push_back(&draft);
    }
    room_->leave_off();
    room_->begin_anew();
    const bool own = has_userfaultfd(objects);
    return look_like_images(*ahead.participants, small, [&] {
        return each_in_parallel(small.size(), [&](std::size_t i) { return copy_one(ahead, own, *small[i]); });
    });
}

}  // namespace cairn::capture
