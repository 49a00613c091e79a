// The pass before the stop: what takes long to find out and hardly ever changes is looked at while the
// programs run.
#include <fcntl.h>

#include "capture/host.h"
#include "capture/passes/copy_memory.h"
#include "capture/passes/passes.h"
#include "capture/passes/save_files.h"
#include "capture/passes/watch.h"
#include "common/each_in_parallel.h"

namespace cairn::capture {
namespace {

// The flags of mappings are in smaps alone, which walks all page tables.
Result<> look_at_flags_of_all(const std::vector<pid_t>& members, Ahead& ahead) {
    struct Seen {
        bool wipes = false, watched = false;
    };
    std::vector<Seen> seen(members.size());
    CHECK_OK(each_in_parallel(members.size(), [&](std::size_t i) -> Result<> {
        const auto wiped = wiped_by_fork(members[i], &seen[i].watched, has_marks(ahead, members[i]));
        seen[i].wipes = wiped && !wiped->empty();
        return {};
    }));
    for (std::size_t i = 0; i < members.size(); ++i) {
        if (seen[i].wipes) ahead.wipes.insert(members[i]);
        if (seen[i].watched) ahead.watched.insert(members[i]);
    }
    return {};
}

}  // namespace

Result<Ahead> pass::look_ahead(const Setting& setting) {
    const Request& request = setting.request;
    Ahead ahead{.directory = Fd(::open(request.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
                .manifest = {},
                .wipes = {},
                .watched = {},
                .outsiders = Outsiders(request, setting.regions),
                .objects_writer = nullptr,
                .copied = nullptr,
                .saved = {},
                .participants = nullptr,
                .watching = nullptr};
    if (!ahead.directory) return fail_errno("{}", request.directory);
    describe_host(ahead.manifest);
    if (!request.host.empty()) ahead.manifest.host = request.host;
    ahead.manifest.cid = request.cid;
    ahead.manifest.session = request.session;
    ahead.manifest.generation = request.generation;
    look_at_marks(setting, ahead);
    CHECK_OK(look_at_flags_of_all(request.members, ahead));
    // Somebody outside has a userfaultfd: what follows is refused, or he has gone when all stand still.
    if (!ahead.watched.empty()) give_up_marks(ahead);
    CHECK_OK(ahead.outsiders.look());
    auto writer = TRY(ImageWriter::create(ahead.directory.get(), "objects.image", ImageKind::objects));
    ahead.objects_writer = std::make_unique<ImageWriter>(std::move(writer));
    CHECK_OK(copy_files_ahead(setting, ahead));
    CHECK_OK(copy_memory(setting, ahead));
    auto participants =
        std::make_unique<Participants>(setting.regions, setting.reporter, setting.request.capture);
    CHECK_OK(participants->prepare(request.members));
    ahead.participants = std::move(participants);
    ahead.began = Clock::now();
    return ahead;
}

}  // namespace cairn::capture
