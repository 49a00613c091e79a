#include "restart/passes/open.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>

#include "resources/lock/restore.h"
#include "resources/restore/opening.h"
#include "restart/pages/choice.h"

namespace cairn::restart::pass {
namespace {

void add_spaces(ObjectSetOptions& opening, const Spaces& spaces, Meeting& meeting) {
    opening.exact_ids = spaces.exact_ids;
    opening.avoid = spaces.avoid;
    opening.region = &spaces.regions.owners();
    opening.hosts = spaces.hosts;
    opening.meet_links = [&meeting](auto ends) { return meeting.exchange_links(std::move(ends)); };
    opening.still_wanted = [&meeting] { return meeting.still_wanted(); };
    if (spaces.terminal.fd() >= 0) {
        opening.terminal = spaces.terminal_fd.get();
        opening.terminal_modes = spaces.terminal.foreground();
    }
}

// Each part of a computation makes all of them; the lock lets a second one find what the first has made.
Result<> open_system_v(const ObjectsImage& image, const Regions& regions, const ObjectSet& set,
                       SystemV& system_v, Notes& notes) {
    if (std::ranges::none_of(image.objects.objects, is_system_v)) return {};
    if (::flock(regions.owners_fd().get(), LOCK_EX) != 0) return fail_errno("locking the session's region");
    auto done =
        system_v.open_all(image.objects, image.reader, regions.owners().ipc, in_spaces_of(set), notes.list);
    ::flock(regions.owners_fd().get(), LOCK_UN);
    return done;
}

// Until the programs go on, what is put back lies under names of its own.
schema::Objects led_to_staged(schema::Objects objects, const PutBack& put_back, ObjectSetOptions& opening) {
    std::vector<std::pair<std::string, std::string>> places;
    for (auto& object : objects.objects) {
        if (!object.is<schema::File>() || object.deleted) continue;
        const auto path = mapped_path(object.path, opening);
        if (!put_back.covers(path)) continue;
        const auto& staged = put_back.staged(path);
        struct stat now {};
        if (::lstat((staged.empty() ? path : staged).c_str(), &now) != 0) continue;
        object.identity.device = now.st_dev;
        object.identity.inode = now.st_ino;
        object.identity.size = static_cast<std::uint64_t>(now.st_size);
        object.identity.mtime_ns = now.st_mtim.tv_sec * 1'000'000'000 + now.st_mtim.tv_nsec;
        if (!staged.empty()) places.emplace_back(object.path, staged);
    }
    opening.path_map.insert(opening.path_map.begin(), places.begin(), places.end());
    return objects;
}

}  // namespace

SystemV::InSpace in_spaces_of(const ObjectSet& set) {
    return [&set](std::int64_t space, const std::function<Result<>()>& work) {
        return set.in_own_space(space, work);
    };
}

Result<Objects> open(const Options& options, const Computation& computation, Checked given,
                     const Spaces& spaces, Meeting& meeting, Notes& notes) {
    auto& [opening, put_back] = given;
    add_spaces(opening, spaces, meeting);
    const auto& image = computation.objects;
    schema::Objects ready;
    if (put_back) {
        CHECK_OK(put_back->stage());
        ready = led_to_staged(image.objects, *put_back, opening);
    }
    auto set = TRY(ObjectSet::open_all(put_back ? ready : image.objects, image.reader, opening, notes.list));
    CHECK_OK(take_locks(set, computation.processes));
    Undone<SystemV, &SystemV::undo> system_v{SystemV()};
    CHECK_OK(open_system_v(image, spaces.regions, set, *system_v, notes));
    // Each process opens its own image, at a number that is kept free for it; above the floor as well.
    Fd image_place(::fcntl(spaces.regions.owners_fd().get(), F_DUPFD, opening.floor));
    if (!image_place) return fail_errno("descriptor for images");
    CHECK_OK(set.hand_to_keepers());
    const bool lazy = TRY(pages::choose_lazy(options.memory));
    notes.print();
    return Objects{std::move(put_back),
                   std::move(system_v),
                   std::move(set),
                   std::move(image_place),
                   opening.width == 0 ? opening.floor : -1,
                   lazy};
}

}  // namespace cairn::restart::pass
