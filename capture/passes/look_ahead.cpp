// The pass before the stop: what takes long to find out and hardly ever changes is looked at while the
// programs run.
#include <fcntl.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "capture/collect/landlock.h"
#include "capture/collect/thread_files.h"
#include "capture/host.h"
#include "capture/memory/areas.h"
#include "capture/passes/copy_memory.h"
#include "capture/passes/copy_small.h"
#include "capture/passes/copy_still.h"
#include "capture/passes/passes.h"
#include "capture/passes/save_files.h"
#include "capture/passes/watch.h"
#include "common/each_in_parallel.h"
#include "common/helper_threads.h"

namespace cairn::capture {
namespace {

// The flags of the members' memory, which a thread of its own reads beside what else is looked at: of each
// GiB in small pages that takes as long as a fork.
class FlagsOfAll {
  public:
    explicit FlagsOfAll(std::vector<pid_t> members)
        : members_(std::move(members)), seen_(members_.size()), reader_(helper_threads(1, read_)) {}

    void finish(Ahead& ahead) {
        if (reader_.empty()) read_();  // there was no room for a thread
        reader_.join();
        for (std::size_t i = 0; i < members_.size(); ++i) {
            const pid_t pid = members_[i];
            if (!seen_[i]) continue;
            auto& seen = *seen_[i];
            if (!seen.wiped.empty()) ahead.wipes.insert(pid);
            if (is_watched(ahead, pid, seen)) ahead.watched.insert(pid);
            ahead.growing[pid] = std::move(seen.growing);
        }
    }

  private:
    std::vector<pid_t> members_;
    std::vector<std::optional<MemoryFlags>> seen_;  // none: it has shown none
    std::function<void()> read_ = [this] {
        (void)each_in_parallel(members_.size(), [&](std::size_t i) -> Result<> {
            if (auto flags = memory_flags(members_[i])) seen_[i] = std::move(*flags);
            return {};
        });
    };
    HelperThreads reader_;
};

}  // namespace

Result<Ahead> pass::look_ahead(const Setting& setting) {
    const Request& request = setting.request;
    Ahead ahead{.directory = Fd(::open(request.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
                .manifest = {},
                .wipes = {},
                .watched = {},
                .growing = {},
                .still = nullptr,
                .small = nullptr,
                .outsiders = Outsiders(request, setting.regions),
                .objects_writer = nullptr,
                .copied = nullptr,
                .saved = {},
                .participants = nullptr,
                .watching = nullptr};
    if (!ahead.directory) return fail_errno("{}", request.directory);
    static_cast<void>(own_landlock_room());  // which is known from here on
    ahead.still = std::make_shared<StillOnes>(setting);
    ahead.small = std::make_shared<SmallOnes>(setting);
    std::vector<pid_t> others;  // of those the flags are read in the pause, if at all
    std::ranges::copy_if(request.members, std::back_inserter(others),
                         [&](pid_t pid) { return !ahead.still->has(pid) && !ahead.small->has(pid); });
    FlagsOfAll flags(std::move(others));
    describe_host(ahead.manifest);
    if (!request.host.empty()) ahead.manifest.host = request.host;
    ahead.manifest.cid = request.cid;
    ahead.manifest.session = request.session;
    ahead.manifest.generation = request.generation;
    look_at_marks(setting, ahead);
    CHECK_OK(ahead.outsiders.look());
    auto writer = TRY(ImageWriter::create(ahead.directory.get(), "objects.image", ImageKind::objects));
    ahead.objects_writer = std::make_unique<ImageWriter>(std::move(writer));
    flags.finish(ahead);
    // Somebody outside has a userfaultfd: what follows is refused, or he has gone when all stand still.
    if (!ahead.watched.empty()) give_up_marks(ahead);
    CHECK_OK(copy_files_ahead(setting, ahead));
    CHECK_OK(copy_memory(setting, ahead));
    auto participants =
        std::make_unique<Participants>(setting.regions, setting.reporter, setting.request.capture);
    CHECK_OK(participants->prepare(request.members));
    ahead.participants = std::move(participants);
    prepare_for_threads(request.members);
    ahead.still->ready();
    ahead.began = Clock::now();
    return ahead;
}

}  // namespace cairn::capture
