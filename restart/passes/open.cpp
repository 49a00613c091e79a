#include "restart/passes/open.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>

#include "resources/lock/restore.h"
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
Result<> open_system_v(const ObjectsImage& image, const Regions& regions, SystemV& system_v, Notes& notes) {
    if (std::ranges::none_of(image.objects.objects, is_system_v)) return {};
    if (::flock(regions.owners_fd().get(), LOCK_EX) != 0) return fail_errno("locking the session's region");
    auto done = system_v.open_all(image.objects, image.reader, regions.owners().ipc, notes.list);
    ::flock(regions.owners_fd().get(), LOCK_UN);
    return done;
}

}  // namespace

Result<Objects> open(const Options& options, const Computation& computation, ObjectSetOptions opening,
                     const Spaces& spaces, Meeting& meeting, Notes& notes) {
    add_spaces(opening, spaces, meeting);
    const auto& image = computation.objects;
    auto set = TRY(ObjectSet::open_all(image.objects, image.reader, opening, notes.list));
    CHECK_OK(take_locks(set, computation.processes));
    Undone<SystemV, &SystemV::undo> system_v{SystemV()};
    CHECK_OK(open_system_v(image, spaces.regions, *system_v, notes));
    // Each process opens its own image, at a number that is kept free for it; above the floor as well.
    Fd image_place(::fcntl(spaces.regions.owners_fd().get(), F_DUPFD, opening.floor));
    if (!image_place) return fail_errno("descriptor for images");
    CHECK_OK(set.hand_to_keepers());
    const bool lazy = TRY(pages::choose_lazy(options.memory));
    notes.print();
    return Objects{std::move(system_v), std::move(set), std::move(image_place),
                   opening.width == 0 ? opening.floor : -1, lazy};
}

}  // namespace cairn::restart::pass
